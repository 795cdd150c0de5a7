package learn

import (
	"maps"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Durations follows how long runs of each kind took. The zero value has seen
// nothing.
type Durations struct {
	runs map[cluster.Symbol][]moment.Span // the last ones, a ring
	seen map[cluster.Symbol]int
}

// Observe takes in a run that has ended. It says whether the forecast of the kind
// changed with it.
func (d *Durations) Observe(kind cluster.Symbol, took moment.Span) bool {
	if kind == 0 || took <= 0 {
		return false
	}
	if d.runs == nil {
		d.runs, d.seen = make(map[cluster.Symbol][]moment.Span), make(map[cluster.Symbol]int)
	}
	before := d.forecast(kind)
	if ring := d.runs[kind]; len(ring) < window {
		d.runs[kind] = append(ring, took)
	} else {
		ring[d.seen[kind]%window] = took
	}
	d.seen[kind]++
	return d.forecast(kind) != before
}

// Of returns the forecast of one kind.
func (d *Durations) Of(kind cluster.Symbol) cluster.Duration { return d.forecast(kind) }

// forecast is the mean over the window, and the mean distance from it.
func (d *Durations) forecast(kind cluster.Symbol) cluster.Duration {
	ring := d.runs[kind]
	if len(ring) == 0 {
		return cluster.Duration{}
	}
	n := moment.Span(len(ring))
	mean, rest := moment.Span(0), moment.Span(0)
	for _, took := range ring { // piecewise, so that long runs do not overflow
		mean += took / n
		rest += took % n
	}
	mean += rest / n
	spread := moment.Span(0)
	for _, took := range ring {
		spread += max(took-mean, mean-took) / n
	}
	return cluster.Duration{Mean: mean, Spread: spread, Runs: int32(len(ring))}
}

// Table returns the forecasts of all kinds.
func (d *Durations) Table() *cluster.Durations {
	out := &cluster.Durations{ByKind: make(map[cluster.Symbol]cluster.Duration, len(d.runs))}
	for kind := range maps.Keys(d.runs) { // order: a map is filled
		out.ByKind[kind] = d.forecast(kind)
	}
	return out
}
