package world

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Accepted commits to a decision: it is charged from now on and becomes an
// intent until its outcome is known. A decision that the world has outrun is
// refused.
//
// A bind that comes after evictions which are still under way is only held: the
// room is not free yet. The pod leaves the line; the same decision is accepted
// again once they are done, or the hold is dropped.
type Accepted struct{ Decision decision.Decision }

func (e Accepted) apply(w *World) error {
	d := &e.Decision
	if d.Pod < 0 || int(d.Pod) >= w.ledger.Pods.Len() {
		return fmt.Errorf("accept %v: no pod with id %d", d.Action, d.Pod)
	}
	p := w.ledger.Pod(d.Pod)
	if p.Generation != d.Row.Generation || p.Key != d.Subject || p.Phase == cluster.PhaseGone {
		return fmt.Errorf("accept %v: the pod it was decided for is gone", d.Action)
	}
	switch d.Action {
	case cluster.ActionBind:
		return w.acceptBind(d, p)
	case cluster.ActionEvict:
		return w.acceptEvict(d, p)
	}
	return fmt.Errorf("accept %v %s: this world cannot carry it out", d.Action, p.Spec.Name)
}

func (w *World) acceptBind(d *decision.Decision, p *cluster.Pod) error {
	held := p.Phase == cluster.PhaseHeld && p.Intent != cluster.None && w.ledger.Intents.At(int32(p.Intent)).ID == d.ID
	if p.Phase != cluster.PhaseWaiting && !held {
		return fmt.Errorf("accept bind %s: it is %v, not waiting", p.Spec.Name, p.Phase)
	}
	if w.UnderWay(d.After) {
		if held {
			return fmt.Errorf("accept bind %s: what it comes after is still under way", p.Spec.Name)
		}
		w.ledger.SetPhase(d.Pod, cluster.PhaseHeld)
		hold := *d
		hold.Action = cluster.ActionHold
		w.addIntent(&hold)
		return nil
	}
	if err := w.ledger.Admit(d.Pod, &d.Place); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	if held && !fit.MayJoin(&w.ledger.View, d.Pod, &d.Place) {
		return fmt.Errorf("accept bind %s: a relation to other pods does not allow it any more", p.Spec.Name)
	}
	if n := w.ledger.Node(d.Place.Node); d.Host != (cluster.Ref{ID: int32(d.Place.Node), Generation: n.Generation}) {
		return fmt.Errorf("accept bind %s on %s: the node it was decided for is gone", p.Spec.Name, n.Spec.Name)
	}
	w.dropIntent(d.Pod)
	w.ledger.Charge(d.Pod, d.Place, cluster.PhasePlacing)
	w.addIntent(d)
	return nil
}

// UnderWay says whether any of the decisions has been accepted and has no outcome
// yet.
func (w *World) UnderWay(ids []uint64) bool {
	if len(ids) == 0 {
		return false
	}
	for i := range w.ledger.Intents.Len() {
		if in := w.ledger.Intents.At(int32(i)); in.ID != 0 && in.Action != cluster.ActionHold && slices.Contains(ids, in.ID) {
			return true
		}
	}
	return false
}

// HoldDropped says that a held pod will not be placed as decided; it waits again.
type HoldDropped struct{ Name string }

func (e HoldDropped) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhaseHeld)
	if err != nil {
		return err
	}
	w.dropIntent(id)
	w.ledger.SetPhase(id, cluster.PhaseWaiting)
	return nil
}

func (w *World) acceptEvict(d *decision.Decision, p *cluster.Pod) error {
	if p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning {
		return fmt.Errorf("accept evict %s: it is %v", p.Spec.Name, p.Phase)
	}
	w.ledger.SetPhase(d.Pod, cluster.PhaseTerminating)
	w.addIntent(d)
	w.disturbed(d.Pod)
	return nil
}

func (w *World) addIntent(d *decision.Decision) {
	reuse := cluster.IntentID(cluster.None)
	if n := len(w.freeIntents); n > 0 {
		reuse = w.freeIntents[n-1]
		w.freeIntents = w.freeIntents[:n-1]
	}
	id := w.ledger.AddIntent(cluster.Intent{ID: d.ID, Action: d.Action, Pod: d.Pod, Place: d.Place, Accepted: w.now, Deadline: d.Deadline}, reuse)
	w.ledger.EditPod(d.Pod).Intent = id
}

func (w *World) dropIntent(pod cluster.PodID) {
	id := w.ledger.Pod(pod).Intent
	if id == cluster.None {
		return
	}
	w.ledger.DropIntent(id)
	w.ledger.EditPod(pod).Intent = cluster.None
	w.freeIntents = append(w.freeIntents, id)
}

// Bound says that a bind was carried out.
type Bound struct{ Name string }

func (e Bound) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhasePlacing)
	if err != nil {
		return err
	}
	w.dropIntent(id)
	w.ledger.SetReserved(id, false)
	w.ledger.SetPhase(id, cluster.PhaseBound)
	w.ledger.EditPod(id).Bound = w.now
	return nil
}

// BindRefused says that a bind was not carried out; the pod waits again.
type BindRefused struct{ Name string }

func (e BindRefused) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhasePlacing)
	if err != nil {
		return err
	}
	last := w.ledger.Pod(id).LastNode
	w.dropIntent(id)
	w.ledger.Discharge(id, cluster.PhaseWaiting)
	p := w.ledger.EditPod(id)
	p.Attempt++
	p.LastNode = last
	return nil
}

// Evicted says that an evicted pod has left its node; it waits again.
type Evicted struct{ Name string }

func (e Evicted) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhaseTerminating)
	if err != nil {
		return err
	}
	w.lose(id)
	w.displaced(id)
	return nil
}

// QueueAdded makes a tenant's line known. Its parent comes first.
type QueueAdded struct {
	Name          string
	Parent        string
	Weight        quantity.Milli
	DeservedMilli quantity.MilliGPU
	LimitMilli    quantity.MilliGPU
}

func (e QueueAdded) apply(w *World) error {
	if _, dup := w.queues[e.Name]; dup || e.Name == "" {
		return fmt.Errorf("queue: name %q: must be new and not empty", e.Name)
	}
	if e.Weight < 0 || e.DeservedMilli < 0 || e.LimitMilli < 0 {
		return fmt.Errorf("queue %s: weight %d, deserved %d, limit %d: must not be negative", e.Name, e.Weight, e.DeservedMilli, e.LimitMilli)
	}
	parent := cluster.QueueID(cluster.None)
	if e.Parent != "" {
		id, ok := w.queues[e.Parent]
		if !ok {
			return fmt.Errorf("queue %s: parent %q: no such queue", e.Name, e.Parent)
		}
		parent = id
	}
	w.queues[e.Name] = w.ledger.AddQueue(cluster.Queue{
		Name: e.Name, Key: chance.HashString(e.Name), Parent: parent,
		Weight: e.Weight, DeservedMilli: e.DeservedMilli, LimitMilli: e.LimitMilli,
	})
	return nil
}

// Learned replaces the beliefs.
type Learned struct{ Beliefs *cluster.Beliefs }

func (e Learned) apply(w *World) error {
	if err := e.Beliefs.Check(&w.ledger.View); err != nil {
		return fmt.Errorf("beliefs: %w", err)
	}
	w.ledger.SetBeliefs(e.Beliefs)
	return nil
}

// FactsKnown replaces the bit sets of what only the rim can know.
type FactsKnown struct{ Facts *cluster.Facts }

func (e FactsKnown) apply(w *World) error {
	w.ledger.SetFacts(e.Facts)
	return nil
}
