package learn

import (
	"fmt"
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// State is what a Demand has seen, as values that can be kept and brought back.
type State struct {
	Counts []Count // by shape
	Next   int64   // the present epoch ends when as many pods were seen
	Left   int64   // pods that have gone again
	Prices []Price // of the packing plan, by size
}

// Count is how many pods of a shape were seen.
type Count struct {
	Shape cluster.ShapeID
	Pods  int64
}

// Price is what a size of share costs in the packing plan, both in milli-GPU.
type Price struct {
	Milli int
	Price float64
}

// Pods is how many pods the state rests on.
func (s *State) Pods() (sum int64) {
	for _, c := range s.Counts {
		sum += c.Pods
	}
	return sum
}

// Seen is how many pods the demand rests on.
func (d *Demand) Seen() int64 { return d.seen }

// State returns what was seen.
func (d *Demand) State() State {
	out := State{Next: d.next, Left: d.left}
	for shape, n := range d.count {
		if n > 0 {
			out.Counts = append(out.Counts, Count{Shape: cluster.ShapeID(shape), Pods: n})
		}
	}
	for size := 1; size < whole; size++ {
		if d.packing.known[size] {
			out.Prices = append(out.Prices, Price{Milli: size, Price: d.packing.price[size]})
		}
	}
	return out
}

// mostPods bounds a count that comes from outside: far above what a cluster sees,
// and no sum of mostShapes of them overflows.
const (
	mostPods   = 1 << 40
	mostShapes = 1 << 20
)

// DemandFrom brings a demand back. It refuses what no Demand can have come to.
func DemandFrom(s State) (Demand, error) {
	d := Demand{next: s.Next, left: s.Left}
	if s.Next < 0 || s.Next > mostPods || s.Left < 0 || s.Left > mostPods {
		return Demand{}, fmt.Errorf("next epoch at %d pods, %d left: must be 0 to %d", s.Next, s.Left, int64(mostPods))
	}
	for _, c := range s.Counts {
		if c.Shape < 0 || c.Shape >= mostShapes || c.Pods <= 0 || c.Pods > mostPods {
			return Demand{}, fmt.Errorf("%d pods of shape %d: must be 1 to %d, of a shape below %d", c.Pods, c.Shape, int64(mostPods), mostShapes)
		}
		for len(d.count) <= int(c.Shape) {
			d.count = append(d.count, 0)
		}
		d.count[c.Shape] += c.Pods
		d.seen += c.Pods
	}
	for _, p := range s.Prices {
		// The plan holds its prices within these bounds.
		if p.Milli < 1 || p.Milli >= whole || math.IsNaN(p.Price) || p.Price < -300 || p.Price > float64(whole) {
			return Demand{}, fmt.Errorf("size %d at price %v: must be a size of 1 to %d at -300 to %d", p.Milli, p.Price, whole-1, whole)
		}
		d.packing.price[p.Milli], d.packing.known[p.Milli] = p.Price, true
	}
	return d, nil
}
