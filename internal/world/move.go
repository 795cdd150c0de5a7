package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A pod that moves has its next place from the moment its eviction is accepted:
//
//	running ─▶ terminating, with room kept elsewhere ─▶ placing there ─▶ bound
//	   ▲            │                                        │
//	   └── refused ─┘ the room is given up                   └─ HoldDropped ─▶ waiting
//
// Nobody else gets that room meanwhile, so nobody is evicted for a move that then comes
// to nothing.

// mayMove refuses a move whose target is not free any more.
func (w *World) mayMove(d *decision.Decision) error {
	if d.Target == nil {
		return nil
	}
	place := &d.Target.Place
	if place.Node == d.Place.Node || place.Lease != nil {
		return fmt.Errorf("accept evict %s: its next place has to be on another node, and without a lease", w.ledger.Pod(d.Pod).Spec.Name)
	}
	if w.ledger.Pod(d.Pod).Spec.Owner == 0 && d.Target.Bind == 0 {
		return fmt.Errorf("accept evict %s: it has a next place, no decision that takes it there, and no heirs", w.ledger.Pod(d.Pod).Spec.Name)
	}
	if err := w.ledger.AdmitBeside(d.Pod, place); err != nil {
		return fmt.Errorf("accept evict %s, which moves: %w", w.ledger.Pod(d.Pod).Spec.Name, err)
	}
	return nil
}

// keep keeps the next place of a pod that is told to go, and counts the move.
func (w *World) keep(d *decision.Decision) {
	switch {
	case d.Target == nil:
	case w.ledger.Pod(d.Pod).Spec.Owner != 0:
		w.keepForHeir(d, false)
		w.ledger.NoteMove(w.now)
	default:
		target := *d.Target
		w.ledger.Keep(w.ledger.Pod(d.Pod).Intent, &target)
		w.ledger.NoteMove(w.now)
	}
}

// targetOf is where a pod that is told to go is to be next; nil where nothing is kept.
func (w *World) targetOf(id cluster.PodID) *cluster.Target {
	if in := w.intentOf(id, cluster.ActionEvict); in != nil {
		return in.Target
	}
	return nil
}

// arrives gives a pod that has left the room that was kept for it, unless somebody was found
// there meanwhile.
func (w *World) arrives(id cluster.PodID, t *cluster.Target) {
	if t == nil || !w.ledger.Holds(&t.Place) {
		return
	}
	w.ledger.Reserve(id, t.Place)
	w.addIntent(&decision.Decision{ID: t.Bind, Action: cluster.ActionHold, Pod: id, Place: t.Place, Deadline: t.Until})
}

// isOnItsWay says whether a decision binds a pod that is still to leave, to room that is
// kept for it.
func (w *World) isOnItsWay(d *decision.Decision) bool {
	if d.Action != cluster.ActionBind {
		return false
	}
	p, err := w.subject(d)
	if err != nil || p.Phase != cluster.PhaseTerminating {
		return false
	}
	t := w.targetOf(d.Pod)
	return t != nil && t.Bind == d.ID
}

// dropTargetsOn forgets what is kept on a node that goes.
func (w *World) dropTargetsOn(node cluster.NodeID) {
	for i := range w.ledger.Intents.Len() {
		if in := w.ledger.Intents.At(int32(i)); in.ID != 0 && in.Target != nil && in.Target.Place.Node == node {
			w.ledger.Unkeep(cluster.IntentID(i))
		}
	}
	w.dropLegaciesOn(node)
}

// MovesRecalled brings back when pods were told to move within the last hour.
type MovesRecalled struct{ At []moment.Instant }

func (e MovesRecalled) apply(w *World) error {
	last := moment.Instant(0)
	for _, at := range e.At {
		if at < last || at > w.now {
			return fmt.Errorf("moves: %v after %v, now %v: must be in order, and past", at, last, w.now)
		}
		w.ledger.NoteMove(at)
		last = at
	}
	return nil
}
