package when

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// EndOf is when a pod is expected to leave its place; Never where nobody knows. Who is
// told to go goes now. Who has run for longer than was expected is taken to run for as
// long again: a wrong word is not believed a second time at once.
func EndOf(v *cluster.View, p *cluster.Pod, now moment.Instant) moment.Instant {
	return EndIn(p, v.ExpectedRun(p).Likely, now)
}

// EndIn is EndOf for a run of some length.
func EndIn(p *cluster.Pod, lasts moment.Span, now moment.Instant) moment.Instant {
	if p.Phase == cluster.PhaseTerminating {
		return now
	}
	if lasts <= 0 {
		return moment.Never
	}
	since := now
	switch {
	case p.Phase == cluster.PhaseRunning && p.Started >= p.Bound:
		since = p.Started
	case p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning:
		since = p.Bound
	}
	for since.Add(lasts) <= now && lasts < moment.Span(moment.Never)/2 {
		lasts *= 2
	}
	return since.Add(lasts)
}

// EndsAfter is when a pod would end that starts at an instant.
func EndsAfter(v *cluster.View, p *cluster.Pod, at moment.Instant) moment.Instant {
	lasts := v.ExpectedRun(p).Likely
	if lasts <= 0 {
		return moment.Never
	}
	return at.Add(lasts)
}
