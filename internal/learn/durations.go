package learn

import (
	"cmp"
	"maps"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Durations follows how long runs of each kind took. The zero value has seen
// nothing.
type Durations struct {
	runs recent[cluster.Symbol, Run]
	kept recent[uint64, quantity.Milli] // by owner, in thousandths of what was declared
}

// Run is one of a kind: when it began, and how long it took, or has taken so far.
type Run struct {
	Began moment.Instant
	Took  moment.Span
}

// runWindow is how many of the last runs of a kind are remembered: one of ten of them
// should be several.
const runWindow = 128

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
func (d *Durations) Observe(kind cluster.Symbol, run Run) bool {
	if kind == 0 || run.Took <= 0 {
		return false
	}
	before := d.forecast(kind)
	d.runs.size = runWindow
	d.runs.add(kind, run)
	after := d.forecast(kind)
	return !after.Equal(&before)
}

// Of returns the forecast of one kind.
func (d *Durations) Of(kind cluster.Symbol) cluster.Duration { return d.forecast(kind) }

// foresee goes by the runs that began of late, those that go on too: each of them counts
// as an equal part of all that were longer than it is by now (Efron's way to the
// estimator of Kaplan and Meier); where none was, it will be twice as long. Of late is
// since half of those seen to end began: more of those that began before go on only
// because they are long.
func foresee(f *cluster.Duration, ended, going []Run) {
	if len(going) == 0 {
		return
	}
	begun := make([]moment.Instant, len(ended))
	for i := range ended {
		begun[i] = ended[i].Began
	}
	slices.Sort(begun)
	since := begun[len(begun)/2]
	type lasted struct {
		span moment.Span
		ends bool
	}
	var all []lasted
	for _, run := range ended {
		if run.Began >= since {
			all = append(all, lasted{run.Took, true})
		}
	}
	before := len(all)
	for _, run := range going {
		if run.Began >= since {
			all = append(all, lasted{span: run.Took})
		}
	}
	if len(all) == before {
		return
	}
	slices.SortFunc(all, func(a, b lasted) int {
		if a.span == b.span && a.ends != b.ends && a.ends {
			return -1
		}
		return cmp.Compare(a.span, b.span)
	})
	weight := make([]float64, len(all))
	passed := 0.0 // what each to come gets of those that go on
	total := float64(len(all))
	for i, l := range all {
		weight[i] = 1 + passed
		if l.ends {
			continue
		}
		if rest := len(all) - i - 1; rest > 0 {
			passed += weight[i] / float64(rest)
			weight[i] = 0
		} else {
			all[i].span = 2 * max(l.span, 1)
		}
	}
	seen := make([]moment.Span, 0, runWindow)
	sum, i := weight[0], 0
	for k := range runWindow { // as many as before, each as likely as any other
		for sum < (float64(k)+0.5)/runWindow*total && i < len(all)-1 {
			i++
			sum += weight[i]
		}
		seen = append(seen, all[i].span)
	}
	f.Seen = seen
	f.Low, f.Likely, f.High = spread(seen)
}

// forecast is the mean over the window, the mean distance from it, and what was seen.
func (d *Durations) forecast(kind cluster.Symbol) cluster.Duration {
	ring := make([]moment.Span, len(d.runs.last[kind]))
	for i, run := range d.runs.last[kind] {
		ring[i] = run.Took
	}
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
	slices.Sort(ring)
	out.Seen = ring
	return out
}

// Table returns the forecasts of all kinds. It is told of runs that go on: what has ended
// by now is the short ones first, and who went by those alone would take a kind to be as
// short as they are.
func (d *Durations) Table(going map[cluster.Symbol][]Run) *cluster.Durations {
	out := &cluster.Durations{ByKind: make(map[cluster.Symbol]cluster.Duration, len(d.runs.last))}
	for kind := range maps.Keys(d.runs.last) { // order: a map is filled
		f := d.forecast(kind)
		foresee(&f, d.runs.last[kind], going[kind])
		out.ByKind[kind] = f
	}
	if len(d.kept.last) > 0 {
		out.ByOwner = make(map[uint64]cluster.Record, len(d.kept.last))
	}
	for owner := range maps.Keys(d.kept.last) { // order: a map is filled
		out.ByOwner[owner] = d.record(owner)
	}
	return out
}
