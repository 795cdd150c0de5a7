package rounds

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// publicTraces finds the folder of public traces: HEADRACE_TRACES, else
// shared/traces beside the root of the repository.
func publicTraces(tb testing.TB, parts ...string) string {
	tb.Helper()
	dir := os.Getenv("HEADRACE_TRACES")
	for up := "."; dir == ""; up = filepath.Join(up, "..") {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			dir = filepath.Join(up, "..", "shared", "traces")
		} else if abs, err := filepath.Abs(up); err != nil || abs == filepath.Dir(abs) {
			tb.Skip("the root of the repository was not found, so neither are the public traces")
		}
	}
	path := filepath.Join(append([]string{dir}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("no %s; set HEADRACE_TRACES to the folder of the public traces", path)
	}
	return path
}

// polluxKinds reads the profiles of the Pollux artefact.
func polluxKinds(tb testing.TB) map[string]*training.Kind {
	tb.Helper()
	profiles, err := trace.Profiles([]string{publicTraces(tb, "pollux", "profiles")}, training.Names(), []string{"aws"})
	if err != nil {
		tb.Fatal(err)
	}
	kinds, err := training.Kinds(profiles, training.PolluxSetting())
	if err != nil {
		tb.Fatal(err)
	}
	return kinds
}

func rival(tb testing.TB, name string) elastic.Rival {
	tb.Helper()
	for _, r := range Policies() {
		if r.Name == name {
			return r
		}
	}
	tb.Fatalf("no policy %s", name)
	return elastic.Rival{}
}

// TestPublishedTiresias: the completion times of the Pollux artefact under
// Tiresias, job by job, at all three loads, equal to the second.
func TestPublishedTiresias(t *testing.T) {
	kinds := polluxKinds(t)
	for _, load := range []struct {
		name, folder string
		jobs, equal  int
	}{{"0.5", "workloads-0.5", 640, 640}, {"1.0", "workloads", 1280, 1280}, {"2.0", "workloads-2.0", 2560, 2560}} {
		t.Run(load.name, func(t *testing.T) {
			text, err := os.ReadFile(publicTraces(t, "pollux", "results-jobload", "tiresias-"+load.name, "summary.json"))
			if err != nil {
				t.Fatal(err)
			}
			var published struct{ JCTs map[string]map[string]float64 }
			if err := json.Unmarshal(text, &published); err != nil {
				t.Fatal(err)
			}
			jobs, equal, worst := 0, 0, 0.0
			for w := 1; w <= 8; w++ {
				name := fmt.Sprintf("workload-%d", w)
				rows, err := trace.Training(publicTraces(t, "pollux", load.folder, name+".csv"), training.Names())
				if err != nil {
					t.Fatal(err)
				}
				res, err := Run(Config{
					Setting: training.PolluxSetting(), Kinds: kinds, Jobs: rows, Policy: rival(t, "tiresias"),
					Cluster: elastic.Cluster{{Name: "aws", Nodes: 16, PerNode: 4}},
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range res.Each {
					want, known := published.JCTs[name][j.Name]
					if !known {
						t.Fatalf("%s: job %s is not among the published ones", name, j.Name)
					}
					jobs++
					if j.JCTS == want {
						equal++
					} else {
						t.Logf("%s %s: %v s, published %v s (%+.3f %%)", name, j.Name, j.JCTS, want, 100*(j.JCTS/want-1))
						worst = max(worst, math.Abs(j.JCTS/want-1))
					}
				}
				if w == 6 && load.name == "1.0" && *res.JCTMeanS != 3469.69375 {
					t.Errorf("%s: mean %v s, want 3469.69375 s", name, *res.JCTMeanS)
				}
			}
			t.Logf("%d of %d equal, worst %.4f %%", equal, jobs, 100*worst)
			if jobs != load.jobs || equal < load.equal || worst > 0.002 {
				t.Errorf("%d of %d jobs equal to the second, the others within %.4f %%; want %d of %d and 0.2 %%", equal, jobs, 100*worst, load.equal, load.jobs)
			}
		})
	}
}
