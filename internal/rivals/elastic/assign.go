package elastic

import (
	"math"
	"slices"
)

// Assignment is a problem: one option or none for each job, at the least sum of
// costs, within the GPUs of each type.
type Assignment struct {
	Room     []int // by type
	Unserved int   // cost of none
	Jobs     []Choices
}

// Choices are the options of one job. Must says that the first is taken.
type Choices struct {
	Must    bool
	Options []Option
}

// Option is so many GPUs of a type, at a cost.
type Option struct{ Type, GPUs, Cost int }

// Solution is what a search found.
type Solution struct {
	Chosen []int // option of each job, -1 is none
	Cost   int
	// Bound is a proven least cost: equal to Cost, the solution is optimal.
	Bound int
	// Nodes are the hypotheses that the search looked at.
	Nodes int
}

// Gap is the part of the cost that is not proven to be needed.
func (s Solution) Gap() float64 {
	if s.Cost <= s.Bound {
		return 0
	}
	return float64(s.Cost-s.Bound) / float64(s.Cost)
}

// Solve searches by branch and bound. Prices for the GPUs of each type give a lower
// bound and, by what an option costs above the best of its job at these prices,
// the order in which to try. effort bounds the hypotheses looked at.
func (a *Assignment) Solve(effort int) Solution {
	s := &search{a: a, chosen: make([]int, len(a.Jobs)), room: slices.Clone(a.Room), effort: effort}
	for j := range a.Jobs {
		s.chosen[j] = -1
		if a.Jobs[j].Must {
			o := a.Jobs[j].Options[0]
			s.chosen[j], s.fixed = 0, s.fixed+o.Cost
			s.room[o.Type] -= o.GPUs
			continue
		}
		s.open = append(s.open, j)
	}
	s.root = slices.Clone(s.room)
	s.prices()
	s.first()
	s.branchAll()
	bound := s.best
	if s.spent >= s.effort {
		bound = min(bound, s.fixed+int(math.Ceil(s.bound-tolerance)))
	}
	return Solution{Chosen: s.winner, Cost: s.best, Bound: bound, Nodes: s.spent}
}

// tolerance is of sums of costs and prices.
const tolerance = 1e-6

type search struct {
	a      *Assignment
	open   []int // jobs that are not fixed
	fixed  int   // cost of those that are
	root   []int // room for the open ones
	room   []int
	chosen []int

	price []float64 // of a GPU of each type
	bound float64   // of the open ones

	winner []int
	best   int

	items  []item
	most   [][]int // by item and type: GPUs that it and later ones can take
	effort int
	spent  int
	// seen holds, for items left and room, the least excess that came there: whoever
	// comes with more finds nothing better.
	seen map[place]float64
}

// place is an item to decide with the room that is left by then. Clusters of more
// types are searched without it.
type place struct {
	item, from int32
	room       [mostSeen]int32
}

const mostSeen = 6

// item is an open job with its options in the order of what they cost above the
// best at the prices.
type item struct {
	job     int
	options []excess
	alike   bool // to the item before
}

type excess struct {
	option int // -1: none
	above  float64
	cost   int
	typ    int
	gpus   int
}

// at is the option's cost at the prices.
func (s *search) at(o Option) float64 { return float64(o.Cost) + s.price[o.Type]*float64(o.GPUs) }

// cheapest is the best option of a job at the prices, -1 for none.
func (s *search) cheapest(j int) (best int, cost float64) {
	best, cost = -1, float64(s.a.Unserved)
	for i, o := range s.a.Jobs[j].Options {
		if c := s.at(o); c < cost-tolerance {
			best, cost = i, c
		}
	}
	return best, cost
}

// priceSteps is how often prices are moved. Some 200 bring the bound within a
// hundredth of its best on the published workloads.
const priceSteps = 250

// prices moves prices along what demand exceeds room by, and keeps those of the
// best bound.
func (s *search) prices() {
	types := len(s.root)
	s.price = make([]float64, types)
	best := slices.Clone(s.price)
	s.bound = math.Inf(-1)
	used := make([]int, types)
	goal, scale, stale := 0.0, 1.5, 0
	for step := range priceSteps {
		value := 0.0
		clear(used)
		for _, j := range s.open {
			o, cost := s.cheapest(j)
			value += cost
			if o >= 0 {
				used[s.a.Jobs[j].Options[o].Type] += s.a.Jobs[j].Options[o].GPUs
			}
		}
		square := 0.0
		for t := range used {
			value -= s.price[t] * float64(s.root[t])
			over := float64(used[t] - s.root[t])
			if over > 0 || s.price[t] > 0 {
				square += over * over
			}
		}
		if value > s.bound+tolerance {
			s.bound, stale = value, 0
			copy(best, s.price)
		} else if stale++; stale >= 10 {
			scale, stale = scale/2, 0
			copy(s.price, best)
		}
		if step == 0 {
			goal = float64(s.a.Unserved * len(s.open)) // what serving nobody costs
		}
		if square == 0 || scale < 1e-4 {
			break
		}
		length := scale * (math.Min(goal, s.bound*1.02+5) - value) / square
		for t := range used {
			s.price[t] = math.Max(0, s.price[t]+length*float64(used[t]-s.root[t]))
		}
	}
	copy(s.price, best)
}

// first makes a solution to start from: the best options at the prices, less where
// they do not fit, then whatever still pays.
func (s *search) first() {
	for _, j := range s.open {
		o, _ := s.cheapest(j)
		s.take(j, o)
	}
	for t := range s.room {
		for s.room[t] < 0 {
			s.give(t)
		}
	}
	for s.gain() {
	}
	s.best = s.cost()
	s.winner = slices.Clone(s.chosen)
}

// take gives a job an option instead of the one it has.
func (s *search) take(j, option int) {
	if old := s.chosen[j]; old >= 0 {
		s.room[s.a.Jobs[j].Options[old].Type] += s.a.Jobs[j].Options[old].GPUs
	}
	if s.chosen[j] = option; option >= 0 {
		s.room[s.a.Jobs[j].Options[option].Type] -= s.a.Jobs[j].Options[option].GPUs
	}
}

func (s *search) costOf(j, option int) int {
	if option < 0 {
		return s.a.Unserved
	}
	return s.a.Jobs[j].Options[option].Cost
}

// give frees GPUs of a type where it costs least for each.
func (s *search) give(t int) {
	job, option, least := -1, 0, math.Inf(1)
	for _, j := range s.open {
		if s.chosen[j] < 0 || s.a.Jobs[j].Options[s.chosen[j]].Type != t {
			continue
		}
		now := s.a.Jobs[j].Options[s.chosen[j]]
		for o := -1; o < len(s.a.Jobs[j].Options); o++ {
			freed := now.GPUs
			if o >= 0 {
				to := s.a.Jobs[j].Options[o]
				if to.Type == t {
					freed -= to.GPUs
				} else if s.room[to.Type] < to.GPUs {
					continue
				}
			}
			if freed <= 0 {
				continue
			}
			each := float64(s.costOf(j, o)-now.Cost) / float64(min(freed, -s.room[t]))
			if each < least {
				job, option, least = j, o, each
			}
		}
	}
	s.take(job, option)
}

// gain makes the change of one job that fits and lowers the cost most.
func (s *search) gain() bool {
	job, option, most := -1, 0, 0
	for _, j := range s.open {
		now := s.chosen[j]
		for o, to := range s.a.Jobs[j].Options {
			room := s.room[to.Type]
			if now >= 0 && s.a.Jobs[j].Options[now].Type == to.Type {
				room += s.a.Jobs[j].Options[now].GPUs
			}
			if less := s.costOf(j, now) - to.Cost; less > most && to.GPUs <= room {
				job, option, most = j, o, less
			}
		}
	}
	if job < 0 {
		return false
	}
	s.take(job, option)
	return true
}

func (s *search) cost() int {
	sum := s.fixed
	for _, j := range s.open {
		sum += s.costOf(j, s.chosen[j])
	}
	return sum
}

// branchAll lists what may still be better than the first solution, and tries it.
func (s *search) branchAll() {
	slack := float64(s.best-s.fixed-1) - s.bound
	if slack < -tolerance {
		return // the first solution is proven
	}
	for _, j := range s.open {
		_, least := s.cheapest(j)
		it := item{job: j}
		add := func(option int, at float64, cost, typ, gpus int) {
			if above := at - least; above <= slack+tolerance {
				it.options = append(it.options, excess{option, max(above, 0), cost, typ, gpus})
			}
		}
		for i, o := range s.a.Jobs[j].Options {
			add(i, s.at(o), o.Cost, o.Type, o.GPUs)
		}
		add(-1, float64(s.a.Unserved), s.a.Unserved, 0, 0)
		slices.SortStableFunc(it.options, func(x, y excess) int {
			if x.above < y.above-tolerance {
				return -1
			}
			if y.above < x.above-tolerance {
				return 1
			}
			return x.cost - y.cost
		})
		s.items = append(s.items, it)
	}
	// Jobs with few ways first; alike ones side by side, so that their order need be
	// tried only once.
	slices.SortStableFunc(s.items, func(x, y item) int {
		if d := len(x.options) - len(y.options); d != 0 {
			return d
		}
		return slices.CompareFunc(x.options, y.options, compareExcess)
	})
	for i := 1; i < len(s.items); i++ {
		s.items[i].alike = slices.EqualFunc(s.items[i].options, s.items[i-1].options, func(x, y excess) bool { return compareExcess(x, y) == 0 })
	}
	s.most = make([][]int, len(s.items)+1)
	s.most[len(s.items)] = make([]int, len(s.root))
	for i := len(s.items) - 1; i >= 0; i-- {
		most := slices.Clone(s.most[i+1])
		takes := make([]int, len(s.root))
		for _, o := range s.items[i].options {
			takes[o.typ] = max(takes[o.typ], o.gpus)
		}
		for t := range most {
			most[t] += takes[t]
		}
		s.most[i] = most
	}
	copy(s.room, s.root)
	s.seen = map[place]float64{}
	s.branch(0, 0, 0, 0)
}

func compareExcess(x, y excess) int {
	if d := x.typ - y.typ; d != 0 {
		return d
	}
	if d := x.gpus - y.gpus; d != 0 {
		return d
	}
	return x.cost - y.cost
}

// branch tries the options of an item in turn. above is the excess so far, cost the
// cost, from the first option to try.
func (s *search) branch(i int, above float64, cost, from int) {
	if s.spent >= s.effort {
		return
	}
	s.spent++
	// GPUs that nobody can take any more are paid for in the bound, for nothing.
	idle := 0.0
	for t, room := range s.room {
		if left := room - s.most[i][t]; left > 0 {
			idle += float64(left) * s.price[t]
		}
	}
	if s.bound+above+idle > float64(s.best-s.fixed-1)+tolerance {
		return
	}
	if s.worse(i, from, above) {
		return
	}
	if i == len(s.items) {
		s.best = s.fixed + cost
		copy(s.winner, s.chosen)
		return
	}
	it := &s.items[i]
	for k := from; k < len(it.options); k++ {
		o := it.options[k]
		if s.bound+above+o.above > float64(s.best-s.fixed-1)+tolerance {
			break
		}
		if o.gpus > 0 && s.room[o.typ] < o.gpus {
			continue
		}
		next := 0
		if i+1 < len(s.items) && s.items[i+1].alike {
			next = k
		}
		s.room[o.typ] -= o.gpus
		s.chosen[it.job] = o.option
		s.branch(i+1, above+o.above, cost+o.cost, next)
		s.room[o.typ] += o.gpus
	}
}

// worse says that the same items and room were come to with no more excess.
func (s *search) worse(i, from int, above float64) bool {
	if len(s.room) > mostSeen {
		return false
	}
	at := place{item: int32(i), from: int32(from)}
	for t, room := range s.room {
		at.room[t] = int32(room)
	}
	if least, seen := s.seen[at]; seen && above >= least-tolerance {
		return true
	}
	s.seen[at] = above
	return false
}
