package rank

import (
	"math/bits"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// What a missed slot costs, and how unsure an expectation from a sample is.
// Chosen on generated traces (docs/adr/0005).
const (
	slotPrice = 300 // milli-GPU for each device of a slot that will be missed
	sizePrice = 300 // milli-GPU, for a whole device of a size that will be missed
	spread    = 2   // extra variance of what is expected, × free / seen
)

// Counts are the offers of all nodes together.
type Counts struct {
	Ways [cluster.MaxSlots + cluster.MaxSizes]int64
	Room int64 // milli-GPU
}

// Replace counts a node's offers anew.
func (c *Counts) Replace(before, now *Offers) {
	for i := range now.Ways {
		c.Ways[i] += int64(now.Ways[i]) - int64(before.Ways[i])
	}
	c.Room += int64(now.Room) - int64(before.Room)
}

// Prices are what taking one of each offer away costs, in micro-GPU.
type Prices [cluster.MaxSlots + cluster.MaxSizes]int64

// PricesOf sets a price on slots and sizes by supply and demand: what missing one
// costs, times the chance that more will be asked for, until the free room is
// used up, than there are offers. The number asked for is taken as normal, with
// the variance of a sample.
func PricesOf(v *cluster.View, have *Counts) (p Prices) {
	w := worthOf(v)
	if w == nil {
		return p
	}
	free := have.Room
	seen := max(int64(w.Seen), int64(quantity.WholeGPU))
	for i := range w.Slots {
		s := &w.Slots[i]
		expected := quantity.MulDiv(s.Expected, free, seen) + s.Margin
		p[i] = slotPrice * int64(s.Devices) * missed(expected, have.Ways[i], free, seen)
	}
	for i := range w.Sizes {
		s := &w.Sizes[i]
		expected := quantity.MulDiv(s.Expected, free, seen)
		p[sizeBit+i] = sizePrice * int64(s.Milli) / 1000 * missed(expected, have.Ways[sizeBit+i], free, seen)
	}
	return p
}

// Of adds up the prices of a set.
func (p *Prices) Of(set uint64) (sum int64) {
	for ; set != 0; set &= set - 1 {
		sum += p[bits.TrailingZeros64(set)]
	}
	return sum
}

// missed is the chance, in thousandths, that at least `have` are asked for when
// `expected` thousandths are.
func missed(expected, have, free, seen int64) int64 {
	if expected <= 0 {
		return 0
	}
	variance := quantity.MulDiv(expected, seen+spread*free, seen) * 1000
	return tail((have*1000 - 500 - expected) * 1000 / max(root(variance), 1))
}

// normalTail[i] is the chance, in thousandths, that a standard normal is at least
// i/4.
var normalTail = [...]int64{500, 401, 309, 227, 159, 106, 67, 40, 23, 12, 6, 3, 1, 1, 0} // const: the normal distribution

// tail reads normalTail at z thousandths, with linear interpolation.
func tail(z int64) int64 {
	if z < 0 {
		return 1000 - tail(-z)
	}
	i := z / 250
	if i >= int64(len(normalTail))-1 {
		return 0
	}
	part := z % 250
	return (normalTail[i]*(250-part) + normalTail[i+1]*part) / 250
}

// root is the integer square root.
func root(x int64) int64 {
	if x <= 0 {
		return 0
	}
	r := int64(1) << ((bits.Len64(uint64(x)) + 1) / 2)
	for {
		next := (r + x/r) / 2
		if next >= r {
			return r
		}
		r = next
	}
}
