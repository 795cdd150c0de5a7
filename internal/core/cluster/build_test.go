package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"pgregory.net/rapid"
)

// TestMain sets how many cases properties draw; more when HEADRACE_LONG=1.
func TestMain(m *testing.M) {
	checks := "200"
	if os.Getenv("HEADRACE_LONG") == "1" {
		checks = "5000"
	}
	// Before flags are parsed, so that the command line has the last word.
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// The extended dimensions; the last lies behind the inline ones.
const extendedDims = 3

// A site is a ledger with the names it was built from.
type site struct {
	ledger *cluster.Ledger
	names  cluster.Interner
	shapes []cluster.ShapeID
	nodes  []cluster.NodeID
	pods   []cluster.PodID
}

// newSite returns one with three domains, two queues, two classes and a few
// shapes, but without nodes and pods.
func newSite() *site {
	s := &site{ledger: cluster.NewLedger()}
	l := s.ledger
	parent := cluster.DomainID(cluster.None)
	for i, name := range []string{"cloud", "zone", "rack"} {
		parent = l.AddDomain(cluster.Domain{Name: name, Key: chance.HashString(name), Level: cluster.Level(5 - i), Parent: parent})
	}
	root := l.AddQueue(cluster.Queue{Name: "root", Key: chance.HashString("root"), Parent: cluster.None, LimitMilli: 14000}, cluster.None)
	l.AddQueue(cluster.Queue{Name: "team", Key: chance.HashString("team"), Parent: root, LimitMilli: 9000}, cluster.None)
	for i, name := range []string{"plain", "gpu", "mig"} {
		l.AddClass(cluster.Class{Name: name, Key: uint64(i + 1)})
	}
	// A tree of groups; as they have run, no clock is needed for them.
	for i := range 3 {
		name := fmt.Sprint("group-", i)
		id := l.AddGroup(cluster.Group{
			Name: name, Key: chance.HashString(name), Known: true, Ran: true, Minimum: int32(i), Groups: int32(min(i, 1) - 1),
			Job: cluster.None, Queue: cluster.None,
		}, cluster.None)
		if i > 0 {
			l.SetParent(id, 0)
		}
	}
	var extended []cluster.Symbol
	for i := range extendedDims {
		extended = append(extended, s.names.Intern(fmt.Sprintf("example.com/thing%d", i)))
	}
	l.SetExtended(extended)
	whole := func(n int32) []cluster.DeviceRequest {
		return []cluster.DeviceRequest{{Count: n, Milli: quantity.WholeGPU}}
	}
	for _, c := range []struct {
		need    cluster.Vector
		devices []cluster.DeviceRequest
	}{
		{need: cluster.MakeVector(1000, 1<<30, 1)},
		{need: cluster.MakeVector(500, 1<<28, 1).With(cluster.DimExtended+extendedDims-1, 2)},
		{need: cluster.MakeVector(2000, 1<<30, 1), devices: whole(1)},
		{need: cluster.MakeVector(4000, 1<<30, 1), devices: whole(2)},
		{need: cluster.MakeVector(100, 1<<28, 1), devices: []cluster.DeviceRequest{{Count: 1, Milli: 250, Memory: 10 * quantity.GiB}}},
		{need: cluster.MakeVector(100, 1<<28, 1), devices: []cluster.DeviceRequest{{Count: 2, Milli: 600}}},
		{need: cluster.MakeVector(100, 1<<28, 1), devices: []cluster.DeviceRequest{{Count: 1, Profile: s.names.Intern("2g")}}},
	} {
		shape := cluster.Shape{Need: c.need, Devices: c.devices, Key: chance.Hash(uint64(len(s.shapes)), 77)}
		s.shapes = append(s.shapes, l.AddShape(shape))
	}
	return s
}

// addNode adds a node of one of the three classes.
func (s *site) addNode(name string, class int) cluster.NodeID {
	spec := cluster.NodeSpec{
		Name: name, UID: name, Class: cluster.ClassID(class), Domain: cluster.DomainID(class), Authority: cluster.AuthorityAgent, Resizes: true,
		Allocatable: cluster.MakeVector(16000, 64<<30, 8).With(cluster.DimExtended+extendedDims-1, 5),
	}
	var devices []*cluster.DeviceSpec
	for i := range 4 * min(class, 1) {
		d := &cluster.DeviceSpec{Name: fmt.Sprint(i), Model: s.names.Intern("H200"), Memory: 80 * quantity.GiB, Island: int32(i) / 2, NUMA: int32(i) / 2, Sharing: cluster.SharingSlices}
		if class == 2 {
			d.Sharing = cluster.SharingPartition
			d.Counters = []cluster.Counter{{Name: s.names.Intern("slices"), Total: 7}, {Name: s.names.Intern("engines"), Total: 4}}
			d.Profiles = []cluster.Profile{{Name: s.names.Intern("2g"), Milli: 280, Memory: 20 * quantity.GiB, Consumes: []int64{2, 1}}}
		}
		devices = append(devices, d)
	}
	id := s.ledger.AddNode(spec, devices, cluster.LifeReady, cluster.None)
	s.nodes = append(s.nodes, id)
	s.ledger.SetSymbols(s.names.Symbols())
	return id
}

// addPod adds a waiting pod; each may fall back to the shape before its own.
func (s *site) addPod(name string, shape int, at moment.Instant) cluster.PodID {
	spec := &cluster.PodSpec{
		Name: name, UID: name, Shape: s.shapes[shape], Queue: cluster.QueueID(shape%3 - 1),
		Group: cluster.GroupID(shape%4 - 1), Job: cluster.None, Service: cluster.None, Rank: cluster.None,
	}
	if shape > 0 {
		spec.Alternatives = []cluster.ShapeID{s.shapes[shape-1]}
	}
	id := s.ledger.AddPod(cluster.Pod{
		Spec: spec, Key: chance.HashString(name), Phase: cluster.PhaseWaiting, Placement: cluster.Nowhere(),
		LastNode: cluster.None, Intent: cluster.None, Arrived: at,
	}, cluster.None)
	s.pods = append(s.pods, id)
	return id
}

// place draws a placement, sound or not, for any of the pod's shapes.
func (s *site) place(t *rapid.T, v *cluster.View, pod cluster.PodID) cluster.Placement {
	spec := v.Pod(pod).Spec
	asks := append([]cluster.ShapeID{spec.Shape}, spec.Alternatives...)
	place := cluster.Placement{
		Node:  rapid.SampledFrom(s.nodes).Draw(t, "node"),
		Shape: rapid.SampledFrom(asks).Draw(t, "shape"),
	}
	place.Grants = s.grants(t, v, place.Node, place.Shape)
	return place
}

func (s *site) grants(t *rapid.T, v *cluster.View, node cluster.NodeID, shape cluster.ShapeID) []cluster.Grant {
	n := v.Node(node)
	if n.Spec.DeviceCount == 0 {
		return nil
	}
	var out []cluster.Grant
	for _, r := range v.Shape(shape).Devices {
		from := rapid.Int32Range(0, n.Spec.DeviceCount-1).Draw(t, "device")
		for k := range r.Count {
			g := cluster.Grant{Device: n.Spec.FirstDevice + cluster.DeviceID((from+k)%n.Spec.DeviceCount), Milli: r.Milli, Memory: r.Memory}
			spec := v.Device(g.Device).Spec
			switch profile := spec.Profile(r.Profile); {
			case profile != nil:
				g.Milli, g.Memory, g.Profile = profile.Milli, profile.Memory, r.Profile
			case r.Profile != 0:
				g.Profile = r.Profile // a device without it: to be refused
			case r.Whole():
				g.Memory = spec.Memory
			}
			out = append(out, g)
		}
	}
	return out
}

// drawSite returns a site with nodes and pods, some of them placed, draining or
// sick.
func drawSite(t *rapid.T) *site {
	s := newSite()
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		s.addNode(fmt.Sprintf("n%d", i), rapid.IntRange(0, 2).Draw(t, "class"))
	}
	for i := range rapid.IntRange(1, 70).Draw(t, "pods") {
		s.addPod(fmt.Sprintf("p%d", i), rapid.IntRange(0, len(s.shapes)-1).Draw(t, "shape"), moment.Instant(i))
	}
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		s.step(t)
	}
	return s
}

// step draws one change of the ledger.
func (s *site) step(t *rapid.T) {
	l := s.ledger
	pod := rapid.SampledFrom(s.pods).Draw(t, "pod")
	p := l.Pod(pod)
	switch rapid.IntRange(0, 12).Draw(t, "step") {
	case 12:
		l.ReviseGroup(cluster.GroupID(1+rapid.IntRange(0, 1).Draw(t, "group")), func(g *cluster.Group) { g.Minimum = 3 - g.Minimum })
	case 0:
		node := rapid.SampledFrom(s.nodes).Draw(t, "node")
		l.SetLife(node, rapid.SampledFrom([]cluster.Life{cluster.LifeReady, cluster.LifeReady, cluster.LifeDraining}).Draw(t, "life"))
	case 1:
		if l.Devices.Len() > 0 {
			id := rapid.IntRange(0, l.Devices.Len()-1).Draw(t, "device")
			l.SetHealth(cluster.DeviceID(id), cluster.Health(rapid.IntRange(0, 1).Draw(t, "health")))
		}
	case 2, 3:
		if p.Phase.Charged() {
			l.Discharge(pod, cluster.PhaseWaiting)
		}
	case 4:
		if p.Phase == cluster.PhaseBound {
			l.SetPhase(pod, cluster.PhaseRunning)
		}
	case 5:
		switch p.Phase {
		case cluster.PhaseWaiting:
			l.SetPhase(pod, cluster.PhaseHeld)
		case cluster.PhaseHeld:
			l.SetPhase(pod, cluster.PhaseWaiting)
		}
	default:
		if place := s.place(t, &l.View, pod); p.Phase == cluster.PhaseWaiting && l.Admit(pod, &place) == nil {
			l.Charge(pod, place, cluster.PhaseBound)
		}
	}
}
