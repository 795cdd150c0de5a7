package rounds

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// mixed is the cluster of the Sia artefact.
func mixed() elastic.Cluster {
	return elastic.Cluster{{Name: "aws", Nodes: 6, PerNode: 4}, {Name: "dgx-ext", Nodes: 2, PerNode: 8}, {Name: "rtx", Nodes: 3, PerNode: 8}}
}

func siaKinds(tb testing.TB) map[string]*training.Kind {
	tb.Helper()
	profiles, err := trace.Profiles([]string{publicTraces(tb, "sia", "profiles"), publicTraces(tb, "pollux", "profiles")}, training.Names(), []string{"aws", "dgx-ext", "rtx"})
	if err != nil {
		tb.Fatal(err)
	}
	kinds, err := training.Kinds(profiles, training.SiaSetting())
	if err != nil {
		tb.Fatal(err)
	}
	return kinds
}

func TestX(t *testing.T) {
	kinds := siaKinds(t)
	alone := new(Alone)
	for w := 1; w <= 6; w++ {
		rows, err := trace.Training(publicTraces(t, "sia", "workloads", "philly", fmt.Sprintf("workload-%d.csv", w)), training.Names())
		if err != nil {
			t.Fatal(err)
		}
		for _, pol := range []string{"sia","sia-anybatch", "gavel", "tiresias"} {
		res, err := Run(Config{Setting: training.SiaSetting(), Kinds: kinds, Jobs: rows, Policy: rival(t, pol), Fairness: true, Alone: alone, Cluster: mixed()})
		if err != nil {
			t.Fatal(err)
		}
		if res.GapWorstPct == nil { res.GapWorstPct = pointer(0) }
		t.Logf("%s %d: %.4f h p99 %.2f makespan %.2f gpuh %.3f cont %.2f %d restarts %.2f gap %.4f decide %.0f/%.0f wall %.0f ftf %.2f %.1f", pol, w, *res.JCTMeanS/3600, *res.JCTP99S/3600, res.MakespanS/3600, res.GPUHoursPerJob, res.ContentionMean, res.ContentionMax, res.RestartsMean, *res.GapWorstPct, res.DecideP50Us, res.DecideP95Us, res.WallMs, *res.FTFWorst, *res.UnfairPct)
}
	}
}
