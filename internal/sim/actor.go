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
	byName  map[string]int32
	devices []card // all GPUs of all nodes, in order
	first   []int32
	caches  []model.Cache
	held    []decision.Decision // binds that wait for evictions to end
	nodes   map[string]int32
}

// life is one pod from arrival to end.
type life struct {
	pod     *trace.Pod
	state   lifeState
	version int32 // rises with every turn of fate; older happenings are void
	node    int32
	cards   []int32

	arrived, boundAt, startedAt, endedAt moment.Instant
	firstBound                           moment.Instant
	progress                             moment.Span // in run time alone
	rate                                 quantity.Milli
	settled                              moment.Instant
	busy                                 quantity.Milli // of each card, at full rate
	begun                                bool           // was bound once
}

type lifeState uint8

const (
	toCome lifeState = iota
	inLine
	placing
	starting
	running
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
	for i := range c.Workload.Nodes {
		a.nodes[c.Workload.Nodes[i].Name] = int32(i)
		a.first = append(a.first, int32(len(a.devices)))
		for k := range c.Workload.Nodes[i].GPUs {
			a.devices = append(a.devices, card{node: int32(i), index: int32(k)})
		}
		a.caches = append(a.caches, model.NewCache(model.NodeCache))
	}
	return a
}

func (a *actor) arrived(index int32) {
	l := &a.lives[index]
	l.state, l.arrived = inLine, a.now
}

// accepted begins to carry a decision out; a bind whose room is not free yet is
// kept for later.
func (a *actor) accepted(d *decision.Decision) {
	v := a.world.View()
	if d.Action == cluster.ActionBind && a.world.Holds(d) {
		a.held = append(a.held, *d)
		if d.Deadline != moment.Never {
			a.agenda.add(d.Deadline, lapses, -1, 0)
		}
		return
	}
	index := a.byName[v.Pod(d.Pod).Spec.Name]
	l := &a.lives[index]
	l.version++
	switch d.Action {
	case cluster.ActionBind:
		n := v.Node(d.Place.Node)
		l.state = placing
		l.node = a.nodes[n.Spec.Name]
		l.cards = l.cards[:0]
		for _, g := range d.Place.Grants {
			l.cards = append(l.cards, a.first[l.node]+int32(g.Device-n.Spec.FirstDevice))
		}
		a.hold(index)
		a.agenda.add(a.now.Add(bindTakes), isBound, index, l.version)
	case cluster.ActionEvict:
		a.stopWork(index)
		l.state = leaving
		a.agenda.add(a.now.Add(leaveTakes), leaves, index, l.version)
	}
}

// releaseHeld carries out the held binds whose evictions have ended, bundle by bundle;
// those that the world has outrun are dropped, and their pods wait again.
func (a *actor) releaseHeld() error {
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
				a.accepted(&bundle[i])
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
		return a.apply(a.now, world.BindRefused{Name: l.pod.Name})
	}
	if err := a.apply(a.now, world.Bound{Name: l.pod.Name}); err != nil {
		return err
	}
	l.state, l.boundAt = starting, a.now
	if !l.begun {
		l.begun, l.firstBound = true, a.now
		a.result.Placed++
	}
	cache := &a.caches[l.node]
	span := model.StartUp(l.pod.Use, cache.Holds(l.pod))
	cache.Use(l.pod)
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
	l.state, l.startedAt, l.settled = running, a.now, a.now
	a.meter.started(l)
	a.rephase(h.subject)
	return nil
}

// turn ends a phase of a running pod, or its work.
func (a *actor) turn(h happening) error {
	l := &a.lives[h.subject]
	if l.version != h.version {
		return nil
	}
	a.advance(l)
	if l.progress < l.pod.Duration {
		a.rephase(h.subject)
		return nil
	}
	a.stopWork(h.subject)
	a.release(h.subject)
	l.state, l.endedAt = ended, a.now
	l.version++
	a.pending--
	a.meter.ended(l)
	if err := a.learnNeed(l.pod); err != nil {
		return err
	}
	a.planCycle()
	return a.apply(a.now, world.PodRemoved{Name: l.pod.Name})
}

// left reports that an evicted pod is gone from its node.
func (a *actor) left(h happening) error {
	l := &a.lives[h.subject]
	if l.version != h.version {
		return nil
	}
	a.restartFromNothing(h.subject)
	a.planCycle()
	return a.apply(a.now, world.Evicted{Name: l.pod.Name})
}

// lost takes a pod off what broke under it. The event to the world is the
// caller's.
func (a *actor) lost(name string) {
	index := a.byName[name]
	a.stopWork(index)
	a.restartFromNothing(index)
}

// restartFromNothing makes a pod wait again; what it had done is lost.
func (a *actor) restartFromNothing(index int32) {
	l := &a.lives[index]
	a.release(index)
	l.state, l.progress = inLine, 0
	l.version++
}

// emptied forgets what a broken node had on its disk.
func (a *actor) emptied(node int32) { a.caches[node] = model.NewCache(model.NodeCache) }

// hold and release book which pods hold a part of which card.
func (a *actor) hold(index int32) {
	a.meter.asked += int64(a.lives[index].pod.GPUDemand())
	for _, c := range a.lives[index].cards {
		d := &a.devices[c]
		if len(d.pods) == 0 {
			a.meter.held++
		}
		d.pods = append(d.pods, index)
	}
}

func (a *actor) release(index int32) {
	l := &a.lives[index]
	a.meter.asked -= int64(l.pod.GPUDemand())
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

// advance books the progress made since the last look.
func (a *actor) advance(l *life) {
	if span := a.now.Since(l.settled); span > 0 && l.state == running {
		l.progress += moment.Span(quantity.MulDiv(int64(span), int64(l.rate), int64(quantity.One)))
	}
	l.settled = a.now
}

// rephase sets a pod's busy share from its progress, and all rates on its cards.
func (a *actor) rephase(index int32) {
	l := &a.lives[index]
	l.busy = model.PhaseAt(l.pod, l.progress).Busy
	a.reload(index)
}

// stopWork makes a pod idle on its cards.
func (a *actor) stopWork(index int32) {
	l := &a.lives[index]
	if l.state != running {
		return
	}
	a.advance(l)
	l.busy = 0
	l.state = leaving
	a.reload(index)
}

// reload recomputes the load of a pod's cards and the rates of all pods on them.
func (a *actor) reload(index int32) {
	if len(a.lives[index].cards) == 0 {
		a.replan(index)
		return
	}
	for _, c := range a.lives[index].cards {
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
	replanned := make(map[int32]bool, 4)
	for _, c := range a.lives[index].cards {
		for _, pod := range a.devices[c].pods {
			if !replanned[pod] {
				replanned[pod] = true
				a.replan(pod)
			}
		}
	}
}

// behaves says whether it is known how a pod uses its cards.
func behaves(p *trace.Pod) bool { return p.Use.LoadPhase+p.Use.ComputePhase > 0 }

// replan sets the rate of a running pod and when its phase ends.
func (a *actor) replan(index int32) {
	l := &a.lives[index]
	if l.state != running {
		return
	}
	a.advance(l)
	l.rate = quantity.One
	for _, c := range l.cards {
		// A recorded duration holds the neighbours of its time; only pods whose
		// behaviour is known slow down with those of the simulation.
		if behaves(l.pod) {
			l.rate = min(l.rate, model.Rate(l.busy, a.devices[c].busy))
		}
	}
	l.rate = max(l.rate, 1)
	l.version++
	left := model.PhaseAt(l.pod, l.progress).Left
	span := quantity.MulDiv(int64(left), int64(quantity.One), int64(l.rate))
	// Rounded up, so that the work is done when the turn comes.
	a.agenda.add(a.now.Add(moment.Span(span+1)), turns, index, l.version)
}
