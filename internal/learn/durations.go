package learn

import (
	"maps"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Durations follows how long runs of each kind took. The zero value has seen
// nothing.
type Durations struct {
	runs recent[cluster.Symbol, moment.Span]
	kept recent[uint64, quantity.Milli] // by owner, in thousandths of what was declared
}

// runWindow is how many of the last runs of a kind are remembered: one of ten of them
// should be several.
const runWindow = 64

// mostMilli bounds how wrong a word is taken to be: a thousand times too short.
const mostMilli = 1_000_000

// Declared takes in, of a run that has ended, what its owner had said of it. It says
// whether the record of the owner changed with it.
func (d *Durations) Declared(owner uint64, said, took moment.Span) bool {
	if said <= 0 || took <= 0 {
		return false
	}
	before := d.record(owner)
	ratio := quantity.Milli(mostMilli)
	if took/said < mostMilli/1000 {
		ratio = quantity.Milli(quantity.MulDiv(int64(took), 1000, int64(said)))
	}
	d.kept.add(owner, ratio)
	return d.record(owner) != before
}

// record is how far the word of an owner was off in the window.
func (d *Durations) record(owner uint64) cluster.Record {
	low, likely, high := spread(d.kept.last[owner])
	return cluster.Record{Low: low, Likely: likely, High: high, Runs: int32(len(d.kept.last[owner]))}
}

// spread is the tenth, the half and nine tenths of what was seen: the least of which so
// many are not above it.
func spread[T ~int64](seen []T) (low, likely, high T) {
	if len(seen) == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(seen))
	at := func(percent int) T { return sorted[(len(sorted)*percent+99)/100-1] }
	return at(10), at(50), at(90)
}

// Observe takes in a run that has ended. It says whether the forecast of the kind
// changed with it.
func (d *Durations) Observe(kind cluster.Symbol, took moment.Span) bool {
	if kind == 0 || took <= 0 {
		return false
	}
	before := d.forecast(kind)
	d.runs.size = runWindow
	d.runs.add(kind, took)
	after := d.forecast(kind)
	return !after.Equal(&before)
}

// Of returns the forecast of one kind.
func (d *Durations) Of(kind cluster.Symbol) cluster.Duration { return d.forecast(kind) }

// forecast is the mean over the window, the mean distance from it, and what was seen.
func (d *Durations) forecast(kind cluster.Symbol) cluster.Duration {
	ring := d.runs.last[kind]
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
	off := moment.Span(0)
	for _, took := range ring {
		off += max(took-mean, mean-took) / n
	}
	out := cluster.Duration{Mean: mean, Spread: off, Runs: int32(len(ring))}
	out.Low, out.Likely, out.High = spread(ring)
	out.Seen = slices.Sorted(slices.Values(ring))
	return out
}

// Table returns the forecasts of all kinds.
func (d *Durations) Table() *cluster.Durations {
	out := &cluster.Durations{ByKind: make(map[cluster.Symbol]cluster.Duration, len(d.runs.last))}
	for kind := range maps.Keys(d.runs.last) { // order: a map is filled
		out.ByKind[kind] = d.forecast(kind)
	}
	if len(d.kept.last) > 0 {
		out.ByOwner = make(map[uint64]cluster.Record, len(d.kept.last))
	}
	for owner := range maps.Keys(d.kept.last) { // order: a map is filled
		out.ByOwner[owner] = d.record(owner)
	}
	return out
}
