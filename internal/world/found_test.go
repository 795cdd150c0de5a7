package world_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// plugged is a node of 4 GPUs where the kubelet picks the cards.
func plugged(name string, cpu quantity.MilliCPU) world.NodeAdded {
	e := nodeKind(1, name)
	e.CPU, e.Authority, e.Domain = cpu, cluster.AuthorityPlugin, ""
	return e
}

func gpus(name string, n int32) world.PodAdded {
	return world.PodAdded{Name: name, Request: world.Request{CPU: 1000, Devices: []world.DeviceRequest{{Count: n, Milli: 1000}}}}
}

// idle returns how many devices of a node look idle, and whether facts have
// overdrawn it.
func (c *town) idle(name string) (int32, bool) {
	id, _ := c.w.Node(name)
	n := c.w.View().Node(id)
	return n.IdleDevices, n.Overdrawn
}

// A node that facts have overdrawn counts as many idle devices as the kubelet has
// left, whoever leaves first.
func TestFoundPodsAreChargedWhetherTheyFitOrNot(t *testing.T) {
	for _, c := range []struct {
		leaves    string
		idle      int32
		overdrawn bool
	}{
		{leaves: "none", idle: 0, overdrawn: true},
		{leaves: "first", idle: 1},
		{leaves: "second", idle: 1},
		{leaves: "third", idle: 0},
	} {
		t.Run(c.leaves, func(t *testing.T) {
			k := &town{t: t, from: &raw{}, w: world.New(), at: 10}
			k.must(plugged("n", 16000))
			for name, n := range map[string]int32{"first": 2, "second": 2, "third": 1} { // order: each case has its own sums
				k.must(gpus(name, n))
			}
			for _, name := range []string{"first", "second", "third"} {
				k.must(world.PodFound{Name: name, Node: "n"})
				k.audit()
			}
			if c.leaves != "none" {
				k.must(world.PodRemoved{Name: c.leaves})
				k.audit()
			}
			if idle, overdrawn := k.idle("n"); idle != c.idle || overdrawn != c.overdrawn {
				t.Errorf("%d devices idle, overdrawn %t; want %d, %t", idle, overdrawn, c.idle, c.overdrawn)
			}
		})
	}
}

// Pods stay on a node that changes under them; when it has shrunk, nothing new goes
// there until enough has left.
func TestChangedNodeKeepsItsPods(t *testing.T) {
	k := &town{t: t, from: &raw{}, w: world.New(), at: 10}
	k.must(plugged("n", 16000))
	for _, name := range []string{"a", "b", "c"} {
		k.must(gpus(name, 1))
		k.must(world.PodFound{Name: name, Node: "n"})
	}
	small := plugged("n", 2000)
	small.Devices = small.Devices[:2]
	k.must(world.NodeChanged{NodeAdded: small})
	k.audit()
	if idle, overdrawn := k.idle("n"); idle != 0 || !overdrawn {
		t.Errorf("shrunk to 2 devices under 3: %d idle, overdrawn %t", idle, overdrawn)
	}
	k.must(gpus("late", 1))
	if got := k.decide(t); len(got) != 0 {
		t.Errorf("placed on an overdrawn node: %v", got[0].Line(k.w.View()))
	}
	k.must(world.PodRemoved{Name: "b"})
	k.must(world.PodRemoved{Name: "c"})
	k.audit()
	if idle, overdrawn := k.idle("n"); idle != 1 || overdrawn {
		t.Errorf("with one pod left: %d idle, overdrawn %t; want 1, false", idle, overdrawn)
	}
	if got := k.decide(t); len(got) != 1 {
		t.Errorf("%d placed once there is room, want the late pod", len(got))
	}
	k.must(world.NodeChanged{NodeAdded: plugged("n", 16000)})
	k.audit()
	if idle, _ := k.idle("n"); idle != 2 {
		t.Errorf("grown to 4 devices under 2: %d idle", idle)
	}
}
