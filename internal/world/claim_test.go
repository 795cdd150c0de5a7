package world_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// claimed is a world with one node of four shareable devices that only requests
// with a selector get.
func claimed(t *testing.T) (*world.World, func(world.Event)) {
	t.Helper()
	w := world.New()
	must := func(e world.Event) {
		t.Helper()
		if err := w.Apply(w.Now()+1, e); err != nil {
			t.Fatalf("%T: %v", e, err)
		}
		if err := cluster.Audit(w.View()); err != nil {
			t.Fatalf("after %T: %v", e, err)
		}
	}
	must(node("n", 4))
	return w, must
}

func node(name string, devices int) world.NodeAdded {
	n := world.NodeAdded{Name: name, CPU: 64000, Pods: 100, Authority: cluster.AuthorityDRA, Selective: true, Life: cluster.LifeReady}
	for range devices {
		n.Devices = append(n.Devices, world.Device{Model: "m", Memory: 80, Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingSlices})
	}
	return n
}

func asks(name string, requests ...world.DeviceRequest) world.PodAdded {
	return world.PodAdded{Name: name, Request: world.Request{Devices: requests}}
}

// know tells the world which devices of the only node meet a selector.
func know(w *world.World, must func(world.Event), sets map[string]uint64) {
	facts := &cluster.Facts{Selected: make(map[cluster.Symbol][]uint64)}
	for selector, set := range sets { // order: a map is filled
		facts.Selected[w.Symbol(selector)] = []uint64{set}
	}
	must(world.FactsKnown{Facts: facts})
}

// decide returns the grants of every pod that is bound in one cycle.
func decideAll(t *testing.T, w *world.World, must func(world.Event)) map[string][]cluster.Grant {
	t.Helper()
	s := w.Snapshot()
	plan := engine.Decide(s, decision.Cycle{Number: 1, Now: w.Now()}, engine.Headrace(), nil)
	out := make(map[string][]cluster.Grant)
	for i := range plan.Decisions {
		must(world.Accepted{Decision: plan.Decisions[i]})
		out[s.Pod(plan.Decisions[i].Pod).Spec.Name] = plan.Decisions[i].Place.Grants
	}
	return out
}

// A claim holds its devices for nobody in particular, until it is released; a hold
// without a share keeps whole requests away.
func TestClaimsHoldDevices(t *testing.T) {
	w, must := claimed(t)
	must(world.ClaimAllocated{Name: "ns/c", Node: "n", Held: []world.Held{{Device: 0, Milli: 400, Memory: 60}, {Device: 1, Milli: 1000, Memory: 80}, {Device: 2}}})
	know(w, must, map[string]uint64{"any": 0b1111})
	whole := world.DeviceRequest{Count: 1, Milli: quantity.WholeGPU, Selector: "any"}
	must(asks("a", whole))
	must(asks("b", whole))
	got := decideAll(t, w, must)
	if len(got) != 1 {
		t.Fatalf("%d whole devices were given, want the one that nobody holds: %v", len(got), got)
	}
	must(world.ClaimReleased{Name: "ns/c"})
	if got := decideAll(t, w, must); len(got) != 1 {
		t.Errorf("after the release %v was bound, want the other pod", got)
	}
	must(world.ClaimAllocated{Name: "ns/d", Node: "n", Held: []world.Held{{Device: 3, Milli: 1000, Memory: 80}, {Device: 3, Milli: 1000, Memory: 80}}})
	must(world.NodeChanged{NodeAdded: node("n", 6)})
	must(world.NodeRemoved{Name: "n"})
	if w.Claim("ns/d") {
		t.Error("a claim outlived its node")
	}
}

// Requests get only the devices that meet their selector, and the grants come in the
// order of the requests.
func TestSelectorsOfDevices(t *testing.T) {
	w, must := claimed(t)
	must(asks("pair",
		world.DeviceRequest{Count: 1, Milli: 300, Selector: "high"},
		world.DeviceRequest{Count: 1, Milli: quantity.WholeGPU, Selector: "any"},
		world.DeviceRequest{Count: 2, Milli: quantity.WholeGPU, Selector: "low"}))
	must(asks("unknown", world.DeviceRequest{Count: 1, Milli: 100, Selector: "nothing known"}))
	must(asks("plain", world.DeviceRequest{Count: 1, Milli: 100}))
	know(w, must, map[string]uint64{"any": 0b1111, "high": 0b1000, "low": 0b0011})
	got := decideAll(t, w, must)
	if len(got) != 1 || len(got["pair"]) != 4 {
		t.Fatalf("bound %v, want the pair alone with four devices", got)
	}
	for i, want := range []cluster.Grant{{Device: 3, Milli: 300}, {Device: 2, Milli: 1000, Memory: 80}, {Device: 0, Milli: 1000, Memory: 80}, {Device: 1, Milli: 1000, Memory: 80}} {
		if got["pair"][i] != want {
			t.Errorf("grant %d is %+v, want %+v", i, got["pair"][i], want)
		}
	}
}
