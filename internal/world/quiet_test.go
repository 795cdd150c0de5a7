package world_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// looking are the ways to look ahead, beside our policy as it is.
func looking() map[string]*engine.Policy {
	return map[string]*engine.Policy{
		"plain": engine.Headrace(), "lending": engine.Headrace().Lending(), "foretell": engine.Headrace().Foretelling(),
		"head": engine.Headrace().Reserving(engine.ReserveHead), "all": engine.Headrace().Reserving(engine.ReserveAll).Foretelling(),
	}
}

// Where nobody waits who could ever have a place, no review decides anything, however
// much time goes by: what runs is left alone, whatever its tier and its queue's share.
func TestIdleStaysIdle(t *testing.T) {
	placed, waiting := 0, 0
	for seed := range int64(20) {
		for name, policy := range looking() {
			w, wave := throng(t, seed)
			wave()
			at := moment.Instant(moment.Second)
			var memo engine.Memo
			number := uint64(0)
			review := func() decision.Plan {
				number++
				return engine.Decide(w.Snapshot(), decision.Cycle{Number: number, Now: at, Kind: decision.CycleReview, Seed: 1}, policy, &memo)
			}
			for round := 0; ; round++ {
				plan := review()
				if len(plan.Decisions) == 0 {
					break
				}
				if round == mostRounds {
					t.Fatalf("seed %d, %s: not quiet after %d rounds", seed, name, round)
				}
				carryOut(t, w, at, &plan)
			}
			hopeless := satisfy(t, w, at)
			for range 12 {
				plan := review()
				if len(plan.Decisions) > 0 {
					v := w.View()
					t.Fatalf("seed %d, %s: at %v: %s", seed, name, at, plan.Decisions[0].Line(v))
				}
				if len(plan.Waiting) != hopeless {
					t.Fatalf("seed %d, %s: %d wait, want the %d that never fit", seed, name, len(plan.Waiting), hopeless)
				}
				waiting += hopeless
				at = at.Add(47 * moment.Minute)
				if err := w.Apply(at, world.EpochBegan{}); err != nil {
					t.Fatal(err)
				}
			}
			v := w.View()
			for i := range v.Pods.Len() {
				if v.Pod(cluster.PodID(i)).Phase.Charged() {
					placed++
				}
			}
		}
	}
	if placed == 0 || waiting == 0 {
		t.Errorf("%d run, %d waits of what never fits: want some of both", placed, waiting)
	}
}

// satisfy takes away all that waits, starts what has a place, and lets some wait that
// never fit: a card that there is none of, more than a node has, more than there is. It
// says how many.
func satisfy(t *testing.T, w *world.World, at moment.Instant) (hopeless int) {
	t.Helper()
	apply := applying(t, w, at)
	v := w.View()
	for i := range v.Pods.Len() {
		switch p := v.Pod(cluster.PodID(i)); p.Phase {
		case cluster.PhaseWaiting:
			apply(world.PodRemoved{Name: p.Spec.Name})
		case cluster.PhaseBound:
			apply(world.Started{Name: p.Spec.Name})
		}
	}
	apply(world.PodAdded{Name: "other-card", Queue: "a", Priority: 1000, Request: world.Request{
		CPU: 100, Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU, Models: []string{"B200"}}},
	}})
	apply(world.PodAdded{Name: "too-large", Queue: "b", Priority: 1000, Request: world.Request{
		CPU: 100, Devices: []world.DeviceRequest{{Count: 64, Milli: quantity.WholeGPU}},
	}})
	apply(world.GroupAdded{Name: "too-many", Minimum: 40, Queue: "top"})
	for i := range 40 {
		apply(world.PodAdded{Name: fmt.Sprintf("too-many-%d", i), Group: "too-many", Queue: "top", Request: world.Request{
			CPU: 100, Devices: []world.DeviceRequest{{Count: 4, Milli: quantity.WholeGPU}},
		}})
	}
	return 42
}

// BenchmarkQuiet is a review with nothing to do at 10,000 nodes of eight GPUs, all of
// which run something: nobody waits, or 1,000 do who never fit.
func BenchmarkQuiet(b *testing.B) {
	const nodes = 10_000
	w := world.New()
	c := town{t: b, w: w}
	for i := range nodes {
		c.must(h100Server(i))
	}
	c.must(world.QueueAdded{Name: "a", DeservedMilli: 4 * nodes * quantity.WholeGPU})
	c.must(world.QueueAdded{Name: "b", DeservedMilli: 4 * nodes * quantity.WholeGPU})
	for i := range 8 * nodes {
		name := fmt.Sprintf("old-%d", i)
		c.must(world.PodAdded{Name: name, Queue: []string{"a", "b"}[i%2], Request: gpuRequest(1, 1000), Expected: moment.Span(1+i*7919%4001) * moment.Minute})
		c.bind(name, fmt.Sprintf("node-%d", i/8))
		c.must(world.Started{Name: name})
	}
	for _, waiting := range []int{0, 1000} {
		for i := range waiting {
			r := gpuRequest(16, 1000)
			c.must(world.PodAdded{Name: fmt.Sprintf("new-%d", i), Queue: []string{"a", "b"}[i%2], Request: r})
		}
		snapshot := w.Snapshot()
		for name, policy := range looking() {
			b.Run(fmt.Sprintf("nodes=%d/waiting=%d/%s", nodes, waiting, name), func(b *testing.B) {
				var memo engine.Memo
				var times []time.Duration
				cycle := decision.Cycle{Seed: 1, Kind: decision.CycleReview, Now: w.Now()}
				engine.Decide(snapshot, cycle, policy, &memo) // warm
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					plan := engine.Decide(snapshot, cycle, policy, &memo)
					times = append(times, time.Since(start))
					if len(plan.Decisions) > 0 || len(plan.Waiting) != waiting {
						b.Fatalf("%d decisions, %d wait: want none, and %d", len(plan.Decisions), len(plan.Waiting), waiting)
					}
				}
				report(b, times, 0)
			})
		}
	}
}
