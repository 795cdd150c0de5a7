package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Groups that each hold what another needs would wait for each other for good. So a group
// of which nothing has run may hold room without its minimum only for a time. Of several
// whose time is over the one that has waited longest keeps its room a little longer: the
// others give theirs back, back off, and it is the first whom that helps.

// giveBack evicts what a broken group holds when its time is over and nothing of
// it has run yet: others can use the room. It is the last step of a cycle, so that
// no group counts on that room before it is free.
func (r *round) giveBack() {
	v := r.txn.Base()
	late := r.late()
	if late == nil {
		return
	}
	kept := r.kept(late)
	var holders []cluster.PodID
	for _, id := range late {
		if slices.ContainsFunc(kept, func(first cluster.GroupID) bool { return id == first || v.Above(first, id) }) {
			continue
		}
		for pod := range v.TreeMembers(id) {
			if v.Pod(pod).Phase == cluster.PhaseBound {
				holders = append(holders, pod)
			}
		}
	}
	slices.SortFunc(holders, func(a, b cluster.PodID) int {
		return cmp.Or(cmp.Compare(v.Pod(a).Key, v.Pod(b).Key), cmp.Compare(a, b))
	})
	for _, pod := range slices.Compact(holders) {
		if r.txn.Evict(pod) == nil {
			r.memo.touch(v.Pod(pod).Placement.Node)
		}
	}
}

// late lists the groups whose time is over and of which nothing is under way.
func (r *round) late() (late []cluster.GroupID) {
	v := r.txn.Base()
	for i := range v.Groups.Len() {
		id := cluster.GroupID(i)
		if g := v.Group(id); g.Deadline == 0 || g.Deadline > r.cycle.Now || !r.txn.View().Group(id).Stuck() {
			continue
		}
		placing := false
		for pod := range v.TreeMembers(id) {
			placing = placing || v.Pod(pod).Phase == cluster.PhasePlacing
		}
		if !placing {
			late = append(late, id)
		}
	}
	return late
}

// kept lists the late groups that keep their room: of each knot the one that has waited
// longest, of all others the one that has.
func (r *round) kept(late []cluster.GroupID) (kept []cluster.GroupID) {
	v := r.txn.Base()
	rest := slices.Clone(late)
	for i := range r.knots {
		k := &r.knots[i]
		rest = slices.DeleteFunc(rest, func(id cluster.GroupID) bool { return slices.Contains(k.groups, v.Root(id)) })
		if k.keeper != cluster.None && r.cycle.Now < k.until {
			kept = append(kept, k.keeper)
		}
	}
	if len(rest) > 0 {
		if first := r.mayKeep(rest); first != cluster.None {
			kept = append(kept, first)
		}
	}
	return kept
}

// mayKeep is the late group that keeps its room: the one that has waited longest, while
// the room that others give back may still help it. It has as long again for that as it
// had. None where no other gives any back.
func (r *round) mayKeep(late []cluster.GroupID) cluster.GroupID {
	v := r.txn.Base()
	first, since, trees := cluster.GroupID(cluster.None), moment.Never, 0
	for _, id := range late {
		g := v.Group(id)
		if slices.Contains(late, g.Parent) {
			continue // it goes with that
		}
		trees++
		at := arrivedIn(&v.View, id)
		if first == cluster.None || at < since || at == since && cmp.Or(cmp.Compare(g.Key, v.Group(first).Key), cmp.Compare(id, first)) < 0 {
			first, since = id, at
		}
	}
	if g := v.Group(first); r.cycle.Now >= g.Deadline.Add(g.Hold) || trees == 1 && !roomReturns(&v.View) {
		return cluster.None
	}
	return first
}

// arrivedIn is when the first of a tree's members came.
func arrivedIn(v *cluster.View, id cluster.GroupID) moment.Instant {
	first := moment.Never
	for pod := range v.TreeMembers(id) {
		first = min(first, v.Pod(pod).Arrived)
	}
	return first
}

// roomReturns says whether room is still being left that a group has given back.
func roomReturns(v *cluster.View) bool {
	for _, id := range v.Returned() {
		for pod := range v.TreeMembers(id) {
			if v.Pod(pod).Phase == cluster.PhaseTerminating {
				return true
			}
		}
	}
	return false
}

// appendReturned adds the pods whose group is not tried again yet.
func appendReturned(waiting []decision.Waiting, v *cluster.View, c decision.Cycle) []decision.Waiting {
	for _, id := range v.Returned() {
		if v.Group(id).GaveBack.Until <= c.Now {
			continue
		}
		why := returned(v, id)
		for pod := range v.TreeMembers(id) {
			p := v.Pod(pod)
			if p.Phase != cluster.PhaseWaiting || c.Profile != 0 && p.Spec.Policy != c.Profile {
				continue
			}
			if !p.BacksOff(c.Now) && !v.AwaitsJobs(p) && v.BacksOffIn(p.Spec.Group, c.Now) == id {
				waiting = append(waiting, decision.Waiting{Pod: pod, Why: why})
			}
		}
	}
	return waiting
}

// returned says how often a group gave its room back, and until when it is not tried.
func returned(v *cluster.View, id cluster.GroupID) *decision.Reason {
	r := v.Group(id).GaveBack
	return &decision.Reason{Code: decision.GroupBackingOff, Have: int64(r.Count), Until: r.Until, Group: id}
}
