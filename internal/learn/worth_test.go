package learn_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
)

// town is a world of two nodes with 2 GPUs each and a learner that has seen what
// is offered to it.
type town struct {
	*world.World
	t      *testing.T
	demand learn.Demand
}

func newTown(t *testing.T, cores quantity.MilliCPU) *town {
	t.Helper()
	c := &town{World: world.New(), t: t}
	for _, name := range []string{"n0", "n1"} {
		c.apply(world.NodeAdded{
			Name: name, CPU: cores * 1000, Memory: 64 * quantity.GiB, Pods: 100, Authority: cluster.AuthorityAgent, Life: cluster.LifeReady,
			Devices: []world.Device{{Model: "T4", Sharing: cluster.SharingSlices, Island: -1, NUMA: -1}, {Model: "T4", Sharing: cluster.SharingSlices, Island: -1, NUMA: -1}},
		})
	}
	return c
}

func (c *town) apply(e world.Event) {
	c.t.Helper()
	if err := c.Apply(0, e); err != nil {
		c.t.Fatal(err)
	}
}

// see offers n pods of a request to the learner only, and returns the shape.
func (c *town) see(n int, cpu quantity.MilliCPU, devices int32, milli quantity.MilliGPU) cluster.ShapeID {
	c.t.Helper()
	r := world.Request{CPU: cpu, Memory: quantity.GiB}
	if devices > 0 {
		r.Devices = []world.DeviceRequest{{Count: devices, Milli: milli}}
	}
	c.apply(world.PodAdded{Name: "probe", Request: r})
	id, _ := c.Pod("probe")
	shape := c.View().Pod(id).Spec.Shape
	c.apply(world.PodRemoved{Name: "probe"})
	for range n {
		c.demand.Observe(shape)
	}
	return shape
}

// know makes what was seen the world's belief.
func (c *town) know() *cluster.Worth {
	w := learn.Worth(c.View(), &c.demand)
	c.apply(world.Learned{Beliefs: &cluster.Beliefs{Version: 1, Worth: w, Demand: c.demand.Table()}})
	return w
}

// TestHolesAreWorthWhatFitsThem: with shares of 600 and 400 about, a hole of 400
// is worth nearly all of itself, one of 399 nothing, and a whole card nearly all.
func TestHolesAreWorthWhatFitsThem(t *testing.T) {
	c := newTown(t, 96)
	c.see(50, 1000, 1, 600)
	c.see(50, 1000, 1, 400)
	w := c.know()
	for _, test := range []struct {
		left     int
		min, max int64 // milli
	}{{0, 0, 0}, {399, 0, 0}, {400, 360, 400}, {599, 360, 400}, {800, 760, 800}, {1000, 850, 1000}} {
		if got := w.Hole[test.left] / 1000; got < test.min || got > test.max {
			t.Errorf("a hole of %d is worth %d milli-GPU, want %d to %d", test.left, got, test.min, test.max)
		}
	}
}

// TestStarvationGrowsAsCoresRunOut: with fewer cores more GPU starves, apart from
// the small cost of the cores that are stranded themselves.
func TestStarvationGrowsAsCoresRunOut(t *testing.T) {
	c := newTown(t, 32)
	c.see(100, 8000, 1, 1000)
	w := c.know()
	table := w.Starvation[0]
	last := int64(1 << 62)
	for cores := range table {
		unused := table[cores][20] // two whole cards
		const strandedCore = 2_000
		if unused > last+strandedCore || unused < 0 {
			t.Errorf("with %d steps of CPU %d micro-GPU starve, with one step less %d", cores, unused, last)
		}
		last = unused
	}
	if first := table[0][20]; first < 1_900_000 {
		t.Errorf("without cores %d micro-GPU starve, want about all two million", first)
	}
}

// TestAShareGoesIntoTheHoleItFills: a pod of 400 goes beside the one of 600, not
// onto an idle card, nor beside another of 400.
func TestAShareGoesIntoTheHoleItFills(t *testing.T) {
	c := newTown(t, 96)
	big := c.see(50, 1000, 1, 600)
	small := c.see(50, 1000, 1, 400)
	c.know()
	v := c.View()
	idle := rank.LossOf(v, small, 0)
	before := v.Node(0).Spec.FirstDevice
	c.apply(world.PodAdded{Name: "p", Request: world.Request{CPU: 1000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 600}}}})
	id, _ := c.Pod("p")
	txn := cluster.Begin(c.Snapshot())
	if err := txn.Place(id, cluster.Placement{Node: 0, Shape: big, Grants: []cluster.Grant{{Device: before + 1, Milli: 600}}}); err != nil {
		t.Fatal(err)
	}
	beside := rank.LossOf(txn.View(), small, 0)
	if beside.Worth >= idle.Worth || beside.Device != 1 {
		t.Errorf("beside the 600 the loss is %d on device %d, on an idle card %d: want less, on device 1", beside.Worth, beside.Device, idle.Worth)
	}
}

// TestTheLastWholeNodeHasAPrice: once requests for two cards were seen, taking one
// card of the last node with two idle ones costs more than finishing a node that
// is broken into.
func TestTheLastWholeNodeHasAPrice(t *testing.T) {
	c := newTown(t, 96)
	c.see(20, 1000, 2, 1000)
	single := c.see(20, 1000, 1, 1000)
	c.know()
	v := c.View()
	var have rank.Counts
	for node := range cluster.NodeID(2) {
		now := rank.OffersOf(v, node)
		have.Replace(&rank.Offers{}, &now)
	}
	prices := rank.PricesOf(v, &have)
	takes := rank.LossOf(v, single, 0).Takes
	if takes == 0 || prices.Of(takes) <= 0 {
		t.Errorf("taking a card of a whole node takes %b at a price of %d, want a price", takes, prices.Of(takes))
	}
}

// TestNeedsForecast: the most of the last sixteen runs; kinds apart; nothing known
// is nothing said.
func TestNeedsForecast(t *testing.T) {
	var n learn.Needs
	if n.Observe(0, quantity.GiB, 0) || n.Observe(1, 0, 0) {
		t.Error("a run without a kind or without use changed a forecast")
	}
	n.Observe(1, 9*quantity.GiB, 0)
	for range 15 {
		n.Observe(1, 4*quantity.GiB, 0)
	}
	n.Observe(2, quantity.GiB, 0)
	if got := n.Table().Of(1); got.Memory != 9*quantity.GiB || got.Runs != 16 {
		t.Errorf("after a run of 9 GiB and fifteen of 4 the forecast is %+v, want 9 GiB", got)
	}
	if !n.Observe(1, 5*quantity.GiB, 0) || n.Table().Of(1).Memory != 5*quantity.GiB {
		t.Errorf("after the run of 9 GiB has left the window the forecast is %v, want 5 GiB", n.Table().Of(1).Memory)
	}
	n.Observe(4, 0, 300)
	n.Observe(4, quantity.GiB, 0) // its compute was not measured
	if got, want := n.Table().Of(4), (cluster.Need{Memory: quantity.GiB, Milli: 300, Runs: 2}); got != want {
		t.Errorf("the forecast is %+v, want %+v", got, want)
	}
	if got := n.Table().Of(3); got.Memory != 0 {
		t.Errorf("of a kind never seen %v is forecast", got.Memory)
	}
}
