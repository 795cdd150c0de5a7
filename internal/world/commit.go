package world

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// Accepted commits to a decision: it is charged from now on and becomes an
// intent until its outcome is known. A decision that the world has outrun is
// refused.
//
// A bind that comes after evictions which are still under way is only held: the pod
// is charged at its place, which others are still to leave. The same decision is
// accepted again once they have left, or the hold is dropped.
type Accepted struct{ Decision decision.Decision }

func (e Accepted) apply(w *World) error {
	d := &e.Decision
	if d.Action == cluster.ActionPrefetch {
		return w.acceptPrefetch(d)
	}
	if d.Action == cluster.ActionScale {
		return w.acceptScale(d)
	}
	p, err := w.subject(d)
	if err != nil {
		return err
	}
	switch d.Action {
	case cluster.ActionBind:
		return w.acceptBinds([]decision.Decision{*d})
	case cluster.ActionEvict:
		return w.acceptEvict(d, p)
	case cluster.ActionReplace:
		return w.acceptReplace(d, p)
	case cluster.ActionResize:
		return w.acceptResize(d, p)
	}
	return fmt.Errorf("accept %v %s: this world cannot carry it out", d.Action, p.Spec.Name)
}

// subject returns the pod that a decision is about.
func (w *World) subject(d *decision.Decision) (*cluster.Pod, error) {
	if d.Pod < 0 || int(d.Pod) >= w.ledger.Pods.Len() {
		return nil, fmt.Errorf("accept %v: no pod with id %d", d.Action, d.Pod)
	}
	p := w.ledger.Pod(d.Pod)
	if p.Generation != d.Row.Generation || p.Key != d.Subject || p.Phase == cluster.PhaseGone {
		return nil, fmt.Errorf("accept %v: the pod it was decided for is gone", d.Action)
	}
	return p, nil
}

// UnderWay says whether any of the decisions has been accepted and has no outcome
// yet.
func (w *World) UnderWay(ids []uint64) bool {
	return slices.ContainsFunc(ids, func(id uint64) bool {
		_, is := w.underWay[id]
		return is
	})
}

func (w *World) acceptEvict(d *decision.Decision, p *cluster.Pod) error {
	if p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning {
		return fmt.Errorf("accept evict %s: it is %v", p.Spec.Name, p.Phase)
	}
	if in := w.intentOf(d.Pod, cluster.ActionReplace); in != nil && in.ID == d.ID {
		return w.succeeded(d, p)
	}
	if err := w.mayMove(d); err != nil {
		return err
	}
	w.withdrawResize(d.Pod)
	w.withdrawReplace(d.Pod)
	w.heirFails(d.Pod)
	w.ledger.SetPhase(d.Pod, cluster.PhaseTerminating)
	w.addIntent(d)
	w.keep(d)
	in := w.ledger.EditIntent(w.ledger.Pod(d.Pod).Intent)
	in.Yields = d.Yields
	if b := w.ledger.BudgetOf(w.ledger.Pod(d.Pod)); b != nil {
		in.Budget, in.Told = w.ledger.Pod(d.Pod).Budget, b.Told
	}
	w.disturbed(d.Pod)
	return nil
}

func (w *World) addIntent(d *decision.Decision) {
	reuse := cluster.IntentID(cluster.None)
	if n := len(w.freeIntents); n > 0 {
		reuse = w.freeIntents[n-1]
		w.freeIntents = w.freeIntents[:n-1]
	}
	id := w.ledger.AddIntent(cluster.Intent{ID: d.ID, Action: d.Action, Pod: d.Pod, Place: d.Place, Accepted: w.now, Deadline: d.Deadline, Before: cluster.Nowhere(), Budget: cluster.None}, reuse)
	w.ledger.EditPod(d.Pod).Intent = id
	if d.Action != cluster.ActionHold {
		w.underWay[d.ID] = id
	}
}

// dropIntent ends what is under way for a pod. Others that held room with it hold it
// no longer.
func (w *World) dropIntent(pod cluster.PodID) {
	w.giveUpTogether(w.forgetIntent(pod))
}

// forgetIntent ends what is under way for a pod alone, and returns what tied it to
// others, if it was a hold.
func (w *World) forgetIntent(pod cluster.PodID) uint64 {
	id := w.ledger.Pod(pod).Intent
	if id == cluster.None {
		return 0
	}
	in := w.ledger.Intents.At(int32(id))
	together := in.Together
	if in.Action != cluster.ActionHold {
		delete(w.underWay, in.ID)
	}
	w.ledger.Unkeep(id)
	if g := w.ledger.Legacy(in.ID); g != nil && g.Of == pod {
		w.ledger.DropLegacy(g.ID)
	}
	w.ledger.DropIntent(id)
	w.ledger.EditPod(pod).Intent = cluster.None
	w.freeIntents = append(w.freeIntents, id)
	return together
}

// Bound says that a bind was carried out.
type Bound struct{ Name string }

func (e Bound) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhasePlacing)
	if err != nil {
		return err
	}
	if in := w.intentOf(id, cluster.ActionHold); in != nil && w.UnderWay(in.After) {
		return fmt.Errorf("pod %s: what its bind comes after is still under way", e.Name)
	}
	w.dropIntent(id)
	w.ledger.SetReserved(id, false)
	w.ledger.SetPhase(id, cluster.PhaseBound)
	w.ledger.SetRefused(id, cluster.Refusals{})
	w.ledger.EditPod(id).Bound = w.now
	return nil
}

// Evicted says that an evicted pod has left its node; it waits again.
type Evicted struct{ Name string }

func (e Evicted) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhaseTerminating)
	if err != nil {
		return err
	}
	target := w.targetOf(id)
	w.lose(id)
	w.displaced(id)
	w.arrives(id, target)
	return nil
}

// Learned replaces the beliefs.
type Learned struct{ Beliefs *cluster.Beliefs }

func (e Learned) apply(w *World) error {
	if err := e.Beliefs.Check(w.View()); err != nil {
		return fmt.Errorf("beliefs: %w", err)
	}
	before := w.ledger.Beliefs
	w.ledger.SetBeliefs(e.Beliefs)
	if e.Beliefs != nil && e.Beliefs.Needs != nil && (before == nil || before.Needs != e.Beliefs.Needs) {
		w.sizeWaiting()
	}
	return nil
}

// FactsKnown replaces the bit sets of what only the rim can know.
type FactsKnown struct{ Facts *cluster.Facts }

func (e FactsKnown) apply(w *World) error {
	w.ledger.SetFacts(e.Facts)
	return nil
}
