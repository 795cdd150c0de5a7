package learn

import (
	"maps"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

func TestDurations(t *testing.T) {
	var d Durations
	if d.Observe(0, Run{Took: moment.Hour}) || d.Observe(1, Run{}) {
		t.Error("a run without a kind, or without length, changed a forecast")
	}
	for _, minutes := range []moment.Span{10, 20, 30} {
		d.Observe(1, Run{Took: minutes * moment.Minute})
	}
	want := cluster.Duration{
		Mean: 20 * moment.Minute, Spread: 20 * moment.Minute / 3, Runs: 3,
		Low: 10 * moment.Minute, Likely: 20 * moment.Minute, High: 30 * moment.Minute,
		Seen: []moment.Span{10 * moment.Minute, 20 * moment.Minute, 30 * moment.Minute},
	}
	if got := d.Table(nil).Of(1); !got.Equal(&want) {
		t.Errorf("after runs of 10, 20 and 30 minutes: %+v, want %+v", got, want)
	}
	for range runWindow {
		d.Observe(1, Run{Took: moment.Hour})
	}
	want = cluster.Duration{
		Mean: moment.Hour, Runs: runWindow, Low: moment.Hour, Likely: moment.Hour, High: moment.Hour,
		Seen: slices.Repeat([]moment.Span{moment.Hour}, runWindow),
	}
	if got := d.Of(1); !got.Equal(&want) {
		t.Errorf("after a window of hours: %+v, want %+v", got, want)
	}
	if d.Observe(1, Run{Took: moment.Hour}) {
		t.Error("one more run alike changed the forecast")
	}
}

func TestRecords(t *testing.T) {
	var d Durations
	if d.Declared(7, 0, moment.Hour) || d.Declared(7, moment.Hour, 0) {
		t.Error("a run of which nothing was said, or without length, changed a record")
	}
	for _, tenths := range []moment.Span{5, 10, 10, 10, 10, 20, 20, 20, 20, 40} {
		d.Declared(7, moment.Hour, tenths*moment.Hour/10)
	}
	d.Declared(8, moment.Microsecond, moment.Day)
	want := map[uint64]cluster.Record{7: {Low: 500, Likely: 1000, High: 2000, Runs: 10}, 8: {Low: mostMilli, Likely: mostMilli, High: mostMilli, Runs: 1}}
	if got := d.Table(nil).ByOwner; !maps.Equal(got, want) {
		t.Errorf("records %+v, want %+v", got, want)
	}
}

// Runs that go on count as longer than they are by now: three of four that do, at 40
// minutes, make half of the kind longer than that.
func TestRunsThatGoOn(t *testing.T) {
	var d Durations
	for _, minutes := range []moment.Span{10, 20, 30, 60} {
		d.Observe(1, Run{Took: minutes * moment.Minute})
	}
	for _, c := range []struct {
		name   string
		going  []moment.Span
		likely moment.Span
	}{
		{"none", nil, 20 * moment.Minute},
		{"three beyond most", []moment.Span{40 * moment.Minute, 40 * moment.Minute, 40 * moment.Minute}, 60 * moment.Minute},
		{"all beyond all", []moment.Span{70 * moment.Minute, 70 * moment.Minute, 70 * moment.Minute, 70 * moment.Minute, 80 * moment.Minute}, 160 * moment.Minute},
		{"just begun", []moment.Span{1, 1, 1, 1}, 20 * moment.Minute},
	} {
		var going []Run
		for _, ran := range c.going {
			going = append(going, Run{Took: ran})
		}
		if got := d.Table(map[cluster.Symbol][]Run{1: going}).Of(1).Likely; got != c.likely {
			t.Errorf("%s: likely %v, want %v", c.name, got, c.likely)
		}
	}
	for i := range moment.Instant(10) {
		d.Observe(2, Run{Began: i, Took: moment.Minute})
	}
	old := []Run{{Began: 4, Took: moment.Day}, {Began: 4, Took: moment.Day}}
	if got := d.Table(map[cluster.Symbol][]Run{2: old}).Of(2); got.High != moment.Minute {
		t.Errorf("with two that began before half of those seen: up to %v, want 1m", got.High)
	}
}
