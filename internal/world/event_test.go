package world_test

import (
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// settled returns a world with a domain, a queue, a node and a pod in each phase
// that events ask for.
func settled(t *testing.T) *town {
	t.Helper()
	c := &town{t: t, from: &raw{}, w: world.New(), at: 10}
	c.must(world.DomainAdded{Name: "zone", Level: cluster.LevelZone})
	c.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"})
	c.must(world.QueueAdded{Name: "team"})
	c.must(nodeKind(1, "node"))
	for _, name := range []string{"placing", "bound", "leaving"} {
		c.must(world.PodAdded{Name: name, Request: requests[0]})
	}
	c.decide(t)
	c.must(world.Bound{Name: "bound"})
	c.must(world.Bound{Name: "leaving"})
	c.must(world.Started{Name: "leaving"})
	c.evict("leaving")
	c.must(world.PodAdded{Name: "waiting", Request: requests[0]})
	return c
}

// decide carries a plan out and returns its decisions.
func (c *town) decide(t *testing.T) []decision.Decision {
	t.Helper()
	plan := engine.Decide(c.w.Snapshot(), decision.Cycle{}, engine.Headrace(), nil)
	for _, d := range plan.Decisions {
		c.must(world.Accepted{Decision: d})
	}
	return plan.Decisions
}

// An event that cannot be applied is an error that names the field and the
// value, and changes nothing, the clock included.
func TestRefusedEventsNameFieldAndValue(t *testing.T) {
	node := func(edit func(*world.NodeAdded)) world.Event {
		e := nodeKind(3, "new")
		edit(&e)
		return e
	}
	device := func(edit func(*world.Device)) world.Event {
		return node(func(e *world.NodeAdded) { edit(&e.Devices[2]) })
	}
	pod := func(edit func(*world.Request)) world.Event {
		e := world.PodAdded{Name: "new", Request: world.Request{Devices: []world.DeviceRequest{{Count: 1, Milli: 500}}}}
		edit(&e.Request)
		return e
	}
	request := func(r world.DeviceRequest) world.Event {
		return pod(func(q *world.Request) { q.Devices = append(q.Devices, r) })
	}
	for _, c := range []struct {
		event world.Event
		want  string
	}{
		{world.DomainAdded{}, `domain: name "": must be new and not empty`},
		{world.DomainAdded{Name: "zone"}, `domain: name "zone": must be new`},
		{world.DomainAdded{Name: "new", Parent: "moon"}, `domain new: parent "moon": no such domain`},
		{world.DomainAdded{Name: "new", Level: 9}, `domain new: level 9: no such level`},
		{world.QueueAdded{}, `queue: name "": must be new and not empty`},
		{world.QueueAdded{Name: "team"}, `queue: name "team": must be new`},
		{world.QueueAdded{Name: "new", Parent: "moon"}, `queue new: parent "moon": no such queue`},
		{world.QueueAdded{Name: "new", LimitMilli: -1}, `queue new: weight 0, deserved 0, limit -1: must not be negative`},
		{node(func(e *world.NodeAdded) { e.Name = "" }), `name "": must be new and not empty`},
		{node(func(e *world.NodeAdded) { e.Name = "node" }), `name "node": must be new`},
		{node(func(e *world.NodeAdded) { e.Domain = "moon" }), `node new: domain "moon": no such domain`},
		{node(func(e *world.NodeAdded) { e.CPU = -1 }), `node new: cpu -1, memory`},
		{node(func(e *world.NodeAdded) { e.Pods = -2 }), `pods -2: must not be negative`},
		{node(func(e *world.NodeAdded) { e.Extended = map[string]int64{"x": -3} }), `node new: resource x: -3: must not be negative`},
		{node(func(e *world.NodeAdded) { e.Life = cluster.LifeOff }), `node new: life 0`},
		{node(func(e *world.NodeAdded) { e.Life = 77 }), `node new: life 77`},
		{node(func(e *world.NodeAdded) { e.Authority = 7 }), `node new: authority 7`},
		{node(func(e *world.NodeAdded) { e.Devices = make([]world.Device, 65) }), `node new: 65 devices: at most 64`},
		{device(func(d *world.Device) { d.Model = "" }), `node new: device 2: model "", memory`},
		{device(func(d *world.Device) { d.Memory = -1 }), `device 2: model "L4", memory -1`},
		{device(func(d *world.Device) { d.Island = -2 }), `device 2: island -2, NUMA node 1`},
		{device(func(d *world.Device) { d.Sharing = 8 }), `device 2: sharing 8`},
		{device(func(d *world.Device) { d.Counters = map[string]int64{"slices": -7} }), `device 2: counter slices: -7`},
		{device(func(d *world.Device) { d.Counters = nil }), `device 2: profile 3g consumes 3 of "slices"`},
		{device(func(d *world.Device) { d.Profiles = append(d.Profiles, d.Profiles[0]) }), `device 2: profile name "3g": must be new`},
		{device(func(d *world.Device) { d.Profiles = []world.Profile{{Name: "p"}} }), `device 2: profile p: 0 milli-GPU, memory 0`},
		{world.NodeLife{Name: "moon"}, `node "moon": no such node`},
		{world.NodeLife{Name: "node"}, `node node: life "off": remove the node instead`},
		{world.NodeLife{Name: "node", Life: 44}, `node node: life 44: no such station`},
		{world.NodeRemoved{Name: "moon"}, `node "moon": no such node`},
		{world.DeviceHealth{Node: "moon"}, `node "moon": no such node`},
		{world.DeviceHealth{Node: "node", Device: 4}, `node node: device 4: it has 4`},
		{world.DeviceHealth{Node: "node", Device: -1}, `node node: device -1: it has 4`},
		{world.DeviceHealth{Node: "node", Health: 3}, `node node: device 0: health 3`},
		{world.PodAdded{}, `pod: name "": must be new and not empty`},
		{world.PodAdded{Name: "waiting"}, `pod: name "waiting": must be new`},
		{world.PodAdded{Name: "new", Queue: "moon"}, `pod new: queue "moon": no such queue`},
		{world.PodAdded{Name: "new", Alternatives: []world.Request{{CPU: -5}}}, `pod new: cpu -5, memory 0`},
		{pod(func(q *world.Request) { q.Memory = -1 }), `pod new: cpu 0, memory -1`},
		{pod(func(q *world.Request) { q.Extended = map[string]int64{"x": -3} }), `pod new: resource x: -3: must not be negative`},
		{request(world.DeviceRequest{Milli: 1}), `pod new: device request 1: count 0: must be 1 to 64`},
		{request(world.DeviceRequest{Count: 65, Milli: 1}), `pod new: device request 1: count 65`},
		{request(world.DeviceRequest{Count: 1}), `pod new: device request 1: share 0 milli-GPU`},
		{request(world.DeviceRequest{Count: 1, Milli: 1001}), `pod new: device request 1: share 1001 milli-GPU`},
		{request(world.DeviceRequest{Count: 1, Milli: -1, Profile: "3g"}), `pod new: device request 1: profile 3g with -1 milli-GPU`},
		{request(world.DeviceRequest{Count: 1, Milli: 1, MinMemory: -4}), `pod new: device request 1: memory -4`},
		{request(world.DeviceRequest{Count: 1, Milli: 1, Parts: true}), `pod new: device request 1: parts with selector "" and profile ""`},
		{device(func(d *world.Device) { d.Profiles = make([]world.Profile, 65) }), `device 2: 65 profiles: at most 64`},
		{world.PodRemoved{Name: "moon"}, `pod "moon": no such pod`},
		{world.Bound{Name: "moon"}, `pod "moon": no such pod`},
		{world.Bound{Name: "waiting"}, `pod waiting: it is waiting, not placing`},
		{world.BindRefused{Name: "bound"}, `pod bound: it is bound, not placing`},
		{world.Evicted{Name: "bound"}, `pod bound: it is bound, not terminating`},
		{world.Started{Name: "placing"}, `pod placing: it is placing, not bound`},
		{world.Lost{Name: "moon"}, `pod "moon": no such pod`},
		{world.Lost{Name: "waiting"}, `pod waiting: it is waiting and holds nothing to lose`},
		{world.PodFound{Name: "moon", Node: "node"}, `pod "moon": no such pod`},
		{world.PodFound{Name: "waiting", Node: "moon"}, `pod waiting: node "moon": no such node`},
		{world.PodFound{Name: "waiting", Node: "node", Devices: []int32{0, 1}}, `pod waiting on node: 2 devices: it asks for 0`},
		{world.NodeChanged{NodeAdded: nodeKind(1, "moon")}, `node "moon": no such node`},
		{world.NodeChanged{NodeAdded: world.NodeAdded{Name: "node", CPU: -1, Life: cluster.LifeReady}}, `node node: cpu -1, memory`},
		{world.Leaving{Name: "waiting"}, `pod waiting: it is waiting and holds nothing to leave`},
		{world.EvictRefused{Name: "waiting"}, `pod waiting: it is waiting, not terminating`},
		{world.Reserved{Name: "placing", Node: "node"}, `pod placing: it is placing, not waiting`},
		{world.Reserved{Name: "waiting", Node: "moon"}, `pod waiting: node "moon": no such node`},
		{world.BudgetKnown{Name: "b", Left: -1}, `budget "b": -1 left: a name is needed, and not less than 0`},
		{world.Guarded{Name: "waiting", Budget: "moon"}, `pod waiting: budget "moon": no such budget`},
		{world.Accepted{Decision: decision.Decision{Pod: 99}}, `accept bind: no pod with id 99`},
		{world.Accepted{Decision: decision.Decision{Pod: -1, Action: cluster.ActionEvict}}, `accept evict: no pod with id -1`},
		{world.Accepted{}, `accept bind: the pod it was decided for is gone`},
	} {
		t.Run(c.want, func(t *testing.T) {
			k := settled(t)
			before, symbols := k.w.View().Digest(), k.w.View().Position()
			err := k.w.Apply(k.at+5, c.event)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%T: got %v, want an error with %q", c.event, err, c.want)
			}
			if v := k.w.View(); v.Digest() != before || v.Position() != symbols || k.w.Now() != k.at {
				t.Errorf("%T: refused, yet the world changed (now %v, was %v)", c.event, k.w.Now(), k.at)
			}
			k.audit()
		})
	}
}

// What a decision asks for is judged by its action and by the state of its pod.
func TestRefusedDecisions(t *testing.T) {
	for _, c := range []struct {
		pod  string
		edit func(*decision.Decision)
		want string
	}{
		{pod: "bound", edit: func(*decision.Decision) {}, want: "accept bind bound: it is bound, not waiting"},
		{pod: "placing", edit: func(d *decision.Decision) { d.Action = cluster.ActionEvict }, want: "accept evict placing: it is placing"},
		{pod: "leaving", edit: func(d *decision.Decision) { d.Action = cluster.ActionEvict }, want: "accept evict leaving: it is terminating"},
		{pod: "waiting", edit: func(d *decision.Decision) { d.Action = cluster.ActionLaunch }, want: "accept launch waiting: this world cannot carry it out"},
		{pod: "waiting", edit: func(d *decision.Decision) { d.Place.Node = 5 }, want: "accept: place waiting: no node with id 5"},
		{pod: "waiting", edit: func(d *decision.Decision) { d.Place.Shape = 5 }, want: "accept: place waiting on node: it does not ask for shape 5"},
		{pod: "waiting", edit: func(d *decision.Decision) { d.Host.Generation++ }, want: "accept bind waiting on node: the node it was decided for is gone"},
		{pod: "waiting", edit: func(d *decision.Decision) { d.Row.Generation++ }, want: "accept bind: the pod it was decided for is gone"},
		{pod: "waiting", edit: func(d *decision.Decision) { d.Subject++ }, want: "accept bind: the pod it was decided for is gone"},
	} {
		t.Run(c.want, func(t *testing.T) {
			k := settled(t)
			id, _ := k.w.Pod(c.pod)
			p := k.w.View().Pod(id)
			d := decision.Decision{
				ID: 1, Action: cluster.ActionBind, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation},
				Place: cluster.Placement{Node: 0, Shape: p.Spec.Shape},
			}
			c.edit(&d)
			before := k.w.View().Digest()
			if err := k.w.Apply(k.at, world.Accepted{Decision: d}); err == nil || err.Error() != c.want {
				t.Errorf("%+v: got %v, want %q", d, err, c.want)
			}
			if k.w.View().Digest() != before {
				t.Error("refused, yet the world changed")
			}
		})
	}
}

func TestTimeNeverRunsBackwards(t *testing.T) {
	k := settled(t)
	if err := k.w.Apply(k.at-1, world.QueueAdded{Name: "early"}); err == nil {
		t.Error("an event of the past was applied")
	}
	if err := k.w.Apply(k.at, world.QueueAdded{Name: "early"}); err != nil {
		t.Errorf("an event of the present: %v", err)
	}
}

// A pod's id is given out again with the next generation, and a decision for its
// predecessor is refused.
func TestPodIDsAreReusedWithTheNextGeneration(t *testing.T) {
	k := settled(t)
	stale := engine.Decide(k.w.Snapshot(), decision.Cycle{}, engine.Headrace(), nil).Decisions[0]
	k.must(world.PodRemoved{Name: "waiting"})
	refuse := func(when string) {
		t.Helper()
		if err := k.w.Apply(k.at, world.Accepted{Decision: stale}); err == nil {
			t.Errorf("%s: a stale decision was accepted", when)
		}
		k.audit()
	}
	refuse("pod removed")
	k.must(world.PodAdded{Name: "waiting", Request: requests[0]})
	id, _ := k.w.Pod("waiting")
	if p := k.w.View().Pod(id); id != stale.Pod || p.Generation != stale.Row.Generation+1 {
		t.Errorf("id %d of generation %d, want %d of %d", id, p.Generation, stale.Pod, stale.Row.Generation+1)
	}
	refuse("pod of the same name")
	if got := k.decide(t); len(got) != 1 {
		t.Errorf("decided anew: %d decisions, want 1", len(got))
	}
}

// A node's id is given out again with the next generation, a decision for its
// predecessor is refused, and pods do not take the new node for the old one.
func TestNodeIDsAreReusedWithTheNextGeneration(t *testing.T) {
	k := settled(t)
	stale := engine.Decide(k.w.Snapshot(), decision.Cycle{}, engine.Headrace(), nil).Decisions[0]
	old, _ := k.w.Node("node")
	k.must(world.NodeRemoved{Name: "node"})
	refuse := func(when string) {
		t.Helper()
		if err := k.w.Apply(k.at, world.Accepted{Decision: stale}); err == nil {
			t.Errorf("%s: a stale decision was accepted", when)
		}
		k.audit()
	}
	refuse("node removed")
	v := k.w.View()
	for _, name := range []string{"placing", "bound", "leaving"} {
		id, _ := k.w.Pod(name)
		if p := v.Pod(id); p.Phase != cluster.PhaseWaiting || p.Attempt != 1 || p.LastNode != cluster.None || p.Intent != cluster.None {
			t.Errorf("pod %s after its node is gone: %+v", name, p)
		}
	}
	k.must(nodeKind(1, "other"))
	id, _ := k.w.Node("other")
	if n := v.Node(id); id != old || n.Generation != 1 {
		t.Errorf("node id %d of generation %d, want %d of 1", id, n.Generation, old)
	}
	refuse("another node under its id")
	k.must(nodeKind(0, "without devices"))
	if id, _ := k.w.Node("without devices"); id == old {
		t.Error("an id with four devices was given to a node without")
	}
	if got := k.decide(t); len(got) != 4 {
		t.Errorf("decided anew: %d decisions, want 4", len(got))
	}
	k.audit()
}

// A pod that is refused, lost or evicted waits again, one attempt later, and
// remembers where it ran.
func TestPodsComeBack(t *testing.T) {
	k := settled(t)
	k.must(world.BindRefused{Name: "placing"})
	k.must(world.Lost{Name: "bound"})
	k.must(world.Evicted{Name: "leaving"})
	node, _ := k.w.Node("node")
	for name, last := range map[string]cluster.NodeID{"placing": cluster.None, "bound": node, "leaving": node} {
		id, _ := k.w.Pod(name)
		if p := k.w.View().Pod(id); p.Phase != cluster.PhaseWaiting || p.Attempt != 1 || p.LastNode != last || p.Intent != cluster.None || p.Placement.Placed() {
			t.Errorf("pod %s: %+v, want it to wait after one attempt with last node %d", name, p, last)
		}
	}
	k.audit()
}

// Nodes that differ in what their partitions take are of two classes, though the
// partitions have the same names.
func TestClassesSeePartitions(t *testing.T) {
	k := &town{t: t, from: &raw{}, w: world.New()}
	k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
	small, large := nodeKind(3, "small"), nodeKind(3, "large")
	large.Devices[0].Profiles = []world.Profile{{Name: "3g", Milli: 430, Memory: 40 * quantity.GiB, Consumes: map[string]int64{"slices": 5}}}
	k.must(small)
	k.must(large)
	k.must(nodeKind(3, "another small"))
	v := k.w.View()
	if v.Node(0).Spec.Class == v.Node(1).Spec.Class || v.Node(0).State == v.Node(1).State {
		t.Error("nodes with other partitions are alike")
	}
	if v.Node(0).Spec.Class != v.Node(2).Spec.Class || v.Node(0).State != v.Node(2).State {
		t.Error("nodes alike but for the name are not")
	}
}

// The books balance after any sequence of events and plans.
func TestBooksBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { live(newTown(t, drawn{t: t}), 60) })
}

// live applies events, and now and then a plan, with an audit after each.
func live(c *town, steps int) {
	c.t.Helper()
	all := policies()
	policy := all[c.from.below(len(all))]
	var memo engine.Memo
	for i := range steps {
		c.step()
		c.audit()
		if c.from.below(4) == 0 {
			plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: uint64(i), Now: c.at, Seed: 2}, policy, &memo)
			c.carry(&plan)
			c.audit()
		}
	}
}

// Any bytes, read as events, leave sound books and no panic.
func FuzzEvents(f *testing.F) {
	for seed := range byte(5) {
		var bytes []byte
		for i := range 200 {
			bytes = append(bytes, byte(i*i)*(seed+3)+seed)
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		from := &raw{bytes: bytes}
		c := newTown(t, from)
		for len(from.bytes) > 0 && c.at < moment.Instant(100*moment.Second) {
			live(c, 5)
			c.wild()
		}
	})
}

// wild applies decisions that nobody thought of, straight from the source.
func (c *town) wild() {
	c.t.Helper()
	id := func() int32 { return int32(c.from.below(12)) - 2 }
	d := decision.Decision{
		ID: uint64(c.at), Action: cluster.Action(c.from.below(4)), Pod: cluster.PodID(id()),
		Row:   cluster.Ref{Generation: uint32(c.from.below(2))},
		Place: cluster.Placement{Node: cluster.NodeID(id()), Shape: cluster.ShapeID(id())},
	}
	d.Host = cluster.Ref{ID: int32(d.Place.Node), Generation: uint32(c.from.below(2))}
	for range c.from.below(3) {
		d.Place.Grants = append(d.Place.Grants, cluster.Grant{
			Device: cluster.DeviceID(id()), Milli: quantity.MilliGPU(id()) * 200, Memory: quantity.Bytes(id()) * quantity.GiB,
			Profile: cluster.Symbol(c.from.below(3)) * c.w.Symbol("3g"),
		})
	}
	if c.from.below(4) == 0 {
		d.Place.Lease = &cluster.Lease{Since: c.at, Until: c.at.Add(moment.Span(id()) * moment.Minute)}
		for range c.from.below(3) {
			d.Place.Lease.Lent = append(d.Place.Lease.Lent, quantity.MilliGPU(id())*50)
		}
	}
	if v := c.w.View(); d.Pod >= 0 && int(d.Pod) < v.Pods.Len() {
		d.Subject = v.Pod(d.Pod).Key
	}
	c.may(world.Accepted{Decision: d})
	c.audit()
}
