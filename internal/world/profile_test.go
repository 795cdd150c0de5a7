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
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// A cycle of one profile decides about its own pods only; those of others are
// neither placed nor given a reason. Without a profile, all are in the line.
func TestCycleOfAProfileDecidesItsOwnPods(t *testing.T) {
	for _, policy := range policies() {
		k := &town{t: t, from: &raw{}, w: world.New(), at: 10}
		k.must(world.DomainAdded{Name: "zone", Level: cluster.LevelZone})
		k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"})
		k.must(nodeKind(1, "node"))
		for i, profile := range []string{"blue", "green", "blue", ""} {
			k.must(world.PodAdded{Name: fmt.Sprint("fits-", i), Request: requests[0], Policy: profile})
			k.must(world.PodAdded{Name: fmt.Sprint("not-", i), Request: requests[11], Policy: profile})
		}
		s := k.w.Snapshot()
		told := func(c decision.Cycle) (placed, waiting []string) {
			plan := engine.Decide(s, c, policy, nil)
			for i := range plan.Decisions {
				placed = append(placed, s.Pod(plan.Decisions[i].Pod).Spec.Name)
			}
			for _, w := range plan.Waiting {
				waiting = append(waiting, s.Pod(w.Pod).Spec.Name)
			}
			slices.Sort(placed)
			slices.Sort(waiting)
			return placed, waiting
		}
		placed, waiting := told(decision.Cycle{Profile: k.w.Symbol("blue")})
		if policy.Round == nil && !slices.Equal(placed, []string{"fits-0", "fits-2"}) {
			t.Errorf("policy %s, profile blue: placed %v", policy.Name, placed)
		}
		if all := append(placed, waiting...); !slices.Contains(waiting, "not-0") || slices.ContainsFunc(all, func(name string) bool { return name[len(name)-1] != '0' && name[len(name)-1] != '2' }) {
			t.Errorf("policy %s, profile blue: placed %v, waiting %v", policy.Name, placed, waiting)
		}
		if placed, waiting := told(decision.Cycle{}); len(placed)+len(waiting) != 8 {
			t.Errorf("policy %s, no profile: placed %v, waiting %v, want all eight pods", policy.Name, placed, waiting)
		}
	}
}

// The line is in the order of the turns: by priority, then by arrival.
func TestLine(t *testing.T) {
	k := &town{t: t, from: &raw{}, w: world.New()}
	for i, priority := range []int32{1, 5, 1, 9} {
		k.at++
		k.must(world.PodAdded{Name: fmt.Sprint(i), Request: requests[0], Priority: priority})
	}
	v := &k.w.Snapshot().View
	var got []string
	for _, id := range engine.Line(v, decision.Cycle{Now: k.at}, engine.Headrace()) {
		got = append(got, v.Pod(id).Spec.Name)
	}
	if want := []string{"3", "1", "0", "2"}; !slices.Equal(got, want) {
		t.Errorf("line %v, want %v", got, want)
	}
}

// An explanation counts all nodes that fit, and its runners-up are the best of
// them by score and tie, as looking at every node finds them; whether it lists
// them changes no plan.
func TestRunnersUpAreTheNextBest(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		c, memo := newTown(t, drawn{t: t}), new(engine.Memo)
		policy := &engine.Policy{Name: "packed", Score: packed}
		for number := range uint64(12) {
			c.step()
			s, cycle := c.w.Snapshot(), decision.Cycle{Number: number, Now: c.at, Seed: 1}
			plain := engine.Decide(s, cycle, policy, nil)
			cycle.RunnersUp = 3
			plan := engine.Decide(s, cycle, policy, memo)
			if plan.Digest(&s.View) != plain.Digest(&s.View) {
				t.Fatalf("cycle %d: the plan differs", number)
			}
			if len(plan.Decisions) == 1 && plan.Decisions[0].Action == cluster.ActionBind { // nothing was placed before it
				compared++
				checkRunnersUp(t, &s.View, &plan.Decisions[0], cycle)
			}
			for _, d := range plan.Decisions {
				c.may(world.Accepted{Decision: d})
			}
		}
	})
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

func checkRunnersUp(t *rapid.T, v *cluster.View, d *decision.Decision, c decision.Cycle) {
	var fits []cluster.NodeID
	for i := range v.Nodes.Len() {
		if node := cluster.NodeID(i); fit.Check(v, d.Place.Shape, node).None() {
			fits = append(fits, node)
		}
	}
	if int(d.Because.Feasible) != len(fits) {
		t.Fatalf("%d nodes fit, the explanation counts %d", len(fits), d.Because.Feasible)
	}
	tie := func(node cluster.NodeID) uint64 { return chance.Hash(uint64(c.Seed), v.Node(node).Key) }
	slices.SortFunc(fits, func(a, b cluster.NodeID) int {
		x, y := packed(v, 0, a), packed(v, 0, b)
		if x > y || x == y && (tie(a) < tie(b) || tie(a) == tie(b) && a < b) {
			return -1
		}
		return 1
	})
	var want, got []decision.RunnerUp
	for _, node := range fits {
		if node != d.Place.Node && len(want) < int(c.RunnersUp) {
			want = append(want, decision.RunnerUp{Node: node, Score: decision.Score{Total: packed(v, 0, node)}})
		}
	}
	got = d.Because.RunnersUp
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("runners-up (-want +got):\n%s", diff)
	}
}

// For a pod whose place depends on other pods, only nodes count where those let
// it be; where none does, it is said what would help.
func TestExplanationsKnowRelations(t *testing.T) {
	k := &town{t: t, from: &raw{}, w: world.New(), at: 10}
	k.must(world.DomainAdded{Name: "zone", Level: cluster.LevelZone})
	k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"})
	for i := range 3 {
		k.must(nodeKind(0, fmt.Sprint("node-", i)))
	}
	port := []world.Port{{Number: 80}}
	for i, feasible := range []int32{3, 2, 1} {
		name := fmt.Sprint("pod-", i)
		k.must(world.PodAdded{Name: name, Request: requests[0], Ports: port})
		plan := engine.Decide(k.w.Snapshot(), decision.Cycle{RunnersUp: 3}, &engine.Policy{Name: "packed", Score: packed}, nil)
		if len(plan.Decisions) != 1 {
			t.Fatalf("%s: %d decisions, want 1", name, len(plan.Decisions))
		}
		d := plan.Decisions[0]
		if d.Because.Feasible != feasible || len(d.Because.RunnersUp) != int(feasible)-1 {
			t.Errorf("%s: %d nodes could take it, %d runners-up; want %d and %d", name, d.Because.Feasible, len(d.Because.RunnersUp), feasible, feasible-1)
		}
		k.must(world.Accepted{Decision: d})
	}
	k.must(world.PodAdded{Name: "late", Request: requests[0], Ports: port})
	v := &k.w.Snapshot().View
	late, _ := k.w.Pod("late")
	shape := v.Pod(late).Spec.Shape
	survey := fit.AskPod(v, late, shape)
	if survey.Fits != 0 || survey.Reason.Code != decision.NodePorts || survey.Reason.Nodes != 3 {
		t.Errorf("late: %+v, want that the port is taken on all three nodes", survey)
	}
	if got := fit.Remedies(v, shape, &survey); !slices.Equal(got, []string{"host port 80 free on one of node-0, node-1, node-2"}) {
		t.Errorf("late: remedies %q", got)
	}
	if plain := fit.Ask(v, shape); plain.Fits != 3 {
		t.Errorf("its shape alone fits on %d nodes, want 3", plain.Fits)
	}
}
