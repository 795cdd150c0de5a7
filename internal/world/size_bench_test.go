package world_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// campus is a world of so many GPUs of two models, eight on a node, and elastic jobs of
// one to eight workers, more than there is room for.
func campus(b testing.TB, gpus, jobs int) *world.World {
	b.Helper()
	w, from := world.New(), chance.New(1)
	apply := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	for i := range gpus / 8 {
		e := world.NodeAdded{
			Name: fmt.Sprintf("node-%d", i), CPU: 128000, Memory: 1024 * quantity.GiB, Pods: 110, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent,
		}
		for range 8 {
			e.Devices = append(e.Devices, world.Device{Model: models[i%2], Memory: 80 * quantity.GiB, Island: -1, NUMA: -1})
		}
		apply(e)
	}
	for i := range jobs {
		name := fmt.Sprintf("job-%d", i)
		f := world.JobFacts{Expected: moment.Span(1+from.Below(100)) * 10 * moment.Minute, Checkpoint: world.Checkpoint{Restart: 30 * moment.Second}}
		for k, model := range models[:2] {
			for _, n := range []int64{1, 2, 4, 8} {
				f.Configurations = append(f.Configurations, world.Configuration{Model: model, Workers: int32(n), Rate: (1000 + 500*int64(k)) * n * (100 - 3*n - from.Below(10)) / 100})
			}
		}
		apply(world.JobAdded{Name: name, JobFacts: f})
		apply(world.GroupAdded{Name: name, Minimum: 1, Job: name})
		for m := range 8 {
			apply(world.PodAdded{Name: fmt.Sprintf("%s-%d", name, m), Job: name, Group: name, Request: gpuRequest(1, quantity.WholeGPU)})
		}
	}
	return w
}

// BenchmarkSizes is one review cycle over elastic jobs: the first, in which all of them
// start; the next of jobs that run; and the one after half of them have ended.
func BenchmarkSizes(b *testing.B) {
	const gpus, jobs = 2048, 2000
	w := campus(b, gpus, jobs)
	policy := engine.Headrace().Sizing(engine.DefaultSizes())
	number := uint64(0)
	run := func(name string, least int) {
		b.Run(fmt.Sprintf("gpus=%d/jobs=%d/%s", gpus, jobs, name), func(b *testing.B) {
			snapshot := w.Snapshot()
			var memo engine.Memo
			var times []time.Duration
			decided := 0
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				plan := engine.Decide(snapshot, decision.Cycle{Number: number, Now: w.Now(), Seed: 1, Kind: decision.CycleReview}, policy, &memo)
				times = append(times, time.Since(start))
				if decided += len(plan.Decisions); len(plan.Decisions) < least {
					b.Fatalf("%d decisions", len(plan.Decisions))
				}
			}
			report(b, times, decided)
		})
	}
	carry := func() {
		number++
		plan := engine.Decide(w.Snapshot(), decision.Cycle{Number: number, Now: w.Now(), Seed: 1, Kind: decision.CycleReview}, policy, nil)
		carryOut(b, w, w.Now(), &plan)
	}
	run("start", gpus)
	carry()
	later := func(span moment.Span) {
		if err := w.Apply(w.Now().Add(span), world.Interned{Text: "later"}); err != nil {
			b.Fatal(err)
		}
	}
	later(moment.Hour)
	run("run", 0)
	for i := range jobs {
		for m := range 8 {
			if name := fmt.Sprintf("job-%d-%d", i, m); i%2 == 0 {
				if err := w.Apply(w.Now(), world.PodRemoved{Name: name}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	run("ended", gpus/4)
}
