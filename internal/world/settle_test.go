package world_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// throng is a random load of tenants, jobs and groups that comes in waves.
func throng(t *testing.T, seed int64) (w *world.World, wave func()) {
	t.Helper()
	w = world.New()
	from := chance.New(seed)
	now := moment.Instant(0)
	apply := func(e world.Event) {
		t.Helper()
		if err := w.Apply(now, e); err != nil {
			t.Fatal(err)
		}
	}
	nodes := 2 + from.Below(6)
	for i := range nodes {
		e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), CPU: 16000, Memory: 64 * quantity.GiB, Pods: 12, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 4 {
			e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB, Sharing: cluster.SharingSlices})
		}
		apply(e)
	}
	queues := []string{"", "top", "a", "b", "c"}
	for i, name := range queues[1:] {
		e := world.QueueAdded{Name: name, Weight: quantity.Milli(500 * from.Below(4)), DeservedMilli: quantity.MilliGPU(1000 * from.Below(2*nodes))}
		if i == 1 || i == 2 {
			e.Parent = "top"
		}
		if from.Below(4) == 0 {
			e.LimitMilli = quantity.MilliGPU(1000 * (2 + from.Below(2*nodes)))
		}
		apply(e)
	}
	serial := 0
	return w, func() {
		t.Helper()
		now = max(now, w.Now())
		for range 4 + from.Below(10) {
			serial++
			name, queue := fmt.Sprintf("j%d", serial), queues[from.Below(5)]
			f := world.JobFacts{Queue: queue, Priority: int32(50 * from.Below(6)), Unpreemptible: from.Below(8) == 0}
			if from.Below(2) == 0 { // how long it has run counts
				f.Checkpoint = world.Checkpoint{Period: 30 * moment.Minute, Restart: moment.Minute}
			}
			apply(world.JobAdded{Name: name, JobFacts: f})
			r := world.Request{CPU: quantity.MilliCPU(500 + 500*from.Below(4)), Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: int32(1 + from.Below(3)), Milli: quantity.WholeGPU}}}
			if from.Below(4) == 0 {
				r.Devices[0] = world.DeviceRequest{Count: 1, Milli: 400, Memory: 8 * quantity.GiB}
			}
			pods, group := int64(1), ""
			if from.Below(3) == 0 {
				pods, group = 2+from.Below(4), name
				apply(world.GroupAdded{Name: group, Minimum: int32(1 + from.Below(pods)), Queue: queue, Job: name})
			}
			for k := range pods {
				apply(world.PodAdded{Name: fmt.Sprintf("%s-%d", name, k), Job: name, Group: group, Queue: queue, Request: r})
			}
		}
	}
}

// mostRounds is within how many rounds a frozen load is quiet.
const mostRounds = 30

// On a frozen load nothing changes after a bounded number of rounds, no pod is evicted
// twice on the way, and each set that goes across queues brings them closer to their
// shares.
func TestItSettles(t *testing.T) {
	seeds := int64(100)
	if os.Getenv("HEADRACE_LONG") != "" {
		seeds = 2000
	}
	evictions, across, set, longest := 0, 0, 0, 0
	for seed := range seeds {
		w, wave := throng(t, seed)
		wave()
		at := moment.Instant(moment.Second)
		run := func() {
			evicted := map[cluster.PodID]bool{}
			var memo engine.Memo
			policy := engine.Headrace()
			for round := 0; ; round++ {
				if round == mostRounds {
					t.Fatalf("seed %d: not quiet after %d rounds", seed, round)
				}
				s := w.Snapshot()
				plan := engine.Decide(s, decision.Cycle{Number: uint64(round) + uint64(at), Now: at, Kind: decision.CycleReview, Seed: 1}, policy, &memo)
				if len(plan.Decisions) == 0 {
					longest = max(longest, round)
					return
				}
				for i := range plan.Decisions {
					d := &plan.Decisions[i]
					if d.Action != cluster.ActionEvict {
						continue
					}
					if evictions++; evicted[d.Pod] {
						t.Fatalf("seed %d: %s is evicted twice", seed, s.Pod(d.Pod).Spec.Name)
					}
					evicted[d.Pod] = true
					if y := d.Because.Yield; y != nil && !y.Across && s.Pod(d.Pod).Spec.Priority == s.Pod(y.To).Spec.Priority {
						set++
					}
					if y := d.Because.Yield; y != nil && y.Across {
						if across++; y.After >= y.Before {
							t.Fatalf("seed %d: %s goes, and queues are %d above their shares, as against %d", seed, s.Pod(d.Pod).Spec.Name, y.After, y.Before)
						}
					}
				}
				carryOut(t, w, at, &plan)
				if err := cluster.Audit(w.View()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		run()
		for _, later := range []moment.Span{moment.Hour, 17 * moment.Hour} {
			for i := range w.View().Pods.Len() {
				if p := w.View().Pod(cluster.PodID(i)); p.Phase == cluster.PhaseBound {
					if err := w.Apply(at, world.Started{Name: p.Spec.Name}); err != nil {
						t.Fatal(err)
					}
				}
			}
			at = at.Add(later)
			if err := w.Apply(at, world.Interned{Text: "later"}); err != nil {
				t.Fatal(err)
			}
			wave()
			run()
		}
	}
	t.Logf("%d seeds: %d evictions, %d of them across queues, %d within a priority; quiet after %d rounds at most", seeds, evictions, across, set, longest)
	if across == 0 {
		t.Error("nobody ever gave way across queues")
	}
	if set == 0 {
		t.Error("nobody ever gave way to what had run for less")
	}
}
