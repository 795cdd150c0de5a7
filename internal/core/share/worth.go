package share

import (
	"math/bits"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// weighing is what all jobs of one choice are weighed by.
type weighing struct {
	SizeRules
	room  []int64
	gpus  int64
	jobs  int64
	price int64 // of a GPU-hour, in millionths of a job-hour
	rush  int64 // the same, for weights
}

func (r SizeRules) weighing(room []int64, jobs int) *weighing {
	w := &weighing{SizeRules: r, room: room, jobs: int64(jobs)}
	for _, n := range room {
		w.gpus += n
	}
	w.price = r.Thrift + quantity.MulDiv(quantity.MulDiv(r.Crowd, w.jobs, max(w.gpus, 1)), w.crowded(), 1000)
	w.rush = quantity.MulDiv(r.Rush, w.jobs, max(w.gpus, 1))
	return w
}

// crowded is the part of the price for others that is asked, in thousandths: all from one
// job for every four GPUs on, below with the square root of the jobs. GPUs that nobody
// else would have cost nobody anything.
func (w *weighing) crowded() int64 {
	const each = 4
	part := squareRoot(uint64(quantity.MulDiv(each*million, w.jobs, max(w.gpus, 1))))
	return min(int64(part), 1000)
}

const million = 1_000_000

// speed is the most progress that a job makes for what it costs: an hour of its own
// and those of its GPUs at a price. In thousandths of the reference.
func (j *Sizing) speed(price int64) int64 {
	most := int64(0)
	for _, way := range j.Ways {
		most = max(most, quantity.MulDiv(way.Rate, million, million+price*int64(way.GPUs)))
	}
	return most
}

// Of weights: nothing is nearer to its end than leastLeft, and a job of a second
// would weigh fullWeight.
const (
	leastLeft  = 10_000
	fullWeight = 20_000
	mostTime   = 1 << 46 // of what is left, done or past, in milliseconds
	mostSpeed  = 1 << 21 // in thousandths of the reference
)

// weight says how much a job's progress is worth beside another's. It falls with the
// fifth root of what is left: who is nearer to the end goes first, but not at any
// price, since more jobs will come, and who has far to go makes more of a GPU for hours
// than of all of them at the end. It falls with the speed that the job can have, to the power of
// 3/10, at the price of GPUs as crowded as now: what a job that can use many does on one
// GPU is a smaller part of its life. And it grows with the square of the lateness.
func (w *weighing) weight(j *Sizing) int64 {
	const ofThousand = 254 // 64 × the fifth root of 1000
	weight := quantity.MulDiv(fullWeight, ofThousand, fifthRoot(min(max(j.Left, leastLeft), mostTime)))
	speed := uint64(min(max(j.speed(w.rush), 1), mostSpeed))
	const powerOfThousand = 508 // 64 × 1000 to the power of 3/10
	weight = quantity.MulDiv(weight, powerOfThousand, fifthRoot(int64(squareRoot(speed*speed*speed))))
	if late := w.lateness(j); w.Late > 0 && late > w.Late {
		over := quantity.MulDiv(late, 1000, w.Late)
		weight = quantity.MulDiv(weight, min(quantity.MulDiv(over, over, 1000), max(w.MostLate, 1000)), 1000)
	}
	return weight
}

// lateness is the time from a job's coming to its end, if it has its share of the
// GPUs of each class from now on, over the time that it would have taken with it
// from the start. In thousandths. Of no class, a job has all classes' mean.
func (w *weighing) lateness(j *Sizing) int64 {
	mean := int64(0)
	for class, room := range w.room {
		best := int64(0)
		for _, way := range j.Ways {
			if int(way.Class) == class {
				best = max(best, min(way.Rate, quantity.MulDiv(way.Rate, room, int64(way.GPUs)*w.jobs)))
			}
		}
		mean += quantity.MulDiv(best, room, max(w.gpus, 1))
	}
	if mean == 0 {
		return 0
	}
	left, done := min(max(j.Left, 0), mostTime), min(max(j.Done, 0), mostTime)
	needs := quantity.MulDiv(left+done, 1000, mean)
	ends := min(max(j.Age, 0), mostTime) + quantity.MulDiv(left, 1000, mean)
	return quantity.MulDiv(ends, 1000, max(needs, shortest))
}

// shortest is the least time that a choice, or a job, is expected to last, in
// milliseconds.
const shortest = 60_000

// worths is what each way of a job is worth.
func (w *weighing) worths(j *Sizing) []int64 {
	out := make([]int64, len(j.Ways))
	weight, lasts := w.weight(j), min(w.Horizon, max(quantity.MulDiv(j.Lasted, w.Patience, 1000), shortest))
	speed := j.speed(w.price)
	for i, way := range j.Ways {
		rate := way.Rate
		if i != j.Now {
			rate = w.moved(j, i, lasts)
		}
		// At the price itself a job would have the size of its best speed.
		rate -= quantity.MulDiv(speed*int64(way.GPUs), w.price, million)
		out[i] = rate * weight
	}
	return out
}

// moved is the rate of a way with its restart, over the time that it lasts: to the
// end of the job, if that is nearer.
func (w *weighing) moved(j *Sizing, way int, lasts int64) int64 {
	to := j.Ways[way]
	span := max(min(lasts, quantity.MulDiv(j.Left, 1000, max(to.Rate, 1))), 1)
	rate := quantity.MulDiv(to.Rate, span, span+j.Restart)
	if j.Now == nobody {
		return rate
	}
	stay := j.Ways[j.Now]
	if to.GPUs >= stay.GPUs && to.Rate*1000 < stay.Rate*(1000+w.Margin) {
		rate = min(rate, stay.Rate*999/1000)
	}
	return rate
}

// fifthRoot is 64 times the fifth root, rounded down; of numbers above 2^33 in eighths of
// that, so that all up to 2^48 have one.
func fifthRoot(x int64) int64 {
	grain := int64(1)
	if x < 1<<33 {
		x <<= 30
	} else {
		x, grain = x<<15, 8
	}
	root := int64(0)
	for bit := int64(1) << 12; bit > 0; bit /= 2 {
		if r := root | bit; r*r*r*r <= x/r {
			root = r
		}
	}
	return root * grain
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
