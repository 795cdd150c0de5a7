package rivals

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Ask is one pod of the workload that the target is made from.
type Ask struct {
	CPU    quantity.MilliCPU
	Count  int
	Milli  quantity.MilliGPU
	Models []string // in the order given
}

// Typical is one group of the target workload with its share of the pods.
type Typical struct {
	CPU    int64
	Count  int64
	Milli  int64
	Models []cluster.Symbol
	Share  float64
}

// covered is how much of the workload the typical pods cover: groups are taken
// until they hold 95 % of the pods.
const covered = 95

// TypicalPods groups pods by CPU, devices, share and models (memory is left
// out), most frequent first, until the groups cover 95 % of the pods.
func TypicalPods(asks []Ask, symbol func(string) cluster.Symbol) []Typical {
	type key struct {
		cpu, milli int64
		count      int
		models     string
	}
	counts := make(map[key]int)
	for _, a := range asks {
		counts[key{int64(a.CPU), int64(a.Milli), a.Count, strings.Join(a.Models, "|")}]++
	}
	keys := make([]key, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(-cmp.Compare(counts[a], counts[b]), -cmp.Compare(a.cpu, b.cpu), -cmp.Compare(a.milli, b.milli),
			-cmp.Compare(a.count, b.count), -cmp.Compare(a.models, b.models))
	})
	var out []Typical
	taken := 0
	for _, k := range keys {
		if taken*100 >= covered*len(asks) {
			break
		}
		taken += counts[k]
		t := Typical{CPU: k.cpu, Count: int64(k.count), Milli: k.milli, Share: float64(counts[k])}
		if k.models != "" {
			for _, model := range strings.Split(k.models, "|") {
				t.Models = append(t.Models, symbol(model))
			}
		}
		out = append(out, t)
	}
	// Two divisions, as published: the last bit of a share decides ties.
	total := float64(len(asks))
	for i := range out {
		out[i].Share = out[i].Share / total / (float64(taken) / total)
	}
	return out
}

// maxDevices is the most devices a node of the published setting has; larger
// nodes are measured the slow way.
const maxDevices = 64

// bench is a node's GPU side, cheap to change: the state before and after a
// placement is measured on it.
type bench struct {
	cpu   int64
	sum   int64
	count int
	left  [maxDevices]int64
	model cluster.Symbol
}

func benchOf(v *cluster.View, n *cluster.Node) bench {
	b := bench{cpu: n.Free.At(cluster.DimCPU), count: int(n.Spec.DeviceCount)}
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		b.left[i] = max(int64(d.FreeMilli), 0)
		b.sum += b.left[i]
		b.model = d.Spec.Model
	}
	return b
}

// Fragment is F of a node in milli-GPU: what typical pods cannot use of what is
// left. One sum is kept per cause and added at the end, in the published order.
func Fragment(v *cluster.View, node cluster.NodeID, typical []Typical) float64 {
	b := benchOf(v, v.Node(node))
	return b.fragment(typical)
}

// The causes, in the order in which their sums are added.
const (
	lacksBoth = iota
	lacksGPU  // and the GPUs too small of a node that can host the pod
	lacksCPU
	wantsNoneFits
	wantsNoneLacks
	otherModel
	causes
)

func (b *bench) fragment(typical []Typical) float64 {
	if b.sum == 0 {
		return 0
	}
	var sums [causes]float64
	for i := range typical {
		t := &typical[i]
		cause, amount := b.lost(t)
		sums[cause] += float64(t.Share * float64(amount))
	}
	total := 0.0
	for _, s := range sums {
		total += s
	}
	return total
}

// lost is how much of what is left one typical pod cannot use, and why.
func (b *bench) lost(t *Typical) (cause int, amount int64) {
	hasCPU := b.cpu >= t.CPU
	switch {
	case t.Count == 0 && hasCPU:
		return wantsNoneFits, b.sum
	case t.Count == 0:
		return wantsNoneLacks, b.sum
	case len(t.Models) > 0 && !slices.Contains(t.Models, b.model):
		return otherModel, b.sum
	}
	able, small := int64(0), int64(0)
	for _, left := range b.left[:b.count] {
		if left >= t.Milli {
			able++
		} else {
			small += left
		}
	}
	switch {
	case able >= t.Count && hasCPU:
		return lacksGPU, small
	case able >= t.Count:
		return lacksCPU, b.sum
	case hasCPU:
		return lacksGPU, b.sum
	}
	return lacksBoth, b.sum
}

// fgd places each pod where it makes the fewest new fragments.
func fgd(side Side) *engine.Policy {
	g := gradient{typical: side.Typical, lines: make([]gradientLine, gradientLines)}
	return &engine.Policy{
		Score: func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
			value, _ := g.best(v, shape, node)
			return value
		},
		Grants: func(v *cluster.View, _ decision.Cycle, _ cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool) {
			_, device := g.best(v, shape, node)
			s, n := v.Shape(shape), v.Node(node)
			if device < 0 {
				return fit.Grants(v, s, n)
			}
			id := n.Spec.FirstDevice + cluster.DeviceID(device)
			return []cluster.Grant{fit.GrantOf(v, v.Device(id), id, &s.Devices[0])}, true
		},
	}
}

// gradient keeps the fragments of node states that were measured already.
type gradient struct {
	typical []Typical
	lines   []gradientLine
}

type gradientLine struct {
	state    uint64
	fragment float64
}

const gradientLines = 1 << 13

func (g *gradient) before(b *bench, state uint64) float64 {
	line := &g.lines[state%gradientLines]
	if line.state != state {
		*line = gradientLine{state: state, fragment: b.fragment(g.typical)}
	}
	return line.fragment
}

// best returns the published integer score of a node and, for a share, the
// device that gives it; -1 for whole devices.
func (g *gradient) best(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) (value int64, device int) {
	d, n := demandOf(v, shape), v.Node(node)
	b := benchOf(v, n)
	before := g.before(&b, n.State)
	after := b
	after.cpu -= d.cpu
	s := v.Shape(shape)
	if !d.sharing() || len(s.Devices) > 1 {
		after.sum -= d.total()
		// Whole devices come in order of index, as fit.Grants gives them.
		for i, need := 0, d.count; need > 0 && i < b.count; i++ {
			if b.left[i] == int64(quantity.WholeGPU) {
				after.left[i], need = 0, need-1
			}
		}
		return sigmoid(before - after.fragment(g.typical)), -1
	}
	after.sum -= d.milli
	value, device = -1, -1
	var tried [maxDevices]int64 // what was left on the devices measured so far
	count := 0
	for i, left := range b.left[:b.count] {
		if left < d.milli || slices.Contains(tried[:count], left) || !fit.Takes(v, v.DeviceOf(n, int32(i)), &s.Devices[0]) {
			continue
		}
		tried[count] = left
		count++
		after.left[i] = left - d.milli
		if s := sigmoid(before - after.fragment(g.typical)); s > value {
			value, device = s, i
		}
		after.left[i] = left
	}
	return value, device
}

func sigmoid(gain float64) int64 {
	return int64(100 / (1 + math.Exp(-gain/1000)))
}
