package share

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Prefix begins the keys of the annotations; the name of a container follows.
const Prefix = "headrace.dev/gpu."

// claimPrefix begins the names under which a pod knows its claims.
const claimPrefix = "gpu-"

// maxName is the most characters of a claim's name in a pod, a limit of Kubernetes.
const maxName = 63

// Wish is what one container of a pod asks for.
type Wish struct {
	Container string
	Ask       Ask
	// Claimed says that the pod has the claim for it.
	Claimed bool
}

// Fault is an annotation that cannot be carried out.
type Fault struct{ Key, Value, Why string }

func (f Fault) String() string {
	return fmt.Sprintf("annotation %s: %q: %s; allowed is %s", f.Key, f.Value, f.Why, Grammar)
}

// Of reads the annotations of a pod, by container, and says what is wrong with
// them.
func Of(p *corev1.Pod) (wishes []Wish, faults []Fault) {
	var keys []string
	for key := range p.Annotations { // order: sorted below
		if strings.HasPrefix(key, Prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		name, value := strings.TrimPrefix(key, Prefix), p.Annotations[key]
		fault := func(why string) { faults = append(faults, Fault{Key: key, Value: value, Why: why}) }
		c := container(&p.Spec, name)
		if c == nil {
			fault(fmt.Sprintf("the pod has no container %q", name))
			continue
		}
		ask, err := Parse(value)
		if err != nil {
			fault(err.Error())
			continue
		}
		w := Wish{Container: name, Ask: ask}
		own := claimPrefix + name
		if len(own) > maxName {
			fault(fmt.Sprintf("the name of the container has more than %d characters", maxName-len(claimPrefix)))
			continue
		}
		w.Claimed = slices.ContainsFunc(p.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool {
			return r.Name == own && r.ResourceClaimTemplateName != nil && *r.ResourceClaimTemplateName == templateName(ask)
		})
		taken := slices.ContainsFunc(p.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool { return r.Name == own })
		if taken && !w.Claimed {
			fault(fmt.Sprintf("the pod has another resource claim %s", own))
			continue
		}
		wishes = append(wishes, w)
	}
	return wishes, faults
}

func container(s *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Missing says what is wrong with a pod that the scheduler sees: a fault, or a claim
// that admission did not add. It is empty where nothing is.
func Missing(p *corev1.Pod) string {
	if len(p.Annotations) == 0 {
		return ""
	}
	wishes, faults := Of(p)
	if len(faults) > 0 {
		return faults[0].String()
	}
	for i := range wishes {
		if !wishes[i].Claimed {
			return fmt.Sprintf("annotation %s%s was not turned into a resource claim: Headrace's admission webhook did not see the pod when it was created", Prefix, wishes[i].Container)
		}
	}
	return ""
}
