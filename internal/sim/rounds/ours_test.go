package rounds

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// TestBeatsPollux: on the Pollux workloads our mean completion time and p99 lie
// below Pollux's published ones at loads 1.0 and 2.0.
func TestBeatsPollux(t *testing.T) {
	kinds := polluxKinds(t)
	for _, load := range []struct {
		folder    string
		mean, p99 float64 // published, in hours
	}{{"workloads", 0.764, 13.02}, {"workloads-2.0", 1.469, 22.35}} {
		var jcts []float64
		for w := 1; w <= 8; w++ {
			rows, err := trace.Training(publicTraces(t, "pollux", load.folder, fmt.Sprintf("workload-%d.csv", w)), training.Names())
			if err != nil {
				t.Fatal(err)
			}
			res, err := Run(Config{
				Setting: training.PolluxSetting(), Kinds: kinds, Jobs: rows, Policy: rival(t, Ours),
				Cluster: elastic.Cluster{{Name: "aws", Nodes: 16, PerNode: 4}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range res.Each {
				jcts = append(jcts, j.JCTS/3600)
			}
		}
		t.Logf("%s: mean %.3f h, p99 %.2f h", load.folder, mean(jcts), Percentile(jcts, 99))
		if mean(jcts) > load.mean || Percentile(jcts, 99) > load.p99 {
			t.Errorf("%s: mean %.3f h, p99 %.2f h, published %.3f and %.2f", load.folder, mean(jcts), Percentile(jcts, 99), load.mean, load.p99)
		}
	}
}

// TestBeatsSia: on each of the philly workloads our mean completion time is below
// that of our Sia, with fewer restarts.
func TestBeatsSia(t *testing.T) {
	kinds := siaKinds(t)
	for w := 1; w <= 6; w++ {
		rows := siaJobs(t, "philly", w)
		var res [2]meter.Training
		for i, policy := range []string{Ours, "sia"} {
			res[i] = runSia(t, kinds, rival(t, policy), rows, false)
		}
		if *res[0].JCTMeanS > *res[1].JCTMeanS || res[0].RestartsMean > res[1].RestartsMean {
			t.Errorf("philly/workload-%d: mean %.0f s with %.2f restarts, sia %.0f s with %.2f", w, *res[0].JCTMeanS, res[0].RestartsMean, *res[1].JCTMeanS, res[1].RestartsMean)
		}
	}
}

// TestCrowd: the more jobs there are, the less a job that measured nothing starts with,
// and the less is expected of sizes that were not tried.
func TestCrowd(t *testing.T) {
	p := newOurs(elastic.Cluster{{Name: "a", Nodes: 16, PerNode: 4}})
	job := elastic.Job{
		Tried: true, Measured: 4, Most: 8,
		Goodput: func(_, _, gpus int) (float64, bool) { return float64(gpus), true },
	}
	for _, test := range []struct {
		jobs, first int
		untried     float64 // expected of 8 GPUs
	}{{1, 4, 7.975}, {11, 4, 7.725}, {12, 2, 7.7}, {22, 2, 7.6}, {23, 1, 7.6}, {500, 1, 7.6}} {
		p.crowd(test.jobs)
		if got := p.expected(&job, 0, 8, false); p.first != test.first || math.Abs(got-test.untried) > 1e-9 {
			t.Errorf("%d jobs on 64 GPUs: %d GPUs at the start and %v expected of 8, want %d and %v", test.jobs, p.first, got, test.first, test.untried)
		}
		if tried, held := p.expected(&job, 0, 4, false), p.expected(&job, 0, 8, true); tried != 4 || held != 8 {
			t.Errorf("%d jobs: %v expected of 4 GPUs, which were tried, and %v of 8 that are held, want 4 and 8", test.jobs, tried, held)
		}
	}
}

// TestPack: whatever sizes were chosen within the GPUs of each type, all find their
// nodes: whole ones, or a part of one; and who can stay together with everybody
// else stays.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := elastic.Cluster{{Name: "a", Nodes: rapid.IntRange(1, 6).Draw(t, "a"), PerNode: 4}, {Name: "b", Nodes: rapid.IntRange(1, 3).Draw(t, "b"), PerNode: 8}}
		jobs := make([]elastic.Job, rapid.IntRange(1, 14).Draw(t, "jobs"))
		draw := func() []want {
			wants, room := make([]want, len(jobs)), []int{c[0].GPUs(), c[1].GPUs()}
			for i := range wants {
				typ := rapid.IntRange(0, 1).Draw(t, "type")
				sizes := append([]int{0}, c[typ].Sizes(mostGPUs)...)
				if gpus := rapid.SampledFrom(sizes).Draw(t, "gpus"); gpus <= room[typ] {
					wants[i] = want{typ, gpus}
					room[typ] -= gpus
				}
			}
			return wants
		}
		for range 4 {
			wants := draw()
			seats := pack(c, jobs, wants)
			used := [][]int{make([]int, c[0].Nodes), make([]int, c[1].Nodes)}
			for i, s := range seats {
				if len(s.Nodes) != wants[i].gpus || len(s.Nodes) > 0 && s.Type != wants[i].typ {
					t.Fatalf("job %d: seat %+v for %+v", i, s, wants[i])
				}
				for _, n := range s.Nodes {
					used[s.Type][n]++
				}
				if whole := (len(s.Nodes) + c[s.Type].PerNode - 1) / c[s.Type].PerNode; len(s.Shape()) != whole {
					t.Fatalf("job %d: %d GPUs on nodes %v", i, len(s.Nodes), s.Nodes)
				}
				jobs[i].Seat = s
			}
			for typ := range used {
				for n, gpus := range used[typ] {
					if gpus > c[typ].PerNode {
						t.Fatalf("node %d of %s holds %d", n, c[typ].Name, gpus)
					}
				}
			}
			for i, s := range pack(c, jobs, wants) {
				if !s.Equal(seats[i]) {
					t.Fatalf("job %d moved from %+v to %+v for nothing", i, seats[i], s)
				}
			}
		}
	})
}
