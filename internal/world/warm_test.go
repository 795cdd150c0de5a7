package world_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
)

// depot is a random cluster with caches, whose pods need artifacts.
type depot struct {
	t     testing.TB
	w     *world.World
	from  *chance.Source
	now   moment.Instant
	pods  []string
	cycle uint64
	memo  engine.Memo
	came  learn.Arrivals
	sum   uint64 // of all plans
	put   int    // how many waits for a fetch there were
}

const depotKinds = 8

func newDepot(t testing.TB, seed int64) *depot {
	t.Helper()
	d := &depot{t: t, w: world.New(), from: chance.New(seed)}
	for i := range 2 + d.from.Below(5) {
		e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), CPU: 32000, Memory: 128 * quantity.GiB, Pods: 20, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 4 {
			e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB, Sharing: cluster.SharingSlices})
		}
		d.apply(e)
		d.apply(world.CacheKnown{Node: e.Name, Disk: quantity.Bytes(40+d.from.Below(120)) * quantity.GiB, Image: 128 * quantity.MiB, Weights: 256 * quantity.MiB})
	}
	for k := range depotKinds {
		d.apply(world.ArtifactKnown{Name: fmt.Sprintf("image-%d", k/2), Sort: cluster.ArtifactImage, Size: quantity.Bytes(5+k/2) * quantity.GiB, Pinned: k == 0})
		d.apply(world.ArtifactKnown{Name: fmt.Sprintf("weights-%d", k), Sort: cluster.ArtifactWeights, Size: quantity.Bytes(10+2*k) * quantity.GiB, ByPods: k == 2})
	}
	return d
}

func (d *depot) apply(e world.Event) {
	d.t.Helper()
	if err := d.w.Apply(d.now, e); err != nil {
		d.t.Fatal(err)
	}
	if err := cluster.Audit(d.w.View()); err != nil {
		d.t.Fatalf("after %T: %v", e, err)
	}
}

// step lets something happen.
func (d *depot) step() {
	d.t.Helper()
	d.now = d.now.Add(moment.Span(d.from.Below(int64(3 * moment.Minute))))
	v := d.w.View()
	switch n := d.from.Below(10); {
	case n < 5:
		kind, name := min(d.from.Below(depotKinds), d.from.Below(depotKinds)), fmt.Sprintf("p%d-%d", d.now, len(d.pods))
		d.apply(world.PodAdded{
			Name: name, Kind: fmt.Sprintf("kind-%d", kind), Artifacts: []string{fmt.Sprintf("image-%d", kind/2), fmt.Sprintf("weights-%d", kind)},
			Request: world.Request{CPU: 1000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.MilliGPU(300 + 100*d.from.Below(8))}}},
		})
		d.pods = append(d.pods, name)
		id, _ := d.w.Pod(name)
		spec := v.Pod(id).Spec
		if d.came.Observe(d.now, spec.Kind, spec.Artifacts, spec.Shape) {
			b := cluster.Beliefs{Version: d.cycle, Arrivals: d.came.Table()}
			d.apply(world.Learned{Beliefs: &b})
		}
	case n < 7 && len(d.pods) > 0:
		i := d.from.Below(int64(len(d.pods)))
		d.apply(world.PodRemoved{Name: d.pods[i]})
		d.pods = slices.Delete(d.pods, int(i), int(i)+1)
	case n < 9:
		d.arrive(false)
	default: // a node says what it has, whatever was decided
		node := v.Node(cluster.NodeID(d.from.Below(int64(v.Nodes.Len())))).Spec.Name
		d.apply(world.NodeCached{Node: node, Dropped: []string{fmt.Sprintf("weights-%d", d.from.Below(depotKinds))}})
	}
}

// arrive lets one fetch, or all, come to an end.
func (d *depot) arrive(all bool) {
	d.t.Helper()
	v := d.w.View()
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if len(n.Cache.Coming) == 0 {
			continue
		}
		for _, f := range slices.Clone(n.Cache.Coming) {
			if name := v.Artifact(f.Artifact).Name; !all && d.from.Below(5) == 0 {
				d.apply(world.PrefetchFailed{Node: n.Spec.Name, Artifact: name})
			} else {
				d.apply(world.PrefetchDone{Node: n.Spec.Name, Artifact: name})
			}
			if !all {
				return
			}
		}
	}
}

// decide runs a cycle with a memo that is kept and with none, carries the plan out and
// returns how many prefetches were in it.
func (d *depot) decide(kind decision.CycleKind) (fetches int) {
	d.t.Helper()
	d.cycle++
	c := decision.Cycle{Number: d.cycle, Now: d.now, Kind: kind, Seed: 1}
	s := d.w.Snapshot()
	policy := depotPolicy
	plan := engine.Decide(s, c, policy, &d.memo)
	if fresh := engine.Decide(s, c, policy, nil); fresh.Digest(&s.View) != plan.Digest(&s.View) {
		d.t.Fatalf("cycle %d: with a memo %v, without %v", d.cycle, depotLines(s, &plan), depotLines(s, &fresh))
	}
	d.sum = chance.Fold(d.sum, plan.Digest(&s.View))
	for _, bundle := range plan.Bundles() {
		if f := bundle[0].Prefetch; f != nil {
			fetches++
			d.mayFetch(s, f)
		}
		d.apply(world.Acceptance(bundle))
		for i := range bundle {
			if bundle[i].Action == cluster.ActionBind {
				d.apply(world.Bound{Name: s.Pod(bundle[i].Pod).Spec.Name})
			}
		}
	}
	for _, w := range plan.Waiting {
		if w.Why.Code == decision.Fetching {
			d.put++
			d.mayWait(w, &plan)
		}
	}
	return fetches
}

// mayWait says whether a pod that waits for a fetch does so for something that is on its
// way, and not for longer than it is to.
func (d *depot) mayWait(w decision.Waiting, plan *decision.Plan) {
	d.t.Helper()
	v := d.w.View()
	p, node := v.Pod(w.Pod), v.Node(w.Why.Domain.Node)
	if d.now.Since(p.Arrived) >= depotPolicy.Warms.Patience {
		d.t.Fatalf("%s waits for a fetch since %v, at %v", p.Spec.Name, p.Arrived, d.now)
	}
	for i := range plan.Decisions {
		if f := plan.Decisions[i].Prefetch; f != nil && slices.ContainsFunc(f.Drops, func(id cluster.ArtifactID) bool { return slices.Contains(p.Spec.Artifacts, id) }) {
			return // what it needs goes in this cycle: the next looks again
		}
	}
	for _, id := range p.Spec.Artifacts {
		if node.Cache.Find(id) < 0 && node.Cache.Awaits(id) < 0 {
			d.t.Fatalf("%s waits for %s on %s, which nobody fetches: %v", p.Spec.Name, v.Artifact(id).Name, node.Spec.Name, depotLines(d.w.Snapshot(), plan))
		}
	}
}

// mayFetch says whether a prefetch keeps within disk and bandwidth, and drops nothing
// that is pinned or in use.
func (d *depot) mayFetch(s *cluster.Snapshot, f *cluster.Prefetch) {
	d.t.Helper()
	v := d.w.View()
	n := v.Node(f.Node)
	if v.Artifact(f.Artifact).ByPods {
		d.t.Fatalf("%s is fetched, which only pods fetch", v.Artifact(f.Artifact).Name)
	}
	taken := n.Cache.Taken + v.Artifact(f.Artifact).Size
	for _, id := range f.Drops {
		taken -= v.Artifact(id).Size
		if v.Artifact(id).Pinned || v.Uses(f.Node, id) {
			d.t.Fatalf("%s is dropped, and is pinned or in use", v.Artifact(id).Name)
		}
	}
	if taken > n.Cache.Disk {
		d.t.Fatalf("a prefetch of %s takes %d of %d bytes on %s", v.Artifact(f.Artifact).Name, taken, n.Cache.Disk, n.Spec.Name)
	}
	for i := range n.Cache.Coming {
		if other := v.Artifact(n.Cache.Coming[i].Artifact); !f.Urgent && other.Sort == v.Artifact(f.Artifact).Sort {
			d.t.Fatalf("%s is fetched ahead beside %s", v.Artifact(f.Artifact).Name, other.Name)
		}
	}
}

var depotPolicy = engine.Headrace()

func depotLines(s *cluster.Snapshot, p *decision.Plan) (out []string) {
	for i := range p.Decisions {
		out = append(out, p.Decisions[i].Line(&s.View))
	}
	return out
}

// Whatever happens, prefetches keep within the disk and the bandwidth of nodes, drop
// nothing that is pinned or in use, and end: once nothing happens any more, no more is
// fetched after a bounded number of reviews, and nothing that was fetched meanwhile is
// dropped again.
func TestPrefetchesKeepWithinBoundsAndSettle(t *testing.T) {
	seeds := 15
	if long() {
		seeds = 1000
	}
	ahead, put := 0, 0
	for seed := range seeds {
		d := newDepot(t, int64(seed))
		for range 120 {
			d.step()
			d.decide(decision.CycleKind(d.from.Below(2)))
		}
		d.arrive(true)
		rounds := 0
		for ; d.decide(decision.CycleReview) > 0; rounds++ {
			if d.arrive(true); rounds > 20 {
				t.Fatalf("seed %d: not quiet after %d reviews", seed, rounds)
			}
		}
		ahead, put = ahead+rounds, put+d.put
	}
	if ahead == 0 || put == 0 {
		t.Errorf("%d reviews fetched ahead, %d pods waited for a fetch: the test shows nothing", ahead, put)
	}
}

// The same happenings give the same plans.
func TestPrefetchesAreTheSameAgain(t *testing.T) {
	var sums [2]uint64
	for i := range sums {
		d := newDepot(t, 7)
		for range 120 {
			d.step()
			d.decide(decision.CycleKind(d.from.Below(2)))
		}
		sums[i] = d.sum
	}
	if sums[0] != sums[1] {
		t.Errorf("plans differ: %x and %x", sums[0], sums[1])
	}
}

// A rollback takes back what was fetched and dropped, and where artifacts are.
func TestRollbackOfPrefetches(t *testing.T) {
	d := newDepot(t, 3)
	for range 80 {
		d.step()
		d.decide(decision.CycleReview)
	}
	d.arrive(true)
	for _, name := range d.pods {
		d.apply(world.PodRemoved{Name: name}) // what is in use does not go
	}
	s := d.w.Snapshot()
	txn := cluster.Begin(s)
	txn.At(d.now)
	before, mark, tried := txn.View().Digest(), txn.Mark(), 0
	for i := range s.Nodes.Len() {
		n := s.Node(cluster.NodeID(i))
		for k := range s.Artifacts.Len() {
			f := cluster.Prefetch{Node: cluster.NodeID(i), Artifact: cluster.ArtifactID(k)}
			for _, h := range n.Cache.Held {
				if txn.Prefetch(f) == nil {
					tried++
					break
				}
				f.Drops = append(f.Drops, h.Artifact)
			}
		}
	}
	if tried == 0 || txn.View().Digest() == before {
		t.Fatalf("%d prefetches were tried: the test shows nothing", tried)
	}
	txn.Rollback(mark)
	if got := txn.View().Digest(); got != before || len(txn.Prefetches()) != 0 {
		t.Errorf("after %d prefetches and a rollback: digest %x with %d prefetches, was %x with none", tried, got, len(txn.Prefetches()), before)
	}
	if err := cluster.Audit(txn.View()); err != nil {
		t.Error(err)
	}
}

// What is under way for a node that is gone, or that has become another, is over.
func TestPrefetchToANodeThatIsGone(t *testing.T) {
	d := newDepot(t, 1)
	s := d.w.Snapshot()
	f := cluster.Prefetch{Node: 0, Artifact: 0}
	accept := decision.Decision{ID: 1, Action: cluster.ActionPrefetch, Pod: cluster.None, Place: cluster.Nowhere(), Host: cluster.Ref{ID: 0, Generation: s.Node(0).Generation}, Prefetch: &f}
	d.apply(world.Accepted{Decision: accept})
	d.apply(world.NodeRemoved{Name: "n0"})
	if err := d.w.Apply(d.now, world.PrefetchDone{Node: "n0", Artifact: "image-0"}); err == nil {
		t.Error("a prefetch is done on a node that is gone")
	}
	if err := d.w.Apply(d.now, world.Accepted{Decision: accept}); err == nil {
		t.Error("a prefetch to a node that is gone was accepted")
	}
	if nodes := d.w.View().Artifact(0).Nodes; len(nodes) != 0 {
		t.Errorf("the artifact is on nodes %v, want none", nodes)
	}
}
