package sim

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// actor is the cluster as it behaves: it carries decisions out and reports what
// came of them as events.
type actor struct {
	*clock
	lives   []life // per pod of the workload
	jobs    []work
	byName  map[string]int32
	devices []card // all GPUs of all nodes, in order
	first   []int32
	store   store
	held    []decision.Decision // binds that wait for evictions to end
	resizes []decision.Decision // not carried out yet
	nodes   map[string]int32
	// saves says that checkpoints are reported, durations that jobs say how long they
	// have to run: as the policy asks for.
	saves, durations bool
	replanned        []int32 // jobs, of one call of reload
	memoryFailures   int     // starts that found no memory
	// extras are the pods that have a place beside those of their jobs: heirs that have not
	// taken over yet, and those who go for one that has. heirs counts them.
	extras  []int32
	heirs   int
	nextTry moment.Instant // for which planNextTry has planned a cycle
}

// life is one pod from arrival to end.
type life struct {
	pod     *trace.Pod
	state   lifeState
	version int32 // rises with every turn of fate; older happenings are void
	job     int32
	node    int32
	cards   []int32

	arrived, boundAt, startedAt moment.Instant
	busy                        quantity.Milli // of each card, at full rate
	part                        quantity.Milli // of what it asked for, that it holds
	begun                       bool           // was bound once
	saves                       bool           // it saves its state before it leaves
	extra                       bool           // it does no work of its job
	heirOf                      string         // the pod that it is to replace
}

type lifeState uint8

const (
	toCome lifeState = iota
	inLine
	placing
	starting
	running
	standby // an heir that could run
	leaving
	ended
)

// card is one GPU as it behaves.
type card struct {
	node, index int32
	pods        []int32 // lives that hold a part, oldest first
	busy        quantity.Milli
}

func newActor(c *clock) *actor {
	a := &actor{clock: c, lives: make([]life, len(c.Workload.Pods)), byName: make(map[string]int32, len(c.Workload.Pods)), nodes: make(map[string]int32)}
	for i := range c.Workload.Pods {
		a.lives[i] = life{pod: &c.Workload.Pods[i], node: -1}
		a.byName[c.Workload.Pods[i].Name] = int32(i)
	}
	a.employ()
	a.durations, a.saves = c.knows, c.learner != nil
	for i := range c.Workload.Nodes {
		a.nodes[c.Workload.Nodes[i].Name] = int32(i)
		a.first = append(a.first, int32(len(a.devices)))
		for k := range c.Workload.Nodes[i].GPUs {
			a.devices = append(a.devices, card{node: int32(i), index: int32(k)})
		}
	}
	a.store = newStore(c)
	return a
}

func (a *actor) arrived(index int32) {
	l := &a.lives[index]
	l.state, l.arrived = inLine, a.now
	a.jobs[l.job].inLine = a.now
	a.seer.joins(l.job)
}

// accepted begins to carry a decision out; a bind whose room is not free yet is
// kept for later.
func (a *actor) accepted(d *decision.Decision) error {
	v := a.world.View()
	if d.Action == cluster.ActionScale {
		return nil // its workers come and go by decisions of their own
	}
	if d.Action == cluster.ActionBind && a.world.Holds(d) {
		a.held = append(a.held, *d)
		if d.Deadline != moment.Never {
			a.agenda.add(d.Deadline, lapses, -1, 0)
		}
		return nil
	}
	if d.Action == cluster.ActionPrefetch {
		return a.prefetch(d)
	}
	if d.Action == cluster.ActionResize {
		a.resizes = append(a.resizes, *d)
		return nil
	}
	index := a.byName[v.Pod(d.Pod).Spec.Name]
	l := &a.lives[index]
	if d.Action == cluster.ActionReplace {
		a.replaces(d, index)
		return nil
	}
	l.version++
	switch d.Action {
	case cluster.ActionBind:
		n := v.Node(d.Place.Node)
		l.state, l.part = placing, quantity.One
		l.node = a.nodes[n.Spec.Name]
		l.cards = l.cards[:0]
		for _, g := range d.Place.Grants {
			l.cards = append(l.cards, a.first[l.node]+int32(g.Device-n.Spec.FirstDevice))
		}
		a.hold(index)
		a.agenda.add(a.now.Add(bindTakes), isBound, index, l.version)
		if g := v.Legacy(d.Inherits); g != nil {
			a.agenda.add(g.Until, lapses, -1, 0)
		}
	case cluster.ActionEvict:
		if heir := d.Because.ReplacedBy; heir != "" {
			a.takeOver(index, a.byName[heir])
			a.agenda.add(a.now.Add(leaveTakes), leaves, index, l.version)
			return nil
		}
		takes := leaveTakes
		if d.Save {
			takes += min(l.pod.Save, max(d.Deadline.Since(a.now), 0))
			l.saves = l.pod.Save <= d.Deadline.Since(a.now)
		}
		if err := a.interrupt(&a.jobs[l.job], true, l.saves); err != nil {
			return err
		}
		a.stopWork(index)
		l.state = leaving
		a.agenda.add(a.now.Add(takes), leaves, index, l.version)
	}
	return nil
}

// releaseHeld carries out the held binds whose evictions have ended, bundle by bundle;
// those that the world has outrun are dropped, and their pods wait again.
func (a *actor) releaseHeld() error {
	if err := a.carryResizes(); err != nil {
		return err
	}
	for _, name := range a.world.Lapsed(a.now) {
		a.planCycle()
		if err := a.apply(a.now, world.HoldDropped{Name: name}); err != nil {
			return err
		}
	}
	plan := decision.Plan{Decisions: a.held}
	var still []decision.Decision
	for _, bundle := range plan.Bundles() {
		switch {
		case !a.world.Holds(&bundle[0]):
			a.planCycle()
			continue
		case a.world.UnderWay(bundle[0].After) || slices.ContainsFunc(bundle, func(d decision.Decision) bool { return a.world.UnderWay(d.After) }):
			still = append(still, bundle...)
			continue
		}
		if err := a.apply(a.now, world.Acceptance(bundle)); err == nil {
			for i := range bundle {
				if err := a.accepted(&bundle[i]); err != nil {
					return err
				}
			}
			continue
		}
		a.planCycle()
		if err := a.apply(a.now, world.HoldDropped{Name: a.world.View().Pod(bundle[0].Pod).Spec.Name}); err != nil {
			return err
		}
	}
	a.held = still
	return nil
}

// bound reports the outcome of a bind.
func (a *actor) bound(h happening) error {
	l := &a.lives[h.subject]
	if l.version != h.version {
		return nil
	}
	if a.Failures.RefuseMilli > 0 && a.source.Below(1000) < a.Failures.RefuseMilli {
		a.release(h.subject)
		l.state = inLine
		l.version++
		a.planCycle()
		err := a.apply(a.now, world.BindRefused{Name: l.pod.Name})
		a.planNextTry()
		return err
	}
	if err := a.apply(a.now, world.Bound{Name: l.pod.Name}); err != nil {
		return err
	}
	l.state, l.boundAt = starting, a.now
	if !l.begun {
		l.begun = true
		a.result.Placed++
	}
	if w := &a.jobs[l.job]; w.seats == len(w.lives) && !w.placed {
		w.placed, w.first = true, a.now
	}
	span, err := a.fetchFor(h.subject)
	if err != nil {
		return err
	}
	a.agenda.add(a.now.Add(span), starts, h.subject, l.version)
	return nil
}

// start begins a pod's work.
func (a *actor) start(h happening) error {
	l := &a.lives[h.subject]
	if l.version != h.version {
		return nil
	}
	if err := a.apply(a.now, world.Started{Name: l.pod.Name}); err != nil {
		return err
	}
	if took := a.shortOfMemory(h.subject); len(took) > 0 {
		return a.failForMemory(h.subject, took)
	}
	if l.extra {
		l.state = standby
		a.planCycle()
		return nil
	}
	l.state, l.startedAt = running, a.now
	a.meter.started(l)
	w := &a.jobs[l.job]
	if w.running++; w.runs() {
		w.settled, w.since = a.now, a.now
		a.rephase(w)
	}
	return nil
}

// left reports that an evicted pod is gone from its node.
func (a *actor) left(h happening) error {
	l := &a.lives[h.subject]
	if l.version != h.version {
		return nil
	}
	if l.extra {
		return a.retire(h.subject)
	}
	if l.saves {
		l.saves = false
		if err := a.apply(a.now, world.JobCheckpointed{Name: a.jobs[l.job].name, At: a.now}); err != nil {
			return err
		}
	}
	a.backInLine(h.subject)
	a.planCycle()
	err := a.apply(a.now, world.Evicted{Name: l.pod.Name})
	if len(a.world.View().Returned()) > 0 {
		a.planNextTry()
	}
	return err
}

// planNextTry plans a cycle for when the next that backs off has its turn again, if none
// is planned for then.
func (a *actor) planNextTry() {
	if at, backsOff := a.world.View().NextTry(a.now); backsOff && at != a.nextTry {
		a.nextTry = at
		a.agenda.add(at, decides, 0, 0)
	}
}

// lost takes a pod off what broke under it. The event to the world is the
// caller's.
func (a *actor) lost(name string) error {
	index := a.byName[name]
	if a.lives[index].extra {
		a.backInLine(index)
		return nil
	}
	if err := a.interrupt(&a.jobs[a.lives[index].job], false, false); err != nil {
		return err
	}
	a.stopWork(index)
	a.backInLine(index)
	return nil
}

// backInLine makes a pod wait again.
func (a *actor) backInLine(index int32) {
	l := &a.lives[index]
	a.release(index)
	l.state, l.saves = inLine, false
	l.version++
}

// hold and release book which pods hold a part of which card.
func (a *actor) hold(index int32) {
	l := &a.lives[index]
	a.meter.hold(l.pod, 1)
	w := &a.jobs[l.job]
	if !l.extra {
		w.seats++
	}
	if !l.extra && w.seats == len(w.lives) {
		w.waited += a.now.Since(w.inLine)
		a.seer.starts(l.job)
	}
	for _, c := range l.cards {
		d := &a.devices[c]
		if len(d.pods) == 0 {
			a.meter.held++
		}
		d.pods = append(d.pods, index)
	}
}

func (a *actor) release(index int32) {
	l := &a.lives[index]
	a.meter.hold(l.pod, -1)
	w := &a.jobs[l.job]
	if !l.extra && w.seats == len(w.lives) {
		w.inLine = a.now
		a.seer.joins(l.job)
	}
	if !l.extra {
		w.seats--
	}
	for _, c := range l.cards {
		d := &a.devices[c]
		for i, pod := range d.pods {
			if pod == index {
				d.pods = append(d.pods[:i], d.pods[i+1:]...)
				break
			}
		}
		if len(d.pods) == 0 {
			a.meter.held--
		}
	}
	l.cards = l.cards[:0]
}

// rephase sets a running job's busy share from its progress, and all rates on its
// cards.
func (a *actor) rephase(w *work) {
	for _, member := range w.lives {
		l := &a.lives[member]
		l.busy = model.PhaseAt(l.pod, w.progress).Busy
		a.reload(member)
	}
}

// stopWork makes a pod idle on its cards.
func (a *actor) stopWork(index int32) {
	l := &a.lives[index]
	if l.state != running {
		return
	}
	w := &a.jobs[l.job]
	a.advance(w)
	w.running--
	l.state = leaving
	for _, member := range w.lives { // without one, all stand idle
		a.lives[member].busy = 0
		a.reload(member)
	}
}

// reload recomputes the load of a pod's cards and the rates of all jobs on them.
func (a *actor) reload(index int32) {
	l := &a.lives[index]
	if len(l.cards) == 0 {
		a.replan(&a.jobs[l.job], l.job)
		return
	}
	for _, c := range l.cards {
		d := &a.devices[c]
		total := quantity.Milli(0)
		for _, pod := range d.pods {
			if l := &a.lives[pod]; l.state == running {
				total += l.busy
			}
		}
		a.meter.busy += min(int64(total), 1000) - min(int64(d.busy), 1000)
		d.busy = total
	}
	a.replanned = a.replanned[:0]
	for _, c := range l.cards {
		for _, pod := range a.devices[c].pods {
			if job := a.lives[pod].job; !slices.Contains(a.replanned, job) {
				a.replanned = append(a.replanned, job)
				a.replan(&a.jobs[job], job)
			}
		}
	}
}

// behaves says whether it is known how a pod uses its cards.
func behaves(p *trace.Pod) bool { return p.Use.LoadPhase+p.Use.ComputePhase > 0 }
