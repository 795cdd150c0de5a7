package world_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// larder is a world of nodes of eight GPUs that each hold ten of so many kinds of work,
// all of which are expected.
func larder(b testing.TB, nodes, kinds int) *world.World {
	b.Helper()
	w := world.New()
	apply := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	needs := func(k int) []string { return []string{fmt.Sprintf("image-%d", k), fmt.Sprintf("weights-%d", k)} }
	for k := range kinds {
		apply(world.ArtifactKnown{Name: needs(k)[0], Sort: cluster.ArtifactImage, Size: 10 * quantity.GiB})
		apply(world.ArtifactKnown{Name: needs(k)[1], Sort: cluster.ArtifactWeights, Size: 15 * quantity.GiB})
	}
	for i := range nodes {
		e := world.NodeAdded{Name: fmt.Sprintf("node-%d", i), CPU: 128000, Memory: 1024 * quantity.GiB, Pods: 110, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 8 {
			e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB, Sharing: cluster.SharingSlices})
		}
		apply(e)
		apply(world.CacheKnown{Node: e.Name, Disk: 256 * quantity.GiB, Image: 125_000_000, Weights: 200_000_000})
		has := world.NodeCached{Node: e.Name}
		for k := range 10 {
			has.Has = append(has.Has, needs((i*7+k*13)%kinds)...)
		}
		apply(has)
	}
	expected := &cluster.Arrivals{}
	for k := range kinds {
		name := fmt.Sprintf("pod-%d", k)
		apply(world.PodAdded{Name: name, Kind: fmt.Sprintf("kind-%d", k), Artifacts: needs(k), Request: gpuRequest(1, 500)})
		id, _ := w.Pod(name)
		spec := w.View().Pod(id).Spec
		expected.Rows = append(expected.Rows, cluster.Arrival{Kind: spec.Kind, Artifacts: spec.Artifacts, Shape: spec.Shape, PerHour: quantity.Milli(1_000_000 / (k + 4))})
		apply(world.PodRemoved{Name: name})
	}
	apply(world.Learned{Beliefs: &cluster.Beliefs{Version: 1, Arrivals: expected}})
	return w
}

// BenchmarkWarm times a review in which nothing is fetched, and one decision for a pod
// that is cached on a part of the nodes, each with and without warm starts.
func BenchmarkWarm(b *testing.B) {
	off := *engine.Headrace().Warming(nil)
	on := *engine.Headrace()
	for _, with := range []struct {
		name   string
		policy *engine.Policy
	}{{"off", &off}, {"on", &on}} {
		b.Run("review/nodes=10000/kinds=500/"+with.name, func(b *testing.B) {
			w := larder(b, 10_000, 500)
			var memo engine.Memo
			s := stocked(b, w, with.policy, &memo)
			cycle := uint64(1000)
			for b.Loop() {
				cycle++
				plan := engine.Decide(s, decision.Cycle{Number: cycle, Now: w.Now(), Kind: decision.CycleReview, Seed: 1}, with.policy, &memo)
				if len(plan.Decisions) != 0 {
					b.Fatalf("%d decisions in a quiet review", len(plan.Decisions))
				}
			}
		})
		b.Run("one/nodes=10000/kinds=500/"+with.name, func(b *testing.B) {
			w := larder(b, 10_000, 500)
			if err := w.Apply(w.Now(), world.PodAdded{Name: "new", Kind: "kind-9", Artifacts: []string{"image-9", "weights-9"}, Request: gpuRequest(1, 500)}); err != nil {
				b.Fatal(err)
			}
			var memo engine.Memo
			s, cycle := w.Snapshot(), uint64(0)
			for b.Loop() {
				cycle++
				plan := engine.Decide(s, decision.Cycle{Number: cycle, Now: w.Now(), Seed: 1}, with.policy, &memo)
				if len(plan.Decisions) == 0 || plan.Decisions[0].Action != cluster.ActionBind {
					b.Fatalf("%d decisions: want a bind", len(plan.Decisions))
				}
			}
		})
	}
}

// stocked lets all be fetched that is worth it.
func stocked(b testing.TB, w *world.World, policy *engine.Policy, memo *engine.Memo) *cluster.Snapshot {
	b.Helper()
	for cycle := uint64(1); ; cycle++ {
		s := w.Snapshot()
		plan := engine.Decide(s, decision.Cycle{Number: cycle, Now: w.Now(), Kind: decision.CycleReview, Seed: 1}, policy, memo)
		if len(plan.Decisions) == 0 {
			return s
		}
		if cycle > 500 {
			b.Fatalf("not quiet after %d reviews", cycle)
		}
		for i := range plan.Decisions {
			f := plan.Decisions[i].Prefetch
			if err := w.Apply(w.Now(), world.Accepted{Decision: plan.Decisions[i]}); err != nil {
				b.Fatal(err)
			}
			if err := w.Apply(w.Now(), world.PrefetchDone{Node: s.Node(f.Node).Spec.Name, Artifact: s.Artifact(f.Artifact).Name}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
