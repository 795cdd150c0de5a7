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

// Moves are the instants of the moves that are remembered, in order.
func (v *View) Moves() []moment.Instant { return v.moves }

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

// Target is where a pod that is told to go is to be next: room that is kept for it from
// the moment its eviction is accepted. Its queue is charged once, where it still is.
type Target struct {
	Place Placement
	Bind  uint64         // the decision that takes it there; 0: its heir goes there
	Until moment.Instant // once it has left; then the room is given up
	// Of a pod whose heir is another pod: see Legacy.
	Wait moment.Span `json:",omitempty"`
	Set  uint64      `json:",omitempty"`
}

// Keep keeps room for the pod of an intent to evict.
func (l *Ledger) Keep(id IntentID, t *Target) {
	l.EditIntent(id).Target = t
	l.keep(&t.Place, +1)
}

// Unkeep gives up what is kept by an intent, if anything is.
func (l *Ledger) Unkeep(id IntentID) {
	if t := l.Intents.At(int32(id)).Target; t != nil {
		l.EditIntent(id).Target = nil
		l.keep(&t.Place, -1)
	}
}

// keep books room on a node for no pod that is there.
func (l *Ledger) keep(place *Placement, sign int64) {
	before := *l.Node(place.Node)
	for i := range place.Grants {
		l.applyGrant(&place.Grants[i], sign)
	}
	n := l.node(place.Node)
	need := l.Shape(place.Shape).Need.times(-sign)
	n.Free = n.Free.Plus(&need)
	if sign < 0 && n.Overdrawn {
		l.spreadOut(place.Node)
	}
	l.restate(place.Node, &before)
}

// Holds says whether a node has the room of a place, whoever asks for it.
func (l *Ledger) Holds(place *Placement) bool {
	n, shape := l.Node(place.Node), l.Shape(place.Shape)
	if _, short := n.Free.ShortOf(&shape.Need); short || !n.TakesWork() || len(place.Grants) != int(shape.DeviceCount()) || !l.covers(shape, place.Grants) {
		return false
	}
	for i := range place.Grants {
		if l.admitGrant(n, place.Grants, i) != nil {
			return false
		}
	}
	return true
}

// AdmitBeside is Admit for a pod that is somewhere already: its queues are charged.
func (l *Ledger) AdmitBeside(pod PodID, place *Placement) error { return l.admit(pod, place, false) }

// kept adds up what is kept for pods that are on their way.
func (a *audit) kept() error {
	v := a.view
	for i := range v.Intents.Len() {
		in := v.Intents.At(int32(i))
		if in.ID == 0 || in.Target == nil {
			continue
		}
		if in.Action != ActionEvict || !in.Target.Place.Placed() {
			return fmt.Errorf("audit: room on node %d is kept with a decision to %v pod %s", in.Target.Place.Node, in.Action, v.Pod(in.Pod).Spec.Name)
		}
		a.keep(&in.Target.Place)
	}
	return nil
}

// keep adds room that is kept on a node for nobody who is there.
func (a *audit) keep(place *Placement) {
	a.used[place.Node] = a.used[place.Node].Plus(&a.view.Shape(place.Shape).Need)
	for _, g := range place.Grants {
		a.milli[g.Device] += g.Milli
		a.memory[g.Device] += g.Memory
		a.holders[g.Device]++
		a.count(&g)
	}
}

func (v *View) targetDigest(in *Intent) uint64 {
	if in.Target == nil {
		return 0
	}
	return chance.Hash(38, in.ID, v.PlacementDigest(&in.Target.Place), in.Target.Bind, uint64(in.Target.Until))
}
