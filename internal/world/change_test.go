package world_test

import (
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// A pod that has a place is charged with what it asks for now, whether there is room or
// not; what cannot change while it runs is refused by name, and changes nothing.
func TestPodChanged(t *testing.T) {
	other := requests[2]
	other.CPU = 20000
	choosy := requests[2]
	choosy.Selector = [][]world.Requirement{{{Key: "kind", Op: cluster.OpExists}}}
	for _, c := range []struct {
		name   string
		bound  bool
		change world.PodChanged
		want   string
		free   quantity.MilliCPU
	}{
		{name: "no such pod", change: world.PodChanged{Name: "q"}, want: `pod "q": no such pod`, free: 16000},
		{name: "waits: another priority", change: world.PodChanged{Name: "p", Priority: 3, Request: requests[2]}, free: 16000},
		{name: "waits: another request", change: world.PodChanged{Name: "p", Request: requests[4]}, free: 16000},
		{name: "waits: no such request", change: world.PodChanged{Name: "p", Request: world.Request{CPU: -1}}, want: "pod p: cpu -1, memory 0: must not be negative", free: 16000},
		{name: "waits: never done", change: world.PodChanged{Name: "p", SLATotal: -1}, want: "pod p: SLA -1us, expected 0s: must not be negative", free: 16000},
		{name: "bound: more CPU than there is", bound: true, change: world.PodChanged{Name: "p", Request: other}, free: -4000},
		{name: "bound: protected", bound: true, change: world.PodChanged{Name: "p", Protected: true, Request: requests[2]}, free: 14000},
		{name: "bound: other devices", bound: true, change: world.PodChanged{Name: "p", Request: requests[3]}, want: "pod p: request: devices: it is bound: only CPU and memory can change", free: 14000},
		{name: "bound: a selector", bound: true, change: world.PodChanged{Name: "p", Request: choosy}, want: "pod p: request: selector: it is bound: only CPU and memory can change", free: 14000},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := oneNode(t)
			if c.bound {
				k.bind("p", "n")
			}
			before := k.w.View().Digest()
			err := k.w.Apply(k.at, c.change)
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Fatalf("got %v, want %q", err, c.want)
			case err != nil && k.w.View().Digest() != before:
				t.Error("it is refused, and the world has changed")
			case err == nil && (k.row("p").Spec.Priority != c.change.Priority || k.row("p").Spec.Protected != c.change.Protected):
				t.Errorf("it is %+v", k.row("p").Spec)
			}
			k.audit()
			node, _ := k.w.Node("n")
			if got := k.w.View().Node(node).Free.At(cluster.DimCPU); got != int64(c.free) {
				t.Errorf("%d milli-CPU free, want %d", got, c.free)
			}
		})
	}
}
