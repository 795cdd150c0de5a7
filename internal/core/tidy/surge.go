package tidy

import (
	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A pod whose owner says so is replaced: another starts elsewhere, and it goes then. That
// loses no work and takes nothing from a disruption budget; it takes room for two.

// Surges says whether a pod that moves is replaced by another that starts first.
func (s *Search) Surges(p *cluster.Pod) bool {
	return s.rules.Surge && p.Spec.Surges && p.Spec.Owner != 0
}

// overlap is what it costs that two are there: what the pod holds, for as long as the next
// one takes to be as good.
func (s *Search) overlap(p *cluster.Pod) int64 {
	span := s.rules.WarmUp
	if j := s.base.JobOf(p); j != nil && j.Checkpoint.Restart > 0 {
		span = j.Checkpoint.Restart
	}
	return quantity.MulDiv(int64(p.Placement.Milli()), int64(span), int64(moment.Second))
}

// roomForTwo says whether the limits of a pod's queue leave room for another like it, as
// long as both are there.
func (s *Search) roomForTwo(p *cluster.Pod) bool {
	ask := cluster.Amount{Milli: p.Placement.Milli(), Rest: s.base.Shape(p.Placement.Shape).Need}
	for q := p.Spec.Queue; q != cluster.None; q = s.base.Queue(q).Parent {
		if _, over := s.base.Queue(q).Exceeds(&ask); over {
			return false
		}
	}
	return true
}

// Alike says whether all who move are replaced, or none is: who is evicted at once would
// have gone for nothing where another is not replaced after all.
func (s *Search) Alike(moves []Move) bool {
	for i := range moves {
		if s.Surges(s.base.Pod(moves[i].Pod)) != s.Surges(s.base.Pod(moves[0].Pod)) {
			return false
		}
	}
	return true
}

// Key names a set of moves, by who moves.
func (s *Set) Key(v *cluster.Snapshot) uint64 {
	key := uint64(0)
	for i := range s.Moves {
		key += chance.Mix(v.Pod(s.Moves[i].Pod).Key)
	}
	return chance.Mix(key) | 1
}
