package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Lending returns the policy with slices: a running pod of strictly lower priority in
// the same queue lends a quarter of its compute, until its quota epoch ends, to a pod
// that has no room, before any is evicted.
func (p *Policy) Lending() *Policy {
	out := *p
	out.Lends = true
	return &out
}

// repay gives back, first of all, what was lent until now. Where the room is taken,
// those who came onto the devices since the lease began leave for it.
func (r *round) repay() {
	v := r.txn.View()
	var due []cluster.PodID
	for _, id := range v.Owing() {
		p := v.Pod(id)
		if p.Placement.Lease.Until <= r.cycle.Now && p.Intent == cluster.None && p.Phase != cluster.PhaseTerminating {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(a, b cluster.PodID) int {
		x, y := v.Pod(a), v.Pod(b)
		return cmp.Or(cmp.Compare(x.Placement.Lease.Until, y.Placement.Lease.Until), cmp.Compare(x.Key, y.Key))
	})
	spent := make(map[cluster.BudgetID]int32)
	for _, id := range due {
		if r.restore(id, nil) || r.callIn(id, spent) {
			r.explain(id, decision.Explanation{Policy: r.policy.Name})
		}
	}
}

// explain says why a decision about a pod is made.
func (r *round) explain(pod cluster.PodID, because decision.Explanation) {
	if r.because == nil {
		r.because = make(map[cluster.PodID]decision.Explanation)
	}
	r.because[pod] = because
}

// restore gives a lender its quarter back once others have left; or leaves everything
// as it was.
func (r *round) restore(lender cluster.PodID, leave []cluster.PodID) bool {
	touched, _ := r.txn.TouchedNodes()
	before := trial{mark: r.txn.Mark(), touched: len(touched)}
	for _, pod := range leave {
		if r.evict(pod) == cluster.None {
			r.undo(before)
			return false
		}
	}
	if r.txn.Restore(lender, r.cycle.Now) != nil {
		r.undo(before)
		return false
	}
	r.memo.touch(r.txn.View().Pod(lender).Placement.Node)
	return true
}

// callIn evicts those who hold what a pod lent, the latest first, as few as needed.
func (r *round) callIn(lender cluster.PodID, spent map[cluster.BudgetID]int32) bool {
	var leave []cluster.PodID
	for _, pod := range r.newcomers(lender, spent) {
		leave = append(leave, pod)
		if !r.repays(lender, leave) {
			continue
		}
		// Whoever is not needed stays, the earliest before all.
		for i := len(leave) - 2; i >= 0; i-- {
			if fewer := slices.Delete(slices.Clone(leave), i, i+1); r.repays(lender, fewer) {
				leave = fewer
			}
		}
		r.restore(lender, leave)
		for _, pod := range leave {
			spent[r.txn.Base().Pod(pod).Budget]++
			r.explain(pod, decision.Explanation{Policy: r.policy.Name, For: r.txn.View().Pod(lender).Spec.Name})
		}
		return true
	}
	return false
}

// repays says whether a lender gets its quarter back when some leave.
func (r *round) repays(lender cluster.PodID, leave []cluster.PodID) bool {
	touched, _ := r.txn.TouchedNodes()
	before := trial{mark: r.txn.Mark(), touched: len(touched)}
	ok := r.restore(lender, leave)
	r.undo(before)
	return ok
}

// newcomers lists who came onto a lender's devices since its lease began and may be
// evicted, the latest first.
func (r *round) newcomers(lender cluster.PodID, spent map[cluster.BudgetID]int32) []cluster.PodID {
	v, base := r.txn.View(), r.txn.Base()
	place := &v.Pod(lender).Placement
	var out []cluster.PodID
	for _, id := range v.Node(place.Node).Pods {
		p := v.Pod(id)
		runs := p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning
		if _, old := slices.BinarySearch(place.Lease.With, p.Key); id == lender || old || !runs || p.Intent != cluster.None || p.Spec.Protected {
			continue
		}
		if onto(p, place) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b cluster.PodID) int {
		x, y := v.Pod(a), v.Pod(b)
		return cmp.Or(-cmp.Compare(x.Bound, y.Bound), cmp.Compare(x.Spec.Priority, y.Spec.Priority), cmp.Compare(x.Key, y.Key))
	})
	taken := make(map[cluster.BudgetID]int32)
	return slices.DeleteFunc(out, func(id cluster.PodID) bool {
		p := base.Pod(id)
		b := base.BudgetOf(p)
		if b == nil {
			return false
		}
		taken[p.Budget]++
		return spent[p.Budget]+taken[p.Budget] > b.Left
	})
}

// onto says whether a pod holds compute of a device that was lent of.
func onto(p *cluster.Pod, lender *cluster.Placement) bool {
	for i, g := range lender.Grants {
		if lender.Lease.Lent[i] > 0 && slices.ContainsFunc(p.Placement.Grants, func(h cluster.Grant) bool { return h.Device == g.Device && h.Milli > 0 }) {
			return true
		}
	}
	return false
}

// leaseEnds is when the first of the leases on devices ends; 0 without one.
func leaseEnds(v *cluster.View, place *cluster.Placement) (out moment.Instant) {
	for _, id := range v.Owing() {
		p := v.Pod(id)
		if p.Placement.Node == place.Node && onto(&cluster.Pod{Placement: *place}, &p.Placement) {
			if until := p.Placement.Lease.Until; out == 0 || until < out {
				out = until
			}
		}
	}
	return out
}

// stiff names pods for which nobody lends: of one queue, shape and standing to others.
type stiff struct {
	tie
	queue cluster.QueueID
}

// mostLoans bounds the sets of lenders that one cycle tries out.
const mostLoans = 10_000

// loans is one cycle's lending in progress.
type loans struct {
	*round
	left  int64
	stiff map[stiff]int32 // the priority for which nobody could lend
	homes map[cluster.QueueID][]home
	hosts []cluster.NodeID // those on which somebody has lent in this cycle
}

// home is a node where a queue has pods that might lend.
type home struct {
	node   cluster.NodeID
	lowest int32 // their lowest priority
}

// settle finds the homes of all queues.
func (l *loans) settle() {
	v := l.txn.View()
	l.homes = make(map[cluster.QueueID][]home)
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if !n.Spec.Resizes || !n.TakesWork() || n.Overdrawn {
			continue
		}
		for _, id := range n.Pods {
			spec := v.Pod(id).Spec
			all := l.homes[spec.Queue]
			if last := len(all) - 1; last >= 0 && all[last].node == cluster.NodeID(i) {
				all[last].lowest = min(all[last].lowest, spec.Priority)
				continue
			}
			l.homes[spec.Queue] = append(all, home{cluster.NodeID(i), spec.Priority})
		}
	}
}

// mayHost lists the nodes on which somebody may lend to a pod, and those on which
// what was lent to others may leave room for it.
func (l *loans) mayHost(spec *cluster.PodSpec) []cluster.NodeID {
	out := slices.Clone(l.hosts)
	for _, h := range l.homes[spec.Queue] {
		if h.lowest < spec.Priority {
			out = append(out, h.node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// borrow finds room, in quarters that running pods lend, for waiting pods that have no
// room, the most important first.
func (r *round) borrow() {
	v := r.txn.View()
	var line []cluster.PodID
	for _, w := range r.waiting {
		// A protected pod could not be called in when the lease ends.
		if spec := v.Pod(w.Pod).Spec; w.Why.Code.Future() == decision.AfterRoom && !spec.Protected && spec.Group == cluster.None && spec.Priority > v.LowestPriority && divides(v.Shape(spec.Shape)) {
			line = append(line, w.Pod)
		}
	}
	if len(line) == 0 {
		return
	}
	l := loans{round: r, left: mostLoans, stiff: make(map[stiff]int32)}
	if l.settle(); len(l.homes) == 0 {
		return
	}
	slices.SortFunc(line, func(a, b cluster.PodID) int { return r.policy.compare(&r.txn.Base().View, r.cycle, a, b) })
	placed := make(map[cluster.PodID]bool)
	for _, pod := range line {
		placed[pod] = l.serve(pod)
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(w decision.Waiting) bool { return placed[w.Pod] })
}

// divides says whether a shape takes part of a device: quarters leave no whole one.
func divides(shape *cluster.Shape) bool {
	return slices.ContainsFunc(shape.Devices, func(r cluster.DeviceRequest) bool { return !r.Whole() })
}

// terms are what a set of lenders costs: the smaller the better.
type terms struct {
	count int
	sum   int64 // of priorities
	tie   uint64
}

// serve places one pod on the node where the fewest, and the least important, lend.
func (l *loans) serve(pod cluster.PodID) bool {
	v := l.txn.View()
	spec := v.Pod(pod).Spec
	of := tie{kin: v.Ties(pod), shape: spec.Shape}
	key := stiff{of, spec.Queue}
	if known, seen := l.stiff[key]; seen && spec.Priority <= known || !fit.Queue(v, pod, spec.Shape).None() {
		return false
	}
	var best terms
	var lenders []cluster.PodID
	host := cluster.NodeID(cluster.None)
	for _, node := range l.mayHost(spec) {
		if l.left <= 0 {
			break
		}
		why := l.check(of, node)
		set := []cluster.PodID(nil)
		if why.Code == decision.DeviceRoom {
			if set = l.find(spec, of, node); set == nil {
				continue
			}
		} else if !why.None() {
			continue
		}
		price := terms{count: len(set), tie: l.policy.tie(v, l.cycle, node)}
		for _, id := range set {
			price.sum += int64(v.Pod(id).Spec.Priority)
		}
		if host == cluster.None || cmp.Or(cmp.Compare(price.count, best.count), cmp.Compare(price.sum, best.sum), cmp.Compare(price.tie, best.tie)) < 0 {
			best, lenders, host = price, set, node
		}
	}
	if host != cluster.None && l.lend(pod, spec.Shape, host, lenders) {
		return true
	}
	l.stiff[key] = spec.Priority
	return false
}

// mayLend lists who of a node may lend to a pod, the least important first, then the
// youngest.
func (l *loans) mayLend(spec *cluster.PodSpec, node cluster.NodeID) []cluster.PodID {
	v := l.txn.View()
	var out []cluster.PodID
	for _, lender := range v.Lenders(node, l.cycle.Now) {
		if p := v.Pod(lender.Pod); !p.Spec.Protected && !p.Spec.Keeps && p.Spec.Queue == spec.Queue && p.Spec.Priority < spec.Priority {
			out = append(out, lender.Pod)
		}
	}
	slices.SortFunc(out, func(a, b cluster.PodID) int {
		x, y := v.Pod(a), v.Pod(b)
		return cmp.Or(cmp.Compare(x.Spec.Priority, y.Spec.Priority), -cmp.Compare(x.Bound, y.Bound), cmp.Compare(x.Key, y.Key))
	})
	return out
}

// find returns who has to lend on one node, as few as needed; nil where it does not
// help.
func (l *loans) find(spec *cluster.PodSpec, of tie, node cluster.NodeID) []cluster.PodID {
	var set []cluster.PodID
	for _, id := range l.mayLend(spec, node) {
		set = append(set, id)
		if !l.suffices(of, node, set) {
			continue
		}
		for i := len(set) - 2; i >= 0; i-- {
			if fewer := slices.Delete(slices.Clone(set), i, i+1); l.suffices(of, node, fewer) {
				set = fewer
			}
		}
		return set
	}
	return nil
}

// suffices says whether a shape fits on a node when some lend. Everything is as before
// afterwards.
func (l *loans) suffices(of tie, node cluster.NodeID, lenders []cluster.PodID) bool {
	touched, _ := l.txn.TouchedNodes()
	before := trial{mark: l.txn.Mark(), touched: len(touched)}
	defer l.undo(before)
	l.left--
	return l.takeQuarters(lenders) && l.check(of, node).None()
}

func (l *loans) takeQuarters(lenders []cluster.PodID) bool {
	for _, id := range lenders {
		if l.txn.Lend(id, l.cycle.Now, cluster.LeaseEnd(l.cycle.Now)) != nil {
			return false
		}
	}
	return true
}

// lend takes quarters and places the pod that they are for; or leaves everything as
// it was.
func (l *loans) lend(pod cluster.PodID, shape cluster.ShapeID, host cluster.NodeID, lenders []cluster.PodID) bool {
	touched, _ := l.txn.TouchedNodes()
	before := trial{mark: l.txn.Mark(), touched: len(touched)}
	full := l.full[shape]
	l.full[shape] = nil
	taken := l.takeQuarters(lenders)
	l.memo.touch(host)
	if !taken || !l.take(pod, shape, host, cluster.None) {
		l.undo(before)
		l.full[shape] = full
		return false
	}
	for _, id := range lenders {
		l.explain(id, decision.Explanation{Policy: l.policy.Name, For: l.txn.View().Pod(pod).Spec.Name})
	}
	l.hosts = append(l.hosts, host)
	return true
}
