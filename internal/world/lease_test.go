package world_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// newYard is a town of a few nodes whose cards are shared, and of small pods.
func newYard(t fatal, from source) *town {
	c := &town{t: t, from: from, w: world.New()}
	c.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
	c.must(world.QueueAdded{Name: "root"})
	c.must(world.QueueAdded{Name: "team", Parent: "root", LimitMilli: 2500})
	for i := range 1 + from.below(2) {
		e := nodeKind(1, fmt.Sprint("node-", i))
		e.Devices, e.Fixed = e.Devices[:2], from.below(6) == 5
		c.must(e)
		c.nodes = append(c.nodes, e.Name)
	}
	return c
}

// addShare adds a pod that asks for a part of a card, now and then for all of it.
func (c *town) addShare() {
	c.serial++
	milli := quantity.MilliGPU([]int{800, 300, 500, 200, 1000}[c.from.below(5)])
	e := world.PodAdded{
		Name: fmt.Sprint("pod-", c.serial), Queue: []string{"", "team"}[c.from.below(2)], Priority: int32(c.from.below(4)), Protected: c.from.below(8) == 7,
		Request: world.Request{CPU: 100, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: milli}}},
	}
	c.must(e)
	c.pods = append(c.pods, e.Name)
}

// stir lets something happen to a pod.
func (c *town) stir() {
	name := c.pod()
	switch c.from.below(9) {
	case 0:
		c.may(world.Started{Name: name})
	case 8:
		if c.may(world.PodRemoved{Name: name}) {
			c.forget()
		}
	case 1:
		c.may(world.Lost{Name: name})
	case 2:
		c.may(world.Leaving{Name: name})
	case 3:
		c.may(world.Evicted{Name: name})
	case 4:
		c.evict(name)
	case 5:
		c.may(world.EvictRefused{Name: name})
	case 6:
		c.may(world.ResizeRefused{Name: name})
	default:
		c.may(world.Resized{Name: name})
	}
	c.audit()
}

// A pod lends only to one that starts with it, of its queue and above it in priority;
// and what it lent comes back when its time is over, whatever happened in between,
// unless those who hold it cannot be made to go.
func TestLeases(t *testing.T) {
	lent, back, called := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		c := newYard(t, from)
		policy := engine.Headrace().Lending()
		if from.below(2) == 0 {
			policy = policy.Preempting()
		}
		for number := range uint64(6 + from.below(12)) {
			for range 1 + from.below(5) {
				c.addShare()
			}
			for range from.below(3) {
				c.stir()
			}
			c.at = c.at.Add([]moment.Span{0, 10, 3, 1}[from.below(4)] * moment.Minute)
			now := think(c.w.Snapshot(), decision.Cycle{Number: number, Now: c.at, Seed: 3}, policy)
			s := now.snapshot
			for _, d := range now.plan.Decisions {
				held := &s.Pod(d.Pod).Placement
				switch {
				case d.Action == cluster.ActionResize && d.Place.Lease != nil:
					lent++
					takers := 0
					for _, b := range now.plan.Decisions {
						p, q := s.Pod(d.Pod).Spec, s.Pod(b.Pod).Spec
						if b.Action == cluster.ActionBind && slices.Contains(b.After, d.ID) && p.Queue == q.Queue && p.Priority < q.Priority {
							takers++
						}
					}
					if takers == 0 || s.Pod(d.Pod).Spec.Protected || held.Lease != nil {
						t.Fatalf("%s, with %d takers", d.Line(&s.View), takers)
					}
				case d.Action == cluster.ActionResize:
					back++
				case d.Because.For != "":
					called++
				}
			}
			c.carry(&now.plan)
		}
		// Everybody who can does what was decided, and time passes.
		for _, name := range slices.Clone(c.pods) {
			c.may(world.Evicted{Name: name})
			c.may(world.Resized{Name: name})
			c.may(world.BindRefused{Name: name})
		}
		c.at = c.at.Add(20 * moment.Minute)
		plan := engine.Decide(c.w.Snapshot(), decision.Cycle{Number: 99, Now: c.at, Seed: 3}, policy, nil)
		for _, bundle := range plan.Bundles() {
			c.must(world.Acceptance(bundle))
			name := c.w.View().Pod(bundle[0].Pod).Spec.Name
			c.may(world.Evicted{Name: name})
			c.may(world.Resized{Name: name})
			c.audit()
		}
		v := c.w.View()
		for _, id := range v.Owing() {
			p := v.Pod(id)
			if p.Placement.Lease.Until > c.at || p.Phase == cluster.PhaseTerminating {
				continue
			}
			stays := slices.ContainsFunc(v.Node(p.Placement.Node).Pods, func(other cluster.PodID) bool {
				q := v.Pod(other)
				return q.Spec.Protected || q.Phase == cluster.PhaseTerminating || q.Phase == cluster.PhasePlacing
			})
			if !stays {
				t.Fatalf("%s has not got back what it lent: %+v", p.Spec.Name, p.Placement.Lease)
			}
		}
	})
	t.Logf("%d leases, %d given back, %d called in", lent, back, called)
	if lent == 0 || back == 0 || called == 0 {
		t.Error("something never happened")
	}
}

func TestRefusedResizes(t *testing.T) {
	c := newYard(t, &raw{bytes: []byte{0, 1}})
	for _, e := range []world.Event{world.Resized{Name: "x"}, world.ResizeRefused{Name: "x"}} {
		if c.may(e) {
			t.Errorf("%T of a pod that is not there is taken", e)
		}
	}
	c.must(world.PodAdded{Name: "a", Request: world.Request{CPU: 100, Devices: []world.DeviceRequest{{Count: 1, Milli: 800}}}})
	c.bind("a", "node-0")
	id, _ := c.w.Pod("a")
	p := c.w.View().Pod(id)
	lease := func(milli quantity.MilliGPU, until moment.Instant) world.Accepted {
		place := p.Placement
		place.Grants = slices.Clone(place.Grants)
		place.Grants[0].Milli -= milli
		place.Lease = &cluster.Lease{Until: until, Lent: []quantity.MilliGPU{milli}}
		return world.Accepted{Decision: decision.Decision{
			ID: 7, Action: cluster.ActionResize, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation}, Place: place,
		}}
	}
	ten := moment.Instant(10 * moment.Minute)
	for _, e := range []world.Event{lease(201, ten), lease(199, ten), lease(-200, ten), lease(200, 0), world.Resized{Name: "a"}, world.ResizeRefused{Name: "a"}} {
		if c.may(e) {
			t.Errorf("%T %+v is taken", e, e)
		}
	}
	c.must(lease(200, ten))
	if c.may(lease(200, ten)) {
		t.Error("two resizes at a time")
	}
	c.must(world.Resized{Name: "a"})
	if held := c.w.View().Pod(id).Placement.Milli(); held != 600 {
		t.Errorf("it holds %d, not 600", held)
	}
	c.must(world.Lost{Name: "a"})
	c.audit()
}
