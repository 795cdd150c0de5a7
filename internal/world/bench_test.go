package world_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
)

// mixed are the shapes of a busy cluster: whole cards in each usual number, and
// two sizes of shares.
var mixed = []world.Request{
	gpuRequest(1, 1000), gpuRequest(2, 1000), gpuRequest(4, 1000), gpuRequest(8, 1000), gpuRequest(1, 250), gpuRequest(1, 500),
}

func gpuRequest(count int32, milli quantity.MilliGPU) world.Request {
	return world.Request{
		CPU: 4000, Memory: 16 * quantity.GiB,
		Devices: []world.DeviceRequest{{Count: count, Milli: milli, Memory: quantity.Bytes(milli) * 80 * quantity.MiB}},
	}
}

// halfFull returns a world of nodes with eight GPUs each, in three kinds. Every
// fourth node is empty, the others hold pods of mixed shapes on three to eight
// GPUs: about half of all are taken.
func halfFull(b testing.TB, nodes int) *world.World {
	b.Helper()
	w, source := world.New(), chance.New(1)
	apply := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	apply(world.QueueAdded{Name: "team"})
	for i := range nodes {
		rack := fmt.Sprintf("rack-%d", i/16)
		if i%16 == 0 {
			apply(world.DomainAdded{Name: rack, Level: cluster.LevelRack})
		}
		e := world.NodeAdded{
			Name: fmt.Sprintf("node-%d", i), Domain: rack, CPU: 128000, Memory: 1024 * quantity.GiB, Pods: 110,
			Life: cluster.LifeReady, Authority: cluster.AuthorityAgent,
		}
		for k := range int32(8) {
			e.Devices = append(e.Devices, world.Device{
				Model: []string{"H200", "H100", "A100"}[i%3], Memory: 80 * quantity.GiB, Island: k / 4, NUMA: k / 4, Sharing: cluster.SharingSlices,
			})
		}
		apply(e)
	}
	for i := range nodes {
		if i%4 > 0 {
			fillNode(b, w, i, 3000+1000*quantity.MilliGPU(source.Below(6)), source)
		}
	}
	v := w.View()
	var demand learn.Demand
	for i := range v.Pods.Len() {
		if p := v.Pod(cluster.PodID(i)); p.Phase == cluster.PhaseRunning {
			demand.Observe(p.Spec.Shape)
		}
	}
	apply(world.Learned{Beliefs: &cluster.Beliefs{Version: 1, Demand: demand.Table(), Worth: learn.Worth(v, &demand)}})
	if err := cluster.Audit(v); err != nil {
		b.Fatal(err)
	}
	return w
}

// fillNode places running pods of mixed shapes on one node, up to an amount.
func fillNode(b testing.TB, w *world.World, i int, amount quantity.MilliGPU, source *chance.Source) {
	b.Helper()
	apply := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	c := town{t: b, w: w}
	v, node := w.View(), fmt.Sprintf("node-%d", i)
	for k := range 12 {
		name := fmt.Sprintf("old-%d-%d", i, k)
		apply(world.PodAdded{Name: name, Queue: "team", Request: mixed[source.Below(int64(len(mixed)))]})
		id, _ := w.Pod(name)
		shape, host := v.Pod(id).Spec.Shape, cluster.NodeID(i)
		if milli := v.Shape(shape).Milli(); milli <= amount && fit.Check(v, shape, host).None() {
			amount -= milli
			c.bind(name, node)
			apply(world.Started{Name: name})
		} else {
			apply(world.PodRemoved{Name: name})
		}
	}
}

// crowd adds pods of mixed shapes under a prefix.
func crowd(b testing.TB, w *world.World, prefix string, pods int) {
	b.Helper()
	for i := range pods {
		if err := w.Apply(w.Now(), world.PodAdded{Name: fmt.Sprintf("%s-%d", prefix, i), Queue: "team", Request: mixed[i%len(mixed)]}); err != nil {
			b.Fatal(err)
		}
	}
}

// disperse takes the pods of crowd away again, placed or not.
func disperse(b testing.TB, w *world.World, prefix string, pods int) {
	b.Helper()
	for i := range pods {
		if err := w.Apply(w.Now(), world.PodRemoved{Name: fmt.Sprintf("%s-%d", prefix, i)}); err != nil {
			b.Fatal(err)
		}
	}
}

// measured are our policy and the cheapest score there is.
func measured() []*engine.Policy {
	return []*engine.Policy{engine.Headrace(), {Name: "trivial", Score: packed}}
}

var benchSizes = []int{1000, 5000, 10000}

// BenchmarkSnapshot is a snapshot, and the first event after it, which copies
// the pages it writes.
func BenchmarkSnapshot(b *testing.B) {
	for _, nodes := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			w := halfFull(b, nodes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				before := w.Snapshot()
				health := cluster.Health(i % 2)
				if err := w.Apply(w.Now(), world.DeviceHealth{Node: "node-7", Device: 3, Health: health}); err != nil {
					b.Fatal(err)
				}
				after := w.Snapshot()
				if i == 1 && before.Node(7).State == after.Node(7).State {
					b.Fatal("the write does not show in the snapshot after it")
				}
			}
		})
	}
}

// BenchmarkDecide is one cycle: with a memo kept from the cycle before, or
// without one. There is room for all pods; between two cycles they leave and others
// of the same shapes come.
func BenchmarkDecide(b *testing.B) {
	for _, policy := range measured() {
		for _, nodes := range benchSizes {
			w := (*world.World)(nil)
			for _, pods := range []int{1, 1000} {
				for _, memo := range []string{"warm", "absent"} {
					b.Run(fmt.Sprintf("policy=%s/nodes=%d/pods=%d/memo=%s", policy.Name, nodes, pods, memo), func(b *testing.B) {
						if w == nil {
							w = halfFull(b, nodes)
						}
						benchmarkDecide(b, w, policy, pods, memo == "warm")
					})
				}
			}
		}
	}
}

func benchmarkDecide(b *testing.B, w *world.World, policy *engine.Policy, pods int, warm bool) {
	b.Helper()
	var kept engine.Memo
	var times []time.Duration
	decided, number := 0, uint64(0)
	cycle := func(timed bool) {
		number++
		crowd(b, w, "new", pods)
		memo := &kept
		if !warm {
			memo = nil
		}
		snapshot, c := w.Snapshot(), decision.Cycle{Number: number, Seed: 1}
		if timed {
			b.StartTimer()
		}
		start := time.Now()
		plan := engine.Decide(snapshot, c, policy, memo)
		times = append(times, time.Since(start))
		if timed {
			b.StopTimer()
		}
		if len(plan.Decisions) < pods-pods/10 {
			b.Fatalf("%d decisions for %d pods; first of %d waiting: %v", len(plan.Decisions), pods, len(plan.Waiting), plan.Waiting[0].Why.Describe(w.View()))
		}
		for i := range plan.Decisions {
			if err := w.Apply(w.Now(), world.Accepted{Decision: plan.Decisions[i]}); err != nil {
				b.Fatal(err)
			}
		}
		decided += len(plan.Decisions)
		disperse(b, w, "new", pods)
	}
	for range 3 { // warm the memo, for all shapes
		cycle(false)
	}
	times, decided = times[:0], 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		cycle(true)
		b.StartTimer()
	}
	report(b, times, decided)
}

// report adds decisions a second and the 99th percentile of a cycle.
func report(b *testing.B, times []time.Duration, decided int) {
	b.Helper()
	slices.Sort(times)
	total := time.Duration(0)
	for _, t := range times {
		total += t
	}
	b.ReportMetric(float64(decided)/total.Seconds(), "decisions/s")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkDecideWarm is a cycle with one pod and no change since the last: it
// shows what nodes cost whose state did not change.
func BenchmarkDecideWarm(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			w, policy := halfFull(b, nodes), engine.Headrace()
			crowd(b, w, "new", 1)
			var memo engine.Memo
			snapshot, decided := w.Snapshot(), 0
			var times []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				plan := engine.Decide(snapshot, decision.Cycle{Seed: 1}, policy, &memo)
				times = append(times, time.Since(start))
				decided += len(plan.Decisions)
			}
			if decided != len(times) {
				b.Fatalf("%d decisions in %d cycles", decided, len(times))
			}
			report(b, times, decided)
		})
	}
}

// BenchmarkNo is the answer that a shape fits nowhere, with its reason: at once,
// and in a cycle whose memo knows the shape while one node changed.
func BenchmarkNo(b *testing.B) {
	for _, nodes := range []int{500, 10000} {
		w := halfFull(b, nodes)
		request := gpuRequest(8, 1000)
		request.Devices[0].SameIsland = true
		if err := w.Apply(0, world.PodAdded{Name: "large", Request: request}); err != nil {
			b.Fatal(err)
		}
		pod, _ := w.Pod("large")
		b.Run(fmt.Sprintf("judge/nodes=%d", nodes), func(b *testing.B) {
			v := w.View()
			b.ReportAllocs()
			for b.Loop() {
				if why := fit.Explain(v, v.Pod(pod).Spec.Shape); why.Code != decision.DeviceLink || int(why.Of) != nodes {
					b.Fatalf("reason %+v", why)
				}
			}
		})
		b.Run(fmt.Sprintf("absent/nodes=%d", nodes), func(b *testing.B) {
			policy, snapshot := engine.Headrace(), w.Snapshot()
			b.ReportAllocs()
			for b.Loop() {
				plan := engine.Decide(snapshot, decision.Cycle{}, policy, nil)
				if len(plan.Waiting) != 1 || plan.Waiting[0].Why.Code != decision.DeviceLink {
					b.Fatalf("plan %+v", plan)
				}
			}
		})
		b.Run(fmt.Sprintf("warm/nodes=%d", nodes), func(b *testing.B) {
			policy := engine.Headrace()
			var memo engine.Memo
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := w.Apply(0, world.DeviceHealth{Node: "node-7", Device: 3, Health: cluster.Health(i % 2)}); err != nil {
					b.Fatal(err)
				}
				plan := engine.Decide(w.Snapshot(), decision.Cycle{}, policy, &memo)
				if len(plan.Waiting) != 1 || plan.Waiting[0].Why.Code != decision.DeviceLink {
					b.Fatalf("plan %+v", plan)
				}
			}
		})
	}
}

// BenchmarkRollback is a trial of moves in a transaction and its undoing.
func BenchmarkRollback(b *testing.B) {
	const nodes = 10000
	w := halfFull(b, nodes)
	for _, moves := range []int{1, 100} {
		b.Run(fmt.Sprintf("nodes=%d/moves=%d", nodes, moves), func(b *testing.B) {
			snapshot := w.Snapshot()
			txn := cluster.Begin(snapshot)
			start := txn.Mark()
			before := txn.View().Digest()
			var running []cluster.PodID
			for i := 0; len(running) < moves; i++ {
				if snapshot.Pod(cluster.PodID(i)).Phase == cluster.PhaseRunning {
					running = append(running, cluster.PodID(i))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, pod := range running {
					if err := txn.Evict(pod); err != nil {
						b.Fatal(err)
					}
				}
				txn.Rollback(start)
			}
			if got := txn.View().Digest(); got != before {
				b.Fatalf("digest %#x after rollback, %#x before", got, before)
			}
		})
	}
}
