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

// BenchmarkRelations decides about pods of one Deployment that are spread over
// zones and keep apart from each other on hosts.
func BenchmarkRelations(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		for _, pods := range []int{1, 1000} {
			for _, memo := range []string{"warm", "absent"} {
				b.Run(fmt.Sprintf("nodes=%d/pods=%d/memo=%s", nodes, pods, memo), func(b *testing.B) {
					w := relatedWorld(b, nodes, pods)
					policy, kept := engine.Headrace(), new(engine.Memo)
					s := w.Snapshot()
					number, placed := uint64(0), 0
					engine.Decide(s, decision.Cycle{}, policy, kept)
					for b.Loop() {
						m := kept
						if memo == "absent" {
							m = nil
						}
						number++
						plan := engine.Decide(s, decision.Cycle{Number: number}, policy, m)
						placed = len(plan.Decisions)
					}
					if placed != pods {
						b.Fatalf("placed %d of %d pods", placed, pods)
					}
					b.ReportMetric(float64(pods)*float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
				})
			}
		}
	}
}

func relatedWorld(b *testing.B, nodes, pods int) *world.World {
	b.Helper()
	w := world.New()
	must := func(e world.Event) {
		if err := w.Apply(0, e); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		must(world.NodeAdded{
			Name: name, CPU: 64_000, Memory: 512 * quantity.GiB, Pods: 110, Life: cluster.LifeReady,
			Labels: map[string]string{"kubernetes.io/hostname": name, "zone": fmt.Sprint("z", i%20), "kind": fmt.Sprint("k", i%7)},
		})
	}
	web := []world.Requirement{{Key: "app", Op: cluster.OpIn, Values: []string{"web"}}}
	for i := range pods {
		must(world.PodAdded{
			Name: fmt.Sprintf("pod-%d", i), Namespace: "n", Labels: map[string]string{"app": "web"}, Request: world.Request{CPU: 1000, Memory: quantity.GiB},
			Apart:  []world.PodTerm{{Topology: "kubernetes.io/hostname", Of: world.PodSelector{Labels: web}}},
			Spread: []world.Spread{{Topology: "zone", MaxSkew: 1, Labels: web}},
		})
	}
	return w
}
