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

// Urgency is min(1, elapsed / SLA total) in the scale of decision.ScoreOne: how
// much of its promised time a pod has used up. No promise is no urgency.
func Urgency(p *cluster.Pod, now moment.Instant) int64 {
	elapsed, total := used(p, now)
	return quantity.MulDiv(elapsed, decision.ScoreOne, total)
}

// CompareUrgency returns 1 when a is more urgent than b, exactly.
func CompareUrgency(a, b *cluster.Pod, now moment.Instant) int {
	if a.Spec.SLATotal <= 0 && b.Spec.SLATotal <= 0 {
		return 0 // most pods are promised nothing
	}
	ae, at := used(a, now)
	be, bt := used(b, now)
	return quantity.CompareProducts(ae, bt, be, at)
}

// used returns elapsed and total time, elapsed at most total and total positive.
func used(p *cluster.Pod, now moment.Instant) (elapsed, total int64) {
	if p.Spec.SLATotal <= 0 {
		return 0, 1
	}
	total = int64(p.Spec.SLATotal)
	elapsed = min(max(0, int64(now.Since(p.Arrived))), total)
	return elapsed, total
}
