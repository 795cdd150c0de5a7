package learn

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

func TestDurations(t *testing.T) {
	var d Durations
	if d.Observe(0, moment.Hour) || d.Observe(1, 0) {
		t.Error("a run without a kind, or without length, changed a forecast")
	}
	for _, minutes := range []moment.Span{10, 20, 30} {
		d.Observe(1, minutes*moment.Minute)
	}
	want := cluster.Duration{Mean: 20 * moment.Minute, Spread: 20 * moment.Minute / 3, Runs: 3}
	if got := d.Table().Of(1); got != want {
		t.Errorf("after runs of 10, 20 and 30 minutes: %+v, want %+v", got, want)
	}
	for range window {
		d.Observe(1, moment.Hour)
	}
	if got, want := d.Of(1), (cluster.Duration{Mean: moment.Hour, Runs: window}); got != want {
		t.Errorf("after a window of hours: %+v, want %+v", got, want)
	}
	if d.Observe(1, moment.Hour) {
		t.Error("one more run alike changed the forecast")
	}
}
