package world_test

import (
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// oneNode is a town with a node of four cards and a pod that asks for one.
func oneNode(t *testing.T) *town {
	t.Helper()
	k := &town{t: t, from: &raw{}, w: world.New()}
	k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
	k.must(nodeKind(1, "n"))
	k.must(world.PodAdded{Name: "p", Request: requests[2]})
	return k
}

// settle accepts what a cycle decides, and says how many decisions that were.
func (c *town) settle(policy *engine.Policy) int {
	c.t.Helper()
	plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: uint64(c.at), Now: c.at}, policy, nil)
	for _, bundle := range plan.Bundles() {
		c.must(world.Acceptance(bundle))
	}
	return len(plan.Decisions)
}

func (c *town) row(name string) *cluster.Pod {
	id, _ := c.w.Pod(name)
	return c.w.View().Pod(id)
}

// refuseTillAside refuses each bind of p until it is set aside, and returns how long it
// was not tried after each.
func refuseTillAside(k *town) (spans []moment.Span) {
	for {
		if k.settle(engine.Headrace()) != 1 {
			k.t.Fatalf("after %d refusals, at %v: no bind", len(spans), k.at)
		}
		k.must(world.BindRefused{Name: "p"})
		k.audit()
		if k.settle(engine.Headrace()) != 0 {
			k.t.Fatalf("after %d refusals: tried again at once", len(spans)+1)
		}
		until := k.row("p").Refused.Until
		if until == moment.Never {
			return spans
		}
		spans = append(spans, until.Since(k.at))
		k.at = until - 1
		if k.settle(engine.Headrace()) != 0 {
			k.t.Fatalf("after %d refusals: tried again too early", len(spans))
		}
		k.at = until
	}
}

// Each refusal doubles the time until the next try, up to five minutes and a quarter
// more; the twelfth sets the pod aside.
func TestRefusedBindsBackOff(t *testing.T) {
	k := oneNode(t)
	spans := refuseTillAside(k)
	if len(spans) != 11 {
		t.Fatalf("%d refusals before it is set aside, want 11 and the twelfth", len(spans))
	}
	least := moment.Second
	for i, got := range spans {
		if got < least || got > least+least/4 {
			t.Errorf("refusal %d: not tried for %v, want %v to a quarter more", i+1, got, least)
		}
		least = min(2*least, 5*moment.Minute)
	}
	k.at = k.at.Add(moment.Day)
	plan := engine.Decide(k.w.Snapshot(), decision.Cycle{Now: k.at}, engine.Headrace(), nil)
	if len(plan.Decisions) != 0 || len(plan.Waiting) != 1 || plan.Waiting[0].Why.Code != decision.SetAside {
		t.Fatalf("a day later: %v, want it set aside", lines(&plan, k.w.View()))
	}
	if got, want := plan.Waiting[0].Why.Describe(k.w.View()), "set aside after 12 refused binds, the last on n; a change of the pod or of that node brings it back"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A pod that was set aside comes back with a change of itself or of the node; with no
// other.
func TestAChangeBringsBackWhoWasSetAside(t *testing.T) {
	for _, c := range []struct {
		name string
		do   world.Event
		back bool
	}{
		{name: "labels", do: world.PodLabelled{Name: "p", Labels: map[string]string{"a": "b"}}, back: true},
		{name: "its node", do: world.NodeChanged{NodeAdded: nodeKind(1, "n")}, back: true},
		{name: "another node", do: world.NodeChanged{NodeAdded: nodeKind(1, "m")}},
		{name: "a new pod", do: world.PodAdded{Name: "q", Request: requests[2]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := oneNode(t)
			refuseTillAside(k)
			k.must(world.NodeAdded(nodeKind(2, "m")))
			k.must(c.do)
			k.audit()
			if got := k.row("p").Refused.Count == 0; got != c.back {
				t.Errorf("back in line: %v, want %v", got, c.back)
			}
		})
	}
}

// What was withdrawn was not refused; a bind that succeeds ends the count.
func TestWhatDoesNotCountAsRefused(t *testing.T) {
	k := oneNode(t)
	k.settle(engine.Headrace())
	k.must(world.BindRefused{Name: "p", Withdrawn: true})
	if got := k.row("p").Refused; got.Count != 0 || k.settle(engine.Headrace()) != 1 {
		t.Fatalf("withdrawn: %+v, want it tried again at once", got)
	}
	k.must(world.BindRefused{Name: "p"})
	k.at = k.row("p").Refused.Until
	k.settle(engine.Headrace())
	k.must(world.Bound{Name: "p"})
	if got := k.row("p").Refused; got != (cluster.Refusals{}) || len(k.w.View().Refused()) != 0 {
		t.Errorf("bound: %+v, want nothing", got)
	}
	k.audit()
}

// A victim whose eviction was refused is left alone for a while, whoever asks; nothing is
// remembered of it when it has gone.
func TestRefusedEvictionsBackOff(t *testing.T) {
	k := oneNode(t)
	k.must(world.PodRemoved{Name: "p"})
	k.must(world.PodAdded{Name: "low", Request: requests[4]}) // the whole node
	k.bind("low", "n")
	k.must(world.PodAdded{Name: "high", Priority: 1000, Request: requests[2]})
	policy := engine.Headrace().Preempting()
	for n := int32(1); n <= 3; n++ {
		if k.settle(policy) != 2 {
			t.Fatalf("before refusal %d: want an eviction and a bind", n)
		}
		k.must(world.EvictRefused{Name: "low"})
		k.audit()
		if got := k.row("low").Kept; got.Count != n || k.settle(policy) != 0 {
			t.Fatalf("after refusal %d: %+v, want it left alone", n, got)
		}
		k.at = k.row("low").Kept.Until
	}
	k.settle(policy)
	k.must(world.EvictRefused{Name: "low", Withdrawn: true})
	if got := k.row("low").Kept.Count; got != 3 || k.settle(policy) != 2 {
		t.Fatalf("withdrawn: refused %d times, want 3, and tried again", got)
	}
	k.must(world.Evicted{Name: "low"})
	if got := k.row("low").Kept; got != (cluster.Refusals{}) {
		t.Errorf("gone: %+v, want nothing", got)
	}
	k.audit()
}

// The world refuses a bind that comes before its time.
func TestNoBindBeforeItsTime(t *testing.T) {
	k := oneNode(t)
	s := k.w.Snapshot()
	plan := engine.Decide(s, decision.Cycle{}, engine.Headrace(), nil)
	k.must(world.Acceptance(plan.Decisions[:1]))
	k.must(world.BindRefused{Name: "p"})
	err := k.w.Apply(k.at, world.Acceptance(plan.Decisions[:1]))
	if err == nil || !strings.Contains(err.Error(), "it backs off until 1s") {
		t.Errorf("got %v, want that it backs off", err)
	}
}
