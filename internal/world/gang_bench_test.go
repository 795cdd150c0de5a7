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

// rackedTown returns empty nodes of eight cards in racks.
func rackedTown(b testing.TB, nodes, rack int) *world.World {
	b.Helper()
	w := world.New()
	apply := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		name := fmt.Sprintf("rack-%d", i/rack)
		if i%rack == 0 {
			apply(world.DomainAdded{Name: name, Level: cluster.LevelRack})
		}
		e := world.NodeAdded{
			Name: fmt.Sprintf("node-%d", i), Domain: name, CPU: 128000, Memory: 1024 * quantity.GiB, Pods: 110,
			Life: cluster.LifeReady, Authority: cluster.AuthorityAgent,
		}
		for k := range int32(8) {
			e.Devices = append(e.Devices, world.Device{Model: "H200", Memory: 80 * quantity.GiB, Island: 0, NUMA: k / 4, Sharing: cluster.SharingSlices})
		}
		apply(e)
	}
	return w
}

// BenchmarkGroups is one cycle that starts many groups, each of which must share a
// rack; all of them start.
func BenchmarkGroups(b *testing.B) {
	const groups, pods, nodes, rack = 1000, 8, 10000, 32
	for _, ranked := range []bool{false, true} {
		w := rackedTown(b, nodes, rack)
		for g := range groups {
			name := fmt.Sprintf("g-%d", g)
			events := []world.Event{world.GroupAdded{
				Name: name, Minimum: pods, Topology: []cluster.TopologyWish{{Level: cluster.LevelRack, Required: true}},
			}}
			for i := range pods {
				e := world.PodAdded{Name: fmt.Sprintf("%s-%d", name, i), Group: name, Request: gpuRequest(8, 1000)}
				if ranked {
					e.Ranked, e.Rank = true, int32(i)
				}
				events = append(events, e)
			}
			for _, e := range events {
				if err := w.Apply(w.Now(), e); err != nil {
					b.Fatal(err)
				}
			}
		}
		snapshot := w.Snapshot()
		name := fmt.Sprintf("groups=%d/pods=%d/gpus=8/nodes=%d/racks=%d", groups, pods, nodes, rack)
		if ranked {
			name += "/ranks"
		}
		for _, memo := range []string{"warm", "absent"} {
			b.Run(name+"/memo="+memo, func(b *testing.B) {
				kept := new(engine.Memo)
				b.ReportAllocs()
				for b.Loop() {
					if memo == "absent" {
						kept = nil
					}
					plan := engine.Decide(snapshot, decision.Cycle{Seed: 1}, engine.Headrace(), kept)
					if len(plan.Decisions) != groups*pods {
						b.Fatalf("%d decisions, want %d", len(plan.Decisions), groups*pods)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(groups*pods), "ns/pod")
			})
		}
	}
}

// BenchmarkInfeasibleGroup is the answer that a group of ten pods with eight cards
// each cannot start in one rack, with its reason: where every card is taken, and
// where each node has some left and no rack has ten whole nodes.
func BenchmarkInfeasibleGroup(b *testing.B) {
	const nodes, rack, cards = 500, 32, 80
	for _, state := range []string{"full", "fragmented"} {
		w := rackedTown(b, nodes, rack)
		k := town{t: b, w: w}
		for i := range nodes {
			taken := int32(8)
			if state == "fragmented" {
				if taken = int32(1 + i%7); i%4 == 0 {
					continue // eight whole nodes in a rack, and the group needs ten
				}
			}
			name := fmt.Sprint("old-", i)
			k.must(world.PodAdded{Name: name, Request: gpuRequest(taken, 1000)})
			k.bind(name, fmt.Sprintf("node-%d", i))
		}
		seated := map[string]int32{"full": 0, "fragmented": 8}[state]
		for _, topology := range []string{"", "rack"} {
			if topology == "" && state == "fragmented" {
				continue // the cluster as a whole has room
			}
			e := world.GroupAdded{Name: "g" + topology, Minimum: cards / 8}
			if topology != "" {
				e.Topology = []cluster.TopologyWish{{Level: cluster.LevelRack, Required: true}}
			}
			k.must(e)
			for i := range cards / 8 {
				k.must(world.PodAdded{Name: fmt.Sprintf("%s-%d", e.Name, i), Group: e.Name, Request: gpuRequest(8, 1000)})
			}
			snapshot := w.Snapshot()
			for _, memo := range []string{"warm", "absent"} {
				b.Run(fmt.Sprintf("gpus=%d/nodes=%d/%s/topology=%s/memo=%s", cards, nodes, state, topology, memo), func(b *testing.B) {
					kept := new(engine.Memo)
					b.ReportAllocs()
					for b.Loop() {
						if memo == "absent" {
							kept = nil
						}
						plan := engine.Decide(snapshot, decision.Cycle{Now: moment.Instant(1)}, engine.Headrace(), kept)
						why := plan.Waiting[0].Why
						if len(plan.Waiting) != cards/8 || why.Code != decision.DeviceIdle || why.Members != cards/8 || why.Seated != seated || why.Domain.Set != (topology != "") {
							b.Fatalf("%d wait because %s", len(plan.Waiting), why.Describe(&snapshot.View))
						}
					}
				})
			}
			for i := range cards / 8 {
				k.must(world.PodRemoved{Name: fmt.Sprintf("%s-%d", e.Name, i)})
			}
		}
	}
}

// BenchmarkGroupGivesUp is a cycle in which the search for one tree comes to the end
// of its budget: seven parts of unlike pods, each on a node of its own, of which
// there are six among many that are full.
func BenchmarkGroupGivesUp(b *testing.B) {
	const parts, open, budget = 7, 6, 10_000
	for _, nodes := range []int{500, 10000} {
		w := rackedTown(b, nodes, 32)
		k := town{t: b, w: w}
		for i := range nodes {
			taken := int32(8)
			if i%(nodes/open) == 0 && i/(nodes/open) < open {
				taken = 5
			}
			name := fmt.Sprint("old-", i)
			k.must(world.PodAdded{Name: name, Request: gpuRequest(taken, 1000)})
			k.bind(name, fmt.Sprintf("node-%d", i))
		}
		k.must(world.GroupAdded{Name: "job", Groups: cluster.AllGroups})
		for i := range parts {
			name := fmt.Sprint("part-", i)
			k.must(world.GroupAdded{Name: name, Minimum: 2, Parent: "job", Topology: []cluster.TopologyWish{{Level: cluster.LevelNode, Required: true}}})
			request := gpuRequest(1, 1000)
			request.CPU += quantity.MilliCPU(i)
			for m := range 2 {
				k.must(world.PodAdded{Name: fmt.Sprintf("%s-%d", name, m), Group: name, Request: request})
			}
		}
		snapshot := w.Snapshot()
		b.Run(fmt.Sprintf("parts=%d/nodes=%d/tries=%d", parts, nodes, budget), func(b *testing.B) {
			var memo engine.Memo
			b.ReportAllocs()
			for b.Loop() {
				plan := engine.Decide(snapshot, decision.Cycle{Budget: budget}, engine.Headrace(), &memo)
				if len(plan.Waiting) != 2*parts || plan.Waiting[0].Why.Code != decision.GaveUp && nodes == 10000 {
					b.Fatalf("%d wait because %s", len(plan.Waiting), plan.Waiting[0].Why.Describe(&snapshot.View))
				}
			}
		})
	}
}
