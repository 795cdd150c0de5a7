package kube

import (
	"maps"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/world"
)

// A pod of a Deployment that allows it is replaced: the Deployment is scaled up by one,
// another pod comes to the place that is kept, and when that is ready, the Deployment is
// scaled down again, with the old pod marked as the one to go.
//
//	look ─▶ up ─▶ an heir comes, and is ready ─▶ down ─▶ the pod leaves
//	  │      │                │
//	  │      └────────────────┴─▶ undo: scaled down again, with the heir marked
//	  └─▶ given up
//
// What is done is written to a ConfigMap before it is done. A new instance undoes what is
// not on its way down. Who else scales the Deployment meanwhile is let: nothing is taken
// back where the number is not the one that was left.

// Surge is a Deployment that is scaled up by one, so that another pod runs before one goes.
type Surge struct {
	Namespace  string    `json:"namespace"`
	Deployment string    `json:"deployment"`
	Pod        Ref       `json:"pod"` // that is to go
	Heir       Ref       `json:"heir,omitzero"`
	Replicas   int32     `json:"replicas"` // before
	Step       SurgeStep `json:"step"`

	For    bool      `json:"-"` // somebody holds the room that the pod is to leave
	id     uint64    // of the decision; 0: an instance before this one began it
	since  time.Time // of the step
	flying bool      // a worker is at it
	done   bool      // the step was carried out
}

// SurgeStep is how far a surge is.
type SurgeStep string

const (
	surgeLook SurgeStep = "look" // how many there are
	surgeUp   SurgeStep = "up"
	surgeDown SurgeStep = "down" // the pod goes
	surgeUndo SurgeStep = "undo" // the heir goes
)

const (
	// goneWithin is how long a controller may take to tell a pod to go.
	goneWithin = time.Minute
	// undoAgain is the pause between two tries to undo a surge.
	undoAgain = 10 * time.Second
)

// SurgeTask is a step to be carried out.
type SurgeTask struct {
	Surge
	Keep *Kept // to be written first; nil: nothing
}

// SurgeOutcome is what became of a step.
type SurgeOutcome struct {
	Pod      string // its key
	Step     SurgeStep
	Replicas int32 // of a look
	Err      error
}

type surging struct {
	surges  map[string]*Surge // by key of the pod that is to go
	dueStep []SurgeTask
}

func newSurging() surging { return surging{surges: make(map[string]*Surge)} }

// surgesKept is what has to be known of surges after a restart: those that may have been
// scaled up.
func (b *books) surgesKept() (out []Surge) {
	for _, key := range slices.Sorted(maps.Keys(b.surges)) {
		if s := b.surges[key]; s.Step != surgeLook {
			out = append(out, *s)
		}
	}
	return out
}

// replace takes in a decision to replace a pod. One surge of a Deployment is under way at a
// time.
func (b *books) replace(v *cluster.View, d *decision.Decision) {
	key := v.Pod(d.Pod).Spec.Name
	p := b.pods[key]
	for _, other := range b.surges { // order: one is enough
		if other.Namespace == p.seen.Namespace() && other.Deployment == p.seen.Deployment {
			return
		}
	}
	accepted := *d
	accepted.Yields = false // who holds the room is known here
	if err := b.apply(world.Accepted{Decision: accepted}); err != nil {
		b.log.Warn("a decision is not accepted", "because", err)
		return
	}
	b.surges[key] = &Surge{
		Namespace: p.seen.Namespace(), Deployment: p.seen.Deployment, Pod: Ref{Key: key, UID: p.seen.UID}, Step: surgeLook, For: d.Yields, id: d.ID, since: b.now,
	}
	b.going[d.ID] = true
	b.tellMove(v, key, d)
	b.step(b.surges[key])
}

// succeedBy takes in a decision to let a pod go whose heir is ready.
func (b *books) succeedBy(v *cluster.View, d *decision.Decision) {
	key := v.Pod(d.Pod).Spec.Name
	s := b.surges[key]
	if s == nil || s.Step != surgeUp || s.flying {
		return // not yet
	}
	if err := b.apply(world.Accepted{Decision: *d}); err != nil {
		b.log.Warn("a decision is not accepted", "because", err)
		return
	}
	p := b.pods[key]
	p.evicting, p.leaving = true, true
	s.Step = surgeDown
	b.step(s)
}

// inherited remembers who comes in place of a pod that is replaced.
func (b *books) inherited(decided uint64, heir string) {
	for _, s := range b.surges { // order: one has the id
		if decided != 0 && s.id == decided {
			s.Heir = Ref{Key: heir, UID: b.pods[heir].seen.UID}
		}
	}
}

// step hands a step out.
func (b *books) step(s *Surge) {
	s.flying, s.done, s.since = true, false, b.now
	task := SurgeTask{Surge: *s}
	if s.Step != surgeLook {
		task.Keep = b.keeping()
	}
	b.dueStep = append(b.dueStep, task)
}

// surged takes in what became of a step.
func (b *books) surged(o *SurgeOutcome) {
	s := b.surges[o.Pod]
	if s == nil || s.Step != o.Step {
		return
	}
	s.flying, s.done = false, o.Err == nil
	if o.Err != nil {
		b.log.Warn("a Deployment was not scaled", "deployment", s.Namespace+"/"+s.Deployment, "step", string(s.Step), "because", o.Err)
	}
	switch {
	case s.Step == surgeLook && (o.Err != nil || !b.replacing(s)):
		b.endReplace(s)
		delete(b.surges, o.Pod)
	case s.Step == surgeLook:
		s.Replicas, s.Step = o.Replicas, surgeUp
		b.step(s)
	case s.Step == surgeUp && o.Err != nil:
		b.endReplace(s)
		b.undo(s) // it may have been written all the same
	case s.Step == surgeDown && o.Err != nil:
		b.remain(o.Pod)
		b.undo(s)
	case s.Step == surgeUndo && o.Err == nil:
		delete(b.surges, o.Pod)
	}
	b.stirred = true
}

// undo takes a surge back: as many as before, and the heir goes.
func (b *books) undo(s *Surge) {
	s.Step = surgeUndo
	b.step(s)
}

// replacing says whether the world knows of a pod that it is to be replaced still.
func (b *books) replacing(s *Surge) bool {
	g := b.world.View().Legacy(s.id)
	return g != nil && g.Surge
}

// endReplace ends the replacement of a pod, which goes on.
func (b *books) endReplace(s *Surge) {
	if b.replacing(s) {
		b.must(world.LegacyDropped{ID: s.id})
	}
}

// remain books that a pod was not told to go after all.
func (b *books) remain(key string) {
	if p := b.pods[key]; p != nil && p.evicting {
		b.stay(key, p, false)
	}
}

// followSurges looks once a second at how surges stand.
func (b *books) followSurges() {
	for _, key := range slices.Sorted(maps.Keys(b.surges)) {
		s := b.surges[key]
		p := b.pods[key]
		there := p != nil && p.seen.UID == s.Pod.UID
		switch {
		case s.flying:
		case s.Step == surgeDown && (!there || p.seen.Leaving):
			delete(b.surges, key) // it has come to its end
		case s.Step == surgeDown && b.now.Sub(s.since) > goneWithin:
			b.log.Warn("a Deployment was scaled down, and another pod was taken away", "deployment", s.Namespace+"/"+s.Deployment, "pod", key)
			b.remain(key)
			delete(b.surges, key)
		case s.Step == surgeUp && !b.replacing(s):
			b.undo(s)
		case s.Step == surgeUndo && b.now.Sub(s.since) > undoAgain:
			b.undo(s)
		}
	}
}

// undoSurges takes back what an instance before this one has not brought to its end.
func (b *books) undoSurges(kept []Surge) {
	for i := range kept {
		s := kept[i]
		b.surges[s.Pod.Key] = &s
		if s.Step == surgeUp {
			s.Step = surgeUndo
		}
		b.step(&s)
	}
}

// takeSteps returns the steps that were not handed out yet.
func (b *books) takeSteps() []SurgeTask {
	due := b.dueStep
	b.dueStep = nil
	return due
}
