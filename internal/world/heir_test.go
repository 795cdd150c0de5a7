package world_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/world"
)

// succeed draws a step of a move of a pod with an owner, sound or not: it is decided, an
// heir takes the place, the pod is told to go, or what is kept is dropped.
func (c *town) succeed() {
	c.t.Helper()
	v := c.w.View()
	id, known := c.w.Pod(c.pod())
	host, up := c.w.Node(c.node())
	if !known || !up {
		return
	}
	p, n := v.Pod(id), v.Node(host)
	d := decision.Decision{ID: chance.Hash(uint64(c.at), p.Key) | 1, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation}, Place: p.Placement, Deadline: moment.Never}
	if legacies := v.Legacies(); len(legacies) > 0 && c.from.below(2) == 0 {
		g := legacies[c.from.below(len(legacies))]
		switch c.from.below(4) {
		case 0:
			c.may(world.LegacyDropped{ID: g.ID})
		case 1:
			if g.Of != cluster.None {
				of := v.Pod(g.Of)
				d.ID, d.Action, d.Pod, d.Subject, d.Place = g.ID, cluster.ActionEvict, g.Of, of.Key, of.Placement
				d.Row = cluster.Ref{ID: int32(g.Of), Generation: of.Generation}
				c.may(world.Accepted{Decision: d})
			}
		default:
			d.Action, d.Place, d.Inherits = cluster.ActionBind, g.Place, g.ID
			d.Host = cluster.Ref{ID: int32(g.Place.Node), Generation: v.Node(g.Place.Node).Generation}
			c.may(world.Accepted{Decision: d})
		}
		return
	}
	grants, ok := fit.Grants(v, v.Shape(p.Spec.Shape), n)
	if !ok || !p.Placement.Placed() {
		return
	}
	d.Action = []cluster.Action{cluster.ActionEvict, cluster.ActionReplace}[c.from.below(2)]
	d.Target = &cluster.Target{Place: cluster.Placement{Node: host, Shape: p.Spec.Shape, Grants: grants}, Until: moment.Never, Wait: moment.Minute, Set: uint64(1 + c.from.below(2))}
	if p.Spec.Owner == 0 && c.from.below(4) > 0 {
		d.Target.Bind = d.ID + 2
	}
	if d.Action == cluster.ActionReplace {
		d.Target.Until = c.at.Add(moment.Minute)
	}
	c.may(world.Accepted{Decision: d})
}

// services is a scattered cluster in which some pods belong to services.
type services struct {
	*scattered
	rules  tidy.Rules
	memo   engine.Memo
	cycle  uint64
	asked  map[string]bool // pods of whom an heir was made
	least  int             // how many of the service run at any time
	held   []decision.Decision
	counts struct{ replaced, evicted, came, failed, late, given, done int }
}

func (c *services) decide(policy *engine.Policy) decision.Plan {
	c.cycle++
	return engine.Decide(c.w.Snapshot(), decision.Cycle{Number: c.cycle, Now: c.at, Kind: decision.CycleReview, Seed: 1}, policy, &c.memo)
}

// add makes a pod of an owner.
func (c *services) add(owner, heirOf string, r world.Request, surges bool) string {
	c.serial++
	name := fmt.Sprintf("%s-%d", owner, c.serial)
	c.apply(world.PodAdded{Name: name, Owner: owner, Surges: surges, HeirOf: heirOf, Request: r})
	return name
}

// running counts the pods of an owner that run and were not told to go.
func (c *services) running(owner cluster.Symbol) (n int) {
	v := c.w.View()
	for i := range v.Pods.Len() {
		if p := v.Pod(cluster.PodID(i)); p.Phase == cluster.PhaseRunning && p.Spec.Owner == owner {
			n++
		}
	}
	return n
}

// follow accepts a plan as a cluster would whose owners make heirs, at times late, at
// times such as fail.
func (c *services) follow(plan *decision.Plan) {
	c.t.Helper()
	v := c.w.View()
	gain, price := map[string]int64{}, map[string]int64{}
	for _, bundle := range plan.Bundles() {
		d := &bundle[0]
		p := v.Pod(d.Pod)
		owner := p.Spec.Owner
		if err := c.w.Apply(c.at, world.Acceptance(bundle)); err != nil {
			c.t.Fatalf("%s: %v", d.Line(v), err)
		}
		switch {
		case d.Action == cluster.ActionReplace:
			c.counts.replaced++
			if d.Because.Move.For != "" {
				gain[d.Because.Move.For] = d.Because.Move.Gain
				price[d.Because.Move.For] += c.rules.Price + int64(p.Placement.Milli())*int64(c.rules.WarmUp/moment.Second)
			}
			if p.Placement.Node == d.Target.Place.Node {
				c.t.Fatalf("%s: the heir goes where the pod is", d.Line(v))
			}
		case d.Action == cluster.ActionEvict && d.Because.ReplacedBy != "":
			c.counts.done++
			c.apply(world.PodRemoved{Name: p.Spec.Name})
		case d.Action == cluster.ActionEvict:
			c.counts.evicted++
			if owner == 0 {
				c.apply(world.Evicted{Name: p.Spec.Name})
			} else {
				c.apply(world.PodRemoved{Name: p.Spec.Name})
			}
		case d.Action == cluster.ActionBind && c.w.Holds(d):
			c.held = append(c.held, *d)
		case d.Action == cluster.ActionBind:
			c.apply(world.Bound{Name: p.Spec.Name})
		}
		if now := c.running(c.w.Symbol("web")); now < c.least {
			c.t.Fatalf("after %s: %d of the service run, %d before", d.Line(v), now, c.least)
		}
		if err := cluster.Audit(c.w.View()); err != nil {
			c.t.Fatal(err)
		}
	}
	for of, costs := range price { // order: one that does not pay is enough
		if gain[of] < costs {
			c.t.Fatalf("the replacements for %s cost %d and gain %d", of, costs, gain[of])
		}
	}
	c.release()
}

// release carries out the binds whose room has been left, and drops what has lapsed.
func (c *services) release() {
	c.t.Helper()
	for _, name := range c.w.Lapsed(c.at) {
		c.apply(world.HoldDropped{Name: name})
	}
	for _, id := range c.w.Forlorn(c.at) {
		c.counts.given++
		c.apply(world.LegacyDropped{ID: id})
	}
	c.held = slices.DeleteFunc(c.held, func(d decision.Decision) bool {
		if !c.w.Holds(&d) {
			return true
		}
		if c.w.UnderWay(d.After) {
			return false
		}
		c.apply(world.Accepted{Decision: d})
		c.apply(world.Bound{Name: c.w.View().Pod(d.Pod).Spec.Name})
		return true
	})
}

// heirs lets owners make heirs, start them, or lose them.
func (c *services) heirs(r world.Request) {
	c.t.Helper()
	v := c.w.View()
	for _, g := range slices.Clone(v.Legacies()) {
		owner := v.Symbols.Text(g.Owner)
		switch {
		case g.Heir == cluster.None && !c.asked[g.Name] && c.from.Below(4) > 0:
			c.asked[g.Name] = true
			of := ""
			if c.from.Below(2) == 0 {
				of = g.Name
			}
			c.add(owner, of, r, g.Surge)
			c.counts.came++
		case g.Heir == cluster.None:
		case v.Pod(g.Heir).Phase == cluster.PhaseBound && c.from.Below(4) == 0:
			c.apply(world.PodRemoved{Name: v.Pod(g.Heir).Spec.Name})
			c.counts.failed++
		case v.Pod(g.Heir).Phase == cluster.PhaseBound && c.from.Below(3) > 0:
			c.apply(world.Started{Name: v.Pod(g.Heir).Spec.Name})
		case v.Pod(g.Heir).Phase == cluster.PhaseBound:
			c.counts.late++
		}
	}
}

// Services are replaced where that pays: nobody else gets the place meanwhile (the books
// balance), as many run as before at any time, each replacement is worth more than it
// costs, and an end comes, whether heirs come, fail, or stay away.
func TestServicesAreReplaced(t *testing.T) {
	sum := services{}.counts
	for seed := range int64(150) {
		c := services{scattered: newScattered(t, seed), rules: tidy.Default(), asked: map[string]bool{}}
		c.rules.For = []tidy.Gains{tidy.Waiting, tidy.Nodes, tidy.Waiting | tidy.Nodes}[seed%3]
		policy := engine.Headrace().Staying().Tidying(&c.rules)
		one := world.Request{CPU: 1000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU}}}
		var fillers []string
		for range 12 + c.from.Below(10) {
			switch c.from.Below(6) {
			case 0, 1, 2:
				c.add("web", "", one, true)
			case 3:
				c.add("shop", "", one, false)
			default:
				fillers = append(fillers, c.add("filler", "", one, false))
			}
		}
		plan := c.decide(policy)
		c.follow(&plan)
		v := c.w.View()
		for i := range v.Pods.Len() {
			if p := v.Pod(cluster.PodID(i)); p.Phase == cluster.PhaseBound && p.Spec.Owner == c.w.Symbol("web") {
				c.apply(world.Started{Name: p.Spec.Name})
			}
		}
		c.least = c.running(c.w.Symbol("web"))
		for _, name := range fillers {
			if c.from.Below(4) > 0 {
				c.apply(world.PodRemoved{Name: name})
			}
		}
		four := one
		four.Devices = []world.DeviceRequest{{Count: int32(3 + c.from.Below(2)), Milli: quantity.WholeGPU}}
		for range 3 {
			c.serial++
			c.apply(world.PodAdded{Name: fmt.Sprintf("wide-%d", c.serial), Request: four})
		}
		for round, quiet := 0, 0; quiet < 3; round++ {
			if round > 400 {
				t.Fatalf("seed %d: not quiet after %d rounds: %+v", seed, round, c.w.View().Legacies())
			}
			plan := c.decide(policy)
			c.follow(&plan)
			c.heirs(one)
			c.at = c.at.Add(5 * moment.Second)
			c.release()
			if quiet++; len(plan.Decisions) > 0 || len(c.w.View().Legacies()) > 0 {
				quiet = 0
			}
		}
		for _, n := range []struct{ to, of *int }{
			{&sum.replaced, &c.counts.replaced},
			{&sum.evicted, &c.counts.evicted},
			{&sum.came, &c.counts.came},
			{&sum.failed, &c.counts.failed},
			{&sum.late, &c.counts.late},
			{&sum.given, &c.counts.given},
			{&sum.done, &c.counts.done},
		} {
			*n.to += *n.of
		}
	}
	t.Logf("%+v", sum)
	if sum.replaced == 0 || sum.done == 0 || sum.failed == 0 || sum.given == 0 {
		t.Error("some of that never happened")
	}
}
