package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// bars remembers to whom nobody may give way, as the cycle stands before anybody has.
type bars struct {
	*round
	known map[graded]bool // of those with no more than the lowest priority
}

// graded names takers that ask for the same and are of one grade.
type graded struct {
	ask
	grade yield.Grade
}

// barred says whether nobody may give way to a pod, nor to any of the unit without
// which it gets no place.
func (b *bars) barred(pod cluster.PodID) bool {
	unit := b.waitingUnit(pod)
	if unit == cluster.None {
		return b.alone(pod)
	}
	for _, member := range b.squads[unit].members {
		if !b.alone(member) {
			return false
		}
	}
	return true
}

// open counts those to whom somebody may.
func (b *bars) open(line []cluster.PodID) int {
	n := 0
	for _, pod := range line {
		if !b.barred(pod) {
			n++
		}
	}
	return n
}

func (b *bars) alone(pod cluster.PodID) bool {
	v := b.txn.View()
	spec := v.Pod(pod).Spec
	if spec.Priority > b.txn.Base().LowestPriority {
		return false
	}
	of := graded{ask{spec.Queue, spec.Shape}, b.grade(pod)}
	barred, known := b.known[of]
	if !known {
		if b.known == nil {
			b.known = make(map[graded]bool)
		}
		barred = b.ways.Barred(b.taker(pod))
		b.known[of] = barred
	}
	return barred
}
