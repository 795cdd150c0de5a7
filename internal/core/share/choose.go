package share

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// chooser is the search of Sizes.
type chooser struct {
	room, start []int64
	jobs        []Sizing
	open        []int // jobs that are not fixed, in the order of ties
	chosen      []int
	worth       [][]int64
	looked      int
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
// whatever still pays. Few jobs are also chosen for from nothing, the greatest gain
// first, and what is worth more stands.
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
	c.improve()
	if len(c.open) > fewJobs {
		return
	}
	first, worth := slices.Clone(c.chosen), c.sum()
	for _, j := range c.open {
		c.take(j, nobody)
	}
	c.looked = 0
	c.improve()
	if c.sum() <= worth {
		c.chosen = first
	}
}

// fewJobs bounds the jobs that are chosen for twice: from nothing, each growth looks
// at all ways of all jobs.
const fewJobs = 256

func (c *chooser) sum() int64 {
	sum := int64(0)
	for _, j := range c.open {
		sum += c.has(j)
	}
	return sum
}

func (c *chooser) improve() {
	for range len(c.open) * mostGrowths {
		if !c.grow() && !c.trade() {
			break
		}
	}
}

// mostGrowths bounds the changes that are made for gain, a job.
const mostGrowths = 8

// mostTrades bounds the pairs of changes that are looked at in one choice.
const mostTrades = 200_000

// trade makes the first pair of changes that fits together and gains: one job gets
// what it lacks room for, another makes it.
func (c *chooser) trade() bool {
	for _, j := range c.open {
		now := c.chosen[j]
		for i, w := range c.jobs[j].Ways {
			gain := c.worth[j][i] - c.has(j)
			if gain <= 0 {
				continue
			}
			lacks := int64(w.GPUs) - c.room[w.Class]
			if now != nobody && c.jobs[j].Ways[now].Class == w.Class {
				lacks -= int64(c.jobs[j].Ways[now].GPUs)
			}
			if k, m := c.partner(j, w.Class, lacks, gain); m != nowhere {
				c.take(k, m)
				c.take(j, i)
				return true
			}
			if c.looked > mostTrades {
				return false
			}
		}
	}
	return false
}

// nowhere says that there is no partner; nobody is the choice of no way.
const nowhere = -2

func (c *chooser) has(j int) int64 {
	if c.chosen[j] == nobody {
		return 0
	}
	return c.worth[j][c.chosen[j]]
}

// partner is the job that frees so many GPUs of a class at the least loss below a
// gain, and the way that it then has.
func (c *chooser) partner(j int, class int32, lacks, gain int64) (job, way int) {
	job, way = j, nowhere
	least := gain
	for _, k := range c.open {
		now := c.chosen[k]
		if k == j || now == nobody || c.jobs[k].Ways[now].Class != class {
			continue
		}
		for m := nobody; m < len(c.jobs[k].Ways); m++ {
			c.looked++
			freed, worth := int64(c.jobs[k].Ways[now].GPUs), int64(0)
			if m != nobody {
				w := c.jobs[k].Ways[m]
				worth = c.worth[k][m]
				if w.Class == class {
					freed -= int64(w.GPUs)
				} else if c.room[w.Class]+c.leaves(j, w.Class) < int64(w.GPUs) {
					continue
				}
			}
			if loss := c.has(k) - worth; freed >= lacks && loss < least {
				job, way, least = k, m, loss
			}
		}
	}
	return job, way
}

// leaves is what a job holds of a class.
func (c *chooser) leaves(j int, class int32) int64 {
	if now := c.chosen[j]; now != nobody && c.jobs[j].Ways[now].Class == class {
		return int64(c.jobs[j].Ways[now].GPUs)
	}
	return 0
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
		now, has := c.chosen[j], c.has(j)
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
