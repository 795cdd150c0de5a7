package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/when"
)

// Reserve says for whom room is reserved that cannot start yet. Others may pass who
// have ended by then, or are beside it.
type Reserve uint8

const (
	ReserveOff  Reserve = iota
	ReserveHead         // the first of each queue: aggressive backfill
	ReserveAll          // all, in the order of their turn: conservative backfill
)

// Reserving returns the policy with room reserved.
func (p *Policy) Reserving(mode Reserve) *Policy {
	out := *p
	out.Reserve = mode
	return &out
}

const (
	// mostReserved bounds the reservations of one cycle: each keeps a state of things of
	// its own, and is looked at for each place.
	mostReserved = 64
	// headsTried is how many of a queue may ask in vain: nobody knows when there would be
	// room for them.
	headsTried = 4
	// stepsEach is up to how many instants each is tried for a group; of more, some are
	// left out.
	stepsEach = 64
)

// ahead is what one cycle has reserved.
type ahead struct {
	book  *when.Book
	tried map[cluster.QueueID]int  // how many of a queue have asked
	open  map[cluster.QueueID]bool // the queues that may ask still
	// passing says until when pods are gone that were placed in room reserved for later.
	passing map[cluster.PodID]moment.Instant
	called  map[cluster.PodID]bool // those who were to be gone, and are told to go
	denied  map[cluster.ShapeID]denial
	overdue []cluster.PodID // nil until somebody asks
	listed  bool            // overdue is what it is
}

// denial says that a shape found no place beside what is reserved, until an instant.
type denial struct {
	ends  moment.Instant
	freed int
}

func (r *round) reserves() bool { return r.policy.Reserve != ReserveOff }

// openBook begins to reserve.
func (r *round) openBook(line []cluster.PodID) {
	a := &ahead{
		book: when.NewBook(r.txn, r.cycle.Now), tried: make(map[cluster.QueueID]int), open: make(map[cluster.QueueID]bool),
		passing: make(map[cluster.PodID]moment.Instant), called: make(map[cluster.PodID]bool), denied: make(map[cluster.ShapeID]denial),
	}
	v := r.txn.Base()
	for _, pod := range line {
		a.open[v.Pod(pod).Spec.Queue] = true
	}
	r.ahead = a
}

// patient keeps those in line that room may be reserved for; the others wait, with what
// binds. For what never fits nobody has to know whose turn it is.
func (r *round) patient(line []cluster.PodID) []cluster.PodID {
	r.looks++
	kept := line[:0]
	for _, pod := range line {
		p := r.txn.View().Pod(pod)
		if p.Kin == 0 && p.Spec.Plain() && r.isFull(p.Spec.Shape) {
			if why := r.bindsPlain(pod, p.Spec); !reservable(why.Code) {
				r.waiting = append(r.waiting, decision.Waiting{Pod: pod, Why: why})
				continue
			}
		}
		kept = append(kept, pod)
	}
	return kept
}

// listOverdue lists who was to be gone by now, once in a cycle.
func (r *round) listOverdue() {
	a, v := r.ahead, r.txn.Base()
	if a.listed {
		return
	}
	a.listed = true
	for i := range v.Nodes.Len() {
		for _, id := range v.Node(cluster.NodeID(i)).Pods {
			if p := v.Pod(id); p.GoneBy > 0 && p.GoneBy <= r.cycle.Now {
				a.overdue = append(a.overdue, id)
			}
		}
	}
	slices.SortFunc(a.overdue, func(x, y cluster.PodID) int {
		p, q := v.Pod(x), v.Pod(y)
		return cmp.Or(cmp.Compare(p.GoneBy, q.GoneBy), cmp.Compare(p.Key, q.Key))
	})
}

// ends is when a pod would end that starts at the instant looked at.
func (r *round) ends(pod cluster.PodID) moment.Instant {
	base := r.txn.Base()
	return when.EndsAfter(&base.View, base.Pod(pod), r.ahead.book.At())
}

// looksAhead says whether places are looked for at an instant to come.
func (r *round) looksAhead() bool { return r.ahead != nil && r.ahead.book.IsAhead() }

// firstOf returns the node of the lowest tie that a shape fits on and that passes.
func (m *Memo) firstOf(v *cluster.View, shape cluster.ShapeID, pass func(cluster.NodeID) bool) cluster.NodeID {
	best := int32(cluster.None)
	for i, value := range m.refresh(v, shape).values {
		if value != unfit && (best < 0 || earlier(m.ties, int32(i), best)) && pass(cluster.NodeID(i)) {
			best = int32(i)
		}
	}
	return cluster.NodeID(best)
}

// minds returns the first reservation that a pod might be in the way of; nil: none.
func (r *round) minds(pod cluster.PodID) *when.Reservation {
	if r.ahead == nil || r.ahead.book.Len() == 0 {
		return nil
	}
	return r.ahead.book.Minds(pod, r.ends(pod))
}

// keptOff is why a pod waits that there is room for.
func (r *round) keptOff(pod cluster.PodID) *decision.Reason {
	by := r.minds(pod)
	if by == nil {
		return &decision.Reason{Code: decision.PolicyWaits}
	}
	r.ahead.book.Follow()
	v := r.txn.View()
	for i := 0; ; i++ {
		shape, more := v.Pod(pod).Spec.Asks(i)
		if !more {
			break
		}
		place := cluster.Placement{Node: r.memo.firstOf(v, shape, func(cluster.NodeID) bool { return true }), Shape: shape}
		if place.Node == cluster.None {
			continue
		}
		place.Grants, _ = r.grants(v, pod, shape, place.Node)
		if bars := r.ahead.book.Bars(pod, &place, r.ends(pod)); bars != nil {
			by = bars
			break
		}
	}
	return &decision.Reason{Code: decision.RoomReserved, For: by.For, Until: by.At}
}

// beside picks devices on a node where the pod is in nobody's way.
func (r *round) beside(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID, island int32) ([]cluster.Grant, bool) {
	book, ends := r.ahead.book, r.ends(pod)
	if !book.IsAhead() {
		book.Follow()
	}
	place := cluster.Placement{Node: node, Shape: shape}
	var ok bool
	if place.Grants, ok = r.grantsOn(pod, shape, node, island); !ok {
		return nil, false
	}
	if book.Allows(pod, &place, ends) {
		return place.Grants, true
	}
	// Other devices may be free both now and then.
	for _, then := range book.Free(pod, ends) {
		n := then.Node(node)
		if island == cluster.None {
			place.Grants, ok = fit.Grants(then, then.Shape(shape), n)
		} else {
			place.Grants, ok = fit.GrantsOn(then, then.Shape(shape), n, island)
		}
		if ok && r.txn.Admits(pod, &place) && book.Allows(pod, &place, ends) {
			return place.Grants, true
		}
	}
	return nil, false
}

// chooseBeside is choose for a pod that might be in somebody's way.
func (r *round) chooseBeside(pod cluster.PodID, shape cluster.ShapeID) cluster.NodeID {
	v, ends := r.txn.View(), r.ends(pod)
	kin := v.Ties(pod)
	plain := kin == 0 && !r.looksAhead() && r.refuserOf(pod) == cluster.None && v.Pod(pod).Spec.Queue == cluster.None
	if no, known := r.ahead.denied[shape]; plain && known && no.ends <= ends && no.freed == r.txn.Freed() {
		return cluster.None
	}
	pass := func(node cluster.NodeID) bool {
		if kin != 0 && !r.memo.tied(v, tie{kin: kin, shape: shape}).Check(v, node).None() {
			return false
		}
		_, ok := r.beside(pod, shape, node, cluster.None)
		return ok
	}
	if refuser := r.refuserOf(pod); refuser != cluster.None {
		if node := r.bestBeside(pod, shape, func(n cluster.NodeID) bool { return n != refuser && pass(n) }); node != cluster.None {
			return node
		}
	}
	if node := r.bestBeside(pod, shape, pass); node != cluster.None {
		return node
	}
	if plain {
		r.ahead.denied[shape] = denial{ends: ends, freed: r.txn.Freed()}
	}
	return cluster.None
}

// bestBeside is the best node that passes. What is reserved is on the same node in the
// next cycle, if nothing else has changed: there it goes by the tie alone.
func (r *round) bestBeside(pod cluster.PodID, shape cluster.ShapeID, pass func(cluster.NodeID) bool) cluster.NodeID {
	v := r.txn.View()
	if r.looksAhead() {
		return r.memo.firstOf(v, shape, pass)
	}
	if r.policy.Choose != nil {
		feasible := slices.DeleteFunc(r.memo.feasible(v, shape), func(node cluster.NodeID) bool { return !pass(node) })
		if len(feasible) == 0 {
			return cluster.None
		}
		return r.policy.Choose(v, r.cycle, pod, feasible)
	}
	node, value := r.memo.bestAmong(v, shape, pass)
	if last := v.Pod(pod).LastNode; node != cluster.None && last != cluster.None && r.policy.Affinity > 0 {
		if back := r.memo.value(v, shape, last); back != unfit && back+r.policy.Affinity > value && pass(last) {
			return last
		}
	}
	return node
}

// notePassing remembers of a pod that it has to be gone when room is reserved for others.
func (r *round) notePassing(pod cluster.PodID, place *cluster.Placement) {
	if r.ahead == nil || r.looksAhead() || r.ahead.book.Len() == 0 {
		return
	}
	delete(r.ahead.passing, pod)
	if by := r.ahead.book.GoneBy(pod, place, r.ends(pod)); by > 0 {
		r.ahead.passing[pod] = by
	}
}

// reserve reserves room for a pod that has just been left waiting, or for its group,
// where it is its turn to. It says whether nobody else will ask.
func (r *round) reserve(pod cluster.PodID) (done bool) {
	if !r.reserves() {
		return true
	}
	a := r.ahead
	if len(a.open) == 0 || a.book.Len() >= mostReserved {
		return true
	}
	queue := r.txn.Base().Pod(pod).Spec.Queue
	why := r.waiting[len(r.waiting)-1].Why
	if !a.open[queue] || !reservable(why.Code) || a.book.Of(pod) != nil {
		return false
	}
	if unit := r.waitingUnit(pod); unit != cluster.None {
		if r.squads[unit].asked {
			return false
		}
		r.squads[unit].asked = true
	}
	if r.callOut(pod) {
		r.waiting = r.waiting[:len(r.waiting)-1]
		return false
	}
	found := r.foresee(pod)
	if r.policy.Reserve == ReserveAll {
		return a.book.Len() >= mostReserved
	}
	if a.tried[queue]++; found || a.tried[queue] >= headsTried {
		delete(a.open, queue)
	}
	return len(a.open) == 0
}

// reservable says whether what binds is a lack of room that others leave one day.
func reservable(c decision.Code) bool {
	switch c {
	case decision.PolicyWaits, decision.GaveUp, decision.VictimsLeave, decision.BackingOff, decision.Fetching:
		return false
	}
	return c.Future() == decision.AfterRoom
}

// foresee finds the first instant at which a pod can start, or its group, and reserves
// the room.
func (r *round) foresee(pod cluster.PodID) bool {
	book := r.ahead.book
	book.Follow()
	steps := book.Steps()
	out := when.Reservation{For: pod}
	if r.waitingUnit(pod) == cluster.None || len(steps) <= stepsEach {
		r.attempt(func() bool {
			for i := range steps {
				r.pass(&steps[i])
				if len(steps[i].Ends) > 0 && r.tryAhead(&out, steps[i].At) {
					break
				}
			}
			return false
		})
	} else {
		r.foreseeUnit(&out, steps)
	}
	book.Back()
	if out.Seats == nil {
		return false
	}
	book.Add(out)
	return true
}

// foreseeUnit looks for a group: in longer and longer strides, then between the last two.
func (r *round) foreseeUnit(out *when.Reservation, steps []when.Step) {
	probe := func(count int) (starts bool) {
		r.attempt(func() bool {
			for i := range count {
				r.pass(&steps[i])
			}
			starts = r.tryAhead(out, steps[count-1].At)
			return false
		})
		return starts
	}
	below, at := 0, 1
	for ; at < len(steps) && !probe(at); at = min(2*at, len(steps)) {
		below = at
	}
	if len(steps) == 0 || at == len(steps) && !probe(at) {
		return
	}
	for below+1 < at {
		if mid := (below + at) / 2; probe(mid) {
			at = mid
		} else {
			below = mid
		}
	}
}

// pass lets what happens at an instant happen.
func (r *round) pass(step *when.Step) {
	for _, id := range step.Ends {
		r.end(id)
	}
	for i := range step.Starts {
		if r.txn.Place(step.Starts[i].Pod, step.Starts[i].Place) == nil {
			r.memo.touch(step.Starts[i].Place.Node)
		}
	}
}

// tryAhead looks whether the pod of a reservation starts at an instant, as the
// transaction shows it. Everything is as before afterwards.
func (r *round) tryAhead(out *when.Reservation, at moment.Instant) (starts bool) {
	r.ahead.book.SetAhead(at)
	r.attempt(func() bool {
		mark := r.txn.Mark()
		if starts = r.startAnew(out.For); !starts {
			return false
		}
		out.At, out.Seats = at, nil
		for _, id := range r.txn.TouchedSince(mark) {
			seat := when.Seat{Pod: id, Place: r.txn.View().Pod(id).Placement}
			if seat.Place.Placed() && !slices.ContainsFunc(out.Seats, func(s when.Seat) bool { return s.Pod == id }) {
				out.Seats = append(out.Seats, seat)
			}
		}
		return false
	})
	return starts
}

// startAnew is startNow where room has come back: what was found to be full may not be.
func (r *round) startAnew(pod cluster.PodID) bool {
	full, away, retries := slices.Clone(r.full), r.turnedAway, r.retries
	clear(r.full)
	r.turnedAway, r.retries = nil, 0
	defer func() {
		copy(r.full, full)
		r.turnedAway, r.retries = away, retries
	}()
	unit := r.waitingUnit(pod)
	if unit == cluster.None {
		return r.seatMore(pod)
	}
	why := r.squads[unit].why
	defer func() { r.squads[unit].why = why }()
	r.squads[unit].why = nil
	if r.lacking(unit) != nil || len(r.unseated(r.squads[unit].members)) == 0 {
		return false
	}
	return r.startWithin(unit, cluster.Spot{}) == nil
}

// callOut evicts those who were to be gone by now from room that was reserved, as few as
// needed, where a pod then starts, or its group; else it leaves everything as it was.
func (r *round) callOut(pod cluster.PodID) bool {
	units := r.overdueUnits()
	for n := 1; n <= len(units); n++ {
		if !r.startsWithout(pod, units[:n], false) {
			continue
		}
		leave := units[:n]
		for i := n - 2; i >= 0; i-- {
			if fewer := slices.Delete(slices.Clone(leave), i, i+1); r.startsWithout(pod, fewer, false) {
				leave = fewer
			}
		}
		return r.startsWithout(pod, leave, true)
	}
	return false
}

// startsWithout says whether a pod starts when some leave; and lets it, if told to.
func (r *round) startsWithout(pod cluster.PodID, units [][]cluster.PodID, really bool) (starts bool) {
	r.attempt(func() bool {
		for _, id := range slices.Concat(units...) {
			node := r.txn.View().Pod(id).Placement.Node
			if r.txn.Evict(id) != nil {
				return false
			}
			r.memo.touch(node)
		}
		starts = r.startAnew(pod)
		return starts && really
	})
	if !starts || !really {
		return starts
	}
	clear(r.full) // those who left may have left room for others
	r.turnedAway, r.bound = nil, nil
	for _, id := range slices.Concat(units...) {
		r.ahead.called[id] = true
		r.explain(id, decision.Explanation{Policy: r.policy.Name, For: r.txn.View().Pod(pod).Spec.Name})
		r.used(r.txn.Base().Pod(id).Spec.Queue)
	}
	r.ahead.overdue = slices.DeleteFunc(r.ahead.overdue, func(id cluster.PodID) bool { return r.ahead.called[id] })
	return true
}

// overdueUnits lists those who were to be gone by now and may be told to go, with their
// groups, those first whose time was over first.
func (r *round) overdueUnits() (out [][]cluster.PodID) {
	v := r.txn.Base()
	r.listOverdue()
	listed := make(map[cluster.PodID]bool)
	taken := make(map[cluster.BudgetID]int32)
	for _, id := range r.ahead.overdue {
		if listed[id] {
			continue
		}
		unit := []cluster.PodID{id}
		if g := v.Pod(id).Spec.Group; g != cluster.None {
			unit = unit[:0]
			for member := range v.TreeMembers(v.Root(g)) {
				if v.Pod(member).Phase.Charged() {
					unit = append(unit, member)
				}
			}
			slices.SortFunc(unit, func(a, b cluster.PodID) int { return cmp.Compare(v.Pod(a).Key, v.Pod(b).Key) })
		}
		stays := false
		for _, member := range unit {
			p := r.txn.View().Pod(member)
			listed[member] = true
			runs := p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning
			if b := v.BudgetOf(p); b != nil {
				taken[p.Budget]++
				stays = stays || taken[p.Budget] > b.Left
			}
			stays = stays || !runs || p.Intent != cluster.None || p.Spec.Protected
		}
		if !stays {
			out = append(out, unit)
		}
	}
	return out
}

// calledAny says whether somebody was told to leave reserved room.
func (a *ahead) calledAny() bool { return a != nil && len(a.called) > 0 }

func (a *ahead) calledOut(pod cluster.PodID) bool { return a != nil && a.called[pod] }

// tellReserved says in the plan who has room reserved, and who is in it until then.
func (r *round) tellReserved(plan *decision.Plan) {
	if r.ahead == nil {
		return
	}
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionBind {
			d.GoneBy = r.ahead.passing[d.Pod]
		}
	}
	v := r.txn.View()
	known := make(map[*when.Reservation]*decision.Reserved)
	for i := range r.waiting {
		of := r.ahead.book.Of(r.waiting[i].Pod)
		if of == nil {
			continue
		}
		told := known[of]
		if told == nil {
			told = &decision.Reserved{At: of.At}
			for _, seat := range of.Seats {
				if !slices.Contains(told.Nodes, seat.Place.Node) {
					told.Nodes = append(told.Nodes, seat.Place.Node)
				}
			}
			slices.SortFunc(told.Nodes, func(a, b cluster.NodeID) int { return cmp.Compare(v.Node(a).Spec.Name, v.Node(b).Spec.Name) })
			known[of] = told
		}
		r.waiting[i].Reserved = told
	}
}
