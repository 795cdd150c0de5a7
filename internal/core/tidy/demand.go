package tidy

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Improve finds the move by which those who are expected to come will put the most more
// to use, and carries it out; nil where none is worth its price. A pod moves once, so that
// an end comes.
func (s *Search) Improve() *Set {
	v := s.txn.View()
	var best *Set
	for _, id := range s.inOrder(nil) {
		if n := v.Node(id); !n.TakesWork() || len(n.Pods) == 0 || !s.hands.Still(id) {
			continue
		}
		pods := slices.Clone(v.Node(id).Pods)
		slices.SortFunc(pods, func(a, b cluster.PodID) int {
			return cmp.Or(cmp.Compare(v.Pod(a).Key, v.Pod(b).Key), cmp.Compare(a, b))
		})
		for _, pod := range pods {
			if s.GaveUp() {
				break
			}
			if !s.stood(pod, id) || !s.hands.Roomy(pod) {
				continue
			}
			price, ok := s.PriceOf(pod)
			if !ok {
				continue
			}
			set := s.improvement(pod, id, price)
			if set.Gain > set.Price && (best == nil || set.Gain-set.Price > best.Gain-best.Price || set.Gain-set.Price == best.Gain-best.Price && set.tie < best.tie) {
				best = set
			}
		}
	}
	if best == nil || !s.Move(best, func() bool { return true }) {
		return nil
	}
	return best
}

// improvement is what it comes to that one pod goes where it is best. Nothing changes.
func (s *Search) improvement(pod cluster.PodID, from cluster.NodeID, price int64) *Set {
	s.left--
	set := &Set{Node: from, Price: price, tie: chance.Fold(s.base.Pod(pod).Key, uint64(s.cycle.Seed))}
	set.Moves = []Move{{Pod: pod, From: from, Price: price}}
	s.hands.Attempt(func() bool {
		if !s.hands.Lift(pod) {
			return false
		}
		set.Worth = -s.hands.Worth(pod, from)
		if s.settle(set, anywhere) {
			set.Gain = quantity.MulDiv(set.Worth, int64(s.rules.Horizon), 1000*int64(moment.Second))
		}
		return false
	})
	return set
}
