package sim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// philly is the public trace, up to a day.
func philly(tb testing.TB, days moment.Span) trace.Workload {
	tb.Helper()
	dir := os.Getenv("HEADRACE_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "traces")
	}
	path := filepath.Join(dir, "philly", "philly_jobs.csv.gz")
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("no Philly trace; set HEADRACE_TRACES to the folder of the public traces: %v", err)
	}
	w, err := trace.Philly(path, trace.DefaultPhilly())
	if err != nil {
		tb.Fatal(err)
	}
	kept := w.Pods[:0]
	for _, p := range w.Pods {
		if p.Arrival < moment.Instant(days*moment.Day) {
			kept = append(kept, p)
		}
	}
	w.Pods = kept
	return w
}

// BenchmarkPhilly runs the first part of the public trace.
func BenchmarkPhilly(b *testing.B) {
	w := philly(b, 30)
	for _, policy := range []string{"fifo", "fifo-backfill-none", "las", "srtf", Ours} {
		b.Run("days=30/policy="+policy, func(b *testing.B) {
			for b.Loop() {
				res, err := Run(Config{Workload: &w, Mode: Timed, Policy: policy, Seed: 42})
				if err != nil || res.Unfinished > 0 {
					b.Fatalf("%d jobs unfinished, %v", res.Unfinished, err)
				}
			}
			b.ReportMetric(float64(len(w.Pods))*float64(b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}
