package yield

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Shares is a court that goes by compute alone: each queue has what it deserves, up to
// what its pods ask for, and by weight a part of what the others leave. It is drawn from
// a snapshot and stands for a cycle: pods that are told to go, or evicted in it, ask for
// as much as before.
type Shares struct {
	fair    []quantity.MilliGPU // by queue
	leaving []quantity.MilliGPU // by queue: charged to pods that were on their way out already
	outside quantity.MilliGPU   // the share of pods without a queue
	inside  quantity.MilliGPU   // what pods without a queue hold, in the snapshot
	free    quantity.MilliGPU   // of all nodes, and
	queued  quantity.MilliGPU   // held in queues, in the snapshot
}

// claim is one party to a division.
type claim struct {
	queue            cluster.QueueID // None: pods right in the parent
	weight, deserved int64
	demand, gets     int64
}

// NewShares divides the compute of the nodes among the queues of a view.
func NewShares(v *cluster.View) *Shares {
	n := v.Queues.Len()
	s := &Shares{fair: make([]quantity.MilliGPU, n), leaving: make([]quantity.MilliGPU, n)}
	demand, own := make([]int64, n), make([]int64, n)
	outside := int64(0)
	for i := range v.Pods.Len() {
		p := v.Pod(cluster.PodID(i))
		if p.Phase == cluster.PhaseGone {
			continue
		}
		milli := v.Shape(p.Spec.Shape).Milli() // whatever it has now: shares do not move with places
		if p.Spec.Queue == cluster.None {
			if outside += int64(milli); p.Phase.Charged() && p.Phase != cluster.PhaseTerminating {
				s.inside += p.Placement.Milli()
			}
			continue
		}
		own[p.Spec.Queue] += int64(milli)
		for q := p.Spec.Queue; q != cluster.None; q = v.Queues.At(int32(q)).Parent {
			demand[q] += int64(milli)
			if p.Phase == cluster.PhaseTerminating {
				s.leaving[q] += p.Placement.Milli()
			}
		}
	}
	for i := range demand {
		if limit := v.Queues.At(int32(i)).LimitMilli; limit > 0 {
			demand[i] = min(demand[i], int64(limit))
		}
	}
	capacity := int64(0)
	for i := range v.Nodes.Len() {
		if node := v.Node(cluster.NodeID(i)); node.TakesWork() {
			capacity += int64(node.Spec.DeviceCount) * int64(quantity.WholeGPU)
		}
	}
	s.free, s.queued = amounts(v)
	s.divide(v, cluster.None, capacity, demand, own, outside)
	return s
}

// divide gives the children of a queue their parts, and those below them theirs.
func (s *Shares) divide(v *cluster.View, parent cluster.QueueID, amount int64, demand, own []int64, direct int64) {
	claims := []claim{{queue: cluster.None, weight: int64(quantity.One), demand: direct}}
	for i := range v.Queues.Len() {
		if q := v.Queues.At(int32(i)); q.Parent == parent {
			claims = append(claims, claim{queue: cluster.QueueID(i), weight: int64(q.Weight), deserved: int64(q.DeservedMilli), demand: demand[i]})
		}
	}
	share(claims, amount)
	for i := range claims {
		c := &claims[i]
		if c.queue == cluster.None {
			if parent == cluster.None {
				s.outside = quantity.MilliGPU(c.gets)
			}
			continue
		}
		s.fair[c.queue] = quantity.MilliGPU(c.gets)
		s.divide(v, c.queue, c.gets, demand, own, own[c.queue])
	}
}

// share divides an amount: first what is deserved and asked for, then the rest by
// weight among those who ask for more, and to those of no weight last.
func share(claims []claim, amount int64) {
	base := int64(0)
	for i := range claims {
		c := &claims[i]
		c.gets = min(c.deserved, c.demand)
		base += c.gets
	}
	if base > amount {
		for i := range claims {
			claims[i].gets = quantity.MulDiv(claims[i].gets, amount, base)
		}
		return
	}
	rest := amount - base
	for _, weighty := range [...]bool{true, false} {
		rest = pour(claims, rest, weighty)
	}
}

func pour(claims []claim, rest int64, weighty bool) int64 {
	weightOf := func(c *claim) int64 {
		switch {
		case c.gets >= c.demand || (c.weight > 0) != weighty:
			return 0
		case weighty:
			return c.weight
		}
		return 1
	}
	for rest > 0 {
		sum := int64(0)
		for i := range claims {
			sum += weightOf(&claims[i])
		}
		if sum == 0 {
			break
		}
		// Those who would get more than they ask for are served first.
		given, capped := int64(0), false
		for i := range claims {
			c := &claims[i]
			if w := weightOf(c); w > 0 && c.demand-c.gets <= quantity.MulDiv(rest, w, sum) {
				given += c.demand - c.gets
				c.gets, capped = c.demand, true
			}
		}
		if capped {
			rest -= min(given, rest)
			continue
		}
		for i := range claims {
			c := &claims[i]
			if w := weightOf(c); w > 0 {
				part := quantity.MulDiv(rest, w, sum)
				c.gets += part
				given += part
			}
		}
		return 0
	}
	return rest
}

// Fair is the share of a queue; of None, that of pods without one.
func (s *Shares) Fair(q cluster.QueueID) quantity.MilliGPU {
	if q == cluster.None {
		return s.outside
	}
	return s.fair[q]
}

// used is what a queue holds, without what is on its way out.
func (s *Shares) used(v *cluster.View, q cluster.QueueID) quantity.MilliGPU {
	if q == cluster.None {
		// What is not free and in no queue; nobody counts it.
		free, queued := amounts(v)
		return s.inside - (free - s.free) - (queued - s.queued)
	}
	return v.Queues.At(int32(q)).UsedMilli - s.leaving[q]
}

// amounts is what is free on all nodes, and what is held in queues.
func amounts(v *cluster.View) (free, queued quantity.MilliGPU) {
	for i := range v.Classes.Len() {
		free += v.Classes.At(int32(i)).Totals.FreeMilli
	}
	for i := range v.Queues.Len() {
		if q := v.Queues.At(int32(i)); q.Parent == cluster.None {
			queued += q.UsedMilli
		}
	}
	return free, queued
}

// apart returns the queues of one and of the other below what they have in common, from
// the inside out.
func apart(v *cluster.View, a, b cluster.QueueID) (of, other []cluster.QueueID) {
	of, other = chain(v, a), chain(v, b)
	for len(of) > 0 && len(other) > 0 && of[len(of)-1] == other[len(other)-1] {
		of, other = of[:len(of)-1], other[:len(other)-1]
	}
	return of, other
}

func chain(v *cluster.View, q cluster.QueueID) []cluster.QueueID {
	if q == cluster.None {
		return []cluster.QueueID{cluster.None}
	}
	var out []cluster.QueueID
	for ; q != cluster.None; q = v.Queues.At(int32(q)).Parent {
		out = append(out, q)
	}
	return out
}

// Within says whether a queue and those above it stay within their shares with so much
// more.
func (s *Shares) Within(v *cluster.View, queue cluster.QueueID, milli quantity.MilliGPU) bool {
	return !slices.ContainsFunc(chain(v, queue), func(q cluster.QueueID) bool { return s.used(v, q)+milli > s.Fair(q) })
}

// Entitled implements Court.
func (s *Shares) Entitled(v *cluster.View, taker, victim cluster.QueueID, need *Amount) bool {
	own, other := apart(v, taker, victim)
	return len(own) > 0 && len(other) > 0 && !slices.ContainsFunc(own, func(q cluster.QueueID) bool {
		return s.used(v, q)+need.Milli > s.Fair(q)
	})
}

// Above implements Court.
func (s *Shares) Above(v *cluster.View, taker, victim cluster.QueueID, gives *Amount) (above, stays bool) {
	own, other := apart(v, victim, taker)
	above, stays = len(own) > 0 && len(other) > 0, true
	for _, q := range own {
		used, fair := s.used(v, q), s.Fair(q)
		above = above && used > fair
		stays = stays && used-gives.Milli >= fair
	}
	return above, stays
}

// Potential is how far queues are above their shares, in all. It falls with each set
// that goes for somebody who is within his own.
func (s *Shares) Potential(v *cluster.View) int64 {
	sum := int64(0)
	for i := range s.fair {
		q := cluster.QueueID(i)
		sum += int64(max(s.used(v, q)-s.fair[i], 0))
	}
	return sum
}
