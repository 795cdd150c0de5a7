package world_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// Who is found in room that was kept for a pod that moves has it; the one that moved waits.
func TestFoundWhereAMoveWasToGo(t *testing.T) {
	k := &town{t: t, from: &raw{}, w: world.New()}
	device := world.Device{Model: "A100", Memory: 80 * quantity.GiB}
	for _, name := range []string{"from", "to"} {
		k.must(world.NodeAdded{Name: name, CPU: 16000, Memory: quantity.GiB, Pods: 10, Life: cluster.LifeReady, Devices: []world.Device{device}})
	}
	for _, name := range []string{"mover", "other"} {
		k.must(world.PodAdded{Name: name, Request: world.Request{Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU}}}})
	}
	k.must(world.PodFound{Name: "mover", Node: "from"})
	id, _ := k.w.Pod("mover")
	p := k.w.View().Pod(id)
	to := cluster.Placement{Node: 1, Shape: p.Spec.Shape, Grants: []cluster.Grant{{Device: 1, Milli: quantity.WholeGPU, Memory: 80 * quantity.GiB}}}
	k.must(world.Accepted{Decision: decision.Decision{
		ID: 1, Action: cluster.ActionEvict, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation},
		Place: p.Placement, Target: &cluster.Target{Place: to, Bind: 2, Until: moment.Never},
	}})
	k.must(world.PodFound{Name: "other", Node: "to"})
	k.audit()
	k.must(world.Evicted{Name: "mover"})
	k.audit()
	if got := k.w.View().Pod(id).Phase; got != cluster.PhaseWaiting {
		t.Errorf("the pod that moved is %v, want it to wait", got)
	}
}
