package share

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Way is one configuration of an elastic job: so many GPUs of a class, with the rate
// of progress that is expected of it, in thousandths of the job's reference.
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
	// Restart is what a change costs; Left is what is left to do, as time at the
	// reference rate. Both in milliseconds.
	Restart, Left int64
}

// SizeRules are the constants of choosing sizes.
type SizeRules struct {
	// Horizon is how long a choice is expected to last, in milliseconds: a move must
	// pay for its restart within it.
	Horizon int64
	// Ahead is how many jobs are expected to come while a job runs: it weighs a
	// job's progress with the jobs that are not nearer to their end.
	Ahead int64
	// Margin is by how many thousandths a move must gain on staying.
	Margin int64
}

// DefaultSizeRules are those of docs/adr/0010.
func DefaultSizeRules() SizeRules {
	return SizeRules{Horizon: 600_000, Ahead: 1, Margin: 50}
}

// nobody is the choice of no way.
const nobody = -1

// Sizes chooses a way, or none (-1), for each job, within the GPUs of each class.
//
// The sum of completion times falls by the progress of a job times the jobs that
// wait for it: those that are not nearer to their end, itself among them. That
// weighted progress is what a choice is worth over the horizon, less what the
// restart eats; the sum of worths is made as large as can be found.
func Sizes(room []int64, jobs []Sizing, rules SizeRules) []int {
	c := &chooser{room: slices.Clone(room), jobs: jobs, chosen: make([]int, len(jobs)), worth: make([][]int64, len(jobs))}
	ranks := waiting(jobs)
	for j := range jobs {
		c.chosen[j] = nobody
		c.worth[j] = rules.worths(&jobs[j], ranks[j]+rules.Ahead)
		if jobs[j].Fixed {
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

// waiting counts for each job those that are no nearer to their end, itself
// included.
func waiting(jobs []Sizing) []int64 {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if jobs[a].Left != jobs[b].Left {
			if jobs[a].Left < jobs[b].Left {
				return -1
			}
			return 1
		}
		return compareKeys(jobs[a].Key, jobs[b].Key, a, b)
	})
	ranks := make([]int64, len(jobs))
	for place, j := range order {
		ranks[j] = int64(len(jobs) - place)
	}
	return ranks
}

// worths is what each way of a job is worth: its rate, less the part of the horizon
// that a restart takes, times the weight.
func (r SizeRules) worths(j *Sizing, weight int64) []int64 {
	out := make([]int64, len(j.Ways))
	stay := int64(0)
	if j.Now != nobody {
		stay = j.Ways[j.Now].Rate
	}
	for i, w := range j.Ways {
		rate := w.Rate
		if i != j.Now {
			// The horizon ends with the job: what is left of it, at the way's rate.
			span := max(min(r.Horizon, quantity.MulDiv(j.Left, 1000, max(rate, 1))), 1) + j.Restart
			rate = quantity.MulDiv(rate, span-j.Restart, span)
			if j.Now != nobody && w.Rate*1000 < stay*(1000+r.Margin) && w.GPUs >= j.Ways[j.Now].GPUs {
				rate = min(rate, stay*999/1000)
			}
		}
		out[i] = rate * weight
	}
	return out
}

type chooser struct {
	room, start []int64
	jobs        []Sizing
	open        []int // jobs that are not fixed, in the order of ties
	chosen      []int
	worth       [][]int64
	price       []int64 // of a GPU of each class, in worth × priceScale
}

// priceScale is the grain of prices below worths.
const priceScale = 1 << 10

func (c *chooser) take(j, way int) {
	if old := c.chosen[j]; old != nobody {
		w := c.jobs[j].Ways[old]
		c.room[w.Class] += int64(w.GPUs)
	}
	if c.chosen[j] = way; way != nobody {
		w := c.jobs[j].Ways[way]
		c.room[w.Class] -= int64(w.GPUs)
	}
}

// best is the way of most worth above its price; the one in force on ties.
func (c *chooser) best(j int) (way int, net int64) {
	way, net = nobody, 0
	try := func(i int) {
		w := c.jobs[j].Ways[i]
		if n := c.worth[j][i]*priceScale - c.price[w.Class]*int64(w.GPUs); n > net {
			way, net = i, n
		}
	}
	if now := c.jobs[j].Now; now != nobody {
		try(now)
	}
	for i := range c.jobs[j].Ways {
		try(i)
	}
	return way, net
}

// priceSteps is how often prices are moved; halvings of the step end it earlier.
const priceSteps = 300

// setPrices moves the prices of classes along what demand exceeds room by, and keeps
// those of the least bound on the worth of all.
func (c *chooser) setPrices() {
	classes := len(c.start)
	c.price = make([]int64, classes)
	kept := make([]int64, classes)
	lowest := int64(-1)
	// The first step is that of a GPU's mean worth.
	step := int64(1)
	gpus := int64(0)
	for _, room := range c.start {
		gpus += room
	}
	for _, j := range c.open {
		most := int64(0)
		for _, w := range c.worth[j] {
			most = max(most, w)
		}
		step += most
	}
	step = max(quantity.MulDiv(step, priceScale, max(gpus, 1)), 1)
	used := make([]int64, classes)
	for stale, n := 0, 0; n < priceSteps && step > 0; n++ {
		clear(used)
		bound := int64(0)
		for t, room := range c.start {
			bound += c.price[t] * room
		}
		for _, j := range c.open {
			way, net := c.best(j)
			bound += net
			if way != nobody {
				w := c.jobs[j].Ways[way]
				used[w.Class] += int64(w.GPUs)
			}
		}
		if lowest < 0 || bound < lowest {
			lowest, stale = bound, 0
			copy(kept, c.price)
		} else if stale++; stale >= 4 {
			step, stale = step/2, 0
			copy(c.price, kept)
			continue
		}
		still := true
		for t, room := range c.start {
			over := used[t] - room
			moved := max(0, c.price[t]+step*over/max(room, 1))
			if over > 0 && moved == c.price[t] {
				moved++
			}
			still = still && moved == c.price[t]
			c.price[t] = moved
		}
		if still {
			break
		}
	}
	copy(c.price, kept)
}

// settle takes the best ways at the prices, less where they do not fit, then
// whatever still pays.
func (c *chooser) settle() {
	for _, j := range c.open {
		way, _ := c.best(j)
		c.take(j, way)
	}
	for t := range c.room {
		for c.room[t] < 0 {
			c.shrink(t)
		}
	}
	for range len(c.open) * 8 {
		if !c.grow() {
			break
		}
	}
}

// shrink frees GPUs of a class where it costs least for each.
func (c *chooser) shrink(t int) {
	job, way, lost, freed := -1, nobody, int64(0), int64(1)
	for _, j := range c.open {
		now := c.chosen[j]
		if now == nobody || int(c.jobs[j].Ways[now].Class) != t {
			continue
		}
		for i := nobody; i < len(c.jobs[j].Ways); i++ {
			less, worth := int64(c.jobs[j].Ways[now].GPUs), int64(0)
			if i != nobody {
				w := c.jobs[j].Ways[i]
				worth = c.worth[j][i]
				if int(w.Class) == t {
					less -= int64(w.GPUs)
				} else if c.room[w.Class] < int64(w.GPUs) {
					continue
				}
			}
			if less <= 0 {
				continue
			}
			less = min(less, -c.room[t])
			if loss := c.worth[j][now] - worth; job < 0 || quantity.CompareProducts(loss, freed, lost, less) < 0 {
				job, way, lost, freed = j, i, loss, less
			}
		}
	}
	c.take(job, way)
}

// grow makes the change of one job that fits and gains most.
func (c *chooser) grow() bool {
	job, way, most := -1, nobody, int64(0)
	for _, j := range c.open {
		now := c.chosen[j]
		has := int64(0)
		if now != nobody {
			has = c.worth[j][now]
		}
		for i, w := range c.jobs[j].Ways {
			room := c.room[w.Class]
			if now != nobody && c.jobs[j].Ways[now].Class == w.Class {
				room += int64(c.jobs[j].Ways[now].GPUs)
			}
			if gain := c.worth[j][i] - has; gain > most && int64(w.GPUs) <= room {
				job, way, most = j, i, gain
			}
		}
	}
	if job < 0 {
		return false
	}
	c.take(job, way)
	return true
}
