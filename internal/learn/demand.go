// Package learn turns what was seen into what is expected: the demand to come,
// what room is worth under it, and what runs of a kind really use.
//
// Estimators use floats; what leaves the package is integer tables that go into
// the world as beliefs. Nothing here depends on the order of a map or on a
// library's last bit, so that every machine learns the same. It leaves deciding
// to the core.
package learn

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// Demand counts the shapes of the pods that arrive. The zero value has seen
// nothing.
type Demand struct {
	count []int64 // by shape
	seen  int64
	next  int64
	left  int64 // pods that have gone again

	packing packing
}

// An epoch, for which the tables stand, ends when the pods seen have grown by
// this part and this many: early epochs are short, and a run of n pods has about
// 4·ln(n) of them.
const (
	growPercent = 30
	growPods    = 5
)

// Observe counts an arrival and says whether an epoch has ended with it.
func (d *Demand) Observe(shape cluster.ShapeID) bool {
	for len(d.count) <= int(shape) {
		d.count = append(d.count, 0)
	}
	d.count[shape]++
	d.seen++
	if d.seen < d.next {
		return false
	}
	d.next = d.seen + d.seen*growPercent/100 + growPods
	return true
}

// Leave counts a pod that has gone again.
func (d *Demand) Leave() { d.left++ }

// turnover is how many pods left per pod that came, in thousandths.
func (d *Demand) turnover() int64 { return d.left * 1000 / max(d.seen, 1) }

// Table returns the shapes seen with their weights, the most frequent first.
func (d *Demand) Table() *cluster.Demand {
	out := &cluster.Demand{Pods: d.seen}
	for shape, n := range d.count {
		if n > 0 {
			out.Rows = append(out.Rows, cluster.DemandRow{Shape: cluster.ShapeID(shape), Weight: n * 1_000_000 / d.seen})
		}
	}
	slices.SortFunc(out.Rows, func(a, b cluster.DemandRow) int {
		return cmp.Or(-cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Shape, b.Shape))
	})
	return out
}
