package facts

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// ties fills in how a pod stands to others: who it is, the ports of the host it
// takes, required affinity and anti-affinity, and spread. What the world does not
// take is left out; unreadable says so beforehand where that would matter.
func ties(p *corev1.Pod, e *world.PodAdded) {
	e.Namespace, e.Labels = p.Namespace, p.Labels
	e.Ports = ports(&p.Spec)
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		e.Near = terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		e.Apart = terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range p.Spec.TopologySpreadConstraints {
		if c := &p.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule && len(e.Spread) < world.MaxTies {
			if s, ok := spread(c, p.Labels); ok {
				e.Spread = append(e.Spread, s)
			}
		}
	}
}

// unreadable names what a pod asks of others that cannot be judged; empty when
// there is none.
func unreadable(p *corev1.Pod) string {
	var near, apart []corev1.PodAffinityTerm
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		near = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		apart = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	constraints := p.Spec.TopologySpreadConstraints
	for _, list := range []struct {
		of   string
		long int
	}{{"terms of affinity", len(near)}, {"terms of anti-affinity", len(apart)}, {"topology spread constraints", len(constraints)}, {"ports of the host", hostPorts(&p.Spec)}} {
		if list.long > world.MaxTies {
			return fmt.Sprintf("more than %d %s", world.MaxTies, list.of)
		}
	}
	for _, t := range slices.Concat(near, apart) {
		if _, ok := term(&t); !ok {
			return "affinity to other pods that cannot be read"
		}
	}
	for i := range constraints {
		if _, ok := spread(&constraints[i], p.Labels); !ok && constraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			return "topology spread that cannot be read"
		}
	}
	return ""
}

func terms(list []corev1.PodAffinityTerm) []world.PodTerm {
	var out []world.PodTerm
	for i := range list {
		if t, ok := term(&list[i]); ok && len(out) < world.MaxTies {
			out = append(out, t)
		}
	}
	return out
}

// term reads one term. What matchLabelKeys and mismatchLabelKeys ask for is in the
// selector already: the API server puts it there.
func term(t *corev1.PodAffinityTerm) (world.PodTerm, bool) {
	out := world.PodTerm{Topology: t.TopologyKey, Of: world.PodSelector{Namespaces: t.Namespaces, Nobody: t.LabelSelector == nil}}
	var ok, known bool
	out.Of.Labels, ok = conditions(t.LabelSelector)
	if t.NamespaceSelector != nil {
		out.Of.ByLabels = true
		out.Of.Where, known = conditions(t.NamespaceSelector)
		ok = ok && known
	}
	return out, ok && t.TopologyKey != ""
}

// spread reads one constraint of a pod with the given labels.
func spread(c *corev1.TopologySpreadConstraint, labels map[string]string) (world.Spread, bool) {
	out := world.Spread{Topology: c.TopologyKey, MaxSkew: c.MaxSkew, Nobody: c.LabelSelector == nil}
	if c.MinDomains != nil {
		out.MinDomains = *c.MinDomains
	}
	if c.NodeAffinityPolicy != nil {
		out.AllNodes = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	}
	if c.NodeTaintsPolicy != nil {
		out.Taints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	own, ok := conditions(c.LabelSelector)
	out.Labels = own
	if c.LabelSelector != nil {
		for _, key := range c.MatchLabelKeys {
			if value, has := labels[key]; has {
				out.Labels = append(out.Labels, world.Requirement{Key: key, Op: cluster.OpIn, Values: []string{value}})
			}
		}
	}
	return out, ok && c.TopologyKey != "" && c.MaxSkew >= 1 && out.MinDomains >= 0
}

// conditions reads a label selector. None and an empty one have no conditions.
func conditions(s *metav1.LabelSelector) ([]world.Requirement, bool) {
	if s == nil {
		return nil, true
	}
	var out []world.Requirement
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, world.Requirement{Key: key, Op: cluster.OpIn, Values: []string{s.MatchLabels[key]}})
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		op, known := operator(string(e.Operator))
		if !known {
			return nil, false
		}
		out = append(out, world.Requirement{Key: e.Key, Op: op, Values: e.Values})
	}
	return out, true
}

// ports returns the ports of the host that a pod takes while it runs: those of its
// containers and sidecars.
func ports(s *corev1.PodSpec) []world.Port {
	var out []world.Port
	eachHostPort(s, func(p *corev1.ContainerPort) {
		if p.HostPort <= maxPort && len(out) < world.MaxTies {
			out = append(out, world.Port{IP: p.HostIP, Protocol: string(p.Protocol), Number: p.HostPort})
		}
	})
	return out
}

// maxPort is the highest port there is.
const maxPort = 65535

func hostPorts(s *corev1.PodSpec) int {
	n := 0
	eachHostPort(s, func(*corev1.ContainerPort) { n++ })
	return n
}

func eachHostPort(s *corev1.PodSpec, do func(*corev1.ContainerPort)) {
	each := func(c *corev1.Container) {
		for i := range c.Ports {
			if c.Ports[i].HostPort > 0 {
				do(&c.Ports[i])
			}
		}
	}
	for i := range s.InitContainers {
		if c := &s.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			each(c)
		}
	}
	for i := range s.Containers {
		each(&s.Containers[i])
	}
}
