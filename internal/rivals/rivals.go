// Package rivals holds the policies of others, for comparison on the same work
// and through the same engine.
//
// Their arithmetic is as published, floating point included: products are
// converted explicitly so that no multiply and add are fused, and sums run in
// the listed order, because the last digit decides ties. The package leaves our
// own policy to package engine.
//
// Sources. fgd, bestfit, dotprod, gpu-packing, gpu-clustering and random: Weng
// et al., "Beware of Fragmentation", USENIX ATC 2023, and its artefact.
// kube-default and kube-binpack: the noderesources plugins of Kubernetes 1.37.
// las: Gu et al., "Tiresias", NSDI 2019, with the threshold of the artefact of
// Pollux (OSDI 2021). fifo, fifo-backfill-none and srtf are of the textbooks.
package rivals

import (
	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Side is what a published setting gives a policy besides the cluster.
type Side struct {
	// Typical is the target workload that fgd expects.
	Typical []Typical
	// NodeRank orders nodes of equal score, lowest first, by node name. Nil: a
	// hash of seed and name.
	NodeRank map[string]int32
}

// Rival is one policy of others.
type Rival struct {
	Name string
	// About is one sentence for the help text.
	About string
	// WholeCards says that the policy's cluster gives cards only whole: a share
	// is rounded up before it is decided on.
	WholeCards bool
	// Durations says that the policy knows how long jobs have to run.
	Durations bool
	build     func(Side) *engine.Policy
}

// Policy makes the policy for one run.
func (r *Rival) Policy(side Side) *engine.Policy {
	p := r.build(side)
	p.Name = r.Name
	if ranks := side.NodeRank; ranks != nil {
		p.Tie = ByRank(ranks)
	}
	return p
}

// ByRank breaks ties by a given order of the nodes, by name.
func ByRank(ranks map[string]int32) func(*cluster.View, cluster.NodeID) uint64 {
	return func(v *cluster.View, node cluster.NodeID) uint64 { return uint64(ranks[v.Node(node).Spec.Name]) }
}

// All lists the rivals in the order in which they are shown.
func All() []Rival {
	return []Rival{
		{Name: "fgd", About: "fragmentation gradient descent (Weng et al., ATC 2023)", build: fgd},
		{Name: "bestfit", About: "least CPU and GPU left over", build: scored(bestFit)},
		{Name: "dotprod", About: "alignment of demand with what is left", build: scored(dotProd)},
		{Name: "gpu-packing", About: "used GPUs before used nodes before idle nodes", build: scored(gpuPacking)},
		{Name: "gpu-clustering", About: "pods of one kind together", build: func(Side) *engine.Policy {
			return &engine.Policy{Score: gpuClustering, Residents: true}
		}},
		{Name: "random", About: "any node that fits", build: random},
		{Name: "kube-default", About: "Kubernetes 1.37 default scoring, whole cards", WholeCards: true, build: scored(kubeDefault)},
		{Name: "kube-binpack", About: "Kubernetes 1.37 MostAllocated scoring, whole cards", WholeCards: true, build: scored(kubeBinpack)},
		{Name: "fifo", About: "whole jobs by arrival over all queues; later ones start where they fit", build: (&lineRule{}).policy},
		{Name: "fifo-backfill-none", About: "strictly by arrival: nobody passes the job that waits first", build: (&lineRule{strict: true}).policy},
		{Name: "las", About: "least attained service in two levels (Tiresias, NSDI 2019), preemptive", build: (&lineRule{rank: attained, preempts: true}).policy},
		{Name: "srtf", About: "shortest remaining time first, preemptive; knows how long jobs run", Durations: true, build: (&lineRule{rank: remaining, preempts: true}).policy},
	}
}

type score func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64

func scored(s score) func(Side) *engine.Policy {
	return func(Side) *engine.Policy { return &engine.Policy{Score: s} }
}

// demand is a shape as the published policies see it: one request for devices.
type demand struct {
	cpu   int64
	count int64
	milli int64 // per device
	mask  []cluster.Symbol
}

func demandOf(v *cluster.View, shape cluster.ShapeID) demand {
	s := v.Shape(shape)
	d := demand{cpu: s.Need.At(cluster.DimCPU)}
	if len(s.Devices) > 0 {
		r := &s.Devices[0]
		d.count, d.milli, d.mask = int64(r.Count), int64(r.Milli), r.Models
	}
	return d
}

func (d *demand) total() int64 { return d.count * d.milli }

func (d *demand) sharing() bool { return d.count == 1 && d.milli < int64(quantity.WholeGPU) }

// fullest returns what is left on the fullest device that takes the demand.
func fullest(v *cluster.View, n *cluster.Node, milli int64) int64 {
	best := int64(quantity.WholeGPU) + 1
	for i := range n.Spec.DeviceCount {
		if left := int64(v.DeviceOf(n, i).FreeMilli); left >= milli {
			best = min(best, left)
		}
	}
	return best
}

func bestFit(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
	d, n := demandOf(v, shape), v.Node(node)
	cpu := float64(n.Free.At(cluster.DimCPU)-d.cpu) / 128000
	gpu := float64(int64(n.FreeMilli)-d.total()) / 8000
	// The published score is stretched over the feasible nodes afterwards, which
	// keeps the highest on top and merges none with it.
	return int64(100 * (1 - float64(cpu+gpu)/2))
}

func dotProd(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
	d, n := demandOf(v, shape), v.Node(node)
	cpu := float64(float64(n.Free.At(cluster.DimCPU)) / 128000 * (float64(d.cpu) / 128000))
	gpu := float64(float64(n.FreeMilli) / 8000 * (float64(d.total()) / 8000))
	return int64(100 * (1 - float64(cpu+gpu)/2))
}

func gpuPacking(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
	d, n := demandOf(v, shape), v.Node(node)
	if d.count == 0 {
		return 0
	}
	needIdle, left := d.count, d.count*100
	if d.sharing() {
		on := fullest(v, n, d.milli)
		needIdle, left = 0, on/10
		if on == int64(quantity.WholeGPU) {
			needIdle = 1
		}
	}
	devices := int64(n.Spec.DeviceCount)
	switch {
	case int64(n.IdleDevices) == devices:
		return max(33-devices, devices)
	case needIdle > 0:
		return max(50-needIdle, 33)
	}
	return max(100-left/10, 50)
}

// The kinds that gpu-clustering keeps apart, as bits.
func kindBit(d *demand) uint8 {
	switch {
	case d.count == 0:
		return 0
	case d.sharing():
		return 1
	case d.count == 1:
		return 2
	case d.count == 2:
		return 4
	case d.count <= 4:
		return 8
	}
	return 16
}

func gpuClustering(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
	d, n := demandOf(v, shape), v.Node(node)
	if d.count == 0 {
		return 0
	}
	hosted := uint8(0)
	for _, pod := range n.Pods {
		resident := demandOf(v, v.Pod(pod).Placement.Shape)
		hosted |= kindBit(&resident)
	}
	bit, base := kindBit(&d), int64(0)
	switch {
	case hosted == bit:
		base = 75
	case hosted&bit != 0:
		base = 50
	case hosted == 0:
		base = 25
	}
	return base + 25*(8000-int64(n.FreeMilli))/8000
}

// random takes any node that fits, and any device on it that takes the share.
func random(Side) *engine.Policy {
	pick := func(c decision.Cycle, v *cluster.View, pod cluster.PodID, salt uint64, n int) int {
		source := chance.New(int64(chance.Hash(uint64(c.Seed), salt, v.Pod(pod).Key)))
		return int(source.Below(int64(n)))
	}
	return &engine.Policy{
		Choose: func(v *cluster.View, c decision.Cycle, pod cluster.PodID, feasible []cluster.NodeID) cluster.NodeID {
			return feasible[pick(c, v, pod, 1, len(feasible))]
		},
		Grants: func(v *cluster.View, c decision.Cycle, pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool) {
			s, n := v.Shape(shape), v.Node(node)
			if len(s.Devices) != 1 || s.Devices[0].Whole() || s.Devices[0].Count != 1 {
				return fit.Grants(v, s, n)
			}
			r := &s.Devices[0]
			var able []cluster.DeviceID
			for i := range n.Spec.DeviceCount {
				if fit.Takes(v, v.DeviceOf(n, i), r) {
					able = append(able, n.Spec.FirstDevice+cluster.DeviceID(i))
				}
			}
			id := able[pick(c, v, pod, 2, len(able))]
			return []cluster.Grant{fit.GrantOf(v, v.Device(id), id, r)}, true
		},
	}
}
