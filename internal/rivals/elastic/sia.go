package elastic

import (
	"cmp"
	"math"
	"slices"
)

// Constants of the paper and its artefact.
const (
	siaPower    = -0.5 // of the normalised goodput
	siaUnserved = 110  // hundredths, for a job that gets nothing
	siaCent     = 100  // costs are rounded to hundredths
	siaEffort   = 200_000
)

// siaRestart is the cost in seconds that the policy assumes of a restart.
func siaRestart(kind string) float64 {
	switch kind {
	case "deepspeech2":
		return 25
	case "imagenet":
		return 250
	case "bert":
		return 120
	case "yolov3":
		return 45
	}
	return 30
}

// sia chooses for each job one configuration (so many GPUs of a type): the sum of
// powers of normalised goodputs is least, solved by branch and bound each round.
type sia struct {
	cluster Cluster
	sizes   [][]int // by type, ascending
	gap     float64
	// seen, if set, is shown every problem with its solution.
	seen func(*Assignment, Solution)
}

func newSia(c Cluster) *sia {
	p := &sia{cluster: c}
	for _, t := range c {
		p.sizes = append(p.sizes, t.Sizes(siaLargest))
	}
	return p
}

// siaLargest is the most GPUs of one configuration.
const siaLargest = 64

// Sizes are powers of two within a node of the type, then whole nodes, up to the most.
func (t Type) Sizes(most int) []int {
	var sizes []int
	for n := 1; n < t.PerNode; n *= 2 {
		sizes = append(sizes, n)
	}
	for n := t.PerNode; n <= min(t.GPUs(), most); n += t.PerNode {
		sizes = append(sizes, n)
	}
	return sizes
}

// Gap is the largest relative gap that a round's search left.
func (p *sia) Gap() float64 { return p.gap }

// Round is the policy.
func (p *sia) Round(_ int64, jobs []Job) []Seat {
	a := Assignment{Unserved: siaUnserved}
	for _, t := range p.cluster {
		a.Room = append(a.Room, t.GPUs())
	}
	for i := range jobs {
		a.Jobs = append(a.Jobs, p.choices(&jobs[i]))
	}
	s := a.Solve(siaEffort)
	p.gap = max(p.gap, s.Gap())
	if p.seen != nil {
		p.seen(&a, s)
	}
	return p.seats(jobs, &a, s)
}

// choices are the configurations of a job that are better than none.
func (p *sia) choices(j *Job) Choices {
	if j.Restarting {
		return Choices{Must: true, Options: []Option{{j.Seat.Type, len(j.Seat.Nodes), siaCent}}}
	}
	var options []Option
	var values []float64
	least := math.Inf(1)
	for t, typ := range p.cluster {
		for _, gpus := range p.sizes[t] {
			if gpus > j.Most || !j.Tried && gpus > 1 {
				break
			}
			value := 1.0
			if j.Tried {
				rate, ok := j.Goodput(t, (gpus+typ.PerNode-1)/typ.PerNode, gpus)
				if !ok || rate <= 0 {
					continue
				}
				value = rate
			}
			options, values = append(options, Option{Type: t, GPUs: gpus}), append(values, value)
			least = min(least, value)
		}
	}
	move := p.moving(j)
	kept := options[:0]
	for i, o := range options {
		value := values[i] / least
		if !j.Seat.Empty() && (o.Type != j.Seat.Type || o.GPUs != len(j.Seat.Nodes)) {
			value *= move
		}
		if cost := math.RoundToEven(math.Pow(value, siaPower) * siaCent); cost < siaUnserved { // a value of 0 costs +Inf
			o.Cost = int(cost)
			kept = append(kept, o)
		}
	}
	return Choices{Options: kept}
}

// moving is what is left of a goodput after a move: the part of its life that the
// job did not, and then will not, spend on restarts.
func (p *sia) moving(j *Job) float64 {
	age, cost := j.Age, siaRestart(j.Kind)
	if age < cost {
		return 1
	}
	return max(age-float64(j.Restarts)*cost, 0) / (age + cost)
}

// seats packs the chosen configurations, the largest first: sizes divide each other
// and the nodes, so that all fit.
func (p *sia) seats(jobs []Job, a *Assignment, s Solution) []Seat {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	size := func(i int) int {
		if s.Chosen[i] < 0 {
			return 0
		}
		return a.Jobs[i].Options[s.Chosen[i]].GPUs
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(size(y), size(x)) })
	seats := make([]Seat, len(jobs))
	free := make([][]int, len(p.cluster))
	for t, typ := range p.cluster {
		free[t] = slices.Repeat([]int{typ.PerNode}, typ.Nodes)
	}
	for _, i := range order {
		if s.Chosen[i] < 0 {
			continue
		}
		o := a.Jobs[i].Options[s.Chosen[i]]
		seats[i] = Seat{Type: o.Type, Nodes: firstFit(free[o.Type], o.GPUs, p.cluster[o.Type].PerNode)}
	}
	return seats
}

// firstFit takes whole nodes, or a part of the first node that has it free.
func firstFit(free []int, gpus, perNode int) []int {
	var nodes []int
	for n := range free {
		take := min(gpus-len(nodes), perNode)
		if take == 0 {
			break
		}
		if free[n] >= take {
			free[n] -= take
			nodes = append(nodes, slices.Repeat([]int{n}, take)...)
		}
	}
	return nodes
}
