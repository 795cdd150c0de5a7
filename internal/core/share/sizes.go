package share

import (
	"math/bits"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Way is one configuration of an elastic job: so many GPUs of a class, with the rate
// of progress that is expected of it, in thousandths of the job's reference. Of
// each class the first way is the one of fewest GPUs.
type Way struct {
	Class int32
	GPUs  int32
	Rate  int64
}

// Sizing is a job whose size is to be chosen.
type Sizing struct {
	Key  uint64 // breaks ties
	Ways []Way  // a rigid job has one
	// Now is the way in force, -1 for none; Fixed says that it must stay, as during a
	// restart.
	Now   int
	Fixed bool
	// Restart is what a change costs, Left what is left to do as time at the reference
	// rate, and Lasted how long a choice for the job lasted so far, on the mean. All
	// in milliseconds.
	Restart, Left, Lasted int64
}

// SizeRules are the constants of choosing sizes; docs/adr/0010 says what each is
// worth.
type SizeRules struct {
	// Horizon is the longest time in which a move must pay for its restart, in
	// milliseconds; Patience, in thousandths, the part that a choice is expected to last
	// of what choices for the job lasted so far.
	Horizon, Patience int64
	// Toll is what a GPU must add to be used, in thousandths of what the first of its
	// class adds, at one job a GPU, and in proportion to the jobs; MostToll is the most.
	Toll, MostToll int64
	// Margin is by how many thousandths a move to as many GPUs must gain on staying.
	Margin int64
}

// DefaultSizeRules are those that were chosen on half of the public workloads.
func DefaultSizeRules() SizeRules {
	return SizeRules{Horizon: 600_000, Patience: 700, Toll: 384, MostToll: 400, Margin: 50}
}

// nobody is the choice of no way.
const nobody = -1

// Sizes chooses a way, or none (-1), for each job, within the GPUs of each class.
//
// A choice is worth its rate over the time that it is expected to last, less what a
// restart eats of that and less the toll of its GPUs, times a weight that falls
// with the fourth root of what is left to do: who is nearer to the end goes first,
// but not at any price, since more jobs will come. The sum of worths is made as
// large as is found at prices for the GPUs of each class.
func Sizes(room []int64, jobs []Sizing, rules SizeRules) []int {
	c := &chooser{room: slices.Clone(room), jobs: jobs, chosen: make([]int, len(jobs)), worth: make([][]int64, len(jobs))}
	gpus := int64(0)
	for _, n := range room {
		gpus += n
	}
	toll := min(rules.MostToll, quantity.MulDiv(rules.Toll, int64(len(jobs)), max(gpus, 1)))
	for j := range jobs {
		c.chosen[j] = nobody
		c.worth[j] = rules.worths(&jobs[j], toll)
		if jobs[j].Fixed && jobs[j].Now != nobody {
			c.take(j, jobs[j].Now)
			continue
		}
		c.open = append(c.open, j)
	}
	slices.SortFunc(c.open, func(a, b int) int { return compareKeys(jobs[a].Key, jobs[b].Key, a, b) })
	c.start = slices.Clone(c.room)
	c.setPrices()
	c.settle()
	return c.chosen
}

func compareKeys(a, b uint64, i, j int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return i - j
}

// Of weights: nothing is nearer to its end than leastLeft, and a job of a second
// would weigh fullWeight.
const (
	leastLeft  = 10_000
	fullWeight = 20_000
)

// weight is fullWeight over the fourth root of the seconds that are left.
func weight(left int64) int64 {
	// The fourth root of left × 2^16 is 16 times that of left, in milliseconds.
	root := squareRoot(squareRoot(uint64(min(max(left, leastLeft), 1<<46)) << 16))
	const ofThousand = 90 // 16 × the fourth root of 1000
	return fullWeight * ofThousand / int64(root)
}

// squareRoot is rounded down.
func squareRoot(x uint64) uint64 {
	if x == 0 {
		return 0
	}
	root := uint64(1) << ((bits.Len64(x) + 1) / 2)
	for {
		next := (root + x/root) / 2
		if next >= root {
			return root
		}
		root = next
	}
}

// worths is what each way of a job is worth.
func (r SizeRules) worths(j *Sizing, toll int64) []int64 {
	out := make([]int64, len(j.Ways))
	factor, lasts := weight(j.Left), min(r.Horizon, max(quantity.MulDiv(j.Lasted, r.Patience, 1000), shortest))
	first := -1
	for i, w := range j.Ways {
		if first < 0 || j.Ways[first].Class != w.Class {
			first = i
		}
		rate := w.Rate
		if i != j.Now {
			rate = r.moved(j, i, lasts)
		}
		one := j.Ways[first]
		rate -= quantity.MulDiv(one.Rate*int64(w.GPUs)/int64(max(one.GPUs, 1)), toll, 1000)
		out[i] = rate * factor
	}
	return out
}

// shortest is the least time that a choice is expected to last, in milliseconds.
const shortest = 60_000

// moved is the rate of a way with its restart, over the time that it lasts: to the
// end of the job, if that is nearer.
func (r SizeRules) moved(j *Sizing, way int, lasts int64) int64 {
	w := j.Ways[way]
	span := max(min(lasts, quantity.MulDiv(j.Left, 1000, max(w.Rate, 1))), 1)
	rate := quantity.MulDiv(w.Rate, span, span+j.Restart)
	if j.Now == nobody {
		return rate
	}
	stay := j.Ways[j.Now]
	if w.GPUs >= stay.GPUs && w.Rate*1000 < stay.Rate*(1000+r.Margin) {
		rate = min(rate, stay.Rate*999/1000)
	}
	return rate
}
