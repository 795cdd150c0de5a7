package rivals

import (
	"cmp"
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// lasThreshold is the attained service at which a job moves to the second queue:
// that of Tiresias as the artefact of Pollux (OSDI 2021) has it, 16 GPU-hours.
const lasThreshold = 57_600 * int64(moment.Second) * int64(quantity.WholeGPU)

// lineRule is a policy that puts whole jobs (a pod, or all pods of a group) in one
// line over all queues, and places each on the nodes with least left over.
type lineRule struct {
	// rank orders jobs, lowest first, before arrival does; of several pods the lowest
	// counts. Nil: arrival alone.
	rank func(v *cluster.View, now moment.Instant, p *cluster.Pod) int64
	// strict says that nobody passes a job that has to wait for room.
	strict bool
	// preempts says that running jobs of higher rank give way.
	preempts bool
}

func (r *lineRule) policy(Side) *engine.Policy {
	return &engine.Policy{Round: func(v *cluster.View, c decision.Cycle) []engine.Step { return newLine(v, c, r).round() }}
}

// attained is the discretised rank of least attained service: 0 below the
// threshold, 1 from there on.
func attained(v *cluster.View, now moment.Instant, p *cluster.Pod) int64 {
	gpus := v.Shape(p.Spec.Shape).Milli()
	if g := p.Spec.Group; g != cluster.None {
		gpus *= quantity.MilliGPU(v.Group(g).Members) // of a job, about
	}
	if quantity.CompareProducts(int64(p.RanFor(now)), int64(gpus), lasThreshold, 1) < 0 {
		return 0
	}
	return 1
}

// remaining is how long a job still has to run: what it says, less what this
// attempt has run. Of jobs that say nothing it is more than of all others.
func remaining(_ *cluster.View, now moment.Instant, p *cluster.Pod) int64 {
	if p.Spec.Expected == 0 {
		return math.MaxInt64
	}
	return int64(max(p.Spec.Expected-(p.RanFor(now)-p.Ran), 0))
}

// line is one round in progress.
type line struct {
	*lineRule
	cycle   decision.Cycle
	txn     *cluster.Txn
	steps   []engine.Step
	full    map[uint64]bool // requests for which there is no room, or is, where known
	lacks   []int8          // per shape: what full says, 0 unknown, 1 room, 2 none
	alike   []uint64        // per shape: requests that are equal but for what runs; 0 unknown
	closed  []bool          // per shape: nobody who asks for it finds a place any more
	passed  map[cluster.PodID]bool
	awaited []bool // per node: somebody waits for room that is being left there
	running []crew // jobs that run and may be evicted, where the rule evicts
	crewOf  map[cluster.PodID]int32
}

// crew is a job: its pods, and its place in the line.
type crew struct {
	pods    []cluster.PodID
	rank    int64
	arrived moment.Instant
	key     uint64
	out     bool // was evicted in this round
}

func (a *crew) before(b *crew) bool {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.arrived, b.arrived), cmp.Compare(a.key, b.key)) < 0
}

func newLine(v *cluster.View, c decision.Cycle, r *lineRule) *line {
	l := &line{
		lineRule: r, cycle: c, txn: cluster.Begin(&cluster.Snapshot{View: *v}), full: make(map[uint64]bool),
		alike: make([]uint64, v.Shapes.Len()), lacks: make([]int8, v.Shapes.Len()), awaited: make([]bool, v.Nodes.Len()),
		closed: make([]bool, v.Shapes.Len()), passed: make(map[cluster.PodID]bool),
	}
	l.txn.At(c.Now)
	for i := range v.Intents.Len() {
		if in := v.Intents.At(int32(i)); in.ID != 0 && in.Action == cluster.ActionHold && in.Place.Placed() {
			l.awaited[in.Place.Node] = true
		}
	}
	if r.preempts {
		l.findRunning()
	}
	return l
}

// round gives the jobs in the line their turns: each time the first of those for
// which it is not plain that there is no room. The order of the others is of no
// account, and few are placed in a round.
func (l *line) round() []engine.Step {
	v := l.txn.View()
	ids := v.AppendWaiting(make([]cluster.PodID, 0, v.Pods.Len()))
	if v.AnyHeldBack() {
		ids = slices.DeleteFunc(ids, func(id cluster.PodID) bool { return v.HeldBack(v.Pod(id), l.cycle.Now) })
	}
	worst := l.worst()
	for {
		first, rank := cluster.PodID(cluster.None), int64(0)
		for _, id := range ids {
			p := v.Pod(id)
			if !l.open(p, worst) {
				continue
			}
			own := l.rankOf(p)
			if first == cluster.None || own < rank || own == rank && l.sooner(p, v.Pod(first)) {
				if p.Phase == cluster.PhaseWaiting && !l.passed[id] && l.mine(id) {
					first, rank = id, own
				}
			}
		}
		if first == cluster.None {
			return l.steps
		}
		next := l.crew(l.waitingOf(first, ids))
		if !l.complete(next.pods) || !l.give(&next) {
			if l.strict && l.complete(next.pods) && l.canEver(&next) {
				return l.steps
			}
			l.pass(&next)
		}
	}
}

// open says whether a pod's job can have a turn that may help it: there is free room
// for the pod, or somebody later in the line who may have to go.
func (l *line) open(p *cluster.Pod, worst *crew) bool {
	spec := p.Spec
	switch {
	case l.strict:
		return true
	case l.closed[spec.Shape] && spec.Group == cluster.None && len(spec.Alternatives) == 0:
		return false
	case l.mayFit(spec):
		return true
	case worst == nil:
		return false
	case spec.Group != cluster.None: // it may have come before what this pod says
		return l.rankOf(p) <= worst.rank
	}
	own := crew{rank: l.rankOf(p), arrived: p.Arrived, key: p.Key}
	return own.before(worst)
}

// waitingOf lists the pods of a pod's job that wait.
func (l *line) waitingOf(pod cluster.PodID, ids []cluster.PodID) []cluster.PodID {
	v := l.txn.View()
	g := v.Pod(pod).Spec.Group
	if g == cluster.None {
		return []cluster.PodID{pod}
	}
	var out []cluster.PodID
	for _, id := range ids {
		if p := v.Pod(id); p.Spec.Group == g && p.Phase == cluster.PhaseWaiting {
			out = append(out, id)
		}
	}
	return out
}

// pass leaves a job without a place in this round. Those of one pod that ask for the
// same and come later in the line would find none either, as long as room only
// shrinks.
func (l *line) pass(c *crew) {
	v := l.txn.View()
	for _, id := range c.pods {
		l.passed[id] = true
	}
	spec := v.Pod(c.pods[0]).Spec
	if len(c.pods) > 1 || spec.Group != cluster.None || v.Ties(c.pods[0]) != 0 || !fit.Queue(v, c.pods[0], spec.Shape).None() {
		return
	}
	kind := l.kind(spec.Shape)
	for i := range l.closed {
		if l.kind(cluster.ShapeID(i)) == kind {
			l.closed[i] = true
		}
	}
}

func (l *line) sooner(a, b *cluster.Pod) bool {
	return a.Arrived < b.Arrived || a.Arrived == b.Arrived && a.Key < b.Key
}

// mine says whether the round is about the pod.
func (l *line) mine(id cluster.PodID) bool {
	return l.cycle.Profile == 0 || l.txn.View().Pod(id).Spec.Policy == l.cycle.Profile
}

// complete says whether enough of a job waits to start it.
func (l *line) complete(waiting []cluster.PodID) bool {
	v := l.txn.View()
	g := v.Pod(waiting[0]).Spec.Group
	if g == cluster.None {
		return true
	}
	group := v.Group(g)
	return group.Known && group.Placed+int32(len(waiting)) >= group.Minimum
}

// rankOf is the rank of a job of one pod. Where nobody is evicted, a job that has lost some
// of its pods gets them back before anybody else's turn: who waits for it would for ever.
func (l *line) rankOf(p *cluster.Pod) int64 {
	if g := p.Spec.Group; !l.preempts && g != cluster.None && l.txn.View().Group(g).Broken() {
		return math.MinInt64
	}
	if l.rank == nil {
		return 0
	}
	return l.rank(l.txn.View(), l.cycle.Now, p)
}

func (l *line) crew(pods []cluster.PodID) crew {
	v := l.txn.View()
	out := crew{pods: pods, arrived: moment.Never}
	for i, id := range pods {
		p := v.Pod(id)
		if rank := l.rankOf(p); i == 0 || rank < out.rank {
			out.rank = rank
		}
		out.arrived = min(out.arrived, p.Arrived)
		if out.key == 0 || p.Key < out.key {
			out.key = p.Key
		}
	}
	return out
}

// mayFit says whether there is free room for one of a pod's requests. What has none
// has none for the rest of the round, unless something is evicted.
func (l *line) mayFit(spec *cluster.PodSpec) bool {
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			return false
		}
		if !l.noRoom(shape) {
			return true
		}
	}
}

func (l *line) noRoom(shape cluster.ShapeID) bool {
	if known := l.lacks[shape]; known != 0 {
		return known == 2
	}
	kind := l.kind(shape)
	none, seen := l.full[kind]
	if !seen {
		none = l.bestFree(cluster.None, shape) == cluster.None
		l.full[kind] = none
	}
	l.lacks[shape] = 1
	if none {
		l.lacks[shape] = 2
	}
	return none
}

// forget drops what is known of room, since there may be more or less now.
func (l *line) forget() {
	clear(l.full)
	clear(l.lacks)
	clear(l.closed)
}

// kind names requests that are equal but for what runs: where one fits, so does the
// other.
func (l *line) kind(shape cluster.ShapeID) uint64 {
	if known := l.alike[shape]; known != 0 {
		return known
	}
	s := l.txn.View().Shape(shape)
	h := chance.Hash(uint64(len(s.Devices)))
	for d := range s.Need.Dims() {
		h = chance.Fold(h, uint64(s.Need.At(d)))
	}
	plain := len(s.Selector) == 0 && len(s.Tolerations) == 0 && l.txn.View().Facts == nil
	for i := range s.Devices {
		d := &s.Devices[i]
		h = chance.Hash(h, uint64(d.Count), uint64(d.Milli), uint64(d.Memory), uint64(d.MinMemory), uint64(d.Profile))
		plain = plain && len(d.Models) == 0 && !d.SameIsland && !d.SameNUMA && d.Selector == 0
	}
	if !plain {
		h = s.Key
	}
	l.alike[shape] = h | 1
	return h | 1
}

// give places all pods of a job, or none of them.
func (l *line) give(c *crew) bool {
	mark, steps := l.txn.Mark(), len(l.steps)
	var evicted []int32
	v := l.txn.View()
	slices.SortStableFunc(c.pods, func(a, b cluster.PodID) int {
		return cmp.Compare(v.Shape(v.Pod(b).Spec.Shape).Milli(), v.Shape(v.Pod(a).Spec.Shape).Milli())
	})
	for _, pod := range c.pods {
		if l.seat(pod) || l.preempts && l.seatInsteadOf(pod, c, &evicted) {
			continue
		}
		l.txn.Rollback(mark)
		l.steps = l.steps[:steps]
		for _, i := range evicted {
			l.running[i].out = false
		}
		return false
	}
	if len(evicted) > 0 {
		l.forget() // those who went may leave more room than was taken
	} else {
		clear(l.full)
		clear(l.lacks)
	}
	return true
}

// seat places a pod in free room.
func (l *line) seat(pod cluster.PodID) bool {
	v := l.txn.View()
	spec := v.Pod(pod).Spec
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			return false
		}
		if l.noRoom(shape) || !fit.Queue(v, pod, shape).None() {
			continue
		}
		if node := l.bestFree(pod, shape); node != cluster.None && l.take(pod, shape, node) {
			return true
		}
	}
}

func (l *line) take(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) bool {
	v := l.txn.View()
	grants, ok := fit.Grants(v, v.Shape(shape), v.Node(node))
	if !ok {
		return false
	}
	place := cluster.Placement{Node: node, Shape: shape, Grants: grants}
	if v.Node(node).Spec.Authority == cluster.AuthorityPlugin && len(grants) > 0 {
		place.Identity = cluster.IdentityPresumed
	}
	if l.txn.Place(pod, place) != nil {
		return false
	}
	l.steps = append(l.steps, engine.Step{Pod: pod, Place: place})
	return true
}

// bestFree is the node with least GPU, then least CPU, left over by the request. The
// pod is None where only the shape is asked about.
func (l *line) bestFree(pod cluster.PodID, shape cluster.ShapeID) cluster.NodeID {
	v := l.txn.View()
	best := cluster.NodeID(cluster.None)
	for i := range v.Nodes.Len() {
		id := cluster.NodeID(i)
		if l.awaited[id] || !l.fits(pod, shape, id) {
			continue
		}
		if best == cluster.None || l.tighter(v.Node(id), v.Node(best)) {
			best = id
		}
	}
	return best
}

func (l *line) tighter(a, b *cluster.Node) bool {
	seed := uint64(l.cycle.Seed)
	return cmp.Or(cmp.Compare(a.FreeMilli, b.FreeMilli), cmp.Compare(a.Free.At(cluster.DimCPU), b.Free.At(cluster.DimCPU)),
		cmp.Compare(chance.Hash(seed, a.Key), chance.Hash(seed, b.Key))) < 0
}

func (l *line) fits(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) bool {
	v := l.txn.View()
	if pod != cluster.None && v.Ties(pod) != 0 {
		return fit.CheckPod(v, pod, shape, node).None()
	}
	return fit.Check(v, shape, node).None()
}

// canEver says whether waiting for room makes sense for a job: else it would hold
// everybody up for ever.
func (l *line) canEver(c *crew) bool {
	v := l.txn.View()
	for _, pod := range c.pods {
		shape := v.Pod(pod).Spec.Shape
		if !fit.Queue(v, pod, shape).None() {
			return false
		}
		if why := fit.ExplainPod(v, pod, shape); !why.None() && why.Code.Future() != decision.AfterRoom {
			return false
		}
	}
	// Of a group, the pods that ask for most have to find room beside each other.
	s := v.Shape(v.Pod(c.pods[0]).Spec.Shape)
	alike, seats := 0, 0
	for _, pod := range c.pods {
		if v.Pod(pod).Spec.Shape == v.Pod(c.pods[0]).Spec.Shape {
			alike++
		}
	}
	if s.DeviceCount() == 0 || len(c.pods) == 1 {
		return true
	}
	for i := range v.Nodes.Len() {
		if n := v.Node(cluster.NodeID(i)); n.TakesWork() {
			seats += int(n.Spec.DeviceCount / s.DeviceCount())
		}
	}
	return seats >= alike
}
