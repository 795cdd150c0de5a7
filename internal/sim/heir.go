package sim

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// The simulation plays the controller of services: when a pod is to be replaced it makes
// another, which takes over the work once it runs; and it takes away those of whom there
// is one too many.

// answersAfter is how long a controller takes to make a pod.
const answersAfter = moment.Second

// serve says of a pod of a service that others may come in its place: those that are made
// for it, and no other that is alike, which has work of its own.
func (a *actor) serve(index int32, e *world.PodAdded) {
	if l := &a.lives[index]; l.pod.Service {
		e.Owner, e.Surges = a.jobs[l.job].name, true
	}
}

// replaces foresees the heir of a pod, and when room is kept for it no longer.
func (a *actor) replaces(d *decision.Decision, index int32) {
	a.agenda.add(a.now.Add(answersAfter), comes, index, a.lives[index].version)
	a.agenda.add(d.Target.Until, lapses, -1, 0)
}

// comes makes the heir of a pod that is to be replaced still.
func (a *actor) comes(h happening) error {
	old := a.lives[h.subject]
	id, known := a.world.Pod(old.pod.Name)
	if old.version != h.version || !known || !a.world.View().Replaced(a.world.View().Pod(id)) {
		return nil
	}
	pod := *old.pod
	a.heirs++
	pod.Name = fmt.Sprintf("%s~%d", pod.Kind, a.heirs)
	index := int32(len(a.lives))
	a.lives = append(a.lives, life{pod: &pod, node: -1, state: inLine, job: old.job, arrived: old.arrived, begun: true, extra: true, heirOf: old.pod.Name})
	a.byName[pod.Name] = index
	a.extras = append(a.extras, index)
	e := podAdded(&pod, a.whole)
	a.serve(index, &e)
	e.Job, e.HeirOf = a.jobs[old.job].told(old.pod), old.pod.Name
	var err error
	if e.Artifacts, err = a.declare(&pod); err != nil {
		return err
	}
	a.planCycle()
	return a.apply(a.now, e)
}

// told names the job of a pod, where the world is told of it.
func (w *work) told(p *trace.Pod) string {
	if told(p) {
		return w.name
	}
	return ""
}

// takeOver gives the work of a pod that is told to go to its heir, which runs.
func (a *actor) takeOver(index, heir int32) {
	old, next := &a.lives[index], &a.lives[heir]
	if old.extra { // an heir itself, which has no work yet
		old.state, next.heirOf = leaving, old.heirOf
		return
	}
	w := &a.jobs[old.job]
	a.advance(w)
	w.lives[slices.Index(w.lives, index)] = heir
	if old.state != running { // it has not begun yet
		w.running++
		w.settled, w.since = a.now, a.now
	}
	old.state, old.extra, old.busy = leaving, true, 0
	next.state, next.extra = running, false
	a.extras[slices.Index(a.extras, heir)] = index
	a.rephase(w)
	a.reload(index)
}

// dropExtras gives up what is kept for heirs in vain, and takes pods away of whom there is
// one too many: heirs of those that go on, or have ended, and those whose node is gone.
func (a *actor) dropExtras() error {
	for _, id := range a.world.Forlorn(a.now) {
		if err := a.apply(a.now, world.LegacyDropped{ID: id}); err != nil {
			return err
		}
		a.planCycle()
	}
	for _, index := range slices.Clone(a.extras) {
		if l := &a.lives[index]; l.state == leaving || a.awaited(l) {
			continue
		}
		if err := a.retire(index); err != nil {
			return err
		}
	}
	return nil
}

// awaited says whether an heir is to take over still.
func (a *actor) awaited(l *life) bool {
	return slices.ContainsFunc(a.world.View().Legacies(), func(g cluster.Legacy) bool { return g.Surge && g.Name == l.heirOf })
}

// retire takes an extra pod away, wherever it stands.
func (a *actor) retire(index int32) error {
	l := &a.lives[index]
	if l.state == placing || l.state == starting || l.state == standby || l.state == leaving {
		a.release(index)
	}
	l.state = ended
	l.version++
	a.extras = slices.DeleteFunc(a.extras, func(other int32) bool { return other == index })
	a.planCycle()
	return a.apply(a.now, world.PodRemoved{Name: l.pod.Name})
}
