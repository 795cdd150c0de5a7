package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Some pods are not in line: their job waits for others (await.go), their group gave its
// room back a while ago (giveback.go), they hold room that others are still to leave, or
// their bind was refused and is tried again later. They wait like the others, with a
// reason.

// appendAside adds the pods that are not in line.
func appendAside(waiting []decision.Waiting, v *cluster.View, c decision.Cycle) []decision.Waiting {
	for _, id := range v.Refused() {
		p := v.Pod(id)
		if p.Phase == cluster.PhaseWaiting && p.BacksOff(c.Now) && !v.AwaitsJobs(p) && (c.Profile == 0 || p.Spec.Policy == c.Profile) {
			waiting = append(waiting, decision.Waiting{Pod: id, Why: backsOff(p)})
		}
	}
	waiting = appendAwaiting(appendReturned(waiting, v, c), v, c)
	var leaving []uint64 // decisions under way after which there is more room
	for i := range v.Intents.Len() {
		in := v.Intents.At(int32(i))
		if in.ID == 0 || in.Action != cluster.ActionHold || c.Profile != 0 && v.Pod(in.Pod).Spec.Policy != c.Profile {
			continue
		}
		if leaving == nil {
			leaving = underWay(v)
		}
		waiting = append(waiting, decision.Waiting{Pod: in.Pod, Why: awaits(v, in, leaving)})
	}
	return waiting
}

// HeldBack is why a pod waits that is not in line at an instant: its job waits for
// others, it backs off, or it holds room which others are still to leave. It is the zero
// reason for any other.
func HeldBack(v *cluster.View, id cluster.PodID, now moment.Instant) decision.Reason {
	switch p := v.Pod(id); {
	case p.Phase != cluster.PhaseWaiting:
	case v.AwaitsJobs(p):
		return *(&awaiting{view: v}).of(v.JobOf(p))
	case p.BacksOff(now):
		return *backsOff(p)
	default:
		if g := v.BacksOffIn(p.Spec.Group, now); g != cluster.None {
			return *returned(v, g)
		}
	}
	if intent := v.Pod(id).Intent; intent != cluster.None {
		if in := v.Intents.At(int32(intent)); in.Action == cluster.ActionHold {
			return *awaits(v, in, underWay(v))
		}
	}
	return decision.Reason{}
}

// underWay lists the evictions and loans that are not done yet, sorted.
func underWay(v *cluster.View) []uint64 {
	out := make([]uint64, 0, v.Intents.Len())
	for i := range v.Intents.Len() {
		in := v.Intents.At(int32(i))
		if in.ID != 0 && (in.Action == cluster.ActionEvict || in.Action == cluster.ActionReplace || in.Action == cluster.ActionResize) {
			out = append(out, in.ID)
		}
	}
	slices.Sort(out)
	return out
}

// awaits says for how many a hold waits. One that was made by a fact does not say for
// whom: then it is for all who are leaving its node.
func awaits(v *cluster.View, hold *cluster.Intent, leaving []uint64) *decision.Reason {
	why := decision.Reason{Code: decision.VictimsLeave}
	if hold.Deadline != moment.Never {
		why.Until = hold.Deadline
	}
	for _, id := range hold.After {
		if _, is := slices.BinarySearch(leaving, id); is {
			why.Have++
		}
	}
	if len(hold.After) == 0 {
		for _, pod := range v.Node(hold.Place.Node).Pods {
			if v.Pod(pod).Phase == cluster.PhaseTerminating {
				why.Have++
			}
		}
	}
	return &why
}

// backsOff says how often the binds of a pod were refused, and until when it is not
// tried again.
func backsOff(p *cluster.Pod) *decision.Reason {
	why := decision.Reason{Code: decision.BackingOff, Have: int64(p.Refused.Count), Until: p.Refused.Until}
	if p.Refused.Until != moment.Never {
		return &why
	}
	why.Code, why.Until = decision.SetAside, 0
	if p.Refused.Node != cluster.None {
		why.Domain = cluster.Spot{Set: true, Level: cluster.LevelNode, Node: p.Refused.Node, Domain: cluster.None, Island: cluster.None}
	}
	return &why
}

// heldBackIn is why a group has fewer members in line than it has: those whose job waits
// for others speak for them, else of those that back off the one that does so for
// longest. Nil where none is held back.
func (r *round) heldBackIn(id cluster.GroupID) *decision.Reason {
	v := r.txn.Base()
	if why := awaitsIn(&v.View, id); why != nil {
		return why
	}
	if g := v.BacksOffIn(id, r.cycle.Now); g != cluster.None {
		return returned(&v.View, g)
	}
	var last *cluster.Pod
	for _, pod := range v.Refused() {
		p := v.Pod(pod)
		if p.Spec.Group != id || p.Phase != cluster.PhaseWaiting || !p.BacksOff(r.cycle.Now) {
			continue
		}
		if last == nil || p.Refused.Until > last.Refused.Until || p.Refused.Until == last.Refused.Until && p.Key < last.Key {
			last = p
		}
	}
	if last == nil {
		return nil
	}
	why := backsOff(last)
	why.Group = id
	return why
}

// refuserOf is the node that refused the last bind of a pod: it goes there again only
// where no other takes it. None without.
func (r *round) refuserOf(pod cluster.PodID) cluster.NodeID {
	v := r.txn.Base()
	if len(v.Refused()) == 0 {
		return cluster.None
	}
	if p := v.Pod(pod); p.Refused.Count > 0 {
		return p.Refused.Node
	}
	return cluster.None
}

// chooseBut returns the best node for one shape of a pod but for one; None where no
// other takes it.
func (r *round) chooseBut(pod cluster.PodID, shape cluster.ShapeID, but cluster.NodeID) cluster.NodeID {
	v := r.txn.View()
	pass := func(node cluster.NodeID) bool { return node != but }
	if kin := v.Ties(pod); kin != 0 {
		b := r.memo.tied(v, tie{kin: kin, shape: shape})
		pass = func(node cluster.NodeID) bool { return node != but && b.Check(v, node).None() }
	}
	if r.policy.Choose == nil {
		node, _ := r.memo.bestAmong(v, shape, pass)
		return node
	}
	feasible := slices.DeleteFunc(r.memo.feasible(v, shape), func(node cluster.NodeID) bool { return !pass(node) })
	if len(feasible) == 0 {
		return cluster.None
	}
	return r.policy.Choose(v, r.cycle, pod, feasible)
}
