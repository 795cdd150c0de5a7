package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// gpuNodes is a cluster of nodes with so many GPUs each.
func gpuNodes(nodes, gpus int) []trace.Node {
	var out []trace.Node
	for i := range nodes {
		out = append(out, trace.Node{Name: fmt.Sprintf("n%d", i), Pods: 110, GPUs: gpus, Model: "GPU"})
	}
	return out
}

// gpuJob is a job of pods with so many GPUs each, with checkpoints.
func gpuJob(name string, at, duration moment.Span, gpus ...int) []trace.Pod {
	var out []trace.Pod
	for i, n := range gpus {
		p := trace.Pod{
			Name: name, Queue: "q", GPUs: n, Milli: quantity.WholeGPU, Arrival: moment.Instant(at), Duration: duration,
			Checkpoint: 30 * moment.Minute, Restart: moment.Minute,
		}
		if len(gpus) > 1 {
			p.Name, p.Group = fmt.Sprintf("%s/%d", name, i), name
		}
		out = append(out, p)
	}
	return out
}

func jobs(list ...[]trace.Pod) []trace.Pod { return slices.Concat(list...) }

func mustRun(t *testing.T, c Config) meter.Result {
	t.Helper()
	c.Mode, c.Audited = Timed, true
	res, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if res.Unfinished != 0 {
		t.Fatalf("%d pods unfinished", res.Unfinished)
	}
	return res
}

// about says whether seconds are as wanted, up to the latencies of deciding and
// binding.
func about(got, want float64) bool { return math.Abs(got-want) < 0.2 }

// TestAGroupIsOneJob: the pods of a group start together, though there was room for
// one of them before, and end together; its times count once.
func TestAGroupIsOneJob(t *testing.T) {
	for _, policy := range []string{"fifo", "fifo-backfill-none", "las", "srtf", Ours} {
		w := trace.Workload{
			Name: "group", Timed: true, Nodes: gpuNodes(2, 8),
			Pods: jobs(gpuJob("first", 0, 10*moment.Minute, 5), gpuJob("wide", moment.Minute, moment.Hour, 8, 4)),
		}
		res := mustRun(t, Config{Workload: &w, Policy: policy})
		if jct := res.Detail.JCTsS; len(jct) != 2 || *res.Jobs != 2 || *res.Evictions != 0 || !about(jct[0], 600) || !about(jct[1], 3600+540) {
			t.Errorf("%s: %v jobs, completion after %v s, want 600 and 540 + 3600", policy, *res.Jobs, jct)
		}
		if got := res.Sizes; len(got) != 2 || got[0].Size != "5-8 GPUs" || got[1].Size != "9-16 GPUs" || !about(got[1].WaitMeanS, 540) {
			t.Errorf("%s: sizes %+v, want the group's 12 GPUs to wait 540 s", policy, got)
		}
	}
}

// TestEvictionFallsBackToTheCheckpoint: a job that is evicted after 45 minutes of
// work comes back with 30, and pays its restart; both are counted as lost.
func TestEvictionFallsBackToTheCheckpoint(t *testing.T) {
	urgent := gpuJob("urgent", 45*moment.Minute, 10*moment.Minute, 1)
	urgent[0].Priority = 1
	w := trace.Workload{Name: "checkpoint", Timed: true, Nodes: gpuNodes(1, 1), Pods: jobs(gpuJob("low", 0, moment.Hour, 1), urgent)}
	res := mustRun(t, Config{Workload: &w, Policy: "by priority", policy: byPriority()})
	want := 45*60 + seconds(leaveTakes) + 600 + 60 + 30*60
	if jct := res.Detail.JCTsS; !about(jct[0], 600+seconds(leaveTakes)) || !about(jct[1], want) {
		t.Errorf("completion after %v s, want %v and %v", jct, 600+seconds(leaveTakes), want)
	}
	lost, preempted := 3600*(*res.LostGPUH), 3600*(*res.PreemptedGPUH)
	if !about(lost, 15*60+60) || !about(preempted, 45*60) || *res.Evictions != 1 || math.Abs(*res.LostPerPreempted-lost/preempted) > 1e-9 {
		t.Errorf("lost %v of %v GPU-seconds in %v evictions; want 960 of 2700 in 1", lost, preempted, *res.Evictions)
	}
	if got := res.Sizes[0]; !about(got.WaitMeanS, (seconds(leaveTakes)+600)/2) {
		t.Errorf("waited %v s on average", got.WaitMeanS)
	}
}

// TestSavesFirst: a job that can save in two minutes goes on with all of its 45 when it
// comes back. Lost are the time to save and its restart.
func TestSavesFirst(t *testing.T) {
	low, urgent := gpuJob("low", 0, moment.Hour, 1), gpuJob("urgent", 45*moment.Minute, 10*moment.Minute, 1)
	low[0].Checkpoint, low[0].Save, urgent[0].Priority = 0, 2*moment.Minute, 1
	w := trace.Workload{Name: "save", Timed: true, Nodes: gpuNodes(1, 1), Pods: jobs(low, urgent)}
	policy := &engine.Policy{Name: "by priority", Score: byPriority().Score, Yields: rules()}
	res := mustRun(t, Config{Workload: &w, Policy: policy.Name, policy: policy})
	leaves := 120 + seconds(leaveTakes)
	want := 45*60 + leaves + 600 + 60 + 15*60
	if jct := res.Detail.JCTsS; !about(jct[0], 600+leaves) || !about(jct[1], want) {
		t.Errorf("completion after %v s, want %v and %v", jct, 600+leaves, want)
	}
	if lost := 3600 * (*res.LostGPUH); !about(lost, 120+60) || *res.Evictions != 1 {
		t.Errorf("lost %v GPU-seconds in %v evictions; want 180 in 1", lost, *res.Evictions)
	}
}

// TestAGroupIsEvictedWhole: under srtf a short job takes the place of a group, all
// of which leaves, comes back to its checkpoint and pays one restart.
func TestAGroupIsEvictedWhole(t *testing.T) {
	w := trace.Workload{
		Name: "whole", Timed: true, Nodes: gpuNodes(2, 8),
		Pods: jobs(gpuJob("wide", 0, 4*moment.Hour, 8, 8), gpuJob("short", moment.Hour+moment.Second, 10*moment.Minute, 8)),
	}
	res := mustRun(t, Config{Workload: &w, Policy: "srtf"})
	grace := seconds(leaveTakes)
	want := 3601 + grace + 600 + 60 + 3*3600
	if jct := res.Detail.JCTsS; !about(jct[0], 600+grace) || !about(jct[1], want) || *res.Evictions != 1 {
		t.Errorf("completion after %v s with %v evictions; want %v and %v with 1", jct, *res.Evictions, 600+grace, want)
	}
	// The last checkpoint was a moment ago: only the restart is lost, on 16 GPUs.
	if lost := 3600 * (*res.LostGPUH); lost < 16*60 || lost > 16*60+20 {
		t.Errorf("lost %v GPU-seconds, want a restart of 16 × 60", lost)
	}
}

// TestWhoPassesWhom: what the four lines do when a job of 8 waits behind one of 4,
// and one of 4 comes after it.
func TestWhoPassesWhom(t *testing.T) {
	pods := jobs(
		gpuJob("long", 0, 10*moment.Hour, 4), gpuJob("wide", moment.Minute, moment.Hour, 8), gpuJob("small", 2*moment.Minute, 2*moment.Hour, 4))
	minutes := func(n float64) float64 { return 60 * n }
	grace := seconds(leaveTakes)
	for _, tt := range []struct {
		policy            string
		long, wide, small float64
	}{
		{"fifo", minutes(600), minutes(599 + 60), minutes(120)},
		{"fifo-backfill-none", minutes(600), minutes(599 + 60), minutes(598 + 60 + 120)},
		{"srtf", minutes(1+60+1+599) + grace, minutes(60) + grace, minutes(59+120) + grace},
	} {
		w := trace.Workload{Name: "line", Timed: true, Nodes: gpuNodes(1, 8), Pods: pods}
		res := mustRun(t, Config{Workload: &w, Policy: tt.policy})
		want := []float64{tt.long, tt.wide, tt.small}
		slices.Sort(want)
		for i, jct := range res.Detail.JCTsS {
			if math.Abs(jct-want[i]) > 61 { // a checkpoint's rest and the grace period
				t.Errorf("%s: completion after %v s, want about %v", tt.policy, res.Detail.JCTsS, want)
				break
			}
		}
	}
}

// TestLeastAttainedServiceGoesFirst: a job that has had 16 GPU-hours gives way to one
// that has had less, and not before.
func TestLeastAttainedServiceGoesFirst(t *testing.T) {
	w := trace.Workload{
		Name: "las", Timed: true, Nodes: gpuNodes(1, 4),
		Pods: jobs(gpuJob("long", 0, 10*moment.Hour, 4), gpuJob("late", moment.Hour, moment.Hour, 4), gpuJob("tick", 4*moment.Hour+moment.Minute, moment.Second, 1)),
	}
	res := mustRun(t, Config{Workload: &w, Policy: "las"})
	// 4 hours × 4 GPUs: from then on every cycle prefers late; tick brings one about.
	if jct := res.Detail.JCTsS; *res.Evictions != 1 || math.Abs(jct[1]-(3*3600+61+30+3600)) > 61 {
		t.Errorf("completion after %v s with %v evictions; want late to start after 4 hours", jct, *res.Evictions)
	}
}

// TestEntitlementNotServed: a queue that wants what it deserves and has to wait for
// it is counted as not served, for as long as it waits.
func TestEntitlementNotServed(t *testing.T) {
	greedy, owner := gpuJob("greedy", 0, 20*moment.Minute, 2), gpuJob("owner", 10*moment.Minute, 10*moment.Minute, 1)
	last := gpuJob("last", 40*moment.Minute, moment.Minute, 1)
	greedy[0].Queue, owner[0].Queue, last[0].Queue = "a", "b", "a"
	w := trace.Workload{
		Name: "fair", Timed: true, Nodes: gpuNodes(1, 2), Pods: jobs(greedy, owner, last),
		Queues: []trace.Queue{{Name: "a", Deserved: 1000}, {Name: "b", Deserved: 1000}},
	}
	res := mustRun(t, Config{Workload: &w, Policy: "fifo"})
	// b lacks 1 of the 2 GPUs that are deserved for 10 of the 40 minutes.
	if *res.UnservedMeanPct < 12.5 || *res.UnservedMeanPct > 12.51 || *res.UnservedMaxPct != 50 {
		t.Errorf("not served %v %%, at most %v %%; want 12.5 and 50", *res.UnservedMeanPct, *res.UnservedMaxPct)
	}
	b := res.Queues[1]
	if b.Queue != "b" || b.Jobs != 1 || b.DeservedGPU != 1 || math.Abs(b.UsedMeanGPU-0.25) > 0.001 || math.Abs(b.UnservedMeanGPU-0.25) > 0.001 || !about(*b.WaitMeanS, 600) {
		t.Errorf("queue %+v", b)
	}
}

// TestJobsOfManyPodsKeepTheBooks: with random jobs of one and of many pods, failing
// nodes and GPUs and refused binds, the books balance after every event, every job
// ends, and the same seed gives the same run.
func TestJobsOfManyPodsKeepTheBooks(t *testing.T) {
	policies := []string{"fifo", "fifo-backfill-none", "las", "srtf", Ours, "bestfit"}
	for seed := range seeds(24, 600) {
		w := randomJobs(seed)
		c := Config{
			Workload: &w, Mode: Timed, Policy: policies[seed%int64(len(policies))], Seed: seed, Audited: true,
			Failures: Failures{NodeEvery: 10 * moment.Hour, NodeRepair: 10 * moment.Minute, GPUEvery: 100 * moment.Hour, GPURepair: 20 * moment.Minute, RefuseMilli: 50},
		}
		first, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d, policy %s: %v", seed, c.Policy, err)
		}
		c.Audited = false
		again, err := Run(c)
		if err != nil || first.Digest != again.Digest {
			t.Fatalf("seed %d, policy %s: a second run gives digest %s and %v, the first gave %s", seed, c.Policy, again.Digest, err, first.Digest)
		}
		if first.Unfinished != 0 {
			t.Fatalf("seed %d, policy %s: %d pods unfinished", seed, c.Policy, first.Unfinished)
		}
	}
}

// randomJobs is work that all fits the cluster when it is empty.
func randomJobs(seed int64) trace.Workload {
	source := chance.New(seed)
	w := trace.Workload{Name: "jobs", Timed: true, Nodes: gpuNodes(3, 4), Queues: []trace.Queue{{Name: "q", Deserved: 6000}, {Name: "r", Deserved: 6000}}}
	for i := range 20 + source.Below(40) {
		sizes := [][]int{{1}, {1}, {2}, {4}, {4, 1}, {4, 4}, {4, 4, 4}}[source.Below(7)]
		at, length := moment.Span(source.Below(int64(12*moment.Hour))), moment.Span(source.Below(int64(3*moment.Hour)))+1
		job := gpuJob(fmt.Sprintf("j%d", i), at, length, sizes...)
		queue := []string{"q", "r"}[source.Below(2)]
		for k := range job {
			job[k].Queue = queue
		}
		w.Pods = append(w.Pods, job...)
	}
	return w
}
