// Package rank says which of several places, or of several tasks, is best.
//
// A score is an integer with a written scale (decision.ScoreOne is one). The
// parts are those of docs/adr/0005: fit, urgency and affinity. Whether a place
// is possible at all is package fit's to say.
package rank

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Urgency is, in the scale of decision.ScoreOne, how much a pod has used up of the time
// that it may wait: of its promised time, and of the time to the latest start that meets
// its deadline, whichever is the greater part. No promise is no urgency.
func Urgency(p *cluster.Pod, now moment.Instant) int64 {
	elapsed, total := used(p, now)
	return quantity.MulDiv(elapsed, decision.ScoreOne, total)
}

// CompareUrgency returns 1 when a is more urgent than b, exactly.
func CompareUrgency(a, b *cluster.Pod, now moment.Instant) int {
	if promisedNothing(a) && promisedNothing(b) {
		return 0 // most pods
	}
	ae, at := used(a, now)
	be, bt := used(b, now)
	return quantity.CompareProducts(ae, bt, be, at)
}

func promisedNothing(p *cluster.Pod) bool { return p.Spec.SLATotal <= 0 && p.Spec.Deadline == 0 }

// used returns elapsed and total time, elapsed at most total and total positive.
func used(p *cluster.Pod, now moment.Instant) (elapsed, total int64) {
	total = 1
	if p.Spec.SLATotal > 0 {
		elapsed, total = part(int64(now.Since(p.Arrived)), int64(p.Spec.SLATotal))
	}
	if latest, known := LatestStart(p); known {
		e, t := part(int64(now.Since(p.Arrived)), int64(latest.Since(p.Arrived)))
		if quantity.CompareProducts(e, total, elapsed, t) > 0 {
			return e, t
		}
	}
	return elapsed, total
}

// part is how much of a time is used up; all of one that there never was.
func part(elapsed, total int64) (used, of int64) {
	if total <= 0 {
		return 1, 1
	}
	return min(max(0, elapsed), total), total
}

// LatestStart is when a pod has to start at the latest that its job meets its deadline,
// by the run time declared for it; known is false without a deadline.
func LatestStart(p *cluster.Pod) (at moment.Instant, known bool) {
	if p.Spec.Deadline == 0 {
		return 0, false
	}
	return p.Spec.Deadline.Add(-p.Spec.Expected), true
}

// Late says that a pod which has not started cannot meet the deadline of its job, and
// when it would be done at the earliest: as long from now as its run is expected to take.
func Late(v *cluster.View, p *cluster.Pod, now moment.Instant) (end moment.Instant, late bool) {
	if p.Spec.Deadline == 0 {
		return 0, false
	}
	end = now.Add(v.ExpectedRun(p).Likely)
	return end, end > p.Spec.Deadline
}
