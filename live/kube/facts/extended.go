package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Asked is what one container asks for of the resource under which GPUs are offered.
// On a node where a driver offers them, it becomes a request of a claim.
type Asked struct {
	Container string
	Index     int  // among init containers and containers
	Order     int  // of the resource among those the container asks for, by name
	Short     bool // the container has ended before those behind it start
	Count     int64
}

// asked lists who asks for the resource.
func asked(p *corev1.Pod, gpu corev1.ResourceName) []Asked {
	var out []Asked
	for i := range len(p.Spec.InitContainers) + len(p.Spec.Containers) {
		var c *corev1.Container
		init := i < len(p.Spec.InitContainers)
		if init {
			c = &p.Spec.InitContainers[i]
		} else {
			c = &p.Spec.Containers[i-len(p.Spec.InitContainers)]
		}
		amount, some := c.Resources.Requests[gpu]
		if !some || Units(&amount) <= 0 {
			continue
		}
		var names []string
		for name := range c.Resources.Requests { // order: sorted below
			names = append(names, string(name))
		}
		slices.Sort(names)
		out = append(out, Asked{
			Container: c.Name, Index: i, Order: slices.Index(names, string(gpu)), Count: Units(&amount),
			Short: init && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways),
		})
	}
	return out
}

// viaClaim says whether a bound pod has its GPUs by a claim and not from the kubelet's
// device plugin.
func viaClaim(p *corev1.Pod, gpu corev1.ResourceName) bool {
	s := p.Status.ExtendedResourceClaimStatus
	return s != nil && slices.ContainsFunc(s.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool { return m.ResourceName == string(gpu) })
}
