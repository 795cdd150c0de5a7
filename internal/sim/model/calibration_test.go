package model

import (
	"testing"
)

// meanOf averages the figures of a scenario over seeds.
func meanOf(t *testing.T, alwaysCold, strict bool) figures {
	t.Helper()
	const seeds = 20
	var mean figures
	for seed := range int64(seeds) {
		w, err := Scenario("a100-8x8", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		r := wholeCard{w: w, alwaysCold: alwaysCold, strict: strict}
		r.run()
		f := r.figures()
		for _, sum := range []struct {
			to *float64
			of float64
		}{
			{&mean.busy, f.busy},
			{&mean.held, f.held},
			{&mean.peak, f.peak},
			{&mean.peakOfHeld, f.peakOfHeld},
			{&mean.start, f.start},
			{&mean.wait, f.wait},
			{&mean.waitP99, f.waitP99},
			{&mean.jctP99, f.jctP99},
			{&mean.cold, f.cold},
			{&mean.slaMet, f.slaMet},
		} {
			*sum.to += sum.of / seeds
		}
		for hour := range f.offered {
			mean.offered[hour] += f.offered[hour] / seeds
		}
	}
	return mean
}

// Under static whole-card scheduling a100-8x8 looks like the clusters that field
// reports describe. docs/scenarios-built-in.md gives these figures.
func TestCalibration(t *testing.T) {
	tests := []struct {
		name               string
		alwaysCold, strict bool
		busy, peak, jct    [2]float64 // jct in minutes
	}{
		{name: "caches as nodes keep them", busy: [2]float64{0.38, 0.42}, peak: [2]float64{0.78, 0.88}, jct: [2]float64{48, 58}},
		{name: "every start cold", alwaysCold: true, busy: [2]float64{0.37, 0.41}, peak: [2]float64{0.78, 0.88}, jct: [2]float64{50, 66}},
		{name: "nobody passes", strict: true, busy: [2]float64{0.38, 0.42}, peak: [2]float64{0.83, 0.93}, jct: [2]float64{60, 80}},
	}
	for _, tt := range tests {
		f := meanOf(t, tt.alwaysCold, tt.strict)
		t.Logf("%s: cards that hold work are busy %.3f of the time and %.3f of all hold work; busiest ten minutes %.3f of all cards, %.3f of those that hold work; "+
			"start-up %.0f s (%.2f cold); wait %.0f s, p99 %.0f s; completion p99 %.1f min; SLA met %.3f; offered by hour %.2f",
			tt.name, f.busy, f.held, f.peak, f.peakOfHeld, f.start, f.cold, f.wait, f.waitP99, f.jctP99/60, f.slaMet, f.offered)
		within := func(what string, got float64, want [2]float64) {
			t.Helper()
			if got < want[0] || got > want[1] {
				t.Errorf("%s: %s = %.3f, want %.2f to %.2f", tt.name, what, got, want[0], want[1])
			}
		}
		within("busy", f.busy, tt.busy)
		within("peak", f.peak, tt.peak)
		within("completion p99 in minutes", f.jctP99/60, tt.jct)
		within("load at 11 h", f.offered[11], [2]float64{0.9, 1.1})
		within("load at 3 h", f.offered[3], [2]float64{0.05, 0.3})
	}
}
