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
	"pgregory.net/rapid"
)

// A bundle that is accepted leaves its group with its minimum; one that the world
// has outrun is refused whole, and nothing of it is charged.
func TestGroupsStartWholeOrNotAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		all := policies()
		c, policy := newTown(t, from), all[from.below(len(all))]
		var memo engine.Memo
		for number := range uint64(2 + from.below(8)) {
			for range from.below(8) {
				c.step()
			}
			plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: number, Now: c.at, Seed: 3}, policy, &memo)
			for range from.below(3) {
				c.step() // the world moves on before the plan is accepted
			}
			for _, bundle := range plan.Bundles() {
				if !c.may(world.Acceptance(bundle)) || policy.Round != nil {
					continue
				}
				for i := range bundle {
					p := c.w.View().Pod(bundle[i].Pod)
					if id := p.Spec.Group; bundle[i].Together != 0 && !c.w.View().Group(id).Whole() {
						t.Fatalf("policy %s: group %+v was started", policy.Name, *c.w.View().Group(id))
					}
				}
			}
			c.audit()
		}
	})
}

// gang adds a group and its members.
func gang(c *town, name string, minimum int32, members int, request world.Request) {
	c.t.Helper()
	c.must(world.GroupAdded{Name: name, Minimum: minimum})
	for i := range members {
		c.must(world.PodAdded{Name: fmt.Sprintf("%s-%d", name, i), Group: name, Request: request})
	}
}

// The binds of a group that find the world changed are refused together.
func TestOutrunBundleIsRefusedWhole(t *testing.T) {
	for name, change := range map[string]world.Event{
		"a member gone":  world.PodRemoved{Name: "g-1"},
		"a device sick":  world.DeviceHealth{Node: "n", Device: 3, Health: cluster.Sick},
		"the node gone":  world.NodeRemoved{Name: "n"},
		"a higher bound": world.GroupChanged{Name: "g", Minimum: 4},
		"the group gone": world.GroupRemoved{Name: "g"},
	} {
		c := &town{t: t, from: &raw{}, w: world.New()}
		c.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
		c.must(nodeKind(1, "n"))
		gang(c, "g", 3, 3, requests[2])
		plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: 1}, &engine.Policy{Name: "last device", Score: packed, Grants: lastDevice}, nil)
		if bundles := plan.Bundles(); len(bundles) != 1 || len(bundles[0]) != 3 {
			t.Fatalf("%s: %d decisions in %d bundles, want 3 in 1", name, len(plan.Decisions), len(bundles))
		}
		c.must(change)
		if c.may(world.Acceptance(plan.Decisions)) {
			t.Errorf("%s: the binds were accepted", name)
		}
		c.audit()
		if held := c.w.View().Intents.Len(); held > 0 && c.w.View().Intents.At(0).ID != 0 {
			t.Errorf("%s: an intent is left of a refused bundle", name)
		}
	}
}

// A running member of a group at its minimum is not evicted for others, one of a
// group above it is.
func TestVictimsLeaveGroupsWhole(t *testing.T) {
	for _, members := range []int{2, 3} {
		c := &town{t: t, from: &raw{}, w: world.New()}
		c.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
		c.must(nodeKind(1, "n"))
		gang(c, "g", 2, members, requests[2])
		policy := &engine.Policy{Name: "greedy", Score: packed, Victims: func(v *cluster.View, _ decision.Cycle, pod cluster.PodID) []cluster.PodID {
			var out []cluster.PodID
			for i := range v.Pods.Len() {
				if p := v.Pod(cluster.PodID(i)); p.Phase == cluster.PhaseBound && p.Spec.Priority < v.Pod(pod).Spec.Priority {
					out = append(out, cluster.PodID(i))
				}
			}
			return out
		}}
		plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: 1}, policy, nil)
		c.carryAll(&plan)
		for i := range 5 {
			c.must(world.PodAdded{Name: fmt.Sprint("other-", i), Priority: 1, Request: requests[2]})
		}
		plan = engine.Decide(c.w.Snapshot(), decision.Cycle{Number: 2}, policy, nil)
		evicted := 0
		for i := range plan.Decisions {
			if plan.Decisions[i].Action == cluster.ActionEvict {
				evicted++
			}
		}
		if evicted != members-2 {
			t.Errorf("of %d members with a minimum of 2, %d were evicted", members, evicted)
		}
	}
}

// carryAll accepts a plan and reports all of it as done.
func (c *town) carryAll(plan *decision.Plan) {
	c.t.Helper()
	for _, bundle := range plan.Bundles() {
		c.must(world.Acceptance(bundle))
		for i := range bundle {
			c.must(world.Bound{Name: c.w.View().Pod(bundle[i].Pod).Spec.Name})
		}
	}
}

// A row that a group leaves is another group's afterwards.
func TestGroupRowsAreReused(t *testing.T) {
	c := &town{t: t, from: &raw{}, w: world.New()}
	gang(c, "a", 2, 1, requests[0])
	c.must(world.GroupRemoved{Name: "a"})
	if _, there := c.w.Group("a"); !there {
		t.Fatal("a group that a pod names has lost its row")
	}
	c.must(world.PodRemoved{Name: "a-0"})
	if _, there := c.w.Group("a"); there {
		t.Fatal("a group that nobody names has kept its row")
	}
	gang(c, "b", 2, 2, requests[0])
	if n := c.w.View().Groups.Len(); n != 1 {
		t.Errorf("%d rows, want the first to be reused", n)
	}
	if g := c.w.View().Group(0); g.Name != "b" || g.Members != 2 || g.Generation != 1 {
		t.Errorf("group %+v, want b with 2 members in its second generation", *g)
	}
}

// Faulty events about groups are refused by name and value.
func TestGroupEventsSayWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		event world.Event
		want  string
	}{
		{world.GroupAdded{Minimum: 1}, `group: name "": must be new and not empty`},
		{world.GroupAdded{Name: "g", Minimum: 1}, `group: name "g": must be new and not empty`},
		{world.GroupAdded{Name: "h"}, `group h: minimum 0: must be at least 1`},
		{world.GroupAdded{Name: "h", Minimum: 1, Hold: -1}, `group h: hold -1us: must not be negative`},
		{world.GroupAdded{Name: "h", Minimum: 1, Queue: "q"}, `group h: queue "q": no such queue`},
		{world.GroupChanged{Name: "h", Minimum: 1}, `group "h": no such group`},
		{world.GroupChanged{Name: "g"}, `group g: minimum 0: must be at least 1`},
		{world.GroupRemoved{Name: "h"}, `group "h": no such group`},
		{world.AcceptedTogether{Decisions: []decision.Decision{{Action: cluster.ActionEvict}}}, `accept 1 binds together: evict: only binds are accepted together`},
		{world.AcceptedTogether{Decisions: []decision.Decision{{Pod: 77}}}, `accept 1 binds together: accept bind: no pod with id 77`},
	} {
		w := world.New()
		if err := w.Apply(0, world.GroupAdded{Name: "g", Minimum: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.Apply(0, test.event); err == nil || err.Error() != test.want {
			t.Errorf("%T %+v: got %v, want %s", test.event, test.event, err, test.want)
		}
	}
}

// groupsOf adds groups of eight single cards each under a prefix.
func groupsOf(b testing.TB, w *world.World, prefix string, groups int, request world.Request) {
	b.Helper()
	for g := range groups {
		name := fmt.Sprintf("%s-%d", prefix, g)
		events := []world.Event{world.GroupAdded{Name: name, Minimum: 8}}
		for i := range 8 {
			events = append(events, world.PodAdded{Name: fmt.Sprintf("%s-%d", name, i), Group: name, Request: request})
		}
		for _, e := range events {
			if err := w.Apply(w.Now(), e); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// emptyTown returns nodes of eight cards without work.
func emptyTown(b testing.TB, nodes int) *world.World {
	b.Helper()
	w := world.New()
	for i := range nodes {
		e := world.NodeAdded{Name: fmt.Sprintf("node-%d", i), CPU: 128000, Memory: 1024 * quantity.GiB, Pods: 110, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 8 {
			e.Devices = append(e.Devices, world.Device{Model: "H200", Memory: 80 * quantity.GiB, Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingSlices})
		}
		if err := w.Apply(w.Now(), e); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// BenchmarkBacklog is one cycle over a long line on 1,000 empty nodes: single
// pods, the same in groups of eight, and more groups than there is room for.
func BenchmarkBacklog(b *testing.B) {
	for _, c := range []struct {
		name          string
		single, group int
		placed        int
	}{{"pods=5000/single", 5000, 0, 5000}, {"pods=4800/groups=600", 0, 600, 4800}, {"pods=16000/groups=2000", 0, 2000, 8000}} {
		for _, policy := range measured() {
			b.Run(fmt.Sprintf("policy=%s/%s", policy.Name, c.name), func(b *testing.B) {
				w := emptyTown(b, 1000)
				for i := range c.single {
					if err := w.Apply(w.Now(), world.PodAdded{Name: fmt.Sprint("p-", i), Request: gpuRequest(1, 1000)}); err != nil {
						b.Fatal(err)
					}
				}
				groupsOf(b, w, "g", c.group, gpuRequest(1, 1000))
				snapshot := w.Snapshot()
				b.ReportAllocs()
				for b.Loop() {
					plan := engine.Decide(snapshot, decision.Cycle{Seed: 1}, policy, nil)
					if len(plan.Decisions) != c.placed {
						b.Fatalf("%d decisions, want %d", len(plan.Decisions), c.placed)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.placed), "ns/pod")
			})
		}
	}
}

// BenchmarkAcceptTogether is what a bundle of eight binds costs the world beyond
// eight single ones.
func BenchmarkAcceptTogether(b *testing.B) {
	for _, together := range []bool{false, true} {
		b.Run(fmt.Sprintf("together=%v", together), func(b *testing.B) {
			w := emptyTown(b, 1000)
			groupsOf(b, w, "g", 1, gpuRequest(1, 1000))
			plan := engine.Decide(w.Snapshot(), decision.Cycle{Seed: 1}, engine.Headrace(), nil)
			names := make([]string, len(plan.Decisions))
			for i := range plan.Decisions {
				names[i] = w.View().Pod(plan.Decisions[i].Pod).Spec.Name
			}
			b.ReportAllocs()
			for b.Loop() {
				if together {
					if err := w.Apply(0, world.AcceptedTogether{Decisions: plan.Decisions}); err != nil {
						b.Fatal(err)
					}
				}
				for i := range plan.Decisions {
					if !together {
						if err := w.Apply(0, world.Accepted{Decision: plan.Decisions[i]}); err != nil {
							b.Fatal(err)
						}
					}
				}
				for _, name := range names {
					if err := w.Apply(0, world.BindRefused{Name: name}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkNoGroup is the answer that 80 cards cannot be had at once, with its
// reason: as ten whole nodes, or as eighty single cards of which there are fewer.
func BenchmarkNoGroup(b *testing.B) {
	const nodes = 500
	for _, c := range []struct {
		name    string
		members int
		cards   int32
	}{{"members=10/cards=8", 10, 8}, {"members=80/cards=1", 80, 1}} {
		w := emptyTown(b, nodes)
		// All but nine nodes are taken, and eight cards of each of those are left.
		for i := range nodes - 9 {
			k := town{t: b, w: w}
			k.must(world.PodAdded{Name: fmt.Sprint("old-", i), Request: gpuRequest(8, 1000)})
			k.bind(fmt.Sprint("old-", i), fmt.Sprintf("node-%d", i))
		}
		k := town{t: b, w: w}
		gang(&k, "g", int32(c.members), c.members, gpuRequest(c.cards, 1000))
		snapshot := w.Snapshot()
		for _, memo := range []string{"warm", "absent"} {
			b.Run(fmt.Sprintf("%s/nodes=%d/memo=%s", c.name, nodes, memo), func(b *testing.B) {
				kept := new(engine.Memo)
				b.ReportAllocs()
				for b.Loop() {
					if memo == "absent" {
						kept = nil
					}
					plan := engine.Decide(snapshot, decision.Cycle{Now: moment.Instant(1)}, engine.Headrace(), kept)
					if len(plan.Waiting) != c.members || plan.Waiting[0].Why.Seated != int32(72/c.cards) || plan.Waiting[0].Why.Code != decision.DeviceIdle {
						b.Fatalf("%d wait because %+v", len(plan.Waiting), *plan.Waiting[0].Why)
					}
				}
			})
		}
	}
}
