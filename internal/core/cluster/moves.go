package cluster

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Pods that run are moved now and then. How many may be within an hour is a rule of the
// policy; how many were is a fact, which outlives the pods.

// MovesKept is for how long moves are remembered.
const MovesKept = moment.Hour

// MovedSince counts the pods that were told to move within a span before an instant, of
// at most MovesKept.
func (v *View) MovedSince(now moment.Instant, span moment.Span) (n int32) {
	for i := len(v.moves) - 1; i >= 0 && now.Since(v.moves[i]) < span; i-- {
		n++
	}
	return n
}

// NoteMove says that a pod is told to move at an instant, which is not before that of the
// last. The list is never changed in place.
func (l *Ledger) NoteMove(at moment.Instant) {
	first := 0
	for first < len(l.moves) && at.Since(l.moves[first]) >= MovesKept {
		first++
	}
	l.moves = appended(l.moves[first:], at)
}

func (v *View) movesDigest(h uint64) uint64 {
	for _, at := range v.moves {
		h = chance.Hash(37, h, uint64(at))
	}
	return h
}

// moved checks that moves are in order.
func (a *audit) moved() error {
	for i, at := range a.view.moves {
		if at < 0 || i > 0 && at < a.view.moves[i-1] {
			return fmt.Errorf("audit: move %d at %v comes after one at %v", i, at, a.view.moves[max(i-1, 0)])
		}
	}
	return nil
}
