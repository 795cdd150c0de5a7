package cluster_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"pgregory.net/rapid"
)

// deep is everything a View shows, copied row by row: the oracle for undo and
// for snapshots.
type deep struct {
	Nodes   []cluster.Node
	Devices []cluster.Device
	Pods    []cluster.Pod
	Shapes  []cluster.Shape
	Queues  []cluster.Queue
	Domains []cluster.Domain
	Classes []cluster.Class
	Intents []cluster.Intent
	Groups  []cluster.Group
	Waiting []cluster.PodID
	Owing   []cluster.PodID
	Kept    []cluster.Legacy
	Digest  uint64
}

func rows[T any](t *cluster.Table[T], copied func(*T)) []T {
	out := make([]T, t.Len())
	for i := range out {
		out[i] = *t.At(int32(i))
		copied(&out[i])
	}
	return out
}

func deepCopy(v *cluster.View) deep {
	return deep{
		Nodes: rows(&v.Nodes, func(n *cluster.Node) {
			spec := *n.Spec
			spec.Labels, spec.Taints = slices.Clone(spec.Labels), slices.Clone(spec.Taints)
			n.Spec, n.Pods = &spec, slices.Clone(n.Pods)
		}),
		Devices: rows(&v.Devices, func(d *cluster.Device) {
			spec := *d.Spec
			d.Spec, d.Used = &spec, slices.Clone(d.Used)
		}),
		Pods: rows(&v.Pods, func(p *cluster.Pod) {
			spec := *p.Spec
			p.Spec, p.Placement.Grants = &spec, slices.Clone(p.Placement.Grants)
			if lease := p.Placement.Lease; lease != nil {
				own := *lease
				own.Lent, own.With = slices.Clone(lease.Lent), slices.Clone(lease.With)
				p.Placement.Lease = &own
			}
		}),
		Shapes:  rows(&v.Shapes, func(s *cluster.Shape) { s.Devices = slices.Clone(s.Devices) }),
		Queues:  rows(&v.Queues, func(*cluster.Queue) {}),
		Domains: rows(&v.Domains, func(*cluster.Domain) {}),
		Classes: rows(&v.Classes, func(*cluster.Class) {}),
		Intents: rows(&v.Intents, func(in *cluster.Intent) { in.Place.Grants = slices.Clone(in.Place.Grants) }),
		Groups:  rows(&v.Groups, func(*cluster.Group) {}),
		Waiting: v.AppendWaiting(nil),
		Owing:   slices.Clone(v.Owing()),
		Kept:    slices.Clone(v.Legacies()),
		Digest:  v.Digest(),
	}
}

func difference(want, got deep) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b cluster.Vector) bool { return a.Equal(&b) }), cmp.AllowUnexported(cluster.Pod{}, cluster.Group{}, cluster.Queue{}))
}

// After each Rollback the digest and every table equal the deep copy taken at
// the Mark; the snapshot underneath never changes; the books balance after every
// step.
func TestRollbackRestoresTheDeepCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		s.keepSome(t)
		snapshot := s.ledger.Freeze()
		base := deepCopy(&snapshot.View)
		txn := cluster.Begin(snapshot)
		type point struct {
			mark cluster.Mark
			copy deep
		}
		points := []point{{mark: txn.Mark(), copy: deepCopy(txn.View())}}
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				points = append(points, point{mark: txn.Mark(), copy: deepCopy(txn.View())})
			case 1:
				k := rapid.IntRange(0, len(points)-1).Draw(t, "mark")
				txn.Rollback(points[k].mark)
				if diff := difference(points[k].copy, deepCopy(txn.View())); diff != "" {
					t.Fatalf("after rollback (-marked +got):\n%s", diff)
				}
				points = points[:k+1] // marks taken after that one are void
			default:
				move(t, s, txn)
			}
			if err := cluster.Audit(txn.View()); err != nil {
				t.Fatalf("after a move: %v", err)
			}
		}
		txn.Rollback(points[0].mark)
		if changes := txn.Changes(); len(changes) > 0 {
			t.Fatalf("all rolled back, yet %d changes: %+v", len(changes), changes)
		}
		if diff := difference(base, deepCopy(&snapshot.View)); diff != "" {
			t.Fatalf("the snapshot changed (-before +after):\n%s", diff)
		}
	})
}

// keepSome makes all pods without a group those of one owner, and keeps room for heirs.
func (s *site) keepSome(t *rapid.T) {
	owner := s.names.Intern("owner")
	s.ledger.SetSymbols(s.names.Symbols())
	for _, id := range s.pods {
		if p := s.ledger.Pod(id); p.Spec.Group == cluster.None {
			spec := *p.Spec
			spec.Owner = owner
			s.ledger.Respecify(id, &spec)
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "legacies") {
		pod := rapid.SampledFrom(s.pods).Draw(t, "heir")
		if place := s.place(t, &s.ledger.View, pod); s.ledger.Holds(&place) {
			s.ledger.AddLegacy(cluster.Legacy{ID: uint64(i + 1), Of: cluster.None, Name: "old", Owner: owner, Place: place, Heir: cluster.None, Until: 1})
		}
	}
}

// move draws one change of a transaction. A refused one changes nothing.
func move(t *rapid.T, s *site, txn *cluster.Txn) {
	pod := rapid.SampledFrom(s.pods).Draw(t, "pod")
	before := deepCopy(txn.View())
	var err error
	switch rapid.IntRange(0, 8).Draw(t, "move") {
	case 7, 8:
		fits := rapid.IntRange(0, 3).Draw(t, "fits") > 0
		err = txn.Inherit(pod, uint64(rapid.IntRange(0, 3).Draw(t, "legacy")), func(*cluster.Placement) bool { return fits })
	case 0:
		err = txn.Evict(pod)
	case 1:
		place := s.place(t, txn.View(), pod)
		if node := txn.View().Pod(pod).Placement.Node; node != cluster.None {
			place.Grants = s.grants(t, txn.View(), node, place.Shape)
		}
		err = txn.Resize(pod, place.Shape, place.Grants)
	case 2:
		now := moment.Instant(rapid.IntRange(0, 3).Draw(t, "now")) * moment.Instant(5*moment.Minute)
		err = txn.Lend(pod, now, cluster.LeaseEnd(now))
	case 3:
		err = txn.Restore(pod, moment.Instant(10*moment.Minute))
	default:
		err = txn.Place(pod, s.place(t, txn.View(), pod))
	}
	if err == nil {
		return
	}
	if diff := difference(before, deepCopy(txn.View())); diff != "" {
		t.Fatalf("refused (%v), yet changed (-before +after):\n%s", err, diff)
	}
}

// Changes are the net difference: the pods whose place differs between the
// snapshot and now, each once, with both places.
func TestChangesAreTheNetDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		snapshot := s.ledger.Freeze()
		txn := cluster.Begin(snapshot)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			move(t, s, txn)
		}
		want := map[cluster.PodID]cluster.Change{}
		for i := range snapshot.Pods.Len() {
			id := cluster.PodID(i)
			c := cluster.Change{Pod: id, From: snapshot.Pod(id).Placement, To: txn.View().Pod(id).Placement}
			if snapshot.PlacementDigest(&c.From) != txn.View().PlacementDigest(&c.To) {
				want[id] = c
			}
		}
		got := map[cluster.PodID]cluster.Change{}
		for _, c := range txn.Changes() {
			if _, dup := got[c.Pod]; dup {
				t.Fatalf("pod %d is listed twice", c.Pod)
			}
			got[c.Pod] = c
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("changes (-want +got):\n%s", diff)
		}
		touched, complete := txn.TouchedNodes()
		for i := range snapshot.Nodes.Len() {
			id := cluster.NodeID(i)
			if complete && snapshot.Node(id).State != txn.View().Node(id).State && !slices.Contains(touched, id) {
				t.Fatalf("node %d changed and is not among the touched %v", id, touched)
			}
		}
	})
}

// A pod that is evicted and put back as it was is not a change.
func TestEvictedAndPutBackIsNoChange(t *testing.T) {
	s := newSite()
	s.addNode("n", 1)
	pod := s.addPod("p", 2, 0)
	place := cluster.Placement{Node: 0, Shape: s.shapes[2], Grants: []cluster.Grant{{Device: 1, Milli: 1000, Memory: s.ledger.Device(1).Spec.Memory}}}
	s.ledger.Charge(pod, place, cluster.PhaseRunning)
	txn := cluster.Begin(s.ledger.Freeze())
	if err := txn.Evict(pod); err != nil {
		t.Fatal(err)
	}
	if got := txn.Changes(); len(got) != 1 || got[0].To.Placed() {
		t.Errorf("evicted: changes %+v, want one to nowhere", got)
	}
	if err := txn.Place(pod, place); err != nil {
		t.Fatal(err)
	}
	if got := txn.Changes(); len(got) != 0 {
		t.Errorf("put back: changes %+v, want none", got)
	}
	if err := txn.Evict(pod); err != nil {
		t.Fatal(err)
	}
	place.Grants = []cluster.Grant{{Device: 2, Milli: 1000, Memory: s.ledger.Device(2).Spec.Memory}}
	if err := txn.Place(pod, place); err != nil {
		t.Fatal(err)
	}
	if got := txn.Changes(); len(got) != 1 || got[0].From.Grants[0].Device != 1 || got[0].To.Grants[0].Device != 2 {
		t.Errorf("put on another device: changes %+v, want one from device 1 to 2", got)
	}
}

// What a decision is under way for cannot be decided again.
func TestPodsUnderWayAreLeftAlone(t *testing.T) {
	s := newSite()
	s.addNode("n", 1)
	pod := s.addPod("p", 2, 0)
	place := cluster.Placement{Node: 0, Shape: s.shapes[2], Grants: []cluster.Grant{{Device: 1, Milli: 1000, Memory: s.ledger.Device(1).Spec.Memory}}}
	s.ledger.Charge(pod, place, cluster.PhasePlacing)
	s.ledger.EditPod(pod).Intent = s.ledger.AddIntent(cluster.Intent{ID: 9, Pod: pod, Place: place}, cluster.None)
	txn := cluster.Begin(s.ledger.Freeze())
	before := txn.View().Digest()
	if txn.Evict(pod) == nil || txn.Place(pod, place) == nil || txn.Resize(pod, place.Shape, place.Grants) == nil {
		t.Error("a pod that is being placed was moved")
	}
	if got := txn.View().Digest(); got != before {
		t.Errorf("refused moves changed the digest from %#x to %#x", before, got)
	}
}

// Admit names what a placement would break, and admits it without the fault.
func TestAdmitNamesTheFault(t *testing.T) {
	s := newSite()
	s.addNode("plain", 0)
	s.addNode("gpu", 1)
	s.addNode("mig", 2)
	s.addNode("off", 1)
	s.ledger.SetLife(3, cluster.LifeDraining)
	s.ledger.SetHealth(3, cluster.Sick) // device 3 of node gpu
	small, whole, pair, partition := s.addPod("small", 0, 0), s.addPod("whole", 2, 0), s.addPod("pair", 5, 0), s.addPod("partition", 6, 0)
	two := s.names.Intern("2g")
	unknown := s.names.Intern("9g")
	s.ledger.SetSymbols(s.names.Symbols())
	mig := func(i cluster.DeviceID, profile cluster.Symbol) cluster.Grant {
		return cluster.Grant{Device: i, Milli: 280, Memory: 20 << 30, Profile: profile}
	}
	for _, c := range []struct {
		name  string
		pod   cluster.PodID
		place cluster.Placement
		want  string
	}{
		{name: "sound", pod: small, place: cluster.Placement{Node: 0, Shape: 0}},
		{name: "no such node", pod: small, place: cluster.Placement{Node: 9, Shape: 0}, want: "place small: no node with id 9"},
		{name: "nowhere", pod: small, place: cluster.Nowhere(), want: "place small: no node with id -1"},
		{name: "no such shape", pod: small, place: cluster.Placement{Node: 0, Shape: 99}, want: "place small on plain: it does not ask for shape 99"},
		{name: "another's shape", pod: small, place: cluster.Placement{Node: 0, Shape: 3}, want: "place small on plain: it does not ask for shape 3"},
		{name: "draining", pod: small, place: cluster.Placement{Node: 3, Shape: 0}, want: "place small on off: the node is draining"},
		{name: "no devices given", pod: whole, place: cluster.Placement{Node: 1, Shape: 2}, want: "place whole on gpu: 0 devices given, 1 asked for"},
		{name: "device elsewhere", pod: whole, place: cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: 4, Milli: 1000}}}, want: "place whole on gpu: device 4 is not on this node"},
		{name: "device before", pod: whole, place: cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: -1, Milli: 1000}}}, want: "place whole on gpu: device -1 is not on this node"},
		{name: "sick", pod: whole, place: cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: 3, Milli: 1000}}}, want: "place whole on gpu: device 3 is sick"},
		{name: "negative", pod: whole, place: cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: 1, Milli: -1}}}, want: "place whole on gpu: device 1 cannot give -1 milli-GPU and 0 bytes"},
		{name: "more than there is", pod: whole, place: cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: 1, Milli: 1001}}}, want: "place whole on gpu: device 1 has 1000 milli-GPU free, not 1001"},
		{name: "twice the same", pod: pair, place: cluster.Placement{Node: 1, Shape: 5, Grants: []cluster.Grant{{Device: 1, Milli: 600}, {Device: 1, Milli: 600}}}, want: "place pair on gpu: device 1 has 1000 milli-GPU free, not 1200"},
		{name: "memory", pod: whole, place: cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: 1, Milli: 1000, Memory: 81 << 30}}}, want: "place whole on gpu: device 1 has 85899345920 bytes free, not 86973087744"},
		{name: "partition", pod: partition, place: cluster.Placement{Node: 2, Shape: 6, Grants: []cluster.Grant{mig(4, two)}}},
		{name: "no such profile", pod: partition, place: cluster.Placement{Node: 2, Shape: 6, Grants: []cluster.Grant{mig(4, unknown)}}, want: "place partition on mig: device 0 has no profile 9g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := s.ledger.Admit(c.pod, &c.place); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("Admit(%+v): got %q, want %q", c.place, got, c.want)
			}
		})
	}
}

// Partitions that one pod gets on one device are counted together.
func TestAdmitCountsPartitionsOfOnePodTogether(t *testing.T) {
	s := newSite()
	s.addNode("mig", 2)
	profile := s.names.Intern("2g")
	for _, c := range []struct {
		count int32
		want  bool
	}{{count: 3, want: true}, {count: 4, want: false}} {
		shape := s.ledger.AddShape(cluster.Shape{Key: uint64(c.count), Devices: []cluster.DeviceRequest{{Count: c.count, Profile: profile}}})
		s.shapes = append(s.shapes, shape)
		pod := s.addPod("p", len(s.shapes)-1, 0)
		place := cluster.Placement{Node: 0, Shape: shape}
		for range c.count {
			place.Grants = append(place.Grants, cluster.Grant{Device: 0, Milli: 280, Memory: 20 << 30, Profile: profile})
		}
		if err := s.ledger.Admit(pod, &place); (err == nil) != c.want {
			t.Errorf("%d partitions of 2 slices each out of 7: %v, want admitted %t", c.count, err, c.want)
		}
	}
}

// Leases are lent and given back in random order; what a pod holds is, at any time, its
// full share less the quarter that is out, and after all came back everything is as if
// nobody had lent.
func TestLeasesComeBackWhole(t *testing.T) {
	lent := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		for _, id := range s.pods { // running ones lend
			if p := s.ledger.Pod(id); p.Phase == cluster.PhasePlacing {
				s.ledger.SetPhase(id, cluster.PhaseRunning)
			}
		}
		snapshot := s.ledger.Freeze()
		txn := cluster.Begin(snapshot)
		before, owed := txn.View().Digest(), map[cluster.PodID]int64{}
		for range rapid.IntRange(1, 30).Draw(t, "moves") {
			pod := rapid.SampledFrom(s.pods).Draw(t, "pod")
			full := snapshot.Pod(pod).Placement.Milli()
			if _, out := owed[pod]; out {
				if err := txn.Restore(pod, 0); err != nil {
					t.Fatal(err)
				}
				delete(owed, pod)
			} else if txn.Lend(pod, 0, cluster.LeaseEnd(0)) == nil {
				if txn.Lend(pod, 0, cluster.LeaseEnd(0)) == nil {
					t.Fatalf("pod %d lent twice at a time", pod)
				}
				place := &txn.View().Pod(pod).Placement
				owed[pod] = int64(place.LentMilli())
				if m := place.LentMilli(); m < 1 || m > full/4 {
					t.Fatalf("pod %d lent %d of %d", pod, m, full)
				}
				lent++
			}
			if held := txn.View().Pod(pod).Placement.Milli(); int64(held)+owed[pod] != int64(full) {
				t.Fatalf("pod %d holds %d and has lent %d of %d", pod, held, owed[pod], full)
			}
			if err := cluster.Audit(txn.View()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(txn.Changes()); n != len(owed) {
			t.Fatalf("%d changes, %d pods have lent something", n, len(owed))
		}
		for _, pod := range slices.Clone(txn.View().Owing()) {
			if err := txn.Restore(pod, 0); err != nil {
				t.Fatal(err)
			}
		}
		if after := txn.View().Digest(); after != before {
			t.Fatalf("digest %x after all came back, %x before", after, before)
		}
	})
	if lent == 0 {
		t.Error("nobody lent anything")
	}
}
