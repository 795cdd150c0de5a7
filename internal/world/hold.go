package world

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A bundle of binds that comes after evictions passes through these stages. What is
// charged in between keeps everybody else off the room, for a bounded time.
//
//	waiting ─▶ reserved: charged at its places, which others are still to leave
//	   ▲          │        │
//	   │          │        └─ they have left, it is accepted again ─▶ placing
//	   │          │
//	   └──────────┴─ one of them stays, a member or its place is gone, HoldDropped
//
// All members go the same way.

// acceptBinds commits to binds that are carried out all or none.
func (w *World) acceptBinds(ds []decision.Decision) error {
	if len(ds) == 1 && w.isOnItsWay(&ds[0]) {
		return nil // its room is kept already
	}
	after, held := afterOf(ds), 0
	for i := range ds {
		mine, err := w.bindable(&ds[i])
		if err != nil {
			return err
		}
		if mine {
			held++
		}
	}
	if held != 0 && held != len(ds) {
		return fmt.Errorf("only %d of them are held", held)
	}
	if !w.UnderWay(after) {
		return w.place(ds, held > 0)
	}
	if held > 0 {
		return fmt.Errorf("accept bind %s: what it comes after is still under way", w.ledger.Pod(ds[0].Pod).Spec.Name)
	}
	return w.reserve(ds, after)
}

// afterOf is what a bundle comes after.
func afterOf(ds []decision.Decision) []uint64 {
	if len(ds) == 1 {
		return ds[0].After
	}
	var out []uint64
	for i := range ds {
		out = append(out, ds[i].After...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bindable says whether a decision to bind is about a pod that waits, or that holds
// room by this very decision.
func (w *World) bindable(d *decision.Decision) (held bool, err error) {
	if d.Action != cluster.ActionBind {
		return false, fmt.Errorf("%v: only binds are accepted together", d.Action)
	}
	p, err := w.subject(d)
	if err != nil {
		return false, err
	}
	held = p.Phase == cluster.PhasePlacing && p.Reserved && w.ledger.Intents.At(int32(p.Intent)).ID == d.ID
	if p.Phase != cluster.PhaseWaiting && !held {
		return false, fmt.Errorf("accept bind %s: it is %v, not waiting", p.Spec.Name, p.Phase)
	}
	return held, w.mayTry(p)
}

// place charges binds for good. Where one of several is refused, none is charged.
func (w *World) place(ds []decision.Decision, held bool) error {
	if len(ds) == 1 && ds[0].Together == 0 && ds[0].Inherits == 0 && !held {
		return w.placeOne(&ds[0], false)
	}
	free := w.freeIntents // binds only take from its end
	if held {
		free = slices.Clone(free)
	}
	err := w.ledger.Attempt(func() error {
		for i := range ds {
			if held {
				w.forgetIntent(ds[i].Pod)
				w.giveBack(ds[i].Pod)
			}
		}
		aside := w.setAside(ds)
		for i := range ds {
			if err := w.placeOne(&ds[i], held); err != nil {
				return err
			}
		}
		for _, r := range aside {
			w.ledger.Reserve(r.pod, r.place)
			w.ledger.EditPod(r.pod).GoneBy = r.goneBy
		}
		return w.starts(ds)
	})
	if err != nil {
		w.freeIntents = free
		for i := range ds {
			if id, is := w.underWay[ds[i].ID]; is && w.ledger.Pod(ds[i].Pod).Intent != id {
				delete(w.underWay, ds[i].ID)
			}
		}
	}
	return err
}

// reservation is room that a pod holds.
type reservation struct {
	pod    cluster.PodID
	place  cluster.Placement
	goneBy moment.Instant
}

// setAside gives back, for as long as binds are charged, the room on their nodes that
// other pods hold and that is still to be left for them: it is not in the way of room
// that has been left.
func (w *World) setAside(ds []decision.Decision) []reservation {
	var out []reservation
	for i := range ds {
		for _, id := range slices.Clone(w.ledger.Node(ds[i].Place.Node).Pods) {
			p := w.ledger.Pod(id)
			if in := w.intentOf(id, cluster.ActionHold); in != nil && p.Phase == cluster.PhasePlacing && p.Reserved && w.UnderWay(in.After) {
				out = append(out, reservation{pod: id, place: p.Placement, goneBy: p.GoneBy})
				w.giveBack(id)
			}
		}
	}
	return out
}

func (w *World) placeOne(d *decision.Decision, held bool) error {
	if err := w.takeOver(d); err != nil {
		return err
	}
	if err := w.admit(d, held); err != nil {
		return err
	}
	w.ledger.Charge(d.Pod, d.Place, cluster.PhasePlacing)
	w.ledger.EditPod(d.Pod).GoneBy = d.GoneBy
	w.addIntent(d)
	return nil
}

// admit says whether a bind can be carried out now.
func (w *World) admit(d *decision.Decision, held bool) error {
	if err := w.ledger.Admit(d.Pod, &d.Place); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	name := w.ledger.Pod(d.Pod).Spec.Name
	if d.Place.Lease != nil {
		return fmt.Errorf("accept bind %s: a lease: a pod that is not there has nothing to lend", name)
	}
	if held && !fit.MayJoin(&w.ledger.View, d.Pod, &d.Place) {
		return fmt.Errorf("accept bind %s: a relation to other pods does not allow it any more", name)
	}
	if n := w.ledger.Node(d.Place.Node); d.Host != (cluster.Ref{ID: int32(d.Place.Node), Generation: n.Generation}) {
		return fmt.Errorf("accept bind %s on %s: the node it was decided for is gone", name, n.Spec.Name)
	}
	return nil
}

// reserve charges binds at places that others are still to leave.
func (w *World) reserve(ds []decision.Decision, after []uint64) error {
	if err := w.fitOnceLeft(ds, after); err != nil {
		return err
	}
	for i := range ds {
		d := ds[i]
		w.ledger.Reserve(d.Pod, d.Place)
		w.ledger.EditPod(d.Pod).GoneBy = d.GoneBy
		d.Action = cluster.ActionHold
		w.addIntent(&d)
		in := w.ledger.EditIntent(w.ledger.Pod(d.Pod).Intent)
		in.After, in.Together = slices.Clone(after), d.Together
	}
	return nil
}

// fitOnceLeft says whether binds can be carried out when those who are decided to go
// have gone. Nothing changes.
func (w *World) fitOnceLeft(ds []decision.Decision, after []uint64) error {
	free := w.freeIntents
	fits := errors.New("they fit")
	err := w.ledger.Attempt(func() error {
		w.leave(after)
		for i := range ds {
			if err := w.admit(&ds[i], false); err != nil {
				return err
			}
			w.ledger.Charge(ds[i].Pod, ds[i].Place, cluster.PhasePlacing)
		}
		if err := w.starts(ds); err != nil {
			return err
		}
		return fits
	})
	w.freeIntents = free
	if err == fits {
		return nil
	}
	return err
}

// giveBack takes the room of a pod that only held it.
func (w *World) giveBack(id cluster.PodID) {
	last := w.ledger.Pod(id).LastNode
	w.ledger.Discharge(id, cluster.PhaseWaiting)
	w.ledger.EditPod(id).LastNode = last
}

// giveUp ends a hold, and those of its bundle.
func (w *World) giveUp(id cluster.PodID) {
	together := w.forgetIntent(id)
	w.giveBack(id)
	w.giveUpTogether(together)
}

// giveUpTogether ends the holds of a bundle.
func (w *World) giveUpTogether(together uint64) {
	if together == 0 {
		return
	}
	for i := range w.ledger.Intents.Len() {
		if in := *w.ledger.Intents.At(int32(i)); in.ID != 0 && in.Action == cluster.ActionHold && in.Together == together {
			w.forgetIntent(in.Pod)
			w.giveBack(in.Pod)
		}
	}
}

// stays ends the holds that counted on somebody's leaving.
func (w *World) stays(decided uint64) {
	for i := range w.ledger.Intents.Len() {
		in := *w.ledger.Intents.At(int32(i))
		switch {
		case in.ID == 0 || !slices.Contains(in.After, decided):
		case in.Action == cluster.ActionHold:
			w.giveUp(in.Pod)
		case in.Action == cluster.ActionResize:
			w.withdrawResize(in.Pod)
		}
	}
}

// HoldDropped says that a pod which holds room that others leave will not be placed
// as decided; it waits again, and with it the others of its bundle.
type HoldDropped struct{ Name string }

func (e HoldDropped) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhasePlacing)
	if err != nil {
		return err
	}
	if w.intentOf(id, cluster.ActionHold) == nil {
		return fmt.Errorf("pod %s: it is %v and holds no room that others leave", e.Name, cluster.PhasePlacing)
	}
	w.giveUp(id)
	return nil
}

// intentOf returns the decision of a kind that is under way for a pod; nil without
// one.
func (w *World) intentOf(id cluster.PodID, action cluster.Action) *cluster.Intent {
	intent := w.ledger.Pod(id).Intent
	if intent == cluster.None {
		return nil
	}
	if in := w.ledger.Intents.At(int32(intent)); in.Action == action {
		return in
	}
	return nil
}

// Holds says whether a pod holds room by a decision.
func (w *World) Holds(d *decision.Decision) bool {
	if w.isOnItsWay(d) {
		return true
	}
	p, err := w.subject(d)
	if err != nil || p.Phase != cluster.PhasePlacing {
		return false
	}
	in := w.intentOf(d.Pod, cluster.ActionHold)
	return in != nil && in.ID == d.ID
}

// Lapsed lists the pods whose hold has passed its deadline at an instant, one per
// bundle. Whoever drives the clock drops these holds.
func (w *World) Lapsed(at moment.Instant) []string {
	var out []string
	var seen []uint64
	for i := range w.ledger.Intents.Len() {
		in := w.ledger.Intents.At(int32(i))
		if in.ID == 0 || in.Action != cluster.ActionHold || in.Deadline > at || in.Together != 0 && slices.Contains(seen, in.Together) {
			continue
		}
		seen = append(seen, in.Together)
		out = append(out, w.ledger.Pod(in.Pod).Spec.Name)
	}
	slices.Sort(out)
	return out
}

// Needless lists the pods that are told to go for others of whom none holds the room
// any more: an eviction that has not begun need not be carried out, and is refused.
// Members of a group are told to go together: one is awaited with the others, and when
// some have left and the group has not got its minimum any more, the rest follows.
func (w *World) Needless() []string {
	var out []string
	for i := range w.ledger.Intents.Len() {
		in := w.ledger.Intents.At(int32(i))
		if in.ID != 0 && in.Action == cluster.ActionEvict && in.Yields && !w.awaited(in.ID) && !w.follows(in.Pod) {
			out = append(out, w.ledger.Pod(in.Pod).Spec.Name)
		}
	}
	slices.Sort(out)
	return out
}

// follows says whether a pod that is told to go goes with others of its group.
func (w *World) follows(id cluster.PodID) bool {
	v := &w.ledger.View
	group := v.Pod(id).Spec.Group
	if group == cluster.None {
		return false
	}
	root := v.Root(group)
	if !v.Group(root).Whole() {
		return true
	}
	for i := range v.Intents.Len() {
		in := v.Intents.At(int32(i))
		if in.ID == 0 || in.Action != cluster.ActionEvict || !w.awaited(in.ID) {
			continue
		}
		if other := v.Pod(in.Pod).Spec.Group; other != cluster.None && v.Root(other) == root {
			return true
		}
	}
	return false
}

// awaited says whether a hold counts on a decision.
func (w *World) awaited(decided uint64) bool {
	for i := range w.ledger.Intents.Len() {
		if in := w.ledger.Intents.At(int32(i)); in.ID != 0 && slices.Contains(in.After, decided) {
			return true
		}
	}
	return false
}
