package yield

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/share"
)

// bar is what is known of whether queues in a scope are above their shares.
type bar uint8

const (
	barUnclear  bar = iota + 1
	barNobody       // no queue is
	barSomebody     // some queue is, and all above it
)

// Barred says whether nobody at all may give way to a taker: no queue is above its
// share that the taker is entitled to, and no priority is lower. It goes by what was so
// when it was first asked.
func (s *Search) Barred(t *Taker) bool {
	if s.outranks(t) {
		return false
	}
	if s.standing == nil {
		return true
	}
	scope := s.standing.ScopeOf(s.txn.View(), t.Queue, &t.Need)
	if scope.Nobody() {
		return true
	}
	of := reach{of: s.dimsOf(t), scope: scope.Row()}
	if s.bars[of] == 0 {
		s.bars[of] = s.barOf(t, scope)
	}
	switch s.bars[of] {
	case barNobody:
		return true
	case barSomebody:
		return false
	}
	return !s.standing.Reclaims(s.txn.View(), t.Queue, &t.Need)
}

// outranks says whether somebody may be of a lower grade than a taker, in its queue.
func (s *Search) outranks(t *Taker) bool {
	if t.Priority > s.base.LowestPriority {
		return true
	}
	if len(s.rules.Tiers) == 0 || s.rules.PrioritiesAlone {
		return false
	}
	if s.lowest == nil {
		s.lowest = make(map[cluster.QueueID]Grade)
		for i := range s.base.Nodes.Len() {
			for _, id := range s.base.Node(cluster.NodeID(i)).Pods {
				p := s.base.Pod(id)
				if !s.evictable(p) {
					continue
				}
				g := s.rules.GradeOf(&s.base.View, p, s.cycle.Now)
				if least, known := s.lowest[p.Spec.Queue]; !known || g < least {
					s.lowest[p.Spec.Queue] = g
				}
			}
		}
	}
	least, known := s.lowest[t.Queue]
	return known && least < t.Grade
}

func (s *Search) dimsOf(t *Taker) (mask uint64) {
	if t.Need.Milli > 0 {
		mask = 1
	}
	for d := range t.Need.Rest.Dims() {
		if t.Need.Rest.At(d) > 0 {
			mask |= 2 << (uint(d) % 62)
		}
	}
	return mask
}

func (s *Search) barOf(t *Taker, scope share.Scope) bar {
	v, out := s.txn.View(), barNobody
	for _, q := range s.queues() {
		if !scope.Has(q) || !s.standing.Over(v, q, &t.Need) {
			continue
		}
		if above, _ := s.standing.Above(v, t.Queue, q, &t.Need, &t.Need); above && !scope.Near(q) {
			return barSomebody
		}
		out = barUnclear
	}
	return out
}

// mostGuards bounds the nodes that one cycle looks at for what is guarded: where more
// would have to be looked at, nothing is said of it.
const mostGuards = 20_000

// Guarded counts the nodes where room could be made, if it were not for budgets and
// for protection.
func (s *Search) Guarded(t *Taker) int32 {
	v, n := s.txn.View(), int32(0)
	if s.guarded == nil {
		s.guarded = []cluster.NodeID{}
		for i := range v.Nodes.Len() {
			if s.stockOf(cluster.NodeID(i)).guarded {
				s.guarded = append(s.guarded, cluster.NodeID(i))
			}
		}
	}
	for _, id := range s.guarded {
		node := v.Node(id)
		if !node.TakesWork() || len(node.Pods) == 0 {
			continue
		}
		if s.guards++; s.guards > mostGuards {
			return 0
		}
		if !s.open(t.Check(id)) {
			continue
		}
		sum, guarded, counted := cluster.Amount{}, false, make(map[cluster.BudgetID]int32)
		for _, pod := range node.Pods {
			p := s.base.Pod(pod)
			if p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning || p.Intent != cluster.None || !s.lesser(p, t) {
				continue
			}
			guarded = guarded || !s.evictable(p) || !s.bears(p, counted)
			sum = sum.Plus(&cluster.Amount{Milli: p.Placement.Milli(), Rest: v.Shape(p.Placement.Shape).Need})
		}
		if guarded && s.suffices(id, t, &sum) {
			n++
		}
	}
	return n
}

// lesser says whether a pod would have to give way to the taker, by priorities and
// shares alone.
func (s *Search) lesser(p *cluster.Pod, t *Taker) bool {
	if p.Spec.Queue == t.Queue || s.rules.PrioritiesAlone {
		return s.rules.GradeOf(&s.base.View, p, s.cycle.Now) < t.Grade
	}
	if s.standing == nil || !s.standing.Entitled(s.txn.View(), t.Queue, p.Spec.Queue, &t.Need) {
		return false
	}
	gives := cluster.Amount{Milli: p.Placement.Milli(), Rest: s.base.Shape(p.Placement.Shape).Need}
	above, _ := s.standing.Above(s.txn.View(), t.Queue, p.Spec.Queue, &t.Need, &gives)
	return above
}
