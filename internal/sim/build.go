package sim

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// populate adds the domains, nodes and queues of the workload. With whole cards,
// every node leaves the choice of card to the kubelet.
func (r *run) populate() error {
	load := r.Workload
	known := make(map[string]bool)
	for i := range load.Nodes {
		n := &load.Nodes[i]
		domain, err := r.addDomains(n, known)
		if err != nil {
			return err
		}
		if err := r.apply(0, nodeAdded(n, domain, r.whole)); err != nil {
			return fmt.Errorf("workload %s: %w", load.Name, err)
		}
	}
	for _, q := range load.Queues {
		known["queue "+q.Name] = true
		if err := r.apply(0, world.QueueAdded{Name: q.Name, Weight: quantity.One, DeservedMilli: q.Deserved}); err != nil {
			return fmt.Errorf("workload %s: %w", load.Name, err)
		}
	}
	for i := range load.Pods {
		if queue := load.Pods[i].Queue; queue != "" && !known["queue "+queue] {
			known["queue "+queue] = true
			if err := r.apply(0, world.QueueAdded{Name: queue}); err != nil {
				return fmt.Errorf("workload %s: %w", load.Name, err)
			}
		}
	}
	return nil
}

// addDomains makes the node's zone and rack known and returns the innermost.
func (r *run) addDomains(n *trace.Node, known map[string]bool) (string, error) {
	if n.Zone != "" && !known[n.Zone] {
		known[n.Zone] = true
		if err := r.apply(0, world.DomainAdded{Name: n.Zone, Level: cluster.LevelZone}); err != nil {
			return "", err
		}
	}
	name := domainName(n)
	if n.Rack != "" && !known[name] {
		known[name] = true
		if err := r.apply(0, world.DomainAdded{Name: name, Level: cluster.LevelRack, Parent: n.Zone}); err != nil {
			return "", err
		}
	}
	return name, nil
}

// domainName names the innermost domain of a node: "zone/rack", or what there is
// of it.
func domainName(n *trace.Node) string {
	if n.Zone != "" && n.Rack != "" {
		return n.Zone + "/" + n.Rack
	}
	return n.Zone + n.Rack
}

func nodeAdded(n *trace.Node, domain string, wholeCards bool) world.NodeAdded {
	e := world.NodeAdded{
		Name: n.Name, Domain: domain, CPU: n.CPU, Memory: n.Memory, Pods: n.Pods,
		Labels: n.Labels, Authority: cluster.AuthorityAgent, Life: cluster.LifeReady,
	}
	if n.Whole || wholeCards {
		e.Authority = cluster.AuthorityPlugin
	}
	for i := range n.GPUs {
		d := world.Device{Model: n.Model, Memory: n.GPUMemory, Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingSlices}
		if len(n.Island) == n.GPUs {
			d.Island = n.Island[i]
		}
		if len(n.NUMA) == n.GPUs {
			d.NUMA = n.NUMA[i]
		}
		e.Devices = append(e.Devices, d)
	}
	return e
}

// podAdded asks for what the pod asks for; with whole cards a share is rounded
// up to a card.
func podAdded(p *trace.Pod, wholeCards bool) world.PodAdded {
	e := world.PodAdded{
		Name: p.Name, Kind: p.Kind, Queue: p.Queue, Priority: p.Priority, SLATotal: p.SLA,
		Group: p.Group, Request: world.Request{CPU: p.CPU, Memory: p.Memory},
	}
	if told(p) && p.Group == "" {
		e.Job = p.Name // that of a group comes with the group
	}
	if p.GPUs > 0 {
		r := world.DeviceRequest{Count: int32(p.GPUs), Milli: p.Milli, Memory: p.GPUMemory, Models: p.Models}
		if wholeCards && r.Milli < quantity.WholeGPU {
			r.Milli = quantity.WholeGPU
		}
		e.Request.Devices = []world.DeviceRequest{r}
	}
	return e
}

// asks lists the pods as the target workload wants them.
func asks(load *trace.Workload) []rivals.Ask {
	out := make([]rivals.Ask, len(load.Pods))
	for i := range load.Pods {
		p := &load.Pods[i]
		out[i] = rivals.Ask{CPU: p.CPU, Count: p.GPUs, Milli: p.Milli, Models: p.Models}
	}
	return out
}
