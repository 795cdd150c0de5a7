package rank

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Tiers set work back by how long it has run: of two jobs of one queue and one priority
// that which has run for less goes first. Most jobs are short and few take most of the
// time, so that what a job has had is the best guess at what it still wants (Gu et al.,
// "Tiresias", NSDI 2019: least attained service, in steps so that jobs do not
// alternate).
//
// Only work that can go on from a saved state is set back.
type Tiers []moment.Span // where one tier ends and the next begins, ascending; none: nobody is set back

// Of is the tier of a pod, from 0: the higher, the later its turn.
func (t Tiers) Of(v *cluster.View, p *cluster.Pod, now moment.Instant) int32 {
	if len(t) == 0 || p.Spec.Group == cluster.None && p.RanFor(now) < t[0] {
		return 0
	}
	if j := v.JobOf(p); j == nil || !j.Resumes() {
		return 0
	}
	return t.After(v.RanFor(p, now))
}

// After is the tier of what has run for so long.
func (t Tiers) After(ran moment.Span) (tier int32) {
	for _, end := range t {
		if ran >= end {
			tier++
		}
	}
	return tier
}
