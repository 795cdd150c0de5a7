package tidy

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Empty finds the cheapest set of moves that leaves a node empty, and carries it out; nil
// where none is worth its price. Who moves goes where others are: each set leaves one
// more node empty, so that an end comes.
func (s *Search) Empty() *Set {
	all := s.leavable()
	for i := range all {
		if s.GaveUp() {
			return nil
		}
		s.left--
		if set := &all[i]; s.hands.Attempt(func() bool { return s.vacate(set) }) {
			s.note(set)
			return set
		}
	}
	return nil
}

// leavable lists what would have to move for each node to be empty, where that is worth
// it and everybody may, the cheapest first.
func (s *Search) leavable() []Set {
	v := s.txn.View()
	var out []Set
	for _, id := range s.inOrder(nil) {
		n := v.Node(id)
		if !n.TakesWork() || len(n.Pods) == 0 || len(n.Pods) > int(min(s.rules.AtOnce, s.allowed)) || !s.hands.Still(id) {
			continue
		}
		set := Set{Node: id, Gain: s.gainOfNode(n), tie: chance.Fold(n.Key, uint64(s.cycle.Seed))}
		stays := false
		for _, pod := range n.Pods {
			price, ok := s.PriceOf(pod)
			if !ok || !s.stood(pod, id) {
				stays = true
				break
			}
			set.Price += price
			set.Moves = append(set.Moves, Move{Pod: pod, From: id, Price: price})
		}
		if !stays && set.Price < set.Gain && s.bears(set.Moves) {
			out = append(out, set)
		}
	}
	slices.SortFunc(out, func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Price-a.Gain, b.Price-b.Gain), cmp.Compare(a.tie, b.tie), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// gainOfNode is what the devices of a node are worth as a whole, as far as anybody looks.
func (s *Search) gainOfNode(n *cluster.Node) int64 {
	return quantity.MulDiv(int64(n.Spec.DeviceCount)*int64(quantity.WholeGPU), int64(s.rules.Horizon), int64(moment.Second))
}

func (s *Search) vacate(set *Set) bool {
	return s.lift(set) && s.settle(set, func(node cluster.NodeID) bool { return len(s.base.Node(node).Pods) > 0 })
}

// bears says whether moves can be made together, and budgets bear them.
func (s *Search) bears(moves []Move) bool {
	if !s.Alike(moves) {
		return false
	}
	counted := make(map[cluster.BudgetID]int32)
	for i := range moves {
		p := s.base.Pod(moves[i].Pod)
		if b := s.base.BudgetOf(p); b != nil && !s.Surges(p) {
			if counted[p.Budget]++; s.spent[p.Budget]+counted[p.Budget] > b.Left {
				return false
			}
		}
	}
	return true
}

// largestFirst orders moves by what they need: the larger finds its place first.
func (s *Search) largestFirst(moves []Move) {
	slices.SortStableFunc(moves, func(a, b Move) int {
		x, y := s.base.Pod(a.Pod), s.base.Pod(b.Pod)
		return cmp.Or(-cmp.Compare(s.base.Shape(x.Spec.Shape).Milli(), s.base.Shape(y.Spec.Shape).Milli()), cmp.Compare(x.Key, y.Key), cmp.Compare(a.Pod, b.Pod))
	})
}
