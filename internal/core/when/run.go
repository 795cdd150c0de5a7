package when

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Half is the run that half of all runs are not longer than.
const Half quantity.Milli = 500

// Run is how long a run takes in all that has gone on for a while: of those that it may
// be like, the one at a part of the way, in thousandths, from the shortest to the
// longest. varies says whether another part would have another answer; 0 is for a run of
// which nobody knows.
//
// Of a kind, runs that were over sooner say nothing any more. Who has run for longer than
// any of them, or than was said, is taken to run for as long again.
func Run(v *cluster.View, p *cluster.Pod, ran moment.Span, part quantity.Milli) (lasts moment.Span, varies bool) {
	if p.Spec.Expected <= 0 && v.Beliefs != nil {
		k := v.Beliefs.Durations.Of(p.Spec.Kind)
		if n := len(k.Seen); n > 0 {
			at, exact := slices.BinarySearch(k.Seen, ran)
			for ; exact && at < n && k.Seen[at] == ran; at++ {
			}
			if at == n {
				return doubled(k.Seen[n-1], ran), false
			}
			longer := k.Seen[at:]
			// The least of which so many are not above it.
			i := (int64(len(longer))*int64(part) + 999) / 1000
			return longer[max(i, 1)-1], longer[0] != longer[len(longer)-1]
		}
	}
	t := v.ExpectedRun(p)
	return doubled(t.At(part), ran), t.Low != t.High
}

// doubled is a length, as many times twice as are needed to be more than what has gone by.
func doubled(lasts, ran moment.Span) moment.Span {
	for lasts > 0 && lasts <= ran && lasts < moment.Span(moment.Never)/2 {
		lasts *= 2
	}
	return lasts
}

// Ran is for how long a pod has run, as Run counts it: what is declared is said of one
// attempt, what is learned goes over all of them.
func Ran(v *cluster.View, p *cluster.Pod, now moment.Instant) moment.Span {
	if p.Spec.Expected > 0 {
		return now.Since(began(p, now))
	}
	ran := v.RanFor(p, now)
	if p.Phase == cluster.PhaseBound {
		ran += now.Since(p.Bound) // it will have begun then
	}
	return ran
}

// RanBefore is Ran for a pod that begins anew: what its attempts before had.
func RanBefore(p *cluster.Pod) moment.Span {
	if p.Spec.Expected > 0 {
		return 0
	}
	return p.Ran
}

// began is when the attempt of a pod began; now for one that has yet to.
func began(p *cluster.Pod, now moment.Instant) moment.Instant {
	switch {
	case p.Phase == cluster.PhaseRunning && p.Started >= p.Bound:
		return p.Started
	case p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning:
		return p.Bound
	}
	return now
}
