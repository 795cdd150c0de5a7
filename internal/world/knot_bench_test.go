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

// BenchmarkKnot is one cycle on full nodes of eight in which some groups hold what each
// other needs, with the search for knots and without.
func BenchmarkKnot(b *testing.B) {
	for _, size := range []struct{ nodes, groups int }{{500, 2}, {500, 16}, {2500, 2}} {
		for name, policy := range map[string]*engine.Policy{"knots": engine.Headrace(), "off": engine.Headrace().Knotless()} {
			b.Run(fmt.Sprintf("nodes=%d/groups=%d/%s", size.nodes, size.groups, name), func(b *testing.B) {
				c := town{t: b, w: world.New(), told: make(map[string]world.Event)}
				for i := range size.nodes {
					e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), Authority: cluster.AuthorityDRA, Life: cluster.LifeReady, CPU: 640_000, Memory: 1 << 42, Pods: 100}
					for range 8 {
						e.Devices = append(e.Devices, world.Device{Model: "A100", Memory: 80 << 30, Island: -1, NUMA: -1})
					}
					if i == 0 { // whom the groups are after
						e.Labels = map[string]string{"here": "yes"}
						e.CPU = 1_000 * 16
					}
					c.must(e)
					for k := 0; k < 8 && i > 0; k++ {
						pod := fmt.Sprintf("p%d-%d", i, k)
						c.must(world.PodAdded{Name: pod, Request: gpuRequest(1, 1000)})
						c.must(world.PodFound{Name: pod, Node: e.Name})
					}
				}
				ask := world.Request{CPU: 1000 * 16 / 16, Selector: [][]world.Requirement{{{Key: "here", Op: cluster.OpExists}}}}
				for g := range size.groups {
					group := fmt.Sprintf("g%d", g)
					c.must(world.GroupAdded{Name: group, Minimum: int32(16/size.groups) + 1, Hold: moment.Hour})
					for m := range 16/size.groups + 1 {
						pod := fmt.Sprintf("%s-%d", group, m)
						c.must(world.PodAdded{Name: pod, Group: group, Request: ask})
						if m < 16/size.groups {
							c.must(world.PodFound{Name: pod, Node: "n0"})
						}
					}
				}
				snapshot := c.w.Snapshot()
				var memo engine.Memo
				said := 0
				for b.Loop() {
					plan := engine.Decide(snapshot, decision.Cycle{Seed: 1, Kind: decision.CycleReview}, policy, &memo)
					for _, w := range plan.Waiting {
						if w.Why.Code == decision.Knot {
							said++
						}
					}
				}
				if want := b.N * size.groups; (name == "knots") != (said == want) {
					b.Fatalf("%d of %d are in a knot", said, want)
				}
			})
		}
	}
}
