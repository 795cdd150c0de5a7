package learn

import "github.com/headrace-dev/headrace/internal/core/quantity"

// The constants of the packing plan, chosen on generated traces (docs/adr/0005).
const (
	planSoftness = 15.0 // milli-GPU: how much worse a filling may be and still be used
	planDiscount = 0.02 // how much less an opened device is worth than the plan says
	planRounds   = 20   // each epoch; the prices of the last one are the start
)

const whole = int(quantity.WholeGPU)

// packing is the plan by which shares fill devices: soft prices of a cutting-stock
// problem. It is kept from one epoch to the next.
//
// A filling of a device is a multiset of sizes that fits it. Fillings are used
// with weight e^((sum of prices - 1000) / softness), and the prices are scaled,
// round by round, until the mean filling of one device has the mix of sizes seen.
// So the price of a size is the room that it takes up in a good packing of the
// mix: 1000 for an 810 when nothing fits beside it, 500 for a 470 of which two
// share a device.
type packing struct {
	price [whole + 1]float64 // milli-GPU
	known [whole + 1]bool

	sizes []int
	want  [whole + 1]float64 // pods seen, by size
	boost [whole + 1]float64 // e^(price / softness)
	sums  [whole + 1]float64 // over the fillings of a hole, of the products of boosts
}

// plan brings the prices to the mix.
func (p *packing) plan(want *[whole + 1]float64) {
	p.want, p.sizes = *want, p.sizes[:0]
	demand := 0.0
	for s := 1; s < whole; s++ {
		if want[s] == 0 {
			continue
		}
		p.sizes = append(p.sizes, s)
		demand += float64(want[s] * float64(s))
		if !p.known[s] {
			p.price[s], p.known[s] = float64(s), true
		}
	}
	p.fillings()
	if len(p.sizes) == 0 {
		return
	}
	unit := exp(-float64(whole) / planSoftness)
	perDevice := float64(whole) / demand // devices per pods seen: one device holds this part of them
	for range planRounds {
		for _, s := range p.sizes {
			p.adjust(s, unit, perDevice)
		}
		// The plan uses one device.
		perDevice *= max(0.8, min(1.25, 1/float64(unit*p.sums[whole])))
		p.fillings()
	}
}

// fillings sums over the fillings of each hole.
func (p *packing) fillings() {
	for g := range p.sums {
		p.sums[g] = 1
	}
	for _, s := range p.sizes {
		p.boost[s] = exp(p.price[s] / planSoftness)
		for g := s; g <= whole; g++ {
			p.sums[g] += float64(p.boost[s] * p.sums[g-s])
		}
	}
}

// adjust moves one price towards where the mean filling holds as many pods of the
// size as the mix has, by a step that is damped by how strongly they react.
func (p *packing) adjust(s int, unit, perDevice float64) {
	mean, square, weight, odd := 0.0, 0.0, unit, 1.0
	for room := s; room <= whole; room += s {
		weight = float64(weight * p.boost[s])
		v := float64(weight * p.sums[whole-room])
		mean += v
		square += float64(odd * v)
		odd += 2
	}
	step := max(-1.5, min(1.5, ln(float64(perDevice*p.want[s])/mean))) / (1 + square/mean)
	p.price[s] = max(-300, min(float64(whole), p.price[s]+float64(planSoftness*step)))
}

// worth is what a hole of g milli-GPU saves in the plan, in micro-GPU.
func (p *packing) worth(g int) int64 {
	switch {
	case len(p.sizes) == 0 && g == whole:
		return 1000 * int64(whole)
	case len(p.sizes) == 0:
		return 0
	}
	v := float64(1000 * float64(planSoftness*ln(p.sums[g])))
	if g < whole {
		v = float64(v * (1 - planDiscount))
	}
	return round(v)
}

// room is how much the sizes seen take up in the plan, in milli-GPU.
func (p *packing) room() (sum float64) {
	for _, s := range p.sizes {
		sum += float64(p.want[s] * max(0, p.price[s]))
	}
	return sum
}
