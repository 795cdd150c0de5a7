package world_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
)

// note remembers what the cluster would tell again after a restart.
func (c *town) note(e world.Event) {
	if c.told == nil {
		c.told = make(map[string]world.Event)
	}
	switch e := e.(type) {
	case world.NodeAdded:
		c.told["node "+e.Name] = e
	case world.NodeChanged:
		c.told["node "+e.Name] = e.NodeAdded
	case world.PodAdded:
		c.told["pod "+e.Name] = e
	case world.PodChanged:
		p := c.told["pod "+e.Name].(world.PodAdded)
		p.Priority, p.SLATotal, p.Expected, p.Protected, p.PreemptNever = e.Priority, e.SLATotal, e.Expected, e.Protected, e.PreemptNever
		p.Request, p.Alternatives = e.Request, e.Alternatives
		c.told["pod "+e.Name] = p
	case world.PodLabelled:
		p := c.told["pod "+e.Name].(world.PodAdded)
		p.Labels = e.Labels
		c.told["pod "+e.Name] = p
	case world.NamespaceKnown:
		c.told["namespace "+e.Name] = e
	case world.NamespaceGone:
		delete(c.told, "namespace "+e.Name)
	case world.Guarded:
		c.told["guard "+e.Name] = e
	case world.JobAdded:
		c.told["job "+e.Name] = e
	case world.JobChanged:
		c.told["job "+e.Name] = world.JobAdded(e)
	case world.JobRemoved:
		delete(c.told, "job "+e.Name)
	}
}

// facts are what the cluster tells a scheduler that starts.
func (c *town) facts() []world.Event {
	v := c.w.View()
	out := []world.Event{
		world.DomainAdded{Name: "zone", Level: cluster.LevelZone},
		world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"},
		world.QueueAdded{Name: "root", LimitMilli: 20000},
		world.QueueAdded{Name: "team", Parent: "root", LimitMilli: 9000},
	}
	for i := range v.Budgets.Len() {
		out = append(out, world.BudgetKnown{Name: v.Budgets.At(int32(i)).Name, Left: v.Budgets.At(int32(i)).Left})
	}
	for i := range v.Groups.Len() {
		g := v.Group(cluster.GroupID(i))
		if id, named := c.w.Group(g.Name); !g.Known || !named || int(id) != i {
			continue
		}
		e := world.GroupAdded{Name: g.Name, Minimum: g.Minimum, Wished: g.Wished, Hold: g.Hold, Groups: g.Groups, Topology: g.Topology, Comm: g.Comm}
		if g.Queue != cluster.None {
			e.Queue = v.Queue(g.Queue).Name
		}
		if g.Parent != cluster.None {
			e.Parent = v.Group(g.Parent).Name
		}
		out = append(out, e)
	}
	for _, key := range slices.Sorted(maps.Keys(c.told)) {
		switch e := c.told[key].(type) {
		case world.NamespaceKnown, world.JobAdded:
			out = append(out, e)
		case world.NodeAdded:
			id, known := c.w.Node(e.Name)
			if !known {
				continue
			}
			n := v.Node(id)
			e.Life = n.Life
			out = append(out, e)
			for i := range n.Spec.DeviceCount {
				out = append(out, world.DeviceHealth{Node: e.Name, Device: i, Health: v.DeviceOf(n, i).Health})
			}
		case world.PodAdded:
			id, known := c.w.Pod(e.Name)
			if !known {
				continue
			}
			out = append(out, e)
			if guard, guarded := c.told["guard "+e.Name]; guarded && v.BudgetOf(v.Pod(id)) != nil {
				out = append(out, guard)
			}
			if p := v.Pod(id); p.Phase >= cluster.PhaseBound {
				out = append(out, world.PodFound{Name: e.Name, Node: v.Node(p.Placement.Node).Spec.Name})
			}
		}
	}
	return out
}

// restart builds the world anew from what the cluster tells and what was written down.
// Both must be what they were; beliefs, and what the rim found out, are told later.
func (c *town) restart() {
	c.t.Helper()
	anew := world.New()
	for _, e := range slices.Concat(c.facts(), c.w.Commitments(), c.w.Beliefs(c.at)) {
		if err := anew.Apply(c.at, e); err != nil {
			c.t.Fatalf("a restart refuses %T %+v: %v", e, e, err)
		}
	}
	if a, b := c.w.View().Committed(), anew.View().Committed(); a != b {
		was, is := c.w.Commitments(), anew.Commitments()
		for i := range was {
			if len(was) != len(is) || !reflect.DeepEqual(was[i], is[i]) {
				c.t.Fatalf("a restart comes to another state, first with %+v, which was %+v", is[min(i, len(is)-1)], was[i])
			}
		}
		c.t.Fatalf("a restart comes to digest %#x, it was %#x", b, a)
	}
	c.w, c.demand = anew, learn.Demand{} // shapes have other ids now
	c.audit()
}

// What cannot be read back is named, and changes nothing.
func TestRecallRefusesWhatIsNotSound(t *testing.T) {
	k := oneNode(t)
	for _, c := range []struct {
		event world.Event
		want  string
	}{
		{world.PodRecalled{Name: "x"}, `pod "x": no such pod`},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound}, "pod p: phase 4, with a place: false: one that waits has none, one that does not has one"},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseWaiting, Queue: "q"}, `pod p: queue "q": no such queue`},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound, Place: &world.Place{Node: "m"}}, `pod p: node "m": no such node`},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound, Place: &world.Place{Node: "n"}, Share: &world.Share{Milli: 2000}}, "pod p: share of 2000 milli-GPU: it does not ask for a share of one device"},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound, Place: &world.Place{Node: "n", Choice: 1}}, "pod p: choice 1: it would take 1"},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound, Place: &world.Place{Node: "n", Grants: []world.Held{{Device: 4}}}}, "pod p: device 4: node n has 4"},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound, Place: &world.Place{Node: "n", Grants: []world.Held{{Profile: "1g"}}}}, "pod p: device 0: it has no profile 1g"},
		{world.PodRecalled{Name: "p", Phase: cluster.PhaseBound, Place: &world.Place{Node: "n", Lease: &cluster.Lease{Lent: nil}, Grants: []world.Held{{Milli: 500}}}}, "pod p: lease: it lends of 0 devices, and holds 1"},
		{world.IntentRecalled{Pod: "p"}, "pod p: decision 0: it is under way with -1 already, or has no id"},
		{world.IntentRecalled{Pod: "p", ID: 1, Place: world.Place{Node: "n"}, Budget: "b"}, `pod p: budget "b": no such budget`},
		{world.LegacyRecalled{Name: "p", Owner: "web"}, `legacy 0000000000000000 of "p", owner "web": it needs an id that is new, a name, and an owner`},
		{world.LegacyRecalled{ID: 1, Name: "p", Owner: "web", Request: world.Request{CPU: -1}}, "legacy of p: cpu -1, memory 0: must not be negative"},
		{world.LegacyRecalled{ID: 1, Name: "p", Owner: "web", Heir: "x"}, `legacy of p: pod "x": no such pod`},
		{world.LegacyRecalled{ID: 1, Name: "p", Owner: "web", Of: "p", Surge: true}, "legacy of p: the decision is not under way for it"},
		{world.LegacyRecalled{ID: 1, Name: "p", Owner: "web", Surge: true}, "legacy of p: the decision is not under way for it"},
		{world.LegacyRecalled{ID: 1, Name: "p", Owner: "web", Place: world.Place{Node: "m"}}, `legacy of p: node "m": no such node`},
		{world.PodRests{Name: "p", Since: 1 << 60}, "pod p: rests since 13343998d21h, now 0s: must be past"},
		{world.LegacyDropped{ID: 1}, "legacy 0000000000000001: nothing is kept by such a decision"},
		{world.GroupRecalled{Name: "g"}, `group "g": no such group`},
		{world.JobRecalled{Name: "j"}, `job "j": no such job`},
		{world.Excused{Nodes: []string{"m"}}, `node "m": no such node`},
		{world.Excused{Queues: []string{"q"}}, `queue "q": no such queue`},
	} {
		before := k.w.View().Digest()
		if err := k.w.Apply(k.at, c.event); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.event, err, c.want)
		}
		if k.w.View().Digest() != before {
			t.Errorf("%+v: it is refused, and the world has changed", c.event)
		}
	}
}
