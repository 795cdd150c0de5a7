package e2e

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/headrace-dev/headrace/live/measure"
)

// The measurement of docs/bench-live.md, very small: every arm that is said to
// bind does, and its figures are there.
func TestMeasure(t *testing.T) {
	progress := io.Discard
	if testing.Verbose() {
		progress = os.Stderr
	}
	report, err := measure.Measure(t.Context(), measure.Options{
		Nodes: []int{50}, Pods: 104, Group: 8, Repeats: 1, Arms: []string{"binds-groups", "kube", "headrace-groups"},
		Rate: 40, For: time.Second, Stall: patience, Dir: t.TempDir(), Progress: progress,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range report.Rows {
		if row.Failure != "" || row.PerSecond <= 0 || row.Ratio <= 0 || row.P99ms < row.P50ms || row.P50ms <= 0 {
			t.Errorf("%s: %+v, want all figures and no failure", row.Title, row)
		}
	}
	if want := 5; len(report.Runs) != want {
		t.Errorf("%d runs, want %d: three arms, and the baseline at both ends", len(report.Runs), want)
	}
}
