package fit_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"pgregory.net/rapid"
)

// Slots is how many pods of a shape find room one after the other, exactly for whole
// cards and for parts of one card, and never less; the same on one island. An empty
// node has as many as its Capacity.
func TestSlotsCountWhatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRack()
		node := r.node(r.gpus(rapid.IntRange(1, 6).Draw(t, "devices"), "H200"))
		first := r.Node(node).Spec.FirstDevice
		for i := range r.Node(node).Spec.DeviceCount {
			if milli := quantity.MilliGPU(rapid.SampledFrom([]int{0, 0, 300, 500, 1000}).Draw(t, "taken")); milli > 0 {
				r.fill(node, cluster.Grant{Device: first + cluster.DeviceID(i), Milli: milli, Memory: quantity.Bytes(milli) * 80 * quantity.MiB})
			}
		}
		request := share(quantity.MilliGPU(rapid.SampledFrom([]int{200, 300, 500, 700}).Draw(t, "share")), 10*quantity.GiB)
		exact := true
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0, 1:
			request = whole(int32(rapid.IntRange(1, 3).Draw(t, "cards")))
			request.SameIsland = rapid.Bool().Draw(t, "linked")
		case 2:
			request.Count, exact = 2, false
		}
		shape, island := r.shape(request), int32(rapid.IntRange(-1, 2).Draw(t, "island"))
		want := fit.Slots(&r.View, shape, node, island)
		empty := newRack()
		bare := empty.node(empty.gpus(int(r.Node(node).Spec.DeviceCount), "H200"))
		if most := fit.Capacity(&empty.View, empty.shape(request), bare, island); most != fit.Slots(&empty.View, 1, bare, island) || most < want {
			t.Fatalf("capacity %d, empty it has %d, now %d", most, fit.Slots(&empty.View, 1, bare, island), want)
		}
		found := int32(0)
		for {
			grants, ok := fit.Grants(&r.View, r.Shape(shape), r.Node(node))
			if island != cluster.None {
				grants, ok = fit.GrantsOn(&r.View, r.Shape(shape), r.Node(node), island)
			}
			place := cluster.Placement{Node: node, Shape: shape, Grants: grants}
			pod := r.pod(shape)
			if !ok || r.Admit(pod, &place) != nil {
				break
			}
			for _, g := range grants {
				if on := r.Device(g.Device).Spec.Island; island != cluster.None && on != island {
					t.Fatalf("device %d is on island %d, not %d", g.Device, on, island)
				}
			}
			r.Charge(pod, place, cluster.PhaseRunning)
			found++
		}
		if found > want || exact && found != want {
			t.Fatalf("%+v on island %d: %d slots, %d pods fit", request, island, want, found)
		}
	})
}
