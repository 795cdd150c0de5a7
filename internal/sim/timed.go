package sim

import (
	"errors"
	"fmt"
	"math"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// The rhythms and latencies of a timed run.
const (
	// batchWindow is how long an arrival cycle waits for more to come.
	batchWindow = 10 * moment.Millisecond
	// reviewEvery is the interval of the review cycle.
	reviewEvery = 10 * moment.Second
	// bindTakes is from a decision to its outcome: one write on an API server.
	bindTakes = 5 * moment.Millisecond
	// leaveTakes is from an eviction to the pod being gone: the default grace
	// period of Kubernetes.
	leaveTakes = 30 * moment.Second
)

// Failures says how often things break, as mean times, exponentially
// distributed; zero is never. A broken node loses its pods and comes back empty.
type Failures struct {
	NodeEvery   moment.Span // between failures of one node
	NodeRepair  moment.Span
	GPUEvery    moment.Span // between failures of one GPU
	GPURepair   moment.Span
	RefuseMilli int64 // binds that the API refuses, in thousandths
}

// clock is a timed run in progress.
type clock struct {
	*run
	agenda agenda
	now    moment.Instant
	actor  *actor
	meter  *account
	source *chance.Source

	lastArrival   moment.Instant
	cyclePlanned  bool
	reviewPlanned bool
	// seen is what the last cycle saw: with the same world and the same waiting
	// pods a review would think the same again.
	seen    uint64
	idle    bool
	unmoved bool               // nobody has looked yet whether others may move for who waits
	pending int                // pods that have not ended
	waits   []decision.Waiting // as of the last cycle
	seer    *seer              // nil where nobody asks for start times
}

// timed runs the workload against the clock until all pods have ended, or
// nothing can happen any more.
func (r *run) timed() error {
	if !r.Workload.Timed {
		return errors.New("the workload has no times: timed mode needs arrivals and durations")
	}
	c := &clock{run: r, source: chance.New(r.Seed), pending: len(r.Workload.Pods)}
	c.actor = newActor(c)
	c.meter = newAccount(c)
	c.schedule()
	for i := range c.Workload.Nodes {
		if err := c.actor.equip(c.Workload.Nodes[i].Name); err != nil {
			return err
		}
	}
	c.foresee()
	for {
		h, more := c.agenda.next()
		if !more || c.pending == 0 {
			break
		}
		c.meter.settle(h.at)
		c.now = h.at
		err := c.happen(h)
		if err == nil && len(c.world.View().Legacies())+len(c.actor.extras) > 0 {
			err = c.actor.dropExtras()
		}
		if err == nil && len(c.actor.held)+len(c.actor.resizes) > 0 {
			err = c.actor.releaseHeld()
		}
		if err != nil {
			return fmt.Errorf("at %v: %w", h.at, err)
		}
	}
	c.stillWaiting()
	c.meter.report(&r.result)
	if c.seer != nil {
		c.seer.report(&r.result)
	}
	return nil
}

// schedule puts what is known beforehand on the agenda.
func (c *clock) schedule() {
	for i := range c.Workload.Pods {
		at := c.Workload.Pods[i].Arrival
		c.agenda.add(at, arrives, int32(i), 0)
		c.lastArrival = max(c.lastArrival, at)
	}
	for i := range c.Workload.Nodes {
		c.planFailure(c.Failures.NodeEvery, breaks, int32(i))
	}
	for i := range c.actor.devices {
		c.planFailure(c.Failures.GPUEvery, sickens, int32(i))
	}
	c.agenda.add(0, samples, 0, 0)
	if len(c.Workload.Queues) > 0 {
		c.agenda.add(moment.Instant(cluster.QuotaEpoch), epochs, 0, 0)
	}
}

// planFailure draws the next failure of a thing; failures end with the arrivals,
// so that a run ends.
func (c *clock) planFailure(mean moment.Span, kind happeningKind, subject int32) {
	if mean <= 0 {
		return
	}
	if at := c.now.Add(c.exponential(mean)); at < c.lastArrival {
		c.agenda.add(at, kind, subject, 0)
	}
}

// exponential draws a span of the given mean.
func (c *clock) exponential(mean moment.Span) moment.Span {
	uniform := (float64(c.source.Uint64()>>11) + 0.5) / (1 << 53)
	return moment.Span(-math.Log(uniform) * float64(mean))
}

// happen deals with one happening: the actor tells the world, and a cycle is
// planned where the answer may have changed.
func (c *clock) happen(h happening) error {
	switch h.kind {
	case arrives:
		return c.arrive(h.subject)
	case isBound:
		return c.actor.bound(h)
	case starts:
		return c.actor.start(h)
	case turns:
		return c.actor.turn(h)
	case saves:
		return c.actor.saved(h)
	case leaves:
		return c.actor.left(h)
	case breaks:
		return c.breakNode(h.subject)
	case mends:
		return c.mendNode(h.subject)
	case sickens:
		return c.sicken(h.subject)
	case heals:
		return c.heal(h.subject)
	case lapses:
		return nil // held room is looked at after every happening
	case epochs:
		return c.epoch()
	case owes:
		c.planCycle()
		return nil
	case comes:
		return c.actor.comes(h)
	case fetched:
		return c.actor.fetched(h)
	case foretells:
		return c.lookAhead()
	case decides:
		c.cyclePlanned = false
		return c.think(decision.CycleArrival)
	case reviews:
		c.reviewPlanned = false
		return c.review()
	}
	return c.sample()
}

func (c *clock) arrive(index int32) error {
	pod := &c.Workload.Pods[index]
	if w := &c.actor.jobs[c.actor.lives[index].job]; w.lives[0] == index {
		if err := c.actor.announce(w); err != nil {
			return err
		}
	}
	added := podAdded(pod, c.whole)
	c.actor.serve(index, &added)
	var err error
	if added.Artifacts, err = c.actor.declare(pod); err != nil {
		return err
	}
	if c.knows && !told(pod) {
		added.Expected = pod.Duration // of others, their job says it
	}
	if err := c.apply(c.now, added); err != nil {
		return err
	}
	before := c.world.View().Beliefs
	if err := c.learn(pod.Name); err != nil {
		return err
	}
	if c.world.View().Beliefs != before {
		c.reconsider()
	}
	c.actor.arrived(index)
	c.meter.demand(pod, 1)
	c.meter.arrived += int64(pod.GPUDemand())
	c.planCycle()
	c.progress(int(index), len(c.Workload.Pods))
	return nil
}

// planCycle opens the batch window of an arrival cycle, unless one is open.
func (c *clock) planCycle() {
	if !c.cyclePlanned {
		c.cyclePlanned = true
		c.agenda.add(c.now.Add(batchWindow), decides, 0, 0)
	}
}

// planReview keeps the second rhythm going while pods wait.
func (c *clock) planReview() {
	if !c.reviewPlanned {
		c.reviewPlanned = true
		next := moment.Instant((int64(c.now)/int64(reviewEvery) + 1) * int64(reviewEvery))
		c.agenda.add(next, reviews, 0, 0)
	}
}

// review thinks again unless nothing has changed since the last cycle: Decide is
// pure, and time alone makes no room.
func (c *clock) review() error {
	v := c.world.View()
	if c.idle && v.Position() == c.seen && !c.unmoved {
		return nil
	}
	return c.think(decision.CycleReview)
}

// think runs one cycle and commits to its plan.
func (c *clock) think(kind decision.CycleKind) error {
	_, plan := c.decide(c.now, kind)
	for _, bundle := range plan.Bundles() {
		if err := c.apply(c.now, world.Acceptance(bundle)); err != nil {
			return err
		}
		c.countMoves(bundle)
		for i := range bundle {
			if err := c.actor.accepted(&bundle[i]); err != nil {
				return err
			}
		}
	}
	v := c.world.View()
	c.waits = plan.Waiting
	c.meter.waiting = len(plan.Waiting)
	c.seen, c.idle = v.Position(), len(plan.Decisions) == 0
	c.unmoved = c.decider.Tidies != nil && kind == decision.CycleArrival
	if len(plan.Waiting) > 0 && (!c.idle || c.unmoved) {
		c.planReview()
	}
	c.actor.planNextTry()
	if c.seer != nil {
		c.seer.greet()
	}
	return nil
}

// sample reads the meters, as long as anything else is going to happen.
func (c *clock) sample() error {
	c.meter.sample()
	if !c.agenda.onlyKeepsTime() {
		c.agenda.add(c.now.Add(c.meter.every), samples, 0, 0)
	}
	return nil
}

// epoch begins a quota epoch, which may change whose turn it is where the policy
// looks at queues.
func (c *clock) epoch() error {
	if c.agenda.onlyKeepsTime() {
		return nil
	}
	c.agenda.add(c.now.Add(cluster.QuotaEpoch), epochs, 0, 0)
	if c.meter.waiting > 0 && c.decider.Round == nil {
		c.planCycle()
	}
	return c.apply(c.now, world.EpochBegan{})
}

// stillWaiting counts the reasons of pods that never got a place.
func (c *clock) stillWaiting() {
	v := c.world.View()
	for i := range c.waits {
		if p := v.Pod(c.waits[i].Pod); p.Phase == cluster.PhaseWaiting || p.Reserved {
			c.countReason(v, *c.waits[i].Why)
		}
	}
}

// breakNode takes a node away with all that runs on it.
func (c *clock) breakNode(index int32) error {
	node := &c.Workload.Nodes[index]
	id, up := c.world.Node(node.Name)
	if !up {
		return nil
	}
	pods := append([]cluster.PodID(nil), c.world.View().Node(id).Pods...)
	for _, pod := range pods {
		if err := c.actor.lost(c.world.View().Pod(pod).Spec.Name); err != nil {
			return err
		}
	}
	if err := c.apply(c.now, world.NodeRemoved{Name: node.Name}); err != nil {
		return err
	}
	c.actor.emptied(index)
	c.agenda.add(c.now.Add(max(c.exponential(c.Failures.NodeRepair), moment.Second)), mends, index, 0)
	c.planCycle()
	return nil
}

func (c *clock) mendNode(index int32) error {
	node := &c.Workload.Nodes[index]
	if err := c.apply(c.now, nodeAdded(node, domainName(node), c.whole)); err != nil {
		return err
	}
	c.planFailure(c.Failures.NodeEvery, breaks, index)
	c.planCycle()
	return c.actor.equip(node.Name)
}

// sicken makes a device fail; the pods on it are lost and wait again.
func (c *clock) sicken(device int32) error {
	d := &c.actor.devices[device]
	node := &c.Workload.Nodes[d.node]
	id, up := c.world.Node(node.Name)
	if !up {
		c.planFailure(c.Failures.GPUEvery, sickens, device)
		return nil
	}
	if err := c.apply(c.now, world.DeviceHealth{Node: node.Name, Device: d.index, Health: cluster.Sick}); err != nil {
		return err
	}
	n := c.world.View().Node(id)
	hit := n.Spec.FirstDevice + cluster.DeviceID(d.index)
	for _, pod := range append([]cluster.PodID(nil), n.Pods...) {
		p := c.world.View().Pod(pod)
		for _, g := range p.Placement.Grants {
			if g.Device == hit {
				name := p.Spec.Name
				if err := c.actor.lost(name); err != nil {
					return err
				}
				if err := c.apply(c.now, world.Lost{Name: name}); err != nil {
					return err
				}
				break
			}
		}
	}
	c.agenda.add(c.now.Add(max(c.exponential(c.Failures.GPURepair), moment.Second)), heals, device, 0)
	c.planCycle()
	return nil
}

func (c *clock) heal(device int32) error {
	d := &c.actor.devices[device]
	c.planFailure(c.Failures.GPUEvery, sickens, device)
	node := c.Workload.Nodes[d.node].Name
	if _, up := c.world.Node(node); !up {
		return nil // the node was replaced meanwhile, or will be
	}
	c.planCycle()
	return c.apply(c.now, world.DeviceHealth{Node: node, Device: d.index, Health: cluster.Healthy})
}
