package world_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// BenchmarkAhead is one cycle in which those who wait have room reserved, or are told
// when they start: 500 full nodes of eight, a line of 1,000 of mixed sizes.
func BenchmarkAhead(b *testing.B) {
	const nodes, waiting = 500, 1000
	for name, policy := range map[string]*engine.Policy{
		"off": engine.Headrace().Staying(), "head": engine.Headrace().Staying().Reserving(engine.ReserveHead),
		"all": engine.Headrace().Staying().Reserving(engine.ReserveAll), "foretell": engine.Headrace().Staying().Foretelling(),
	} {
		b.Run(fmt.Sprintf("nodes=%d/waiting=%d/%s", nodes, waiting, name), func(b *testing.B) {
			c := town{t: b, w: world.New(), told: make(map[string]world.Event)}
			for i := range nodes {
				e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), Authority: cluster.AuthorityDRA, Life: cluster.LifeReady, CPU: 640_000, Memory: 1 << 42, Pods: 100}
				for range 8 {
					e.Devices = append(e.Devices, world.Device{Model: "A100", Memory: 80 << 30, Island: -1, NUMA: -1})
				}
				c.must(e)
			}
			for i := range 8 * nodes {
				name := fmt.Sprintf("old-%d", i)
				c.must(world.PodAdded{Name: name, Request: gpuRequest(1, 1000), Expected: moment.Span(1+i*7919%4001) * moment.Minute})
				c.bind(name, fmt.Sprintf("n%d", i/8))
			}
			for i := range waiting {
				c.must(world.PodAdded{Name: fmt.Sprintf("new-%d", i), Request: gpuRequest(int32(1<<(i%4)), 1000), Expected: moment.Span(1+i%60) * moment.Minute})
			}
			snapshot := c.w.Snapshot()
			var memo engine.Memo
			waits := 0
			for b.Loop() {
				plan := engine.Decide(snapshot, decision.Cycle{Seed: 1, Kind: decision.CycleReview}, policy, &memo)
				waits += len(plan.Waiting)
			}
			if waits != b.N*waiting {
				b.Fatalf("%d wait in %d cycles, want %d in each", waits, b.N, waiting)
			}
		})
	}
}
