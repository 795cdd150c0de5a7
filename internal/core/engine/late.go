package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
)

// tellLate adds, to why pods wait that cannot meet their deadline any more, that this is
// so. Pods share reasons, so such a pod gets one of its own.
func tellLate(waiting []decision.Waiting, v *cluster.View, now moment.Instant) []decision.Waiting {
	for i := range waiting {
		w := &waiting[i]
		w.Why = withDeadline(w.Why, v, v.Pod(w.Pod), now)
	}
	return waiting
}

// withDeadline is a reason with what it means for a pod's deadline.
func withDeadline(why *decision.Reason, v *cluster.View, p *cluster.Pod, now moment.Instant) *decision.Reason {
	end, late := rank.Late(v, p, now)
	if !late || why.None() {
		return why
	}
	own := *why
	own.Deadline, own.End = p.Spec.Deadline, end
	return &own
}

// Deadlined is a reason, of a pod, with what the wait means for its deadline.
func Deadlined(why decision.Reason, v *cluster.View, id cluster.PodID, now moment.Instant) decision.Reason {
	return *withDeadline(&why, v, v.Pod(id), now)
}
