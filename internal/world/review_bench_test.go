package world_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// h100Server is a node of eight GPUs whose agent gives them out.
func h100Server(i int) world.NodeAdded {
	e := world.NodeAdded{
		Name: fmt.Sprintf("node-%d", i), CPU: 128000, Memory: 1024 * quantity.GiB, Pods: 110,
		Life: cluster.LifeReady, Authority: cluster.AuthorityAgent,
	}
	for k := range int32(8) {
		e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB, Island: 0, NUMA: k / 4, Sharing: cluster.SharingSlices})
	}
	return e
}

// tenants returns a world of 1,000 nodes of eight GPUs with queues in departments of
// ten, that deserve all of it together and run on all but some GPUs: half of the
// queues run twice what they deserve, the others nothing. All of them have jobs
// waiting.
func tenants(b testing.TB, queues, waiting, room int) *world.World {
	b.Helper()
	const nodes = 1000
	w, source := world.New(), chance.New(1)
	apply := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		apply(h100Server(i))
	}
	for i := range queues {
		department := fmt.Sprintf("department-%d", i/10)
		if i%10 == 0 {
			apply(world.QueueAdded{Name: department, Weight: quantity.One})
		}
		apply(world.QueueAdded{
			Name: fmt.Sprintf("queue-%d", i), Parent: department, Weight: quantity.Milli(1000 + source.Below(4000)),
			DeservedMilli: quantity.MilliGPU(8000 * nodes / queues),
		})
		apply(world.QueueUsage{Name: fmt.Sprintf("queue-%d", i), Usage: cluster.Usage{History: source.Below(1e12)}})
	}
	c := town{t: b, w: w}
	for i := range 8*nodes - room {
		name := fmt.Sprintf("old-%d", i)
		apply(world.PodAdded{Name: name, Queue: fmt.Sprintf("queue-%d", 2*(i%(queues/2))), Request: gpuRequest(1, 1000)})
		c.bind(name, fmt.Sprintf("node-%d", i/8))
		apply(world.Started{Name: name})
	}
	for i := range waiting {
		apply(world.PodAdded{
			Name: fmt.Sprintf("new-%d", i), Queue: fmt.Sprintf("queue-%d", source.Below(int64(queues))),
			Priority: int32(source.Below(4)), Request: mixed[i%4],
		})
	}
	if err := cluster.Audit(w.View()); err != nil {
		b.Fatal(err)
	}
	return w
}

// BenchmarkReview is one review cycle over a long line in many queues: on a full
// cluster, and with room for some; where nobody gives way, and where half the queues
// have to give back what they hold above their shares.
func BenchmarkReview(b *testing.B) {
	const jobs, queues = 100_000, 1000
	for _, room := range []int{0, 1000} {
		for _, reclaim := range []bool{false, true} {
			benchmarkReview(b, jobs, queues, room, reclaim)
		}
	}
}

func benchmarkReview(b *testing.B, jobs, queues, room int, reclaim bool) {
	b.Run(fmt.Sprintf("jobs=%d/queues=%d/room=%d/reclaim=%t", jobs, queues, room, reclaim), func(b *testing.B) {
		w := tenants(b, queues, jobs, room)
		snapshot, policy := w.Snapshot(), engine.Headrace()
		if !reclaim {
			policy = policy.Staying()
		}
		var memo engine.Memo
		var times []time.Duration
		decided := 0
		b.ReportAllocs()
		for b.Loop() {
			start := time.Now()
			plan := engine.Decide(snapshot, decision.Cycle{Seed: 1, Kind: decision.CycleReview}, policy, &memo)
			times = append(times, time.Since(start))
			decided += len(plan.Decisions)
			if !reclaim && (len(plan.Decisions)+len(plan.Waiting) != jobs || (len(plan.Decisions) == 0) != (room == 0)) {
				b.Fatalf("%d decisions, %d wait", len(plan.Decisions), len(plan.Waiting))
			}
		}
		report(b, times, decided)
		if reclaim {
			b.StopTimer()
			b.ReportMetric(float64(settle(b, w, w.Now(), 10, 100)), "rounds")
		}
	})
}
