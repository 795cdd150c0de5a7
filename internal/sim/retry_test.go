package sim

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
)

// TestAllWhoBackOffHaveTheirTurnAgain: of a job whose pods were refused one after the
// other, the last to have its turn again starts the rest, though nothing else happens.
func TestAllWhoBackOffHaveTheirTurnAgain(t *testing.T) {
	for seed := range int64(200) {
		w := randomJobs(seed)
		w.Pods = w.Pods[:min(12, len(w.Pods))]
		res, err := Run(Config{Workload: &w, Mode: Timed, Policy: "fifo-backfill-none", Seed: seed, Failures: Failures{NodeEvery: 10 * moment.Hour, NodeRepair: 10 * moment.Minute, RefuseMilli: 400}})
		if err != nil {
			t.Fatal(err)
		}
		if res.Unfinished > 0 {
			t.Fatalf("seed %d: %d pods unfinished", seed, res.Unfinished)
		}
	}
}
