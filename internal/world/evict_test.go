package world_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

func (c *town) phase(name string) cluster.Phase {
	id, _ := c.w.Pod(name)
	return c.w.View().Pod(id).Phase
}

// A pod whose eviction is refused is again what it was before.
func TestEvictRefused(t *testing.T) {
	for _, runs := range []bool{false, true} {
		k := &town{t: t, from: &raw{}, w: world.New(), at: 10}
		k.must(plugged("n", 16000))
		k.must(gpus("p", 1))
		k.must(world.PodFound{Name: "p", Node: "n"})
		if runs {
			k.at = k.at.Add(moment.Second)
			k.must(world.Started{Name: "p"})
		}
		before := k.phase("p")
		k.must(world.Leaving{Name: "p"})
		if k.phase("p") != cluster.PhaseTerminating {
			t.Fatalf("it is %v, want terminating", k.phase("p"))
		}
		k.must(world.EvictRefused{Name: "p"})
		k.audit()
		if got := k.phase("p"); got != before {
			t.Errorf("after the refusal it is %v, want %v", got, before)
		}
	}
}

// A reservation overdraws the node until those before it have left, and keeps
// others off what they leave.
func TestReserved(t *testing.T) {
	k := &town{t: t, from: &raw{}, w: world.New(), at: 10}
	k.must(plugged("n", 16000)) // 4 GPUs
	for _, name := range []string{"a", "b"} {
		k.must(gpus(name, 2))
		k.must(world.PodFound{Name: name, Node: "n"})
	}
	k.must(gpus("heir", 3))
	k.must(world.Reserved{Name: "heir", Node: "n"})
	for _, step := range []struct {
		leaves    string
		idle      int32
		overdrawn bool
	}{{"", 0, true}, {"a", 0, true}, {"b", 1, false}} {
		if step.leaves != "" {
			k.must(world.PodRemoved{Name: step.leaves})
		}
		k.audit()
		if idle, overdrawn := k.idle("n"); idle != step.idle || overdrawn != step.overdrawn {
			t.Errorf("after %q left: %d idle, overdrawn %t; want %d, %t", step.leaves, idle, overdrawn, step.idle, step.overdrawn)
		}
	}
	k.must(world.Bound{Name: "heir"})
	k.audit()
	if got := k.phase("heir"); got != cluster.PhaseBound {
		t.Errorf("the heir is %v, want bound", got)
	}
}
