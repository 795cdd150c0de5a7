package world_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/yield"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// A plan speaks of each waiting pod once: it is placed, or it waits for a reason
// that names what binds it. A plan does not overdraw, and the world accepts it in
// order.
func TestEveryWaitingPodIsPlacedOrHasAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		all := append(policies(), careless())
		c, policy := newTown(t, from), all[from.below(len(all))]
		for number := range uint64(1 + from.below(8)) {
			for range from.below(8) {
				c.step()
			}
			now := think(c.w.Snapshot(), decision.Cycle{Number: number, Now: c.at, Seed: 3}, policy)
			told := map[cluster.PodID]int{}
			for _, d := range now.plan.Decisions {
				if d.Action == cluster.ActionBind {
					told[d.Pod]++
				}
			}
			for _, w := range now.plan.Waiting {
				told[w.Pod]++
				if w.Why.None() || w.Why.Describe(c.w.View()) == "" {
					t.Fatalf("policy %s: pod %s waits without a reason", policy.Name, now.snapshot.Pod(w.Pod).Spec.Name)
				}
				switch why := w.Why; {
				case why.Code == decision.GroupCapacity:
					if why.Need <= why.Have || why.Have <= 0 {
						t.Fatalf("policy %s: %q", policy.Name, why.Describe(c.w.View()))
					}
				case why.Code.Future() == decision.Never && why.Of == 0 && why.Code != decision.NoNodes && why.Code != decision.AncestorFailed:
					t.Fatalf("policy %s: %q counts no nodes", policy.Name, why.Describe(c.w.View()))
				}
			}
			for _, id := range now.snapshot.AppendWaiting(nil) {
				if told[id] != 1 {
					t.Fatalf("policy %s: the plan speaks %d times of pod %s", policy.Name, told[id], now.snapshot.Pod(id).Spec.Name)
				}
			}
			c.carry(&now.plan)
		}
	})
}

// Within a queue no victim outranks the pod that takes its node, none is
// protected, no budget is overspent, and every eviction is for a bind that comes
// after it.
func TestNoVictimOutranksItsWinner(t *testing.T) {
	evictions := 0
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		policy := &engine.Policy{Name: "packed", Score: packed, Yields: rules()}
		c := newTown(t, from)
		for number := range uint64(1 + from.below(8)) {
			for range from.below(8) {
				c.step()
			}
			for range from.below(8) {
				c.addPod() // so many that not all have room
			}
			now := think(c.w.Snapshot(), decision.Cycle{Number: number, Now: c.at, Seed: 3}, policy)
			s, spent := now.snapshot, map[cluster.BudgetID]int32{}
			grade := func(id cluster.PodID) yield.Grade { return policy.Yields.GradeOf(&s.View, s.Pod(id), c.at) }
			// The members of a group take as one, by the highest of their grades.
			asOne := func(id cluster.PodID) yield.Grade {
				most := grade(id)
				if g := s.Pod(id).Spec.Group; g != cluster.None {
					for member := range s.TreeMembers(s.Root(g)) {
						if s.Pod(member).Phase == cluster.PhaseWaiting {
							most = max(most, grade(member))
						}
					}
				}
				return most
			}
			winner := map[uint64]yield.Grade{} // by the decision it comes after, the highest
			for _, d := range now.plan.Decisions {
				for _, id := range d.After {
					g := asOne(d.Pod)
					if known, found := winner[id]; !found || g > known {
						winner[id] = g
					}
				}
			}
			for _, d := range now.plan.Decisions {
				if d.Action != cluster.ActionEvict {
					continue
				}
				p := s.Pod(d.Pod)
				if p.Spec.Group != cluster.None {
					continue // a broken group gives its room back when its time is over
				}
				if d.Because.ReplacedBy != "" {
					continue // its heir runs
				}
				evictions++
				// Across queues shares decide, and not priorities.
				if above, found := winner[d.ID]; !found || grade(d.Pod) >= above && !d.Because.Yield.Across {
					t.Fatalf("%s of grade %d goes for one of %d (found %t)", d.Line(&s.View), grade(d.Pod), above, found)
				}
				if b := s.BudgetOf(p); b != nil {
					if spent[p.Budget]++; spent[p.Budget] > b.Left {
						t.Fatalf("%s: budget %s allows %d", d.Line(&s.View), b.Name, b.Left)
					}
				}
				if p.Spec.Protected {
					t.Fatalf("%s is protected", d.Line(&s.View))
				}
			}
			c.carry(&now.plan)
		}
	})
	t.Logf("%d evictions", evictions)
	if evictions == 0 {
		t.Error("nothing was ever evicted")
	}
}

// With no new events, a plan that was carried out is followed by one without
// decisions.
func TestQuietAfterThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		all := slices.DeleteFunc(policies(), func(p *engine.Policy) bool { return p.Round != nil })
		c, policy := newTown(t, from), all[from.below(len(all))]
		for range from.below(30) {
			c.step()
		}
		var memo engine.Memo
		plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: 1, Now: c.at}, policy, &memo)
		c.carry(&plan)
		if again := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: 2, Now: c.at}, policy, &memo); len(again.Decisions) > 0 {
			t.Fatalf("policy %s: nothing happened, yet %v", policy.Name, lines(&again, c.w.View()))
		}
	})
}

// A crew is the same cluster told in any order.
type crew struct {
	nodes  []world.NodeAdded
	pods   []world.PodAdded
	groups []world.GroupAdded
}

func drawCrew(t *rapid.T) crew {
	var c crew
	for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
		c.nodes = append(c.nodes, nodeKind(rapid.IntRange(0, 3).Draw(t, "kind"), fmt.Sprintf("node-%d", i)))
	}
	for i := range rapid.IntRange(1, 40).Draw(t, "pods") {
		c.pods = append(c.pods, world.PodAdded{
			Name: fmt.Sprintf("pod-%d", i), Request: requests[rapid.IntRange(0, len(requests)-1).Draw(t, "request")],
			Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")), Queue: []string{"", "team"}[rapid.IntRange(0, 1).Draw(t, "queue")],
		})
	}
	return c
}

// band puts some of the pods into groups.
func (c *crew) band(t *rapid.T) {
	names := []string{"", "", "few", "many", "none"}
	for i := range c.pods {
		c.pods[i].Group = names[rapid.IntRange(0, 4).Draw(t, "group")]
		if i%3 == 0 {
			c.pods[i].Ranked, c.pods[i].Rank = true, int32(i)
		}
	}
	c.groups = append(c.groups, world.GroupAdded{Name: "all", Groups: cluster.AllGroups})
	for _, name := range names[2:4] {
		e := world.GroupAdded{Name: name, Minimum: int32(rapid.IntRange(1, 6).Draw(t, "minimum")), Queue: "team"}
		if rapid.Bool().Draw(t, "part") {
			e.Parent = "all"
		}
		if rapid.Bool().Draw(t, "wish") {
			e.Topology = []cluster.TopologyWish{{Level: cluster.Level(rapid.IntRange(0, 3).Draw(t, "level")), Required: rapid.Bool().Draw(t, "required")}}
			e.Comm = cluster.Pattern(rapid.IntRange(0, 2).Draw(t, "comm"))
		}
		c.groups = append(c.groups, e)
	}
}

// world tells the crew in its order.
func (c *crew) world(t fatal) *world.World {
	t.Helper()
	w := world.New()
	events := []world.Event{
		world.DomainAdded{Name: "zone", Level: cluster.LevelZone},
		world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"},
		world.QueueAdded{Name: "team", LimitMilli: 15000},
	}
	for _, n := range c.nodes {
		events = append(events, n)
	}
	for _, p := range c.pods {
		events = append(events, p)
	}
	for _, g := range c.groups { // after the pods, which have to be put in its queue
		events = append(events, g)
	}
	for _, e := range events {
		if err := w.Apply(0, e); err != nil {
			t.Fatalf("%T: %v", e, err)
		}
	}
	return w
}

// The same cluster told in another order is the same thought, twenty times:
// placements, order of decisions and reasons go by name.
func TestSameThoughtInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrew(t)
		c.band(t)
		all := policies()
		policy := all[rapid.IntRange(0, len(all)-1).Draw(t, "policy")]
		cycle := decision.Cycle{Number: 7, Seed: rapid.Int64().Draw(t, "seed")}
		w := c.world(t)
		snapshot := w.Snapshot()
		plan := engine.Decide(snapshot, cycle, policy, nil)
		want := lines(&plan, &snapshot.View)
		source := chance.New(cycle.Seed)
		for run := range 20 {
			shuffle(source, c.nodes)
			shuffle(source, c.pods)
			shuffle(source, c.groups)
			other := c.world(t).Snapshot()
			if other.Digest() != snapshot.Digest() {
				t.Fatalf("run %d: digest %#x, told in another order %#x", run, snapshot.Digest(), other.Digest())
			}
			again := engine.Decide(other, cycle, policy, nil)
			if diff := cmp.Diff(want, lines(&again, &other.View)); diff != "" {
				t.Fatalf("policy %s, run %d (-first +shuffled):\n%s", policy.Name, run, diff)
			}
			if a, b := plan.Digest(&snapshot.View), again.Digest(&other.View); a != b {
				t.Fatalf("policy %s, run %d: digests %#x and %#x", policy.Name, run, a, b)
			}
		}
	})
}

func shuffle[T any](source *chance.Source, list []T) {
	old := slices.Clone(list)
	for i, k := range source.Permutation(len(list)) {
		list[i] = old[k]
	}
}

// numbered decides ties, and turns, by the number in a name, so that names
// themselves do not count.
func numbered() *engine.Policy {
	number := func(name string) uint64 {
		n := uint64(0)
		for _, c := range []byte(name) {
			if c >= '0' && c <= '9' {
				n = n*10 + uint64(c-'0')
			}
		}
		return n
	}
	return &engine.Policy{
		Name: "numbered", Score: packed,
		Tie: func(v *cluster.View, node cluster.NodeID) uint64 { return number(v.Node(node).Spec.Name) },
		Order: func(v *cluster.View, _ decision.Cycle, pods []cluster.PodID) {
			slices.SortFunc(pods, func(a, b cluster.PodID) int {
				return int(number(v.Pod(a).Spec.Name)) - int(number(v.Pod(b).Spec.Name))
			})
		},
	}
}

// placed maps pods to the nodes that a fresh decision gives them.
func (c *crew) placed(t fatal, policy *engine.Policy) map[string]string {
	t.Helper()
	s := c.world(t).Snapshot()
	plan, out := engine.Decide(s, decision.Cycle{}, policy, nil), map[string]string{}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		out[s.Pod(d.Pod).Spec.Name] = decision.PlaceLine(&s.View, &d.Place)
	}
	return out
}

// Twice the CPU and memory everywhere changes no placement.
func TestDoubledUnitsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrew(t)
		want := c.placed(t, numbered())
		for i := range c.nodes {
			c.nodes[i].CPU *= 2
			c.nodes[i].Memory *= 2
		}
		for i := range c.pods {
			c.pods[i].Request.CPU *= 2
			c.pods[i].Request.Memory *= 2
		}
		if diff := cmp.Diff(want, c.placed(t, numbered())); diff != "" {
			t.Fatalf("placements (-before +doubled):\n%s", diff)
		}
	})
}

// Other names in the same order change no placement, save the names.
func TestRenamedPlanFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrew(t)
		for i := range c.pods {
			c.pods[i].Request.Selector = nil
		}
		want := map[string]string{}
		for pod, place := range c.placed(t, numbered()) {
			want["renamed-"+pod] = "renamed-" + place
		}
		for i := range c.nodes {
			c.nodes[i].Name = "renamed-" + c.nodes[i].Name
		}
		for i := range c.pods {
			c.pods[i].Name = "renamed-" + c.pods[i].Name
		}
		if diff := cmp.Diff(want, c.placed(t, numbered())); diff != "" {
			t.Fatalf("placements (-before +renamed):\n%s", diff)
		}
	})
}

// A node that hosts nothing and was not chosen makes no difference, with a
// policy that scores.
func TestUnusedNodeMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrew(t)
		policy := &engine.Policy{Name: "packed", Score: packed}
		want := c.placed(t, policy)
		used := map[string]bool{}
		for _, place := range want {
			for _, n := range c.nodes {
				used[n.Name] = used[n.Name] || place == n.Name || len(place) > len(n.Name) && place[:len(n.Name)+1] == n.Name+" "
			}
		}
		c.nodes = slices.DeleteFunc(c.nodes, func(n world.NodeAdded) bool { return !used[n.Name] })
		if len(c.nodes) == 0 {
			return
		}
		if diff := cmp.Diff(want, c.placed(t, policy)); diff != "" {
			t.Fatalf("placements (-with +without unused nodes):\n%s", diff)
		}
	})
}

// A policy that returns devices which do not hold the pod leaves it waiting, and
// the plan says so.
func TestRefusedGrantsLeaveThePodWaiting(t *testing.T) {
	c := crew{nodes: []world.NodeAdded{nodeKind(1, "n")}, pods: []world.PodAdded{{Name: "p", Request: requests[2]}}}
	s := c.world(t).Snapshot()
	plan := engine.Decide(s, decision.Cycle{}, careless(), nil)
	if len(plan.Decisions) != 0 || len(plan.Waiting) != 1 || plan.Waiting[0].Why.Code != decision.PolicyWaits {
		t.Errorf("plan: got %v, want the pod to wait for its policy", lines(&plan, &s.View))
	}
}

// A pod goes back to where it ran before as far as that is worth it.
func TestAffinityBringsAPodBack(t *testing.T) {
	for _, c := range []struct {
		affinity int64
		want     string
	}{{affinity: 0, want: "full"}, {affinity: 999, want: "full"}, {affinity: 2001, want: "before"}} {
		k := &town{t: t, from: &raw{}, w: world.New()}
		k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
		k.must(nodeKind(1, "before"))
		k.must(world.PodAdded{Name: "returns", Request: requests[2]})
		policy := &engine.Policy{Name: "affinity", Score: packed, Affinity: c.affinity}
		decide := func() {
			plan := engine.Decide(k.w.Snapshot(), decision.Cycle{}, policy, nil)
			for _, d := range plan.Decisions {
				k.must(world.Accepted{Decision: d})
			}
		}
		decide()
		k.must(world.Lost{Name: "returns"})
		k.must(nodeKind(1, "full"))
		k.must(world.PodAdded{Name: "resident", Request: requests[3]})
		k.bind("resident", "full")
		decide()
		v := k.w.View()
		pod, _ := k.w.Pod("returns")
		if got := v.Node(v.Pod(pod).Placement.Node).Spec.Name; got != c.want {
			t.Errorf("affinity %d: placed on %s, want %s", c.affinity, got, c.want)
		}
	}
}
