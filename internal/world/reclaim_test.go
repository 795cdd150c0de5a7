package world_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// overtaken is a cluster that one of two equal tenants fills with jobs of one GPU,
// when the other comes with as many.
func overtaken(t testing.TB, nodes, running, waiting int) *world.World {
	t.Helper()
	w := world.New()
	apply := func(at moment.Instant, e world.Event) {
		t.Helper()
		if err := w.Apply(at, e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range nodes {
		e := world.NodeAdded{Name: fmt.Sprintf("node-%d", i), CPU: 128_000, Memory: 1024 * quantity.GiB, Pods: 110, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 8 {
			e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB})
		}
		apply(0, e)
	}
	half := quantity.MilliGPU(running) * quantity.WholeGPU / 2
	for _, name := range []string{"first", "second"} {
		apply(0, world.QueueAdded{Name: name, Weight: quantity.One, DeservedMilli: half})
	}
	one := world.Request{CPU: 8000, Memory: 64 * quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU}}}
	for i := range running {
		apply(0, world.PodAdded{Name: fmt.Sprintf("first-%d", i), Queue: "first", Request: one})
	}
	if rounds := settle(t, w, 0, 1, 4); rounds > 1 {
		t.Fatalf("the first tenant was placed in %d rounds", rounds)
	}
	for i := range running {
		apply(moment.Instant(i)*moment.Instant(moment.Second), world.Started{Name: fmt.Sprintf("first-%d", i)})
	}
	for i := range waiting {
		apply(w.Now(), world.PodAdded{Name: fmt.Sprintf("second-%d", i), Queue: "second", Request: one})
	}
	return w
}

// settle runs cycles at one instant until nothing changes, everything carried out at
// once, and says how many it took.
func settle(t testing.TB, w *world.World, at moment.Instant, number uint64, most int) int {
	t.Helper()
	var memo engine.Memo
	policy := engine.Headrace()
	for round := range most {
		snapshot := w.Snapshot()
		plan := engine.Decide(snapshot, decision.Cycle{Number: number + uint64(round), Now: at, Kind: decision.CycleReview, Seed: 1}, policy, &memo)
		if len(plan.Decisions) == 0 {
			return round
		}
		carryOut(t, w, at, &plan)
	}
	t.Fatalf("not quiet after %d rounds", most)
	return most
}

// applying returns what applies events that are sound, at an instant.
func applying(t testing.TB, w *world.World, at moment.Instant) func(world.Event) {
	return func(e world.Event) {
		t.Helper()
		if err := w.Apply(at, e); err != nil {
			t.Fatal(err)
		}
	}
}

// carryOut accepts a plan, lets those go who have to, and then binds.
func carryOut(t testing.TB, w *world.World, at moment.Instant, plan *decision.Plan) {
	t.Helper()
	apply := applying(t, w, at)
	bundles := plan.Bundles()
	var leave, resized []cluster.PodID
	for _, bundle := range bundles {
		apply(world.Acceptance(bundle))
		switch d := &bundle[0]; d.Action {
		case cluster.ActionEvict:
			leave = append(leave, d.Pod)
		case cluster.ActionResize:
			resized = append(resized, d.Pod)
		}
	}
	for _, id := range leave {
		apply(world.Evicted{Name: w.View().Pod(id).Spec.Name})
	}
	for _, id := range resized {
		apply(world.Resized{Name: w.View().Pod(id).Spec.Name})
	}
	for _, bundle := range bundles {
		if bundle[0].Action != cluster.ActionBind {
			continue
		}
		if w.Holds(&bundle[0]) {
			apply(world.Acceptance(bundle))
		}
		for i := range bundle {
			apply(world.Bound{Name: w.View().Pod(bundle[i].Pod).Spec.Name})
		}
	}
}

// BenchmarkReclaim is the way to the fair point: all cycles until nothing changes, with
// evictions and binds carried out at once.
func BenchmarkReclaim(b *testing.B) {
	const nodes, running, waiting = 500, 4000, 4000
	b.Run(fmt.Sprintf("nodes=%d/running=%d/waiting=%d", nodes, running, waiting), func(b *testing.B) {
		b.ReportAllocs()
		rounds := 0
		for b.Loop() {
			b.StopTimer()
			w := overtaken(b, nodes, running, waiting)
			b.StartTimer()
			rounds = settle(b, w, w.Now(), 10, 100)
			b.StopTimer()
			used := map[string]quantity.MilliGPU{}
			for i := range w.View().Queues.Len() {
				q := w.View().Queues.At(int32(i))
				used[q.Name] = q.UsedMilli
			}
			if used["first"] != used["second"] || used["first"] != running/2*quantity.WholeGPU {
				b.Fatalf("the queues use %v", used)
			}
			if err := cluster.Audit(w.View()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(rounds), "rounds")
	})
}
