package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/knot"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Our groups start all or none. But some come to hold a part of what they need from
// outside: members bound by another scheduler, a minimum that was raised, a member lost
// before anything ran. Two such groups may each hold what the other needs. What is so is
// found by letting all others end, and everybody who can start with what is left then: who
// is left over waits in the wait-for graph. It stays a matter of their time-outs who gives
// back; but of a knot the group keeps its room that has waited longest, if the others'
// room helps it.

// Knotless returns the policy without the search for knots.
func (p *Policy) Knotless() *Policy {
	out := *p
	out.Knots = false
	return &out
}

// mostTangled bounds the groups among which knots are looked for: each pair is tried, and
// holding room without a minimum is rare. With more, nothing is said.
const mostTangled = 16

// mostEnding bounds the pods that are let end to see who is left: with more running,
// nothing is said. It takes some ten microseconds each, so that arrivals do not wait for
// it: knots are looked for in reviews, and when the time of some group is over.
const mostEnding = 20_000

// tangle is a knot: groups, and who of them keeps its room until when.
type tangle struct {
	groups []cluster.GroupID // roots
	keeper cluster.GroupID   // None: the room of the others helps nobody
	until  moment.Instant
}

// waiter is a tree of groups, or a pod without, that waits.
type waiter struct {
	group   cluster.GroupID // the root; None: a pod
	pod     cluster.PodID
	arrived moment.Instant
	key     uint64
	holds   []cluster.PodID // of it that have a place
	waits   []cluster.PodID // and that have a turn, and no place
	after   []int           // whom its jobs wait for
	by      []cluster.JobID // by which job
	comes   bool            // it only waits for time, or for what ends by itself
}

// untangle finds the knots of a cycle, and says them as the reason of those who wait.
func (r *round) untangle() {
	if !r.policy.Knots || r.cycle.Kind != decision.CycleReview && len(r.late()) == 0 {
		return
	}
	all := r.tangled()
	if len(all) == 0 {
		return
	}
	others := r.others(all)
	if len(others) > mostEnding {
		return
	}
	r.attempt(func() bool {
		for _, pod := range others {
			r.end(pod)
		}
		r.tie(all)
		return false
	})
}

// tangled lists the groups that hold room without their minimum, in the order in which
// they have waited, and those whose jobs they wait for. None where they are too many.
func (r *round) tangled() (all []waiter) {
	v := r.txn.View()
	for i := range v.Groups.Len() {
		id := cluster.GroupID(i)
		if g := v.Group(id); g.Parent == cluster.None && g.Stuck() {
			all = append(all, r.waiterOf(id))
		}
	}
	if len(all) == 0 || len(all) > mostTangled {
		return nil
	}
	slices.SortFunc(all, func(a, b waiter) int { return cmp.Or(cmp.Compare(a.arrived, b.arrived), cmp.Compare(a.key, b.key)) })
	for i := 0; i < len(all); i++ {
		if all = r.awaitedBy(all, i); len(all) > mostTangled {
			return nil
		}
	}
	if !slices.ContainsFunc(all, func(w waiter) bool { return len(w.holds) > 0 && !w.comes }) || len(all) < 2 {
		return nil
	}
	return all
}

func (r *round) waiterOf(root cluster.GroupID) waiter {
	v := r.txn.View()
	w := waiter{group: root, pod: cluster.None, key: v.Group(root).Key, arrived: moment.Never}
	for pod := range v.TreeMembers(root) {
		w.take(v, pod, r.cycle)
	}
	w.order(v)
	return w
}

// take files a pod.
func (w *waiter) take(v *cluster.View, pod cluster.PodID, c decision.Cycle) {
	p := v.Pod(pod)
	w.arrived = min(w.arrived, p.Arrived)
	switch {
	case p.Phase.Charged():
		w.holds = append(w.holds, pod)
		w.comes = w.comes || p.Phase == cluster.PhasePlacing || p.Phase == cluster.PhaseTerminating
	case p.Phase != cluster.PhaseWaiting:
	case !v.HeldBack(p, c.Now):
		w.comes = w.comes || c.Profile != 0 && p.Spec.Policy != c.Profile // others decide about it
		w.waits = append(w.waits, pod)
	case !v.AwaitsJobs(p):
		w.comes = true
	}
}

func (w *waiter) order(v *cluster.View) {
	for _, list := range [...][]cluster.PodID{w.holds, w.waits} {
		slices.SortFunc(list, func(a, b cluster.PodID) int {
			return cmp.Or(cmp.Compare(v.Pod(a).Key, v.Pod(b).Key), cmp.Compare(a, b))
		})
	}
}

// awaitedBy adds those whose jobs the i-th waits for, as far as they wait themselves.
func (r *round) awaitedBy(all []waiter, i int) []waiter {
	v := r.txn.View()
	if len(v.Dependents()) == 0 {
		return all
	}
	var jobs []cluster.JobID
	own := func(pod cluster.PodID) {
		if p := v.Pod(pod); p.Phase == cluster.PhaseWaiting && v.AwaitsJobs(p) {
			for _, d := range v.JobOf(p).After {
				if !v.Met(d) && !slices.Contains(jobs, d.Job) {
					jobs = append(jobs, d.Job)
				}
			}
		}
	}
	if g := all[i].group; g == cluster.None {
		own(all[i].pod)
	} else {
		for pod := range v.TreeMembers(g) {
			own(pod)
		}
	}
	if len(jobs) == 0 {
		return all
	}
	for _, pod := range v.AppendWaiting(nil) {
		p := v.Pod(pod)
		job := p.Spec.Job
		if p.Spec.Group != cluster.None && job == cluster.None {
			job = v.Group(p.Spec.Group).Job
		}
		if !slices.Contains(jobs, job) || len(all) > mostTangled {
			continue
		}
		root := v.Root(p.Spec.Group)
		at := slices.IndexFunc(all, func(w waiter) bool {
			return root != cluster.None && w.group == root || root == cluster.None && w.pod == pod
		})
		if at < 0 {
			w := waiter{group: cluster.None, pod: pod, key: p.Key, arrived: moment.Never}
			if root != cluster.None {
				w = r.waiterOf(root)
			} else {
				w.take(v, pod, r.cycle)
			}
			at = len(all)
			all = append(all, w)
		}
		if !slices.Contains(all[i].after, at) && at != i {
			all[i].after, all[i].by = append(all[i].after, at), append(all[i].by, job)
		}
	}
	return all
}

// others lists all that runs, or is to, apart from what the waiters hold.
func (r *round) others(all []waiter) (out []cluster.PodID) {
	kept := make(map[cluster.PodID]bool)
	for i := range all {
		for _, pod := range all[i].holds {
			kept[pod] = true
		}
	}
	v := r.txn.View()
	for i := range v.Nodes.Len() {
		for _, pod := range v.Node(cluster.NodeID(i)).Pods {
			if !kept[pod] {
				out = append(out, pod)
			}
		}
	}
	return out
}

// end lets a pod end in the transaction; false where it holds nothing.
func (r *round) end(pod cluster.PodID) bool {
	node := r.txn.View().Pod(pod).Placement.Node
	if !r.txn.Finish(pod) {
		return false
	}
	r.memo.touch(node)
	return true
}

// tie finds who waits for whom.
func (r *round) tie(all []waiter) {
	left := knot.Left(len(all), func(i int, gone []bool) bool {
		w := &all[i]
		done := w.comes || r.starts(w) && !slices.ContainsFunc(w.after, func(k int) bool { return !gone[k] })
		for _, pod := range w.holds {
			if done {
				r.end(pod)
			}
		}
		return done
	})
	waits, links := make([][]int, len(all)), make([][]decision.Link, len(all))
	for i := range all {
		if left[i] {
			waits[i], links[i] = r.waitsFor(all, left, i)
		}
	}
	rings, of := knot.Rings(waits), knot.Knots(waits)
	for n := 0; slices.Contains(of, n); n++ {
		r.knots = append(r.knots, r.tangleOf(all, of, n))
	}
	for i, ring := range rings {
		if ring == nil {
			continue
		}
		var chain decision.Ring
		for k, at := range ring {
			next := ring[(k+1)%len(ring)]
			chain = append(chain, links[at][slices.Index(waits[at], next)])
		}
		r.tellKnot(&all[i], chain, &r.knots[of[i]])
	}
}

// starts says whether all that a waiter lacks has room.
func (r *round) starts(w *waiter) (starts bool) {
	if len(w.after) > 0 && len(w.waits) == 0 {
		return true // where its jobs let it; what it lacks has no turn yet
	}
	if len(w.waits) == 0 {
		return false // it waits for members that have not come
	}
	r.attempt(func() bool {
		starts = r.startAnew(w.waits[0])
		return false
	})
	return starts
}

// reach is how many of those that wait have room, one after the other.
func (r *round) reach(w *waiter) (n int) {
	full := slices.Clone(r.full)
	clear(r.full)
	r.attempt(func() bool {
		for _, pod := range w.waits {
			if r.seatMore(pod) {
				n++
			}
		}
		return false
	})
	copy(r.full, full)
	return n
}

// waitsFor lists those without whom the i-th would come further.
func (r *round) waitsFor(all []waiter, left []bool, i int) (on []int, links []decision.Link) {
	w := &all[i]
	link := decision.Link{Group: w.group, Pod: w.pod, Queue: cluster.None, Job: cluster.None}
	for _, pod := range w.waits {
		v := r.txn.View()
		if why := fit.Queue(v, pod, v.Pod(pod).Spec.Shape); !why.None() {
			link.By, link.Queue = decision.LinkLimit, why.Queue
			break
		}
	}
	most := r.reach(w)
	for k := range all {
		if k == i || !left[k] {
			continue
		}
		own := link
		if at := slices.Index(w.after, k); at >= 0 {
			own.By, own.Job = decision.LinkJob, w.by[at]
		} else if !r.reachesFurther(w, &all[k], most) {
			continue
		}
		on, links = append(on, k), append(links, own)
	}
	return on, links
}

func (r *round) reachesFurther(w, without *waiter, than int) (further bool) {
	if len(without.holds) == 0 || len(w.waits) == 0 {
		return false
	}
	r.attempt(func() bool {
		for _, pod := range without.holds {
			r.end(pod)
		}
		further = r.reach(w) > than
		return false
	})
	return further
}

// tangleOf is a knot, with who keeps its room: the first, of those that hold some, that
// starts when the others have left.
func (r *round) tangleOf(all []waiter, of []int, n int) tangle {
	v := r.txn.Base()
	out := tangle{keeper: cluster.None}
	last := moment.Instant(0)
	for i := range all {
		if of[i] == n && all[i].group != cluster.None && len(all[i].holds) > 0 {
			out.groups = append(out.groups, all[i].group)
			last = max(last, v.Group(all[i].group).Deadline)
		}
	}
	for i := range all {
		w := &all[i]
		if of[i] != n || len(w.holds) == 0 || w.group == cluster.None || len(out.groups) < 2 || len(w.after) > 0 {
			continue
		}
		helps := false
		r.attempt(func() bool {
			for k := range all {
				if of[k] == n && k != i {
					for _, pod := range all[k].holds {
						r.end(pod)
					}
				}
			}
			helps = r.starts(w)
			return false
		})
		if helps {
			out.keeper, out.until = w.group, last.Add(v.Group(w.group).Hold)
			break
		}
	}
	return out
}

// tellKnot says to those of a waiter that wait for room what they are in.
func (r *round) tellKnot(w *waiter, chain decision.Ring, k *tangle) {
	why := &decision.Reason{Code: decision.Knot, Group: w.group, Ring: &chain}
	switch {
	case len(w.holds) == 0:
	case w.group == k.keeper:
		why.Have = 1
	default:
		why.Until = max(r.txn.Base().Group(w.group).Deadline, 0)
	}
	for i := range r.waiting {
		if at := &r.waiting[i]; at.Why.Code.Future() == decision.AfterRoom && slices.Contains(w.waits, at.Pod) {
			at.Why = why
		}
	}
}
