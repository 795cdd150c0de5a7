package cluster_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"pgregory.net/rapid"
)

// What a ledger writes after a Freeze, rows added included, never shows in the
// snapshots taken before.
func TestSnapshotsNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		type taken struct {
			snapshot *cluster.Snapshot
			copy     deep
			position uint64
		}
		var all []taken
		for i := range rapid.IntRange(1, 8).Draw(t, "snapshots") {
			snapshot := s.ledger.Freeze()
			all = append(all, taken{snapshot: snapshot, copy: deepCopy(&snapshot.View), position: snapshot.Position()})
			for k := range rapid.IntRange(0, 12).Draw(t, "steps") {
				s.step(t)
				if rapid.IntRange(0, 9).Draw(t, "grow") == 0 {
					name := fmt.Sprintf("new-%d-%d", i, k)
					s.addNode(name, rapid.IntRange(0, 2).Draw(t, "class"))
					s.addPod(name, 0, moment.Instant(k))
				}
			}
		}
		for i, one := range all {
			if diff := difference(one.copy, deepCopy(&one.snapshot.View)); diff != "" {
				t.Fatalf("snapshot %d of %d (-taken +now):\n%s", i, len(all), diff)
			}
			if one.snapshot.Position() != one.position {
				t.Fatalf("snapshot %d: its change log grew from %d to %d", i, one.position, one.snapshot.Position())
			}
		}
	})
}

// The change log names every node whose State differs between two snapshots.
func TestChangesSinceNamesEveryChangedNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		before := s.ledger.Freeze()
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			s.step(t)
		}
		after := s.ledger.Freeze()
		nodes, ok := after.ChangesSince(before.Position())
		if !ok {
			t.Fatal("the log does not reach back")
		}
		named := map[cluster.NodeID]bool{}
		for _, id := range nodes {
			named[id] = true
		}
		for i := range before.Nodes.Len() {
			id := cluster.NodeID(i)
			if a, b := before.Node(id), after.Node(id); (a.State != b.State || a.Residents != b.Residents) && !named[id] {
				t.Fatalf("node %s changed and is not in the log %v", a.Spec.Name, nodes)
			}
		}
		if _, ok := before.ChangesSince(after.Position()); ok && after.Position() != before.Position() {
			t.Fatal("an older view answered for a later position")
		}
	})
}

// A reader too far behind a long log is told so, and one close by is not.
func TestChangeLogIsBounded(t *testing.T) {
	s := newSite()
	id := s.addNode("n", 0)
	start := s.ledger.Position()
	for range 1 << 17 {
		s.ledger.SetLife(id, cluster.LifeReady)
	}
	if _, ok := s.ledger.ChangesSince(start); ok {
		t.Error("a log of 131072 changes reaches back to its start; it should be bounded")
	}
	nodes, ok := s.ledger.ChangesSince(s.ledger.Position() - 1000)
	if !ok || len(nodes) != 1000 {
		t.Errorf("the last 1000 changes: got %d, complete %t", len(nodes), ok)
	}
}

// Nodes that are alike have equal States, and each kind of change makes them
// differ; giving everything back makes them alike again.
func TestStateTellsWhatAPodCouldNotice(t *testing.T) {
	mig := cluster.Placement{Node: 1, Shape: 6}
	share := cluster.Placement{Node: 1, Shape: 4}
	for _, c := range []struct {
		name   string
		class  int
		change func(s *site)
		undo   func(s *site)
	}{
		{
			name: "life", class: 1,
			change: func(s *site) { s.ledger.SetLife(1, cluster.LifeDraining) },
			undo:   func(s *site) { s.ledger.SetLife(1, cluster.LifeReady) },
		},
		{
			name: "health", class: 1,
			change: func(s *site) { s.ledger.SetHealth(6, cluster.Sick) },
			undo:   func(s *site) { s.ledger.SetHealth(6, cluster.Healthy) },
		},
		{
			name: "free amounts", class: 0,
			change: func(s *site) { s.ledger.Charge(0, cluster.Placement{Node: 1, Shape: 0}, cluster.PhaseBound) },
			undo:   func(s *site) { s.ledger.Discharge(0, cluster.PhaseWaiting) },
		},
		{
			name: "extended resources", class: 0,
			change: func(s *site) { s.ledger.Charge(1, cluster.Placement{Node: 1, Shape: 1}, cluster.PhaseBound) },
			undo:   func(s *site) { s.ledger.Discharge(1, cluster.PhaseWaiting) },
		},
		{
			name: "device compute", class: 1,
			change: func(s *site) {
				share.Grants = []cluster.Grant{{Device: 5, Milli: 250, Memory: quantity.GiB}}
				s.ledger.Charge(4, share, cluster.PhaseBound)
			},
			undo: func(s *site) { s.ledger.Discharge(4, cluster.PhaseWaiting) },
		},
		{
			name: "device counters", class: 2,
			change: func(s *site) {
				mig.Grants = []cluster.Grant{{Device: 5, Milli: 280, Memory: quantity.GiB, Profile: s.names.Intern("2g")}}
				s.ledger.Charge(6, mig, cluster.PhaseBound)
			},
			undo: func(s *site) { s.ledger.Discharge(6, cluster.PhaseWaiting) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite()
			a, b := s.addNode("a", c.class), s.addNode("b", c.class)
			for i := range s.shapes {
				s.addPod(fmt.Sprint(i), i, 0)
			}
			state := func(id cluster.NodeID) uint64 { return s.ledger.Node(id).State }
			if state(a) != state(b) {
				t.Fatal("alike nodes differ")
			}
			c.change(s)
			if state(a) == state(b) {
				t.Error("the change does not show")
			}
			c.undo(s)
			if state(a) != state(b) {
				t.Error("undone, yet the nodes differ")
			}
		})
	}
}

// Nodes of different classes have different States, and which of two alike
// devices is taken shows.
func TestStateSeesClassAndDevicePosition(t *testing.T) {
	s := newSite()
	for i := range 3 {
		s.addNode(fmt.Sprint(i), i)
	}
	if s.ledger.Node(1).State == s.ledger.Node(2).State {
		t.Error("nodes of two classes are alike")
	}
	states := map[uint64]int{}
	for device := range 4 {
		pod := s.addPod(fmt.Sprint("p", device), 2, 0)
		s.ledger.Charge(pod, cluster.Placement{Node: 1, Shape: 2, Grants: []cluster.Grant{{Device: cluster.DeviceID(device), Milli: 1000}}}, cluster.PhaseBound)
		states[s.ledger.Node(1).State]++
		s.ledger.Discharge(pod, cluster.PhaseWaiting)
	}
	if len(states) != 4 {
		t.Errorf("four devices taken in turn: %d states, want 4", len(states))
	}
}

// Digest does not depend on dense ids: the same cluster built in another order
// has the same one, and each kind of change shows in it.
func TestDigestGoesByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p := rapid.IntRange(1, 8).Draw(t, "nodes"), rapid.IntRange(1, 20).Draw(t, "pods")
		identity := func(n int) []int {
			out := make([]int, n)
			for i := range out {
				out[i] = i
			}
			return out
		}
		straight := builtInOrder(t, identity(n), identity(p))
		shuffled := builtInOrder(t, rapid.Permutation(identity(n)).Draw(t, "node order"), rapid.Permutation(identity(p)).Draw(t, "pod order"))
		if a, b := straight.ledger.Digest(), shuffled.ledger.Digest(); a != b {
			t.Fatalf("digests %#x and %#x of the same cluster built in two orders", a, b)
		}
		before := straight.ledger.Digest()
		straight.ledger.SetLife(0, cluster.LifeLaunching)
		if straight.ledger.Digest() == before {
			t.Fatal("a node's life does not show in the digest")
		}
	})
}

// builtInOrder adds nodes and pods in the given orders; pod i goes to node
// i mod nodes, if it may.
func builtInOrder(t *rapid.T, nodes, pods []int) *site {
	s := newSite()
	ids := map[int]cluster.NodeID{}
	for _, i := range nodes {
		ids[i] = s.addNode(fmt.Sprintf("n%d", i), i%3)
	}
	for _, i := range pods {
		pod := s.addPod(fmt.Sprintf("p%d", i), i%2, moment.Instant(i))
		place := cluster.Placement{Node: ids[i%len(nodes)], Shape: s.shapes[0]}
		if i%3 > 0 && i < 8 && s.ledger.Pod(pod).Spec.Shape == 0 {
			if err := s.ledger.Admit(pod, &place); err != nil {
				t.Fatal(err)
			}
			s.ledger.Charge(pod, place, cluster.PhaseRunning)
		}
	}
	return s
}

// Each kind of change of a pod shows in the digest.
func TestDigestSeesPods(t *testing.T) {
	s := newSite()
	s.addNode("n", 1)
	pod := s.addPod("p", 2, 0)
	seen := map[uint64]string{}
	step := func(name string, change func()) {
		t.Helper()
		change()
		d := s.ledger.Digest()
		if other, dup := seen[d]; dup {
			t.Errorf("%s: same digest as %s", name, other)
		}
		seen[d] = name
	}
	grants := func(device cluster.DeviceID, milli quantity.MilliGPU) cluster.Placement {
		return cluster.Placement{Node: 0, Shape: 2, Grants: []cluster.Grant{{Device: device, Milli: milli}}}
	}
	step("waiting", func() {})
	step("held", func() { s.ledger.SetPhase(pod, cluster.PhaseHeld) })
	step("attempt", func() { s.ledger.EditPod(pod).Attempt++ })
	step("on device 0", func() {
		s.ledger.SetPhase(pod, cluster.PhaseWaiting)
		s.ledger.Charge(pod, grants(0, 1000), cluster.PhaseBound)
	})
	step("running", func() { s.ledger.SetPhase(pod, cluster.PhaseRunning) })
	step("was there", func() { s.ledger.Discharge(pod, cluster.PhaseWaiting) })
	step("on device 1", func() { s.ledger.Charge(pod, grants(1, 1000), cluster.PhaseBound) })
	step("started", func() { s.ledger.EditPod(pod).Started = 5 })
	step("intent", func() { s.ledger.AddIntent(cluster.Intent{ID: 3, Pod: pod}, cluster.None) })
}
