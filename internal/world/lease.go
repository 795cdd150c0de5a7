package world

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// A resize that lends changes the books when it has been carried out; until then the
// pod holds all it held. One that gives back is charged from the start, in room that
// others may still have to leave: nobody else gets it.

// acceptResize commits to a resize.
func (w *World) acceptResize(d *decision.Decision, p *cluster.Pod) error {
	node := p.Placement.Node
	switch {
	case p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning:
		return fmt.Errorf("accept resize %s: it is %v, not running", p.Spec.Name, p.Phase)
	case p.Intent != cluster.None:
		return fmt.Errorf("accept resize %s: a decision is under way for it", p.Spec.Name)
	case !p.Placement.Resizes(&d.Place):
		return fmt.Errorf("accept resize %s: it does not hold what it was decided for", p.Spec.Name)
	case !w.ledger.Node(node).Spec.Resizes:
		return fmt.Errorf("accept resize %s: what runs on %s cannot be resized", p.Spec.Name, w.ledger.Node(node).Spec.Name)
	case d.Place.Lease != nil:
		if err := w.ledger.MayLend(d.Pod, d.Place.Lease); err != nil {
			return fmt.Errorf("accept resize %s: %w", p.Spec.Name, err)
		}
		w.addIntent(d)
		return nil
	}
	if err := w.repayOnceLeft(d); err != nil {
		return err
	}
	before := p.Placement
	w.ledger.Rebook(d.Pod, d.Place)
	w.addIntent(d)
	in := w.ledger.EditIntent(w.ledger.Pod(d.Pod).Intent)
	in.Before, in.After = before, slices.Clone(d.After)
	return nil
}

// repayOnceLeft says whether a pod can get back what it lent when those who are
// decided to go have gone. Nothing changes.
func (w *World) repayOnceLeft(d *decision.Decision) error {
	fits := errors.New("it fits")
	err := w.ledger.Attempt(func() error {
		w.leave(d.After)
		if err := w.ledger.RepayFits(d.Pod); err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		return fits
	})
	if err == fits {
		return nil
	}
	return err
}

// leave lets evictions and loans that are under way be done, within an attempt.
func (w *World) leave(decided []uint64) {
	for _, id := range decided {
		row, is := w.underWay[id]
		if !is {
			continue
		}
		switch in := *w.ledger.Intents.At(int32(row)); {
		case in.Action == cluster.ActionEvict || in.Action == cluster.ActionReplace:
			w.ledger.Discharge(in.Pod, cluster.PhaseHeld)
		case in.Action == cluster.ActionResize && in.Place.Lease != nil:
			w.ledger.Rebook(in.Pod, in.Place)
		}
	}
}

// Resized says that a resize was carried out.
type Resized struct{ Name string }

func (e Resized) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	in := w.intentOf(id, cluster.ActionResize)
	switch {
	case in == nil:
		return fmt.Errorf("pod %s: no resize of it is under way", e.Name)
	case w.UnderWay(in.After):
		return fmt.Errorf("pod %s: what its resize comes after is still under way", e.Name)
	}
	done := *in
	w.forgetIntent(id)
	if done.Place.Lease != nil {
		w.ledger.Rebook(id, done.Place)
	} else {
		w.ledger.EditPod(id).Repaid = w.now
	}
	return nil
}

// ResizeRefused says that a resize was not carried out: the pod holds what it held
// before, and nobody holds the room any more that it was to lend.
type ResizeRefused struct{ Name string }

func (e ResizeRefused) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	if w.intentOf(id, cluster.ActionResize) == nil {
		return fmt.Errorf("pod %s: no resize of it is under way", e.Name)
	}
	w.withdrawResize(id)
	return nil
}

// withdrawResize ends a resize of a pod as if it had never been decided, if one is
// under way.
func (w *World) withdrawResize(id cluster.PodID) {
	in := w.intentOf(id, cluster.ActionResize)
	if in == nil {
		return
	}
	gone := *in
	w.forgetIntent(id)
	if gone.Before.Placed() {
		w.ledger.Rebook(id, gone.Before)
	}
	w.stays(gone.ID)
}

// NeedlessLoans lists the pods that are to lend to others of whom none counts on it
// any more: a resize that has not begun need not be carried out, and is refused.
func (w *World) NeedlessLoans() []string {
	var out []string
	for i := range w.ledger.Intents.Len() {
		in := w.ledger.Intents.At(int32(i))
		if in.ID != 0 && in.Action == cluster.ActionResize && in.Place.Lease != nil && !w.awaited(in.ID) {
			out = append(out, w.ledger.Pod(in.Pod).Spec.Name)
		}
	}
	slices.Sort(out)
	return out
}
