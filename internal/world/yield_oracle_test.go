package world_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/share"
	"github.com/headrace-dev/headrace/internal/world"
)

// draw is a small cluster at work: up to 6 nodes, up to 12 jobs, queues or none.
type draw struct {
	t    *testing.T
	w    *world.World
	from *chance.Source
	now  moment.Instant
}

func (d *draw) apply(e world.Event) {
	d.t.Helper()
	if err := d.w.Apply(d.now, e); err != nil {
		d.t.Fatal(err)
	}
}

func (d *draw) below(n int64) int64 { return d.from.Below(n) }

// drawCluster fills a cluster and starts what is placed; then one job comes to which
// others may have to give way.
func drawCluster(t *testing.T, seed int64) (d *draw, taker string) {
	t.Helper()
	d, queues := drawTown(t, seed)
	d.apply(world.PodAdded{Name: "taker", Queue: queues[d.below(int64(len(queues)))], Priority: int32(50 + 100*d.below(4)), Request: d.request()})
	return d, "taker"
}

// request asks for one or two cards, or for a part of one.
func (d *draw) request() world.Request {
	r := world.Request{CPU: quantity.MilliCPU(500 + 500*d.below(6)), Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: int32(1 + d.below(2)), Milli: quantity.WholeGPU}}}
	if d.below(4) == 0 {
		r.Devices[0] = world.DeviceRequest{Count: 1, Milli: quantity.MilliGPU(300 + 200*d.below(3)), Memory: 8 * quantity.GiB}
	}
	return r
}

// drawTown is the cluster before that, two nodes in a rack.
func drawTown(t *testing.T, seed int64) (d *draw, queues []string) {
	t.Helper()
	d = &draw{t: t, w: world.New(), from: chance.New(seed)}
	nodes := 1 + d.below(6)
	for i := range nodes {
		rack := fmt.Sprintf("rack%d", i/2)
		if i%2 == 0 {
			d.apply(world.DomainAdded{Name: rack, Level: cluster.LevelRack})
		}
		e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), Domain: rack, CPU: quantity.MilliCPU(8000 + 8000*d.below(2)), Memory: 64 * quantity.GiB, Pods: int64(3 + d.below(4)), Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 2 + 2*d.below(2) {
			e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB, Sharing: cluster.SharingSlices})
		}
		d.apply(e)
	}
	queues = []string{""}
	if d.below(2) > 0 {
		queues = []string{"a", "b"}
		for _, q := range queues {
			d.apply(world.QueueAdded{Name: q, Weight: quantity.One, DeservedMilli: quantity.MilliGPU(d.below(2*nodes) * 1000)})
		}
	}
	jobs := 2 + d.below(10)
	for i := range jobs {
		name := fmt.Sprintf("j%d", i)
		f := world.JobFacts{Queue: queues[d.below(int64(len(queues)))], Priority: int32(50 * d.below(5)), Unpreemptible: d.below(10) == 0}
		if d.below(2) > 0 {
			f.Checkpoint = world.Checkpoint{Period: moment.Hour, Write: moment.Span(d.below(300)) * moment.Second, Restart: moment.Span(d.below(120)) * moment.Second}
		}
		d.apply(world.JobAdded{Name: name, JobFacts: f})
		pods, group, own := int64(1), "", d.request()
		if d.below(3) == 0 {
			pods, group = 2+d.below(2), name
			d.apply(world.GroupAdded{Name: group, Minimum: int32(1 + d.below(pods)), Queue: f.Queue, Job: name})
		}
		for k := range pods {
			d.apply(world.PodAdded{Name: fmt.Sprintf("%s-%d", name, k), Job: name, Group: group, Queue: f.Queue, Request: own})
		}
	}
	d.w = settledWorld(t, d)
	for i := range d.w.View().Pods.Len() {
		if p := d.w.View().Pod(cluster.PodID(i)); p.Phase == cluster.PhaseBound {
			d.now = d.now.Add(moment.Span(d.below(1200)) * moment.Second)
			d.apply(world.Started{Name: p.Spec.Name})
		} else if p.Phase == cluster.PhaseWaiting {
			d.apply(world.PodRemoved{Name: p.Spec.Name})
		}
	}
	for i := range jobs {
		if d.now = d.now.Add(moment.Second); d.below(2) > 0 {
			d.apply(world.JobCheckpointed{Name: fmt.Sprintf("j%d", i), At: d.now})
		}
	}
	d.now = d.now.Add(moment.Span(d.below(3600)) * moment.Second)
	return d, queues
}

func settledWorld(t *testing.T, d *draw) *world.World {
	t.Helper()
	plan := engine.Decide(d.w.Snapshot(), decision.Cycle{Number: 1, Now: d.now, Seed: 1}, engine.Headrace().Staying(), nil)
	carryOut(t, d.w, d.now, &plan)
	return d.w
}

// optimum is the slow and obvious search: every set of units and of surplus pods, in
// every order of cost, is taken, and the pod is tried on every node.
type optimum struct {
	straddles    bool
	band         int32
	wholes, some int32
	lost         int64
}

func (o *optimum) better(p *optimum) bool {
	switch {
	case o.straddles != p.straddles:
		return !o.straddles
	case o.band != p.band:
		return o.band < p.band
	case o.wholes != p.wholes:
		return o.wholes < p.wholes
	case o.some != p.some:
		return o.some < p.some
	}
	return o.lost < p.lost
}

// unit is a job as the oracle sees it: its pods that are there.
type unit struct {
	pods []cluster.PodID
}

// wanted is who has no room: its standing, what it needs in all, the domains in which it
// could be, and whether it can be placed in one of them in a transaction.
type wanted struct {
	queue    cluster.QueueID
	priority int32
	need     cluster.Amount
	domains  [][]cluster.NodeID
	fitsIn   func(*cluster.Txn, []cluster.NodeID) bool
	// near says that whoever goes has to be in the domain that the taker goes to.
	near bool
}

// fits says whether the taker can be placed where all that were picked are, if they
// have to be there.
func (w *wanted) fits(t *cluster.Txn, picked [][]cluster.PodID) bool {
	for _, nodes := range w.domains {
		all := true
		for _, pods := range picked {
			all = all && (!w.near || slices.ContainsFunc(pods, func(id cluster.PodID) bool {
				return slices.Contains(nodes, t.Base().Pod(id).Placement.Node)
			}))
		}
		if all && w.fitsIn(t, nodes) {
			return true
		}
	}
	return false
}

func podWanted(s *cluster.Snapshot, taker cluster.PodID) *wanted {
	spec := s.Pod(taker).Spec
	w := &wanted{queue: spec.Queue, priority: spec.Priority, need: s.Shape(spec.Shape).Ask()}
	for i := range s.Nodes.Len() {
		w.domains = append(w.domains, []cluster.NodeID{cluster.NodeID(i)})
	}
	w.fitsIn = func(t *cluster.Txn, nodes []cluster.NodeID) bool { return bind(t, taker, nodes[0]) }
	return w
}

func exhaustive(s *cluster.Snapshot, now moment.Instant, want *wanted) (best *optimum) {
	var units []unit
	for i := range s.Groups.Len() {
		u := unit{}
		for pod := range s.TreeMembers(cluster.GroupID(i)) {
			if s.Pod(pod).Phase.Charged() {
				u.pods = append(u.pods, pod)
			}
		}
		slices.Sort(u.pods)
		units = append(units, u)
	}
	for i := range s.Pods.Len() {
		if p := s.Pod(cluster.PodID(i)); p.Phase.Charged() && p.Spec.Group == cluster.None {
			units = append(units, unit{pods: []cluster.PodID{cluster.PodID(i)}})
		}
	}
	standing := share.Survey(&s.View)
	var visit func(at int, picked [][]cluster.PodID, o optimum)
	visit = func(at int, picked [][]cluster.PodID, o optimum) {
		if at == len(units) {
			if len(picked) > 0 && (best == nil || o.better(best)) {
				if straddles, ok := opens(s, now, standing, want, picked); ok {
					if o.straddles = straddles; best == nil || o.better(best) {
						own := o
						best = &own
					}
				}
			}
			return
		}
		visit(at+1, picked, o)
		u := units[at]
		spare := 0
		if id := s.Pod(first(u.pods)).Spec.Group; len(u.pods) > 0 && id != cluster.None {
			spare = max(int(s.Group(id).Placed-s.Group(id).Minimum), 0)
		}
		for mask := 1; mask < 1<<len(u.pods); mask++ {
			var taken []cluster.PodID
			for k, pod := range u.pods {
				if mask>>k&1 == 1 {
					taken = append(taken, pod)
				}
			}
			whole := len(taken) == len(u.pods)
			if !whole && len(taken) > spare {
				continue
			}
			next, may := o, true
			if whole {
				next.wholes++
			} else {
				next.some += int32(len(taken))
			}
			for _, pod := range taken {
				p := s.Pod(pod)
				may = may && !p.Spec.Protected
				band := p.Spec.Priority / 100
				if len(picked) == 0 && pod == taken[0] || band > next.band {
					next.band = max(next.band, band)
				}
				next.lost += price(s, p, now)
			}
			if !may {
				continue
			}
			more := slices.Clone(picked)
			if whole {
				more = append(more, taken)
			} else {
				for _, pod := range taken {
					more = append(more, []cluster.PodID{pod})
				}
			}
			visit(at+1, more, next)
		}
	}
	visit(0, nil, optimum{})
	return best
}

func first(pods []cluster.PodID) cluster.PodID {
	if len(pods) == 0 {
		return 0
	}
	return pods[0]
}

// price is the work lost with a pod, in milli-GPU-seconds.
func price(s *cluster.Snapshot, p *cluster.Pod, now moment.Instant) int64 {
	lost := moment.Span(0)
	j := s.JobOf(p)
	if p.Phase == cluster.PhaseRunning {
		lost = now.Since(max(p.Started, j.Checkpoint.Last))
	}
	if j.Checkpoint.Write > 0 {
		lost = min(lost, j.Checkpoint.Write)
	}
	return int64(p.Placement.Milli()) * int64(lost+j.Checkpoint.Restart) / int64(moment.Second)
}

// ranLong says whether work that can go on from a saved state has run for an hour: then
// it gives way to what has not run yet.
func ranLong(s *cluster.Snapshot, pods []cluster.PodID, now moment.Instant) bool {
	j := s.JobOf(s.Pod(pods[0]))
	if j == nil || j.Checkpoint.Write == 0 && j.Checkpoint.Period == 0 {
		return false
	}
	return slices.ContainsFunc(pods, func(id cluster.PodID) bool { return s.Pod(id).RanFor(now) >= moment.Hour })
}

// opens takes a set in a fresh transaction and looks for a place.
func opens(s *cluster.Snapshot, now moment.Instant, standing *share.Standing, want *wanted, picked [][]cluster.PodID) (straddles, ok bool) {
	t := cluster.Begin(s)
	v := t.View()
	gives := func(pods []cluster.PodID) (sum cluster.Amount) {
		for _, pod := range pods {
			ask := cluster.Amount{Milli: s.Pod(pod).Placement.Milli(), Rest: v.Shape(s.Pod(pod).Placement.Shape).Need}
			sum = sum.Plus(&ask)
		}
		return sum
	}
	picked = slices.Clone(picked)
	// First what its own queue gives, then the smaller before the larger.
	other := func(pods []cluster.PodID) int {
		if s.Pod(pods[0]).Spec.Queue == want.queue {
			return 0
		}
		return 1
	}
	slices.SortFunc(picked, func(a, b []cluster.PodID) int {
		return cmp.Or(other(a)-other(b), int(gives(a).Milli-gives(b).Milli))
	})
	for _, pods := range picked {
		own := s.Pod(pods[0]).Spec
		if own.Queue == want.queue {
			if own.Priority > want.priority || own.Priority == want.priority && !ranLong(s, pods, now) {
				return false, false
			}
		} else {
			sum := gives(pods)
			above, stays := standing.Above(v, want.queue, own.Queue, &want.need, &sum)
			if !above || !standing.Entitled(v, want.queue, own.Queue, &want.need) {
				return false, false
			}
			straddles = straddles || !stays
		}
		for _, pod := range pods {
			if t.Evict(pod) != nil {
				return false, false
			}
		}
	}
	return straddles, want.fits(t, picked)
}

// bind tries all ways to give devices of a node to a pod with one request.
func bind(t *cluster.Txn, taker cluster.PodID, node cluster.NodeID) bool {
	v := t.View()
	shape, n := v.Pod(taker).Spec.Shape, v.Node(node)
	r := v.Shape(shape).Devices[0]
	for mask := 0; mask < 1<<n.Spec.DeviceCount; mask++ {
		grants := grantsOf(v, n, mask, &r)
		if len(grants) != int(r.Count) {
			continue
		}
		mark := t.Mark()
		if t.Place(taker, cluster.Placement{Node: node, Shape: shape, Grants: grants}) == nil {
			t.Rollback(mark)
			return true
		}
	}
	return false
}

// verdicts count how choices compare with the best there is.
type verdicts struct {
	asked, none, same, near, worse, missed, elsewhere int64
}

// judge compares what a plan evicts with the best set. Nobody may be evicted where there
// is room, or where no set would help.
func (o *verdicts) judge(d *draw, seed int64, s *cluster.Snapshot, want *wanted) {
	t := d.t
	t.Helper()
	evicting := engine.Headrace()
	evicting.Lends = false // a quarter that is lent would spare victims
	plan := engine.Decide(s, decision.Cycle{Number: 2, Now: d.now, Seed: 1}, evicting, nil)
	var got *decision.Yield
	victims := 0
	chosen := optimum{}
	for i := range plan.Decisions {
		if p := &plan.Decisions[i]; p.Action == cluster.ActionEvict {
			got = p.Because.Yield
			victims++
			chosen.band = max(chosen.band, s.Pod(p.Pod).Spec.Priority/100)
			chosen.lost += price(s, s.Pod(p.Pod), d.now)
		}
	}
	if want.fits(cluster.Begin(s), nil) {
		if got != nil {
			t.Fatalf("seed %d: %d evicted although there is room", seed, victims)
		}
		return
	}
	best := exhaustive(s, d.now, want)
	if best == nil && got == nil {
		o.none++
		return
	}
	o.asked++
	within := *want
	within.near = true
	if there := exhaustive(s, d.now, &within); (there == nil) != (best == nil) || best != nil && there.better(best) != best.better(there) {
		// The best set has somebody elsewhere go, whose share the taker's queue gets, not
		// the room: that is not what domains are searched for.
		o.elsewhere++
		best = there
		if best == nil && got == nil {
			return
		}
	}
	switch {
	case best == nil:
		t.Fatalf("seed %d: %d evicted where no set makes room", seed, victims)
	case got == nil:
		o.missed++
		t.Logf("seed %d: nobody gives way; the best set is %+v", seed, *best)
	case got.Straddle != best.straddles || chosen.band != best.band || got.Wholes != best.wholes || got.Slices != best.some:
		o.worse++
		t.Logf("seed %d: chosen %+v of %+v, the best is %+v", seed, *got, chosen, *best)
	case chosen.lost == best.lost:
		o.same++
	case chosen.lost*10 <= best.lost*11+60_000*10:
		o.near++
	default:
		o.worse++
		t.Logf("seed %d: chosen %+v of %+v, the best is %+v", seed, *got, chosen, *best)
	}
}

// report fails where fewer than 95 in a hundred are within the bounds.
func (o *verdicts) report(t *testing.T, cases int64) {
	t.Helper()
	t.Logf("%d cases: %d as good as the best, %d within 1.1 times and 60 GPU-seconds, %d worse, %d missed; in %d the best set would have others go elsewhere; besides %d in which nobody could give way", o.asked, o.same, o.near, o.worse, o.missed, o.elsewhere, o.none)
	if o.asked < cases || (o.same+o.near)*100 < 95*o.asked {
		t.Errorf("%d of %d cases are within the bounds, want 95 %%", o.same+o.near, o.asked)
	}
}

func casesAsked(short, long int64) int64 {
	if os.Getenv("HEADRACE_LONG") != "" {
		return long
	}
	return short
}

// The chosen set is as good as the best there is: in the same band, as many, and hardly
// more work lost; nobody is evicted where there is room, or where no set would help.
func TestVictimsAgainstAllSets(t *testing.T) {
	cases := casesAsked(200, 2000)
	var o verdicts
	for seed := int64(0); o.asked < cases && seed < 40*cases; seed++ {
		d, name := drawCluster(t, seed)
		s := d.w.Snapshot()
		id, _ := d.w.Pod(name)
		o.judge(d, seed, s, podWanted(s, id))
	}
	o.report(t, cases)
}
