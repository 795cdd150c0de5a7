package when

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// EndOf is when a pod is expected to leave its place; Never where nobody knows. Who is
// told to go goes now.
func EndOf(v *cluster.View, p *cluster.Pod, now moment.Instant) moment.Instant {
	end, _ := EndAt(v, p, Ran(v, p, now), now, Half)
	return end
}

// EndAt is EndOf for a run that has gone on for a while, and is as long as a part of its
// like; varies says whether it would end at another instant for another part.
func EndAt(v *cluster.View, p *cluster.Pod, ran moment.Span, now moment.Instant, part quantity.Milli) (end moment.Instant, varies bool) {
	if p.Phase == cluster.PhaseTerminating {
		return now, false
	}
	lasts, varies := Run(v, p, ran, part)
	if lasts <= 0 {
		return moment.Never, false
	}
	return now.Add(lasts - ran), varies
}

// EndsAfter is when a pod would end that starts at an instant.
func EndsAfter(v *cluster.View, p *cluster.Pod, at moment.Instant) moment.Instant {
	ran := RanBefore(p)
	lasts, _ := Run(v, p, ran, Half)
	if lasts <= 0 {
		return moment.Never
	}
	return at.Add(lasts - ran)
}
