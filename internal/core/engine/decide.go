// Package engine decides: it takes a snapshot and returns a plan.
//
//	plan := engine.Decide(snapshot, cycle, policy, memo)
//
// Decide is a pure function of snapshot, cycle and policy; the memo only makes
// it faster. It knows the order of the verbs (share, place, repair) and all the
// judges and searchers; it leaves carrying out the plan to the world.
package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/share"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// Decide returns what to do now. The memo may be nil.
func Decide(s *cluster.Snapshot, c decision.Cycle, p *Policy, m *Memo) decision.Plan {
	// 1. Open a scratch copy, and bring the memo up to this snapshot.
	if m == nil {
		m = new(Memo)
	}
	t := cluster.Begin(s)
	t.At(c.Now)
	m.sync(&s.View, c, p)
	defer m.close(t)

	// 2. A policy of its own rhythm decides the round whole.
	if p.Round != nil {
		return carryOut(t, c, p, m)
	}

	// 3. What was lent until now comes back first of all. Then share: whose turn is it,
	// among those for whom there is room at all?
	r := newRound(t, c, p, m)
	line := r.inherit(inLine(&s.View, c))
	if r.reserves() && len(line) > 0 {
		r.openBook(line)
	}
	r.repay()
	r.muster(line)
	if p.Sizes != nil {
		r.moveIn()
	}
	r.mend()
	if r.reserves() {
		r.lineUp(r.patient(line)) // those without room have a turn, too
	} else {
		r.lineUp(r.hopeful(line))
	}

	// 4. Place: each in turn where it is best, a group all or none; or remember what
	// binds it.
	for pod, more := r.next(); more; pod, more = r.next() {
		switch {
		case r.seated(pod):
		case r.waitingUnit(pod) == cluster.None && r.hopeless(pod):
			r.wait(pod)
			if r.reserve(pod) {
				r.prune()
			}
		default:
			r.place(pod)
		}
	}
	r.line = turns{}
	r.placeTied()

	// 5. Size: how many workers, and on which GPUs, where the policy says so?
	if p.Sizes != nil && c.Kind == decision.CycleReview {
		r.resize()
	}

	// 6. Repair: who should lend a quarter, and who give way, where the policy says so?
	if p.Lends {
		r.borrow()
	}
	r.repair()
	if p.Tidies != nil && c.Kind == decision.CycleReview {
		r.tidy()
	}
	r.untangle()
	r.giveBack()
	r.fetchFirst()
	if r.foretells() {
		r.foretell()
	}

	// 7. The plan is the net difference, and what is to be fetched for it.
	return r.plan()
}

func newRound(t *cluster.Txn, c decision.Cycle, p *Policy, m *Memo) round {
	shapes := t.Base().Shapes.Len()
	return round{txn: t, cycle: c, policy: p, memo: m, full: make([]*decision.Reason, shapes), roomy: make([]uint64, shapes)}
}

// compare is the default order: grade (priority, then how long it has run, in tiers),
// urgency, arrival, name.
func (p *Policy) compare(v *cluster.View, c decision.Cycle, a, b cluster.PodID) int {
	x, y := v.Pod(a), v.Pod(b)
	return cmp.Or(-cmp.Compare(p.gradeOf(v, x, c.Now), p.gradeOf(v, y, c.Now)), compareAlike(v, c.Now, a, b))
}

// compareAlike is compare for pods of one grade.
func compareAlike(v *cluster.View, now moment.Instant, a, b cluster.PodID) int {
	x, y := v.Pod(a), v.Pod(b)
	return cmp.Or(
		-rank.CompareUrgency(x, y, now),
		cmp.Compare(x.Arrived, y.Arrived),
		cmp.Compare(x.Key, y.Key),
		cmp.Compare(a, b))
}

// round is one cycle's work in progress.
type round struct {
	txn     *cluster.Txn
	cycle   decision.Cycle
	policy  *Policy
	memo    *Memo
	waiting []decision.Waiting
	// full holds, per shape, what binds where there is no room left in this cycle.
	// Room only shrinks while pods are placed, so the answer stands.
	full []*decision.Reason
	// roomy says, per shape, at which stand of the memo there was room for it.
	roomy   []uint64
	bound   map[ask]*decision.Reason // what binds plain pods, as of boundAt and until a place is taken
	boundAt int                      // the look
	looks   int                      // rises with every look at the line, and every turn
	trying  int                      // how many tries are neither kept nor regretted yet
	filled  []cluster.ShapeID        // those that became full since try
	// squads are the groups that have not got their minimum; nil without such.
	squads     []squad
	turnedAway map[uint64]*decision.Reason // why alike groups do not start
	retries    int64                       // how many more hypotheses about groups may fail
	line       turns
	standing   *share.Standing // of the queues; nil without any
	surveyed   bool            // standing is what it is
	// excess is how far queues are above their shares, as of before those that are stale
	// used more or less; worth is the sum. Nil where nobody has asked.
	excess  map[cluster.QueueID]int64
	worth   int64
	stale   []cluster.QueueID
	because map[cluster.PodID]decision.Explanation
	// closed holds, per kin and shape, what binds where relations leave no node.
	closed map[tie]closed
	ways   *yield.Search // who gives way; nil where nobody was looked for
	movers *tidy.Search  // who moves; nil where nobody was looked for
	// ahead is what is reserved; nil where nothing may be.
	ahead *ahead
	// sizes is what is known of elastic jobs; nil where none was asked for.
	sizes  *sizes
	caches *warm.Search // nil where nobody looked
	// later are those who may wait until what they lack has been fetched.
	later []errand
	sent  int      // how often a second node was looked for
	knots []tangle // groups that wait for what each other holds
}

// hopeful keeps the pods that may have room; for the others it remembers what
// binds. Most of a long line is turned away here, by shape and unsorted.
func (r *round) hopeful(line []cluster.PodID) []cluster.PodID {
	r.looks++
	kept := line[:0]
	for _, pod := range line {
		if r.mayHope(pod) {
			kept = append(kept, pod)
		}
	}
	return kept
}

// mayHope says whether a pod may have room; where it has none it waits, with what
// binds.
func (r *round) mayHope(pod cluster.PodID) bool {
	p := r.txn.View().Pod(pod)
	switch {
	case p.Kin == 0 && p.Spec.Plain():
		if !r.isFull(p.Spec.Shape) {
			return true
		}
		r.waiting = append(r.waiting, decision.Waiting{Pod: pod, Why: r.bindsPlain(pod, p.Spec)})
		return false
	case r.seated(pod):
		return false
	case r.hopeless(pod):
		r.wait(pod)
		return false
	}
	return true
}

// hopeless says whether no node takes the pod, or its group.
func (r *round) hopeless(pod cluster.PodID) bool {
	if unit := r.waitingUnit(pod); unit != cluster.None {
		return r.cannotStart(unit)
	}
	return r.noRoom(pod)
}

// noRoom says whether no node takes the pod, which has no second choice.
func (r *round) noRoom(pod cluster.PodID) bool {
	spec := r.txn.View().Pod(pod).Spec
	return len(spec.Alternatives) == 0 && r.isFull(spec.Shape)
}

// isFull says whether no node takes the shape any more.
func (r *round) isFull(shape cluster.ShapeID) bool {
	if r.full[shape] != nil {
		return true
	}
	if r.roomy[shape] == r.memo.stand() {
		return false
	}
	if _, value := r.memo.best(r.txn.View(), shape); value != unfit {
		r.roomy[shape] = r.memo.stand()
		return false
	}
	why := r.memo.reason(r.txn.View(), shape)
	r.full[shape] = &why
	if r.trying > 0 {
		r.filled = append(r.filled, shape)
	}
	return true
}

// ask names plain pods that are bound by the same.
type ask struct {
	queue cluster.QueueID
	shape cluster.ShapeID
}

// bindsPlain is what binds a pod with nothing to it but its queue and its shape: what
// binds those who ask alike, within one look at the line.
func (r *round) bindsPlain(pod cluster.PodID, spec *cluster.PodSpec) *decision.Reason {
	if r.bound == nil || r.boundAt != r.looks {
		r.bound, r.boundAt = make(map[ask]*decision.Reason), r.looks
	}
	of := ask{spec.Queue, spec.Shape}
	why := r.bound[of]
	if why == nil {
		why = r.why(pod, spec.Shape)
		r.bound[of] = why
	}
	return why
}

// wait leaves a pod without a place, with the reason.
func (r *round) wait(pod cluster.PodID) {
	var why *decision.Reason
	if unit := r.waitingUnit(pod); unit != cluster.None {
		why = r.squads[unit].why
	} else {
		why = r.binding(pod)
	}
	r.waiting = append(r.waiting, decision.Waiting{Pod: pod, Why: why})
}

// binding is why a pod has no place: of its shapes, the one that came closest to a
// place speaks for it.
func (r *round) binding(pod cluster.PodID) *decision.Reason {
	if why := r.enough(pod); why != nil {
		return why
	}
	if why := r.confinement(pod); why != nil {
		return why
	}
	return r.bindingOf(pod)
}

// bindingOf is what keeps a pod from every node.
func (r *round) bindingOf(pod cluster.PodID) *decision.Reason {
	v := r.txn.View()
	spec := v.Pod(pod).Spec
	var why *decision.Reason
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			break
		}
		if own := r.why(pod, shape); why == nil || own.Code > why.Code {
			why = own
		}
	}
	return why
}

// why is what binds one shape of a pod: its queue, or the lack of room.
func (r *round) why(pod cluster.PodID, shape cluster.ShapeID) *decision.Reason {
	v := r.txn.View()
	if v.Pod(pod).Spec.Queue != cluster.None {
		if limit := fit.Queue(v, pod, shape); !limit.None() {
			why := limit // not on the heap where there is no limit
			return &why
		}
	}
	if kin := v.Ties(pod); kin != 0 {
		if why := r.whyTied(tie{kin: kin, shape: shape}); why != nil {
			return why
		}
		return r.keptOff(pod)
	}
	if r.isFull(shape) {
		return r.full[shape]
	}
	return r.keptOff(pod)
}

// place gives a pod its turn, or its whole group.
func (r *round) place(pod cluster.PodID) {
	r.looks++
	if !r.startNow(pod) && !r.isPutOff(pod) {
		r.wait(pod)
		r.reserve(pod)
	}
}

// startNow seats a pod, with its group where that has not got its minimum; or nobody.
func (r *round) startNow(pod cluster.PodID) bool {
	for unit := r.waitingUnit(pod); unit != cluster.None; unit = r.waitingUnit(pod) {
		if r.cannotStart(unit) || !r.start(unit) {
			return false
		}
		if r.seated(pod) {
			return true
		}
	}
	return r.seatMore(pod)
}

// seat tries the pod's shapes, best first.
func (r *round) seat(pod cluster.PodID) bool {
	spec := r.txn.View().Pod(pod).Spec
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			break
		}
		if r.isFull(shape) || !fit.Queue(r.txn.View(), pod, shape).None() {
			continue
		}
		if node := r.choose(pod, shape); node != cluster.None && !r.putOff(pod, shape, node) && r.take(pod, shape, node, cluster.None) {
			return true
		}
	}
	return false
}

// choose returns the best node for one shape of the pod; None where none fits.
func (r *round) choose(pod cluster.PodID, shape cluster.ShapeID) cluster.NodeID {
	v := r.txn.View()
	if r.looksAhead() || r.minds(pod) != nil {
		return r.chooseBeside(pod, shape)
	}
	if refuser := r.refuserOf(pod); refuser != cluster.None {
		if node := r.chooseBut(pod, shape, refuser); node != cluster.None {
			return node
		}
	}
	if kin := v.Ties(pod); kin != 0 {
		return r.chooseTied(pod, tie{kin: kin, shape: shape})
	}
	if r.policy.Choose != nil {
		feasible := r.memo.feasible(v, shape)
		if len(feasible) == 0 {
			return cluster.None
		}
		return r.policy.Choose(v, r.cycle, pod, feasible)
	}
	node, value := r.memo.best(v, shape)
	node, value = r.warmest(pod, shape, node, value)
	// Where it ran before, caches are warm.
	if last := v.Pod(pod).LastNode; node != cluster.None && last != cluster.None && r.policy.Affinity > 0 {
		if back := r.memo.value(v, shape, last); back != unfit && back+r.policy.Affinity > value {
			return last
		}
	}
	return node
}

// take books the place, on devices of one island where it is not None. It says no
// where a policy picked devices that do not hold the pod, and where pods that are
// there do not let it in.
func (r *round) take(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID, island int32) bool {
	v := r.txn.View()
	var grants []cluster.Grant
	var ok bool
	if r.minds(pod) != nil {
		grants, ok = r.beside(pod, shape, node, island)
	} else {
		grants, ok = r.grantsOn(pod, shape, node, island)
	}
	if !ok || !r.welcome(pod, shape, node) {
		return false
	}
	place := cluster.Placement{Node: node, Shape: shape, Grants: grants}
	if v.Node(node).Spec.Authority == cluster.AuthorityPlugin && len(grants) > 0 {
		place.Identity = cluster.IdentityPresumed
	}
	because := decision.Explanation{Policy: r.policy.Name}
	if r.policy.Explain != nil {
		because.Score = r.policy.Explain(v, r.cycle, pod, shape, node)
	} else if r.policy.Choose == nil {
		because.Score.Total = r.memo.value(v, shape, node)
	}
	r.compareWith(&because, pod, shape, node)
	if err := r.txn.Place(pod, place); err != nil {
		return false
	}
	if len(v.Owing()) > 0 {
		because.LeaseEnds = leaseEnds(v, &place)
	}
	if end, late := rank.Late(v, v.Pod(pod), r.cycle.Now); late {
		because.Deadline, because.End = v.Pod(pod).Spec.Deadline, end
	}
	r.explain(pod, because)
	r.notePassing(pod, &place)
	r.bound = nil
	r.memo.touch(node)
	r.used(v.Pod(pod).Spec.Queue)
	return true
}

// grantsOn picks devices on a node, of one island where it is not None.
func (r *round) grantsOn(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID, island int32) ([]cluster.Grant, bool) {
	v := r.txn.View()
	if island == cluster.None {
		return r.grants(v, pod, shape, node)
	}
	return fit.GrantsOn(v, v.Shape(shape), v.Node(node), island)
}

func (r *round) grants(v *cluster.View, pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool) {
	if r.policy.Grants != nil {
		return r.policy.Grants(v, r.cycle, pod, shape, node)
	}
	return fit.Grants(v, v.Shape(shape), v.Node(node))
}

func (r *round) plan() decision.Plan {
	plan := decision.NewPlan(r.cycle, r.txn, func(pod cluster.PodID) decision.Explanation { return r.because[pod] })
	if r.squads != nil {
		plan.Tie(r.bundle)
	}
	r.timeHolds(plan.Decisions)
	r.timeSizes(plan.Decisions)
	plan.Decisions = slices.Concat(r.succeed(), r.scales(), plan.Decisions)
	r.tellReserved(&plan)
	r.warmUp(&plan)
	plan.Waiting = tellLate(appendAside(r.waiting, &r.txn.Base().View, r.cycle), &r.txn.Base().View, r.cycle.Now)
	return plan
}

// carryOut runs the steps of a policy that decides whole rounds.
func carryOut(t *cluster.Txn, c decision.Cycle, p *Policy, m *Memo) decision.Plan {
	for _, step := range p.Round(t.View(), c) {
		if c.Profile != 0 && t.View().Pod(step.Pod).Spec.Policy != c.Profile {
			continue
		}
		if step.Place.Placed() {
			if fit.MayJoin(t.View(), step.Pod, &step.Place) {
				_ = t.Place(step.Pod, step.Place) // a step that would overdraw is refused
			}
		} else {
			_ = t.Evict(step.Pod)
		}
	}
	plan := decision.NewPlan(c, t, func(cluster.PodID) decision.Explanation { return decision.Explanation{Policy: p.Name} })
	if touched, complete := t.TouchedNodes(); complete {
		for _, node := range touched {
			m.touch(node)
		}
	} else {
		m.forgetDirty()
	}
	plan.Waiting = tellLate(appendAside(m.leftOver(t.View(), inLine(t.View(), c)), &t.Base().View, c), &t.Base().View, c.Now)
	return plan
}

// leftOver says what binds pods that a policy of its own rhythm left without a place.
// Pods that ask for the same in the same queue share the reason.
func (m *Memo) leftOver(v *cluster.View, pods []cluster.PodID) []decision.Waiting {
	type answer struct {
		queue cluster.QueueID
		why   *decision.Reason
	}
	last := make([]answer, v.Shapes.Len()) // most shapes are asked for in one queue
	out := make([]decision.Waiting, len(pods))
	for i, pod := range pods {
		p := v.Pod(pod)
		spec := p.Spec
		known := &last[spec.Shape]
		if known.why == nil || known.queue != spec.Queue || p.Kin != 0 {
			why := fit.Queue(v, pod, spec.Shape)
			if why.None() {
				why = m.binds(v, pod, spec.Shape)
			}
			*known = answer{spec.Queue, &why}
		}
		out[i] = decision.Waiting{Pod: pod, Why: known.why}
		if p.Kin != 0 {
			known.why = nil
		}
	}
	return out
}

// binds is why a pod finds no place now, or that the policy lets it wait.
func (m *Memo) binds(v *cluster.View, pod cluster.PodID, shape cluster.ShapeID) decision.Reason {
	if v.Ties(pod) != 0 {
		if why := fit.ExplainPod(v, pod, shape); !why.None() {
			return why
		}
	} else if _, value := m.best(v, shape); value == unfit {
		return m.reason(v, shape)
	}
	return decision.Reason{Code: decision.PolicyWaits}
}
