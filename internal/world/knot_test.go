package world_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// tangledTown is a few nodes on which another scheduler has bound a part of each of some
// groups, whose members fit on some of the nodes only; a few of them wait in a queue with
// a limit.
func tangledTown(t testing.TB, seed int64) (k *town, needs map[string]int32) {
	s := chance.New(seed)
	k, needs = &town{t: t, w: world.New()}, make(map[string]int32)
	k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
	nodes := 2 + int(s.Below(2))
	for i := range nodes {
		k.must(nodeKind(1, fmt.Sprintf("n%d", i)))
	}
	limited := s.Below(3) == 0
	if limited {
		k.must(world.QueueAdded{Name: "q", LimitMilli: 5000})
	}
	free := make([]int, nodes)
	for i := range free {
		free[i] = 4
	}
	limit := 5
	for g := range 2 + int(s.Below(3)) {
		name := fmt.Sprintf("g%d", g)
		held, queue := 1+int(s.Below(3)), ""
		if limited && s.Below(2) == 0 && held <= limit {
			queue = "q"
			limit -= held
		}
		needs[name] = int32(held) + 1 + int32(s.Below(2))
		k.must(world.GroupAdded{Name: name, Minimum: needs[name], Hold: moment.Span(1+s.Below(3)) * moment.Minute})
		for m := range int(needs[name]) {
			k.at = k.at.Add(moment.Second)
			pod := fmt.Sprintf("%s-%d", name, m)
			k.must(world.PodAdded{Name: pod, Group: name, Queue: queue, Request: requests[2]})
			node := int(s.Below(int64(nodes)))
			if m < held && free[node] > 0 {
				free[node]--
				k.must(world.PodFound{Name: pod, Node: fmt.Sprintf("n%d", node)})
			}
		}
	}
	return k, needs
}

// spin runs a cycle and carries it out. It returns the plan, and the view that it was made
// for.
func (c *town) spin(seed int64, policy *engine.Policy, memo *engine.Memo) (decision.Plan, *cluster.View) {
	s := c.w.Snapshot()
	plan := engine.Decide(s, decision.Cycle{Number: uint64(c.at), Now: c.at, Seed: seed, Kind: decision.CycleReview}, policy, memo)
	for _, bundle := range plan.Bundles() {
		c.must(world.Acceptance(bundle))
		for _, d := range bundle {
			name := c.w.View().Pod(d.Pod).Spec.Name
			if d.Action == cluster.ActionEvict {
				c.must(world.Evicted{Name: name})
				continue
			}
			c.must(world.Bound{Name: name})
		}
	}
	c.audit()
	return plan, &s.View
}

// Groups that hold a part of what they need come out of it: within a few cycles each of
// them has started, one after the other as those before end, and none is stuck. Of each
// knot the one that has waited longest, of those whom the room of the others helps, is
// never told to give back.
func TestKnotsComeUndone(t *testing.T) {
	seen := 0
	for seed := range int64(300) {
		k, needs := tangledTown(t, seed)
		policy, memo := engine.Headrace(), engine.Memo{}
		started := make(map[string]bool)
		keepers := make(map[string]moment.Instant)
		for range 200 {
			plan, v := k.spin(seed, policy, &memo)
			for _, w := range plan.Waiting {
				if w.Why.Code == decision.Knot {
					seen++
					if w.Why.Have == 1 {
						keepers[v.Group(w.Why.Group).Name] = k.at
					}
					for _, l := range *w.Why.Ring {
						if g := v.Group(l.Group); !g.Stuck() {
							t.Fatalf("seed %d: %s is in a ring, and holds nothing without use", seed, g.Name)
						}
					}
				}
			}
			for _, d := range plan.Decisions {
				g := v.Group(v.Pod(d.Pod).Spec.Group)
				if d.Action == cluster.ActionEvict && keepers[g.Name] == k.at {
					t.Fatalf("seed %d, at %v: %s has waited longest in its knot, and gives back", seed, k.at, g.Name)
				}
			}
			for name := range needs { // order: each by itself
				id, _ := k.w.Group(name)
				if !k.w.View().Group(id).Whole() || started[name] {
					continue
				}
				started[name] = true
				for m := range int(needs[name]) { // it has run, and ends
					k.must(world.PodRemoved{Name: fmt.Sprintf("%s-%d", name, m)})
				}
			}
			k.at = k.at.Add(15 * moment.Second)
		}
		if len(started) != len(needs) {
			t.Fatalf("seed %d: of %v only %v started", seed, needs, started)
		}
	}
	if seen < 300 {
		t.Fatalf("%d times somebody was in a knot: too few to show anything", seen)
	}
}

// What is said to be a knot is one: with everything else gone, no order in which groups
// start and end lets any of those in it start. Two by two: all orders are tried.
func TestKnotsAgainstAllOrders(t *testing.T) {
	seen, free := 0, 0
	for seed := range int64(400) {
		k, _ := tangledTown(t, seed)
		plan, v := k.spin(seed, engine.Headrace(), nil)
		said := make(map[cluster.GroupID]bool)
		for _, w := range plan.Waiting {
			if w.Why.Code == decision.Knot {
				said[w.Why.Group] = true
			}
		}
		ever := make(map[cluster.GroupID]bool)
		stuck := tangledGroups(v)
		tryOrders(v, stuck, ever)
		for _, id := range stuck {
			switch {
			case said[id] && ever[id]:
				t.Fatalf("seed %d: group %s is said to be in a knot, and starts in some order", seed, v.Group(id).Name)
			case said[id]:
				seen++
			case ever[id]:
				free++
			}
		}
	}
	if seen < 50 || free < 50 {
		t.Fatalf("%d groups in knots, %d not: too few to show anything", seen, free)
	}
}

func tangledGroups(v *cluster.View) (out []cluster.GroupID) {
	for i := range v.Groups.Len() {
		if v.Group(cluster.GroupID(i)).Stuck() {
			out = append(out, cluster.GroupID(i))
		}
	}
	return out
}

// tryOrders marks who starts in any order: by counting cards alone, since all pods here
// ask for one and fit everywhere.
func tryOrders(v *cluster.View, stuck []cluster.GroupID, ever map[cluster.GroupID]bool) {
	cards, used := int64(0), int64(0)
	for i := range v.Nodes.Len() {
		cards += int64(v.Node(cluster.NodeID(i)).Spec.DeviceCount)
	}
	for _, id := range stuck {
		used += int64(v.Group(id).Placed)
	}
	queueOf := func(id cluster.GroupID) (cluster.QueueID, int64) {
		for pod := range v.Members(id) {
			q := v.Pod(pod).Spec.Queue
			return q, int64(v.Group(id).Placed)
		}
		return cluster.None, 0
	}
	var walk func(gone map[cluster.GroupID]bool)
	walk = func(gone map[cluster.GroupID]bool) {
		free, left := cards-used, int64(5)
		for _, id := range stuck {
			q, held := queueOf(id)
			if gone[id] {
				free += held
			} else if q != cluster.None {
				left -= held
			}
		}
		for _, id := range stuck {
			q, held := queueOf(id)
			lacks := int64(v.Group(id).Minimum) - held
			if gone[id] || lacks > free || q != cluster.None && lacks > left {
				continue
			}
			ever[id], gone[id] = true, true
			walk(gone)
			delete(gone, id)
		}
	}
	walk(make(map[cluster.GroupID]bool))
}
