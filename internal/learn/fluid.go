package learn

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// item is one shape of the fluid: demand that is spread over the classes.
type item struct {
	need   amounts
	pods   float64
	unit   float64 // of cost, in which the choice of class is soft
	by     int     // the resource whose capacity draws it: GPUs, or cores
	admits []bool  // per class
}

// steepest is the exponent at which the price of a resource ends: 400 times its
// base.
const steepest = 6.0

// fluid returns prices per class in milli-GPU per core, GiB and GPU.
//
// The demand seen, scaled to the GPUs that are left, flows to the classes round
// by round: each shape chooses by logit of its cost at the prices so far, and the
// price of a resource is base × exp((load - 1) / softness). It is the concurrent
// flow form of a transport problem; its prices rise where a resource runs out
// before the others.
func (m *mason) fluid() []amounts {
	capacities := make([]amounts, len(m.classes))
	var total amounts
	for i := range m.classes {
		c := &m.classes[i]
		for r := range total {
			total[r] += c.capacity[r]
			capacities[i][r] = max(c.free[r], 0) // who is overdrawn has none to give
		}
	}
	f := flow{capacities: capacities, prices: make([]amounts, len(m.classes)), load: make([]amounts, len(m.classes))}
	for r := range f.base {
		if total[r] > 0 {
			f.base[r] = 1000 * total[2] / total[r]
		}
	}
	f.items = m.fluidItems(f.base)
	f.scaleDemand()
	for i := range f.load {
		for r := range f.load[i] {
			f.load[i][r] = 0.8 * capacities[i][r]
		}
	}
	f.reprice(1)
	for round := range fluidRounds {
		f.spread()
		f.reprice(float64(round + 2))
	}
	return f.prices
}

func (m *mason) fluidItems(base amounts) []item {
	var items []item
	for shape, n := range m.demand.count {
		if n == 0 {
			continue
		}
		s := m.view.Shape(cluster.ShapeID(shape))
		it := item{
			need: amounts{float64(s.Need.At(cluster.DimCPU)) / 1000, float64(s.Need.At(cluster.DimMemory)) / float64(quantity.GiB), float64(s.Milli()) / 1000},
			pods: float64(n), by: 2,
		}
		if s.DeviceCount() == 0 {
			it.by = 0
		}
		for r := range it.need {
			it.unit += float64(0.1 * float64(base[r]*it.need[r]))
		}
		any := false
		for i := range m.classes {
			ok := m.classes[i].admits(s)
			it.admits = append(it.admits, ok)
			any = any || ok
		}
		if any && it.unit > 0 {
			items = append(items, it)
		}
	}
	return items
}

// flow is the state of the rounds.
type flow struct {
	items      []item
	capacities []amounts
	prices     []amounts
	load       []amounts // summed over the rounds
	base       amounts
	scale      float64
}

// scaleDemand makes the demand as large as the GPUs that are left, or, without
// GPU demand, as the cores.
func (f *flow) scaleDemand() {
	var asked, have amounts
	for i := range f.items {
		for r := range asked {
			asked[r] += float64(f.items[i].pods * f.items[i].need[r])
		}
	}
	for i := range f.capacities {
		for r := range have {
			have[r] += f.capacities[i][r]
		}
	}
	f.scale = 1
	switch {
	case asked[2] > 0:
		f.scale = have[2] / asked[2]
	case asked[0] > 0:
		f.scale = have[0] / asked[0]
	}
}

func (f *flow) reprice(rounds float64) {
	for i := range f.prices {
		for r := range f.prices[i] {
			rise := steepest // nothing is left
			if f.capacities[i][r] > 0 {
				load := f.load[i][r] / rounds / f.capacities[i][r]
				rise = min(steepest, (load-1)/softness)
			}
			f.prices[i][r] = float64(f.base[r] * exp(rise))
		}
	}
}

// spread sends every item to the classes once.
func (f *flow) spread() {
	part := make([]float64, len(f.prices))
	for n := range f.items {
		it := &f.items[n]
		cheapest := math.Inf(1)
		for i := range part {
			if it.admits[i] {
				p := &f.prices[i]
				part[i] = float64(p[0]*it.need[0]) + float64(p[1]*it.need[1]) + float64(p[2]*it.need[2])
				cheapest = min(cheapest, part[i])
			}
		}
		sum := 0.0
		for i := range part {
			if it.admits[i] {
				part[i] = float64(f.capacities[i][it.by] * unlikely((cheapest-part[i])/it.unit))
				sum += part[i]
			}
		}
		if sum == 0 {
			continue
		}
		each := float64(it.pods * f.scale / sum)
		for i := range part {
			if it.admits[i] {
				for r := range it.need {
					f.load[i][r] += float64(float64(each*part[i]) * it.need[r])
				}
			}
		}
	}
}

// unlikely is exp held from below: at -40 it is as good as zero, and most classes
// are that far from the cheapest.
func unlikely(x float64) float64 {
	const atLeast, there = -40, 4.248354255291595e-18
	if x <= atLeast {
		return there
	}
	return exp(x)
}

const ln2 = 0.693147180559945309417232121458

// exp and ln are written out so that every machine gives the same bits. exp holds
// for arguments between -700 and 700, and gives the ends for those beyond; ln holds for
// positive ones.
func exp(x float64) float64 {
	x = min(max(x, -700), 700)
	k := math.Floor(x/ln2 + 0.5)
	r := x - float64(k*ln2)
	sum := inverseFactorials[len(inverseFactorials)-1]
	for i := len(inverseFactorials) - 2; i >= 0; i-- {
		sum = float64(sum*r) + inverseFactorials[i]
	}
	const bias, mantissa = 1023, 52
	return sum * math.Float64frombits(uint64(int64(k)+bias)<<mantissa)
}

// inverseFactorials are 1/n!.
var inverseFactorials = [...]float64{
	1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
	1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
}

func ln(x float64) float64 {
	mantissa, e := math.Frexp(x)
	y := (mantissa - 1) / (mantissa + 1)
	y2 := float64(y * y)
	sum, term := 0.0, y
	for i := 1; i < 60; i += 2 {
		sum += term / float64(i)
		term = float64(term * y2)
	}
	return float64(2*sum) + float64(float64(e)*ln2)
}
