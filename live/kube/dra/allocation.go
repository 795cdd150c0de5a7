package dra

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Allocate writes down which devices serve the requests of a claim, in the form
// that the API server takes: the devices in the order of the requests. Parts of devices
// still need a name: see Name.
func Allocate(c *resourceapi.ResourceClaim, requests []Request, node string, devices []*Device) (*resourceapi.AllocationResult, error) {
	out := &resourceapi.AllocationResult{NodeSelector: nodeNamed(node)}
	next := 0
	for i := range requests {
		r := &requests[i]
		for range r.World.Count {
			if next == len(devices) {
				return nil, fmt.Errorf("claim %s/%s: %d devices for more requests", c.Namespace, c.Name, len(devices))
			}
			d := devices[next]
			next++
			if d.Gone() {
				return nil, fmt.Errorf("claim %s/%s: device %s is gone", c.Namespace, c.Name, d.ID)
			}
			result := resourceapi.DeviceRequestAllocationResult{
				Request: r.Name, Driver: d.Driver, Pool: d.Pool, Device: d.Name, Tolerations: r.tolerations,
			}
			if multiple(d.object) {
				taken, ok := consumed(d.object, r.capacity)
				if !ok {
					return nil, fmt.Errorf("claim %s/%s: device %s does not have what request %s asks for", c.Namespace, c.Name, d.ID, r.Name)
				}
				id := types.UID("")
				result.ShareID, result.ConsumedCapacity = &id, taken
			}
			out.Devices.Results = append(out.Devices.Results, result)
		}
	}
	out.Devices.Config = configOf(c, requests)
	return out, nil
}

// Name gives the parts of devices names of their own, before an allocation is written.
func Name(a *resourceapi.AllocationResult, fresh func() types.UID) {
	for i := range a.Devices.Results {
		if r := &a.Devices.Results[i]; r.ShareID != nil {
			id := fresh()
			r.ShareID = &id
		}
	}
}

// nodeNamed selects one node.
func nodeNamed(node string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
}

// configOf gathers the configuration for the driver: of the classes first, then of
// the claim.
func configOf(c *resourceapi.ResourceClaim, requests []Request) []resourceapi.DeviceAllocationConfiguration {
	var out []resourceapi.DeviceAllocationConfiguration
	var done []string
	for i := range requests {
		class := requests[i].class
		if slices.Contains(done, class.Name) {
			continue
		}
		done = append(done, class.Name)
		var names []string
		for k := range requests {
			if requests[k].class.Name == class.Name {
				names = append(names, requests[k].Name)
			}
		}
		if len(names) == len(requests) {
			names = nil // all of them
		}
		for k := range class.Spec.Config {
			out = append(out, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: names, DeviceConfiguration: class.Spec.Config[k].DeviceConfiguration,
			})
		}
	}
	for i := range c.Spec.Devices.Config {
		own := &c.Spec.Devices.Config[i]
		used := len(own.Requests) == 0 || slices.ContainsFunc(requests, func(r Request) bool {
			parent, _, _ := cutLast(r.Name)
			return slices.Contains(own.Requests, r.Name) || slices.Contains(own.Requests, parent)
		})
		if used {
			out = append(out, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClaim, Requests: own.Requests, DeviceConfiguration: own.DeviceConfiguration,
			})
		}
	}
	return out
}

// cutLast cuts a name of a subrequest from its request's.
func cutLast(name string) (parent, own string, sub bool) {
	domain, id := split(resourceapi.QualifiedName(name))
	return domain, id, domain != ""
}

// Same says whether two allocations give the same devices to the same requests.
func Same(a, b *resourceapi.AllocationResult) bool {
	return a != nil && b != nil && slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(x, y resourceapi.DeviceRequestAllocationResult) bool {
		return x.Request == y.Request && x.Driver == y.Driver && x.Pool == y.Pool && x.Device == y.Device
	})
}
