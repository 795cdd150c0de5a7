package sim

import (
	"fmt"
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// static offers each pod once, in order; what does not fit is given up, and
// nothing leaves.
func (r *run) static() error {
	m := newGauge(r)
	pods := r.Workload.Pods
	for i := range pods {
		if pods[i].Group != "" {
			return fmt.Errorf("pod %s is one of several of job %s: static mode offers pods one by one", pods[i].Name, pods[i].Group)
		}
		if err := r.offer(&pods[i], m); err != nil {
			return err
		}
		m.sample()
		r.progress(i, len(pods))
	}
	r.result.Pods = len(pods)
	m.report(&r.result)
	r.reportTidied()
	return nil
}

// offer runs one arrival to its end: placed, or given up.
func (r *run) offer(pod *trace.Pod, m *gauge) error {
	if err := r.apply(0, podAdded(pod, r.whole)); err != nil {
		return err
	}
	if err := r.learn(pod.Name); err != nil {
		return err
	}
	m.arrived += int64(pod.GPUDemand())
	snapshot, plan := r.decide(0, decision.CycleArrival)
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if err := r.apply(0, world.Accepted{Decision: *d}); err != nil {
			return err
		}
		if err := r.apply(0, world.Bound{Name: pod.Name}); err != nil {
			return err
		}
		r.result.Placed++
		m.allocated += int64(pod.GPUDemand())
		m.remeasure(r.world.View(), d.Place.Node)
	}
	if len(plan.Waiting) > 0 && r.Tidy != nil {
		var err error
		if snapshot, plan, err = r.tidy(pod, snapshot, plan, m); err != nil {
			return err
		}
	}
	for _, w := range plan.Waiting {
		r.countReason(&snapshot.View, *w.Why)
		r.result.Failed++
		if err := r.apply(0, world.PodRemoved{Name: pod.Name}); err != nil {
			return err
		}
	}
	return nil
}

// gauge follows allocation and fragmentation against arrived demand.
type gauge struct {
	run                *run
	arrived, allocated int64
	fragments          []float64 // per node, milli-GPU
	alloc, frag        []float64 // sums per bin of one percent arrived
	count              []int
	nextFrame          int
}

// heatStep is how many percent of demand arrive between two frames of the map.
const heatStep = 5

func newGauge(r *run) *gauge {
	g := &gauge{run: r}
	v := r.world.View()
	g.fragments = make([]float64, v.Nodes.Len())
	for i := range g.fragments {
		g.remeasure(v, cluster.NodeID(i))
	}
	return g
}

func (g *gauge) remeasure(v *cluster.View, node cluster.NodeID) {
	g.fragments[node] = rivals.Fragment(v, node, g.run.target)
}

// sample takes one measurement; it belongs to the bin of its arrived percent,
// rounded half to even.
func (g *gauge) sample() {
	if g.run.capacity == 0 {
		return
	}
	c := float64(g.run.capacity)
	percent := 100 * float64(g.arrived) / c
	bin := int(math.RoundToEven(percent))
	for len(g.count) <= bin {
		g.alloc, g.frag, g.count = append(g.alloc, 0), append(g.frag, 0), append(g.count, 0)
	}
	sum := 0.0
	for _, f := range g.fragments {
		sum += f
	}
	alloc, frag := math.Round(10000*float64(g.allocated)/c)/100, 100*sum/c
	g.alloc[bin] += alloc
	g.frag[bin] += frag
	g.count[bin]++
	detail := g.run.result.Detail
	if n := len(detail.Series); n == 0 || percent-detail.Series[n-1].ArrivedPct >= 0.2 {
		detail.Series = append(detail.Series, meter.Sample{ArrivedPct: percent, GPUAllocPct: alloc, FragPct: frag})
	}
	if bin >= g.nextFrame {
		g.nextFrame = bin + heatStep
		detail.Heat.Frames = append(detail.Heat.Frames, heatFrame(g.run.world.View(), g.run.Workload, fmt.Sprintf("%d %% arrived", bin)))
	}
}

// report fills in the means per bin; a bin that no sample fell into is left out.
func (g *gauge) report(res *meter.Result) {
	for bin, n := range g.count {
		if n > 0 {
			res.ArrivedPct = append(res.ArrivedPct, bin)
			res.GPUAllocPct = append(res.GPUAllocPct, g.alloc[bin]/float64(n))
			res.FragPct = append(res.FragPct, g.frag[bin]/float64(n))
		}
	}
}

func heatNodes(load *trace.Workload) []meter.HeatNode {
	var out []meter.HeatNode
	for i := range load.Nodes {
		if n := &load.Nodes[i]; n.GPUs > 0 {
			out = append(out, meter.HeatNode{Name: n.Name, Model: n.Model, GPUs: n.GPUs})
		}
	}
	return out
}

// heatFrame is the fill of every GPU now, in the order of the workload's nodes.
// A node that is away shows as full.
func heatFrame(v *cluster.View, load *trace.Workload, label string) meter.HeatFrame {
	at := make(map[string]*cluster.Node, v.Nodes.Len())
	for i := range v.Nodes.Len() {
		if n := v.Node(cluster.NodeID(i)); n.Life != cluster.LifeOff {
			at[n.Spec.Name] = n
		}
	}
	frame := meter.HeatFrame{Label: label}
	for i := range load.Nodes {
		n := at[load.Nodes[i].Name]
		for gpu := range load.Nodes[i].GPUs {
			fill := uint8(100)
			if n != nil {
				fill = uint8((quantity.WholeGPU - v.DeviceOf(n, int32(gpu)).FreeMilli) / 10)
			}
			frame.Fill = append(frame.Fill, fill)
		}
	}
	return frame
}
