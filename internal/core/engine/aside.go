package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Some pods are not in line, since something has been decided about them already: they
// hold room that others are still to leave. They wait like the others, with a reason.

// appendHolders adds the pods that hold room which others are still to leave.
func appendHolders(waiting []decision.Waiting, v *cluster.View, c decision.Cycle) []decision.Waiting {
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

// HeldBack is why a pod waits that holds room which others are still to leave; the zero
// reason for any other.
func HeldBack(v *cluster.View, id cluster.PodID) decision.Reason {
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
		if in.ID != 0 && (in.Action == cluster.ActionEvict || in.Action == cluster.ActionResize) {
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
