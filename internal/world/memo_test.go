package world_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// thought is a decision that was made without a memo, for making it again with
// one.
type thought struct {
	snapshot *cluster.Snapshot
	cycle    decision.Cycle
	policy   *engine.Policy
	plan     decision.Plan
}

func think(s *cluster.Snapshot, c decision.Cycle, p *engine.Policy) thought {
	return thought{snapshot: s, cycle: c, policy: p, plan: engine.Decide(s, c, p, nil)}
}

func (h *thought) again(t fatal, m *engine.Memo, memo string) {
	t.Helper()
	plan, v := engine.Decide(h.snapshot, h.cycle, h.policy, m), &h.snapshot.View
	if plan.Digest(v) == h.plan.Digest(v) {
		return
	}
	t.Fatalf("policy %s, cycle %d: with a memo that is %s the plan differs (-without +with):\n%s",
		h.policy.Name, h.cycle.Number, memo, cmp.Diff(lines(&h.plan, v), lines(&plan, v)))
}

// lines draws a plan: its decisions in order, its waiting pods by name.
func lines(p *decision.Plan, v *cluster.View) []string {
	var out []string
	for i := range p.Decisions {
		out = append(out, p.Decisions[i].Line(v))
	}
	start := len(out)
	for _, w := range p.Waiting {
		out = append(out, fmt.Sprintf("%s waits: %s (needs %d, has %d)", v.Pod(w.Pod).Spec.Name, w.Why.Describe(v), w.Why.Need, w.Why.Have))
	}
	slices.Sort(out[start:])
	return out
}

// A memo that is absent, fresh, kept, or stale in any way (from an older or newer
// snapshot, another world, another policy, another seed, other beliefs and facts)
// gives the same plan; every decision of the plan is accepted in order, and the
// books balance after each step.
func TestMemoNeverChangesThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		all := policies()
		towns := []*town{newTown(t, from), newTown(t, from)}
		kept := map[*town]*engine.Memo{towns[0]: new(engine.Memo), towns[1]: new(engine.Memo)}
		main := all[from.below(len(all))]
		var stale engine.Memo
		var past []thought
		for number := range uint64(3 + from.below(10)) {
			c := towns[max(0, from.below(4)-2)]
			for range from.below(6) {
				c.step()
				c.audit()
			}
			cycle := decision.Cycle{Number: number, Now: c.at, Seed: 1}
			now := think(c.w.Snapshot(), cycle, main)
			now.again(t, new(engine.Memo), "fresh")
			now.again(t, kept[c], "kept")
			now.again(t, kept[c], "kept from the same snapshot")

			// Anything may come between for a memo that is passed around.
			cycle.Seed = int64(from.below(2))
			other := think(now.snapshot, cycle, all[from.below(len(all))])
			past = append(past, now, other)
			for range 3 {
				past[from.below(len(past))].again(t, &stale, "stale")
			}
			if from.below(4) > 0 {
				c.carry(&now.plan)
			}
		}
	})
}

// A node that takes over the row of another, alike in all but its name, is not
// mistaken for it: neither in ties nor in labels.
func TestMemoTellsANodeFromItsSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		c := newTown(t, from)
		var m engine.Memo
		policy := &engine.Policy{Name: "no score"}
		for _, name := range []string{"a", "b", "c"} {
			c.must(nodeKind(1, name))
		}
		for number := range uint64(8) {
			c.addPod()
			now := think(c.w.Snapshot(), decision.Cycle{Number: number, Seed: 4}, policy)
			now.again(t, &m, "kept")
			for _, name := range []string{"a", "b", "c"} {
				if _, there := c.w.Node(name); there {
					c.must(world.NodeRemoved{Name: name})
				}
			}
			for _, name := range rapid.Permutation([]string{"a", "b", "c", "node-1", "node-3"}).Draw(t, "order")[:3] {
				if _, there := c.w.Node(name); !there {
					c.must(nodeKind(1, name))
				}
			}
		}
	})
}

// Nodes in equal states are told apart by who runs on them, for a policy that
// looks at that.
func TestMemoSeesResidents(t *testing.T) {
	for seed := range int64(20) {
		c := &town{t: t, from: &raw{}, w: world.New()}
		c.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
		c.must(nodeKind(1, "a"))
		c.must(nodeKind(1, "b"))
		var m engine.Memo
		residents, cycle := policies()[3], decision.Cycle{Seed: seed}
		twin := requests[2]
		twin.Tolerations = []world.Toleration{{Key: "other"}}
		c.must(world.PodAdded{Name: "alike", Request: requests[2]})
		c.must(world.PodAdded{Name: "twin", Request: twin})
		c.bind("alike", "b")
		c.must(world.PodAdded{Name: "new", Request: requests[2]})
		now := think(c.w.Snapshot(), cycle, residents)
		now.again(t, &m, "fresh")
		c.must(world.PodRemoved{Name: "alike"})
		c.bind("twin", "b")
		now = think(c.w.Snapshot(), cycle, residents)
		now.again(t, &m, "kept")
	}
}
