package world

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A pod of an owner does not come back itself when it has gone: its heir does. What is
// kept for that is a cluster.Legacy, from the moment the move is accepted.

// acceptReplace commits to replacing a pod: room is kept for its heir, and nothing happens
// to the pod before that runs.
func (w *World) acceptReplace(d *decision.Decision, p *cluster.Pod) error {
	switch {
	case p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning || p.Intent != cluster.None:
		return fmt.Errorf("accept replace %s: it is %v, with decision %d under way", p.Spec.Name, p.Phase, p.Intent)
	case p.Spec.Owner == 0 || p.Spec.Group != cluster.None || d.Target == nil || w.ledger.Legacy(d.ID) != nil:
		return fmt.Errorf("accept replace %s: it needs an owner, no group, and a place for its heir that is kept once", p.Spec.Name)
	}
	if err := w.mayMove(d); err != nil {
		return err
	}
	w.addIntent(d)
	w.ledger.EditIntent(w.ledger.Pod(d.Pod).Intent).Yields = d.Yields
	w.keepForHeir(d, true)
	w.ledger.NoteMove(w.now)
	w.ledger.EditPod(d.Pod).Rests = max(w.now, 1)
	return nil
}

// keepForHeir keeps the target of a move for the heir of the pod that is moved.
func (w *World) keepForHeir(d *decision.Decision, surge bool) {
	spec, t := w.ledger.Pod(d.Pod).Spec, d.Target
	w.ledger.AddLegacy(cluster.Legacy{
		ID: d.ID, Of: d.Pod, Name: spec.Name, Owner: spec.Owner, Place: t.Place, Heir: cluster.None, Until: t.Until, Wait: t.Wait, Set: t.Set, Surge: surge,
	})
}

// succeeded tells a pod to go whose heir runs: the last step of its replacement, with the
// id of that, so that whoever counts on the one counts on the other. No budget bears it,
// since there are as many as before.
func (w *World) succeeded(d *decision.Decision, p *cluster.Pod) error {
	g := w.ledger.Legacy(d.ID)
	if g.Heir == cluster.None || w.ledger.Pod(g.Heir).Phase != cluster.PhaseRunning {
		return fmt.Errorf("accept evict %s: nobody runs in its place yet", p.Spec.Name)
	}
	in := w.ledger.EditIntent(p.Intent)
	in.Action, in.Place, in.Deadline, in.Yields = cluster.ActionEvict, d.Place, d.Deadline, false
	w.ledger.DropLegacy(d.ID)
	w.ledger.SetPhase(d.Pod, cluster.PhaseTerminating)
	return nil
}

// takeOver frees the room that a bind takes over, where it does, for its pod alone.
func (w *World) takeOver(d *decision.Decision) error {
	if d.Inherits == 0 {
		return nil
	}
	g := w.ledger.Legacy(d.Inherits)
	name := w.ledger.Pod(d.Pod).Spec.Name
	if g == nil || g.Place.Node != d.Place.Node || !w.ledger.Inherit(d.Pod, d.Inherits, w.now) {
		return fmt.Errorf("accept bind %s: nothing is kept for it there", name)
	}
	w.ledger.EditPod(d.Pod).Rests = max(w.now, 1)
	return nil
}

// withdrawReplace ends the replacement of a pod as if it had never been decided, if one is
// under way. An heir that has come stays.
func (w *World) withdrawReplace(id cluster.PodID) {
	if in := w.intentOf(id, cluster.ActionReplace); in != nil {
		decided := in.ID
		w.forgetIntent(id)
		w.stays(decided)
	}
}

// heirFails ends the replacement that a pod is to complete, if it is to.
func (w *World) heirFails(id cluster.PodID) {
	for _, g := range w.ledger.Legacies() {
		if g.Heir == id {
			w.withdrawReplace(g.Of)
			return
		}
	}
}

// legacyOf is what is kept with the decision under way for a pod; nil where nothing is.
func (w *World) legacyOf(id cluster.PodID) *cluster.Legacy {
	p := w.ledger.Pod(id)
	if p.Intent == cluster.None || len(w.ledger.Legacies()) == 0 {
		return nil
	}
	return w.ledger.Legacy(w.ledger.Intents.At(int32(p.Intent)).ID)
}

// leavesUnasked turns the replacement of a pod that somebody else tells to go into its
// eviction: what is kept for an heir is kept, and who counts on its leaving is right to.
func (w *World) leavesUnasked(id cluster.PodID) {
	if w.intentOf(id, cluster.ActionReplace) == nil {
		return
	}
	g := *w.legacyOf(id)
	w.ledger.EditIntent(w.ledger.Pod(id).Intent).Action = cluster.ActionEvict
	if g.Surge = false; g.Heir != cluster.None {
		w.ledger.DropLegacy(g.ID)
		return
	}
	w.ledger.SetLegacy(g)
}

// bequeath leaves what is kept for the heir of a pod that has gone to itself: for a while.
func (w *World) bequeath(id cluster.PodID) {
	g := w.legacyOf(id)
	if g == nil || g.Heir != cluster.None {
		return
	}
	left := *g
	left.Of, left.Surge = cluster.None, false
	if left.Until == moment.Never {
		left.Until = w.now.Add(left.Wait)
	}
	w.ledger.SetLegacy(left)
}

// dropLegaciesOn gives up what is kept for heirs on a node that goes.
func (w *World) dropLegaciesOn(node cluster.NodeID) {
	for _, g := range w.ledger.Legacies() {
		if g.Place.Node == node {
			w.giveUpLegacy(&g)
		}
	}
}

func (w *World) giveUpLegacy(g *cluster.Legacy) {
	if g.Surge {
		w.withdrawReplace(g.Of)
	} else {
		w.ledger.DropLegacy(g.ID)
	}
}

// setKeptAside takes what is kept for others off a node that changes. What it returns keeps
// it there again, where the node is the same row and has the room still, or gives it up.
func (w *World) setKeptAside(node cluster.NodeID) (again func(same bool)) {
	type target struct {
		of   cluster.IntentID
		what *cluster.Target
	}
	var targets []target
	for i := range w.ledger.Intents.Len() {
		if in := w.ledger.Intents.At(int32(i)); in.ID != 0 && in.Target != nil && in.Target.Place.Node == node {
			targets = append(targets, target{cluster.IntentID(i), in.Target})
			w.ledger.Unkeep(cluster.IntentID(i))
		}
	}
	var legacies []cluster.Legacy
	for _, g := range w.ledger.Legacies() {
		if g.Place.Node == node && g.Heir == cluster.None {
			legacies = append(legacies, g)
			w.ledger.DropLegacy(g.ID)
		}
	}
	return func(same bool) {
		for _, t := range targets {
			if same && w.ledger.Holds(&t.what.Place) {
				w.ledger.Keep(t.of, t.what)
			}
		}
		for _, g := range legacies {
			if same && w.ledger.Holds(&g.Place) {
				w.ledger.AddLegacy(g)
			} else if g.Surge {
				w.withdrawReplace(g.Of)
			}
		}
	}
}

// LegacyDropped says that what a decision keeps for an heir is kept no longer: nobody came
// in time, or did not start, or nobody gets the room any more that it is for. A pod that
// was to be replaced goes on as it did.
type LegacyDropped struct{ ID uint64 }

func (e LegacyDropped) apply(w *World) error {
	g := w.ledger.Legacy(e.ID)
	if g == nil {
		return fmt.Errorf("legacy %016x: nothing is kept by such a decision", e.ID)
	}
	gone := *g
	w.giveUpLegacy(&gone)
	return nil
}

// PodRests says since when a pod stays where it is, as far as moves go: a rim that recalls
// no whole pods tells so after a restart.
type PodRests struct {
	Name  string
	Since moment.Instant
}

func (e PodRests) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	if e.Since <= 0 || e.Since > w.now {
		return fmt.Errorf("pod %s: rests since %v, now %v: must be past", e.Name, e.Since, w.now)
	}
	w.ledger.EditPod(id).Rests = e.Since
	return nil
}

// Forlorn lists what is kept for heirs in vain at an instant: nobody has come in time, or
// has not started, or nobody waits any more for the room that the pod would leave. Whoever
// drives the clock drops it.
func (w *World) Forlorn(at moment.Instant) (out []uint64) {
	for _, g := range w.ledger.Legacies() {
		late := g.Until <= at && (g.Heir == cluster.None || w.ledger.Pod(g.Heir).Phase != cluster.PhaseRunning)
		if in := w.replaceOf(&g); late || in != nil && in.Yields && g.Heir == cluster.None && !w.awaited(g.ID) {
			out = append(out, g.ID)
		}
	}
	return out
}

// replaceOf is the decision to replace the pod of a legacy; nil for another kind.
func (w *World) replaceOf(g *cluster.Legacy) *cluster.Intent {
	if !g.Surge {
		return nil
	}
	return w.intentOf(g.Of, cluster.ActionReplace)
}

// LegacyRecalled is cluster.Legacy by names. What it takes is told, too: the pod that had
// it may be gone, and the heir still to come.
type LegacyRecalled struct {
	ID              uint64
	Of, Name, Owner string // Of empty: it has left
	Place           Place
	Heir            string // empty: nobody yet
	Shape           uint64 // the key of what it takes
	Kind            string
	Request         Request
	Until           moment.Instant
	Wait            moment.Span
	Set             uint64
	Surge           bool
}

// Legacies is what is kept for heirs, by names.
func (w *World) Legacies() (out []LegacyRecalled) {
	v := w.View()
	for _, g := range v.Legacies() {
		shape := v.Shape(g.Place.Shape)
		e := LegacyRecalled{
			ID: g.ID, Name: g.Name, Owner: v.Symbols.Text(g.Owner), Place: *w.placeOf(&cluster.PodSpec{Shape: g.Place.Shape}, &g.Place),
			Shape: shape.Key, Kind: v.Symbols.Text(shape.Kind), Request: w.requestOf(shape), Until: g.Until, Wait: g.Wait, Set: g.Set, Surge: g.Surge,
		}
		if g.Of != cluster.None {
			e.Of = v.Pod(g.Of).Spec.Name
		}
		if g.Heir != cluster.None {
			e.Heir = v.Pod(g.Heir).Spec.Name
		}
		out = append(out, e)
	}
	return out
}

func (e LegacyRecalled) apply(w *World) error {
	g := cluster.Legacy{
		ID: e.ID, Of: cluster.None, Name: e.Name, Owner: w.Symbol(e.Owner), Heir: cluster.None, Until: e.Until, Wait: e.Wait, Set: e.Set, Surge: e.Surge,
	}
	if e.ID == 0 || e.Owner == "" || e.Name == "" || w.ledger.Legacy(e.ID) != nil {
		return fmt.Errorf("legacy %016x of %q, owner %q: it needs an id that is new, a name, and an owner", e.ID, e.Name, e.Owner)
	}
	if err := e.Request.validate(); err != nil {
		return fmt.Errorf("legacy of %s: %w", e.Name, err)
	}
	for name, id := range map[string]*cluster.PodID{e.Of: &g.Of, e.Heir: &g.Heir} { // order: each is looked up by itself
		if known := true; name != "" {
			if *id, known = w.pods[name]; !known {
				return fmt.Errorf("legacy of %s: pod %q: no such pod", e.Name, name)
			}
		}
	}
	if g.Of == cluster.None && g.Surge || g.Of != cluster.None && !w.decided(&g) {
		return fmt.Errorf("legacy of %s: the decision is not under way for it", e.Name)
	}
	var err error
	shape := w.shapeKeyed(e.Shape, &e.Request, e.Kind)
	if g.Place, err = w.placement(&cluster.PodSpec{Shape: shape}, &e.Place); err != nil {
		return fmt.Errorf("legacy of %s: %w", e.Name, err)
	}
	w.ledger.AddLegacy(g)
	return nil
}

// decided says whether the decision that keeps something for an heir is under way for the
// pod.
func (w *World) decided(g *cluster.Legacy) bool {
	action := cluster.ActionEvict
	if g.Surge {
		action = cluster.ActionReplace
	}
	in := w.intentOf(g.Of, action)
	return in != nil && in.ID == g.ID
}

// requestOf is a request that a shape may have come from, but for what only its key tells.
func (w *World) requestOf(s *cluster.Shape) Request {
	text := w.interner.Symbols().Text
	r := Request{CPU: quantity.MilliCPU(s.Need.At(cluster.DimCPU)), Memory: quantity.Bytes(s.Need.At(cluster.DimMemory))}
	for d := cluster.DimMemory + 1; d < s.Need.Dims(); d++ {
		if amount := s.Need.At(d); amount != 0 && d != cluster.DimPods {
			if r.Extended == nil {
				r.Extended = make(map[string]int64)
			}
			r.Extended[w.View().DimName(d)] = amount
		}
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		out := DeviceRequest{
			Count: d.Count, Milli: d.Milli, Memory: d.Memory, Profile: text(d.Profile), MinMemory: d.MinMemory,
			SameIsland: d.SameIsland, SameNUMA: d.SameNUMA, Selector: text(d.Selector), Parts: d.Parts,
		}
		for _, model := range d.Models {
			out.Models = append(out.Models, text(model))
		}
		slices.Sort(out.Models)
		r.Devices = append(r.Devices, out)
	}
	for _, terms := range s.Selector {
		var out []Requirement
		for _, t := range terms {
			requirement := Requirement{Key: text(t.Key), Op: t.Op, Number: t.Number, Feature: t.Feature}
			for _, value := range t.Values {
				requirement.Values = append(requirement.Values, text(value))
			}
			out = append(out, requirement)
		}
		r.Selector = append(r.Selector, out)
	}
	for _, t := range s.Tolerations {
		r.Tolerations = append(r.Tolerations, Toleration{Key: text(t.Key), Value: text(t.Value), AnyValue: t.AnyValue, AnyEffect: t.AnyEffect, Effect: t.Effect})
	}
	return r
}

// shape interns a request of a kind.
func (w *World) shape(r *Request, kind string) cluster.ShapeID {
	return w.shapeKeyed(chance.Fold(r.key(), chance.HashString(kind)), r, kind)
}
