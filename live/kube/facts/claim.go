package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/world"
)

// Claim is a resource claim that a pod needs.
type Claim struct {
	// Local is the name it has in the pod.
	Local string
	// Name is the ResourceClaim's; empty while it is not made yet.
	Name string
	// Made says that it is made from a template, for this pod alone.
	Made bool
}

// ClaimKey is the name of a claim of the pod in the cluster; empty while it is not
// made yet.
func (p *Pod) ClaimKey(c *Claim) string {
	if c.Name == "" {
		return ""
	}
	return p.namespace + "/" + c.Name
}

// claims lists what a pod needs. A claim that turned out not to be needed is left
// out.
func claims(p *corev1.Pod) []Claim {
	var out []Claim
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		if c.ResourceClaimName != nil {
			out = append(out, Claim{Local: c.Name, Name: *c.ResourceClaimName})
			continue
		}
		made := Claim{Local: c.Name, Made: true}
		needed := true
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil {
				made.Name = *s.ResourceClaimName
			} else if s.Name == c.Name {
				needed = false
			}
		}
		if needed {
			out = append(out, made)
		}
	}
	return out
}

// NodeSelector returns a selector of nodes as a list of alternatives; nil for none.
func NodeSelector(s *corev1.NodeSelector) [][]world.Requirement {
	if s == nil {
		return nil
	}
	return alternatives(nil, s.NodeSelectorTerms)
}

// maxTerms bounds a product of selectors; real ones have one term.
const maxTerms = 256

// Both returns the selector that is met where both are; false where it would be too
// long to write down.
func Both(a, b [][]world.Requirement) ([][]world.Requirement, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	case len(a)*len(b) > maxTerms:
		return nil, false
	}
	var out [][]world.Requirement
	for _, x := range a {
		for _, y := range b {
			out = append(out, slices.Concat(x, y))
		}
	}
	return out, true
}
