package sim

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// bakery is a workload of several kinds on four nodes, one pod every half minute.
func bakery(kinds, pods int) *trace.Workload {
	w := &trace.Workload{Name: "bakery", Timed: true}
	for i := range 4 {
		w.Nodes = append(w.Nodes, trace.Node{Name: fmt.Sprintf("n%d", i), CPU: 64000, Memory: 1 << 38, Pods: 110, GPUs: 4, Model: "A100", GPUMemory: 40 << 30})
	}
	for i := range pods {
		w.Pods = append(w.Pods, trace.Pod{
			Name: fmt.Sprintf("p%d", i), Kind: fmt.Sprintf("kind-%d", i*i%kinds), CPU: 1000, Memory: 1 << 30, GPUs: 1, Milli: 500, GPUMemory: 10 << 30,
			Arrival: moment.Instant(i) * moment.Instant(30*moment.Second), Duration: 9 * moment.Minute,
			Use: trace.Use{LoadBusy: 300, ComputeBusy: 900, LoadPhase: moment.Minute, ComputePhase: moment.Minute, Image: model.StandardImage, Weights: model.StandardWeights, WarmUp: model.StandardWarmUp},
		})
	}
	return w
}

// Each part of warm starts makes starts shorter, and all books are right after every event.
func TestWarmStarts(t *testing.T) {
	start := func(without ...string) float64 {
		t.Helper()
		res, err := Run(Config{Workload: bakery(61, 400), Mode: Timed, Policy: Ours, Seed: 1, Without: without, Audited: true})
		if err != nil {
			t.Fatal(err)
		}
		return *res.StartMeanS
	}
	both, caches, prefetch, off := start(), start("prefetch"), start("caches"), start("caches", "prefetch")
	if both >= caches || both >= prefetch || caches >= off || prefetch >= off {
		t.Errorf("mean start: both parts %.0f s, caches alone %.0f s, prefetches alone %.0f s, none %.0f s: want each part to help", both, caches, prefetch, off)
	}
	if off > 180 || both < 22 {
		t.Errorf("mean start %.0f s with both parts and %.0f s without: want within 22 to 180 s", both, off)
	}
}

// What is fetched ahead stands still while a pod pulls, and goes on afterwards.
func TestAFetchAheadYieldsToAPod(t *testing.T) {
	c := &clock{run: bakeryRun(t, bakery(2, 2))}
	c.actor = newActor(c)
	c.meter = newAccount(c)
	a := c.actor
	for i := range c.Workload.Nodes {
		if err := a.equip(c.Workload.Nodes[i].Name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range c.Workload.Pods {
		if _, err := a.declare(&c.Workload.Pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	id, _ := a.world.Node("n0")
	artifact, _ := a.world.Artifact("kind-0/image")
	f := cluster.Prefetch{Node: id, Artifact: artifact}
	d := decision.Decision{ID: 1, Action: cluster.ActionPrefetch, Pod: cluster.None, Place: cluster.Nowhere(), Host: cluster.Ref{ID: int32(id)}, Prefetch: &f}
	if err := a.apply(0, world.Accepted{Decision: d}); err != nil {
		t.Fatal(err)
	}
	if err := a.prefetch(&d); err != nil {
		t.Fatal(err)
	}
	ready := func() moment.Instant {
		at, _ := a.store.caches[0].Ready("kind-0", model.PartImage)
		return at
	}
	if got, want := ready(), moment.Instant(80*moment.Second); got != want {
		t.Errorf("alone it is there at %v, want %v", got, want)
	}
	c.now = moment.Instant(30 * moment.Second)
	a.yieldLane(0, model.PartImage, moment.Instant(90*moment.Second))
	if got, want := ready(), moment.Instant(140*moment.Second); got != want {
		t.Errorf("after 60 s of a pod's pull it is there at %v, want %v", got, want)
	}
	c.now = moment.Instant(100 * moment.Second)
	a.promote(0, "kind-0", model.PartImage)
	if got, want := ready(), moment.Instant(140*moment.Second); got != want {
		t.Errorf("when a pod waits for it, it is there at %v, want %v", got, want)
	}
}

func bakeryRun(t *testing.T, w *trace.Workload) *run {
	t.Helper()
	r, err := newRun(Config{Workload: w, Mode: Timed, Policy: Ours, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
