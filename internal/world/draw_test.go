package world_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// TestMain sets how many cases properties draw; more when HEADRACE_LONG=1.
func TestMain(m *testing.M) {
	checks := "200"
	if long() {
		checks = "1000"
	}
	// Before flags are parsed, so that the command line has the last word.
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

func long() bool { return os.Getenv("HEADRACE_LONG") == "1" }

// A source draws numbers; a property test and a fuzz target each have one.
type source interface{ below(n int) int }

type drawn struct{ t *rapid.T }

func (d drawn) below(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

// raw turns bytes into draws, and zeros when they run out.
type raw struct{ bytes []byte }

func (r *raw) below(n int) int {
	if len(r.bytes) == 0 {
		return 0
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	return int(b) % n
}

// fatal is the part of testing.T and rapid.T that a failing step needs.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A town is a world under drawn events, with the names in use.
type town struct {
	t      fatal
	from   source
	w      *world.World
	at     moment.Instant
	nodes  []string
	pods   []string
	serial int
	// What is believed, and how often that changed.
	demand  learn.Demand
	learned uint64
	told    map[string]world.Event // the newest of what the cluster would tell again, by what it is about
}

// newTown returns a world with domains, queues, a few nodes and a few pods.
func newTown(t fatal, from source) *town {
	t.Helper()
	c := &town{t: t, from: from, w: world.New()}
	for _, e := range []world.Event{
		world.DomainAdded{Name: "zone", Level: cluster.LevelZone},
		world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"},
		world.QueueAdded{Name: "root", LimitMilli: 20000},
		world.QueueAdded{Name: "team", Parent: "root", LimitMilli: 9000},
	} {
		c.must(e)
	}
	for range 2 + from.below(5) {
		c.addNode()
	}
	for i := range from.below(3) {
		e := c.terms([]string{"few", "many"}[i])
		e.Comm = min(e.Comm, cluster.CommTree)
		e.Topology = e.Topology[:min(len(e.Topology), 1)]
		e.Minimum, e.Parent = int32(1+from.below(4)), ""
		c.must(world.GroupAdded{Name: e.Name, Minimum: e.Minimum, Topology: e.Topology, Comm: e.Comm})
	}
	for range 1 + from.below(12) {
		c.addPod()
	}
	if from.below(2) > 0 {
		c.learn()
	}
	return c
}

// must applies an event that is sound.
func (c *town) must(e world.Event) {
	c.t.Helper()
	if err := c.w.Apply(c.at, e); err != nil {
		c.t.Fatalf("%T %+v: %v", e, e, err)
	}
	c.note(e)
}

// may applies an event that the world may refuse; then nothing changes.
func (c *town) may(e world.Event) bool {
	c.t.Helper()
	before, position := c.w.View().Digest(), c.w.View().Position()
	err := c.w.Apply(c.at, e)
	if err != nil && (c.w.View().Digest() != before || c.w.View().Position() != position) {
		c.t.Fatalf("%T %+v: refused (%v), yet the world changed", e, e, err)
	}
	if err == nil {
		c.note(e)
	}
	return err == nil
}

// audit says that the books balance.
func (c *town) audit() {
	c.t.Helper()
	if err := cluster.Audit(c.w.View()); err != nil {
		c.t.Fatalf("%v", err)
	}
}

var models = []string{"H200", "L4"}

// nodeKind returns one of four kinds of nodes under a name.
func nodeKind(kind int, name string) world.NodeAdded {
	e := world.NodeAdded{
		Name: name, Domain: "rack", CPU: 16000, Memory: 64 * quantity.GiB, Pods: 16, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent,
		Labels: map[string]string{"kubernetes.io/hostname": name, "kind": fmt.Sprint(kind)},
	}
	for i := range int32(4) {
		d := world.Device{Model: models[kind%2], Memory: 80 * quantity.GiB, Island: i / 2, NUMA: i / 2, Sharing: cluster.SharingSlices}
		switch kind {
		case 0: // no devices
			continue
		case 3:
			d.Sharing, d.Counters = cluster.SharingPartition, map[string]int64{"slices": 7, "left": 1, "right": 1}
			d.Profiles = []world.Profile{
				{Name: "3g", Milli: 430, Memory: 40 * quantity.GiB, Consumes: map[string]int64{"slices": 3}},
				{Name: "2g-0", Milli: 280, Memory: 20 * quantity.GiB, Consumes: map[string]int64{"slices": 2, "left": 1}},
				{Name: "2g-1", Milli: 280, Memory: 20 * quantity.GiB, Consumes: map[string]int64{"slices": 2, "right": 1}},
			}
		}
		e.Devices = append(e.Devices, d)
	}
	if kind == 2 {
		e.Authority = cluster.AuthorityPlugin
		e.Taints = []world.Taint{{Key: "gpu", Effect: cluster.TaintNoSchedule}}
	}
	return e
}

// requests are the shapes that towns ask for.
var requests = []world.Request{
	{CPU: 1000, Memory: quantity.GiB},
	{CPU: 6000, Memory: quantity.GiB},
	{CPU: 2000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 1000}}},
	{CPU: 2000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 2, Milli: 1000, SameIsland: true}}},
	{CPU: 4000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 4, Milli: 1000}}, Tolerations: []world.Toleration{{Key: "gpu", AnyEffect: true}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 250, Memory: 20 * quantity.GiB}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 600, Models: []string{"L4"}}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 2, Milli: 430, Profile: "3g"}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 1000}, {Count: 2, Milli: 500}}},
	{CPU: 500, Memory: quantity.GiB, Selector: [][]world.Requirement{{{Key: "kubernetes.io/hostname", Op: cluster.OpIn, Values: []string{"node-1", "node-3", "node-9"}}}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 9, Milli: 1000}}},
	{CPU: 99000, Memory: quantity.GiB},
	// Leaves a node in the same state as the third, and is another shape.
	{CPU: 2000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 1000}}, Tolerations: []world.Toleration{{Key: "other"}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: 1000, Selector: "some", Parts: true}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 3, Milli: 1000, Selector: "some", Parts: true}}},
	{CPU: 500, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 2, Milli: 1000, Models: []string{"H200"}}, {Count: 1, Milli: 1000, Models: []string{"L4"}}}},
}

func (c *town) addNode() {
	c.t.Helper()
	c.serial++
	name := fmt.Sprintf("node-%d", c.serial)
	c.must(nodeKind(c.from.below(4), name))
	c.nodes = append(c.nodes, name)
}

func (c *town) addPod() {
	c.t.Helper()
	c.serial++
	e := world.PodAdded{
		Name: fmt.Sprintf("pod-%d", c.serial), Request: requests[c.from.below(len(requests))],
		Queue: []string{"", "", "root", "team"}[c.from.below(4)], Priority: int32(c.from.below(3)),
		Group: []string{"", "", "", "few", "many", "all"}[c.from.below(6)],
		Kind:  []string{"", "a", "b"}[c.from.below(3)], SLATotal: moment.Span(c.from.below(3)) * moment.Minute, Expected: moment.Span(c.from.below(4)) * moment.Minute,
	}
	if e.Group == "" && c.from.below(4) == 0 {
		e.Job = c.job()
	}
	if c.from.below(4) == 0 {
		e.Alternatives = requests[:1+c.from.below(3)]
	}
	if c.from.below(2) == 0 {
		e.Owner, e.Surges = []string{"web", "shop"}[c.from.below(2)], c.from.below(2) == 0
	}
	if e.Group != "" && c.from.below(3) == 0 {
		e.Ranked, e.Rank = true, int32(c.from.below(8))
	}
	c.must(e)
	c.pods = append(c.pods, e.Name)
}

// step draws one event, sound or not, and applies it.
func (c *town) step() {
	c.t.Helper()
	c.at = c.at.Add(moment.Second)
	switch c.from.below(35) {
	case 32, 33, 34:
		c.succeed()
	case 31:
		c.restart()
	case 30:
		c.change(c.pod())
	case 0:
		if len(c.nodes) < 12 {
			c.addNode()
		}
	case 1:
		c.removeNode()
	case 2:
		if len(c.nodes) > 0 {
			life := []cluster.Life{cluster.LifeReady, cluster.LifeReady, cluster.LifeDraining, cluster.LifeLaunching}[c.from.below(4)]
			c.must(world.NodeLife{Name: c.node(), Life: life})
		}
	case 3, 4:
		c.may(world.DeviceHealth{Node: c.node(), Device: int32(c.from.below(5)), Health: cluster.Health(min(c.from.below(3), 1))})
	case 5, 6, 7:
		if len(c.pods) < 60 {
			c.addPod()
		}
	case 8:
		if c.may(world.PodRemoved{Name: c.pod()}) {
			c.forget()
		}
	case 9:
		c.may(world.Lost{Name: c.pod()})
	case 10:
		c.may(world.BindRefused{Name: c.pod(), Withdrawn: c.from.below(4) == 0})
	case 11:
		c.may(world.Evicted{Name: c.pod()})
	case 12:
		c.may(world.Started{Name: c.pod()})
	case 13:
		c.evict(c.pod())
	case 14:
		c.learn()
	case 15:
		c.exclude()
	case 16:
		c.find()
	case 17:
		if len(c.nodes) > 0 {
			c.must(world.NodeChanged{NodeAdded: nodeKind(c.from.below(4), c.node())})
		}
	case 18:
		c.regroup()
	case 19:
		c.may(world.EvictRefused{Name: c.pod(), Withdrawn: c.from.below(4) == 0})
	case 20:
		c.may(world.Leaving{Name: c.pod()})
	case 21:
		c.may(world.Reserved{Name: c.pod(), Node: c.node()})
	case 27:
		c.may(world.Resized{Name: c.pod()})
	case 28:
		c.may(world.ResizeRefused{Name: c.pod()})
	case 29:
		c.at = c.at.Add(moment.Span(c.from.below(5)) * moment.Minute)
	case 24:
		c.employ()
	case 22, 23:
		budget := fmt.Sprintf("budget-%d", c.from.below(2))
		c.must(world.BudgetKnown{Name: budget, Left: int32(c.from.below(3))})
		c.may(world.Guarded{Name: c.pod(), Budget: budget})
	default:
		c.may(world.Bound{Name: c.pod()})
	}
}

// change gives a pod another priority, and at times another request, sound or not.
func (c *town) change(name string) {
	c.t.Helper()
	e := world.PodChanged{Name: name, Priority: int32(c.from.below(3)), Protected: c.from.below(8) == 0, Request: requests[c.from.below(len(requests))]}
	if c.from.below(2) == 0 { // other CPU and memory than one of them
		e.Request.CPU, e.Request.Memory = quantity.MilliCPU(1000*c.from.below(20)), quantity.Bytes(c.from.below(80))*quantity.GiB
	}
	c.may(e)
}

// learn replaces the beliefs: by ones about nothing, or by what the pods there
// are suggest.
func (c *town) learn() {
	c.t.Helper()
	v := c.w.View()
	b := &cluster.Beliefs{Version: c.learned + 1}
	c.learned++
	if c.from.below(4) > 0 {
		for _, name := range c.pods {
			if id, ok := c.w.Pod(name); ok {
				c.demand.Observe(v.Pod(id).Spec.Shape)
			}
		}
		b.Demand, b.Worth = c.demand.Table(), learn.Worth(v, &c.demand)
	}
	if c.from.below(2) == 0 {
		b.Needs = &cluster.Needs{ByKind: make(map[cluster.Symbol]cluster.Need), Charge: quantity.Milli(500 * c.from.below(3)), After: int32(c.from.below(3))}
		for _, kind := range []string{"a", "b"} {
			b.Needs.ByKind[c.w.Symbol(kind)] = cluster.Need{
				Runs: int32(1 + c.from.below(6)), Milli: quantity.MilliGPU(50 * c.from.below(20)), Memory: quantity.Bytes(c.from.below(30)) * quantity.GiB,
			}
		}
	}
	c.must(world.Learned{Beliefs: b})
}

// regroup adds, changes or removes a group, sound or not.
func (c *town) regroup() {
	c.t.Helper()
	e := c.terms([]string{"few", "many", "all"}[c.from.below(3)])
	switch c.from.below(4) {
	case 0:
		c.may(world.GroupRemoved{Name: e.Name})
	case 1:
		c.may(e)
	default:
		c.may(world.GroupAdded{
			Name: e.Name, Minimum: e.Minimum, Hold: e.Hold, Queue: []string{"", "team"}[c.from.below(2)],
			Parent: e.Parent, Wished: e.Wished, Groups: e.Groups, Topology: e.Topology, Comm: e.Comm,
		})
	}
}

// terms are what a group is, sound or not; most have no parts and no wishes.
func (c *town) terms(name string) world.GroupChanged {
	e := world.GroupChanged{Name: name, Minimum: int32(c.from.below(5)), Hold: moment.Span(c.from.below(3)) * moment.Second}
	if c.from.below(2) == 0 {
		return e
	}
	e.Parent = []string{"", "all", "many", "none"}[c.from.below(4)]
	e.Groups = int32(c.from.below(4)) - 1
	e.Comm = cluster.Pattern(c.from.below(4))
	if c.from.below(3) == 0 {
		e.Wished = int32(c.from.below(6))
	}
	for range c.from.below(3) {
		e.Topology = append(e.Topology, cluster.TopologyWish{Level: cluster.Level(c.from.below(4)), Required: c.from.below(2) == 0})
	}
	return e
}

func (c *town) node() string {
	if len(c.nodes) == 0 {
		return "none"
	}
	return c.nodes[c.from.below(len(c.nodes))]
}

func (c *town) pod() string {
	if len(c.pods) == 0 {
		return "none"
	}
	return c.pods[c.from.below(len(c.pods))]
}

// forget drops the names of pods that are gone.
func (c *town) forget() {
	kept := c.pods[:0]
	for _, name := range c.pods {
		if _, ok := c.w.Pod(name); ok {
			kept = append(kept, name)
		}
	}
	c.pods = kept
}

// removeNode takes a node away, and at times puts another or the same one in its
// place at once.
func (c *town) removeNode() {
	c.t.Helper()
	if len(c.nodes) == 0 {
		return
	}
	i := c.from.below(len(c.nodes))
	name := c.nodes[i]
	c.must(world.NodeRemoved{Name: name})
	c.nodes = append(c.nodes[:i], c.nodes[i+1:]...)
	switch c.from.below(3) {
	case 0:
		c.addNode()
	case 1:
		c.must(nodeKind(c.from.below(4), name))
		c.nodes = append(c.nodes, name)
	}
}

// evict accepts an eviction that no plan asked for.
func (c *town) evict(name string) {
	c.t.Helper()
	id, ok := c.w.Pod(name)
	if !ok {
		return
	}
	p := c.w.View().Pod(id)
	c.may(world.Accepted{Decision: decision.Decision{
		ID: 1 + uint64(c.at), Action: cluster.ActionEvict, Pod: id, Subject: p.Key,
		Row: cluster.Ref{ID: int32(id), Generation: p.Generation}, Place: p.Placement,
	}})
}

// find says that a pod is bound to a node, whether it fits there or not.
func (c *town) find() {
	c.t.Helper()
	e := world.PodFound{Name: c.pod(), Node: c.node()}
	if c.from.below(2) == 0 {
		for range 1 + c.from.below(2) {
			e.Devices = append(e.Devices, int32(c.from.below(5)))
		}
	}
	c.may(e)
}

// exclude replaces the facts: none, or one shape kept off some nodes, and perhaps a
// selector that picks some devices and parts.
func (c *town) exclude() {
	c.t.Helper()
	v := c.w.View()
	if c.from.below(2) == 0 || v.Shapes.Len() == 0 {
		c.must(world.FactsKnown{})
		return
	}
	shape := cluster.ShapeID(c.from.below(v.Shapes.Len()))
	facts := &cluster.Facts{Excluded: map[cluster.ShapeID][]uint64{shape: {uint64(c.from.below(256))}}}
	if c.from.below(2) == 0 {
		c.must(world.Interned{Text: "some"})
		some, words := c.w.Symbol("some"), (v.Devices.Len()+63)/64
		facts.Selected, facts.Parts = map[cluster.Symbol][]uint64{some: make([]uint64, words)}, map[cluster.Symbol][]uint64{some: make([]uint64, v.Devices.Len())}
		for i := range v.Devices.Len() {
			facts.Selected[some][i/64] |= uint64(c.from.below(2)) << (i % 64)
			facts.Parts[some][i] = uint64(c.from.below(2) * c.from.below(16))
		}
	}
	c.must(world.FactsKnown{Facts: facts})
}

// carry applies a plan in order; the world must accept every decision. Evicted
// pods leave at once; some binds are reported as done.
func (c *town) carry(plan *decision.Plan) {
	c.t.Helper()
	v := c.w.View()
	for i, bundle := range plan.Bundles() {
		line := bundle[0].Line(v)
		if err := c.w.Apply(c.at, world.Acceptance(bundle)); err != nil {
			c.t.Fatalf("bundle %d of %d decisions, %s: %v", i+1, len(plan.Decisions), line, err)
		}
		if d := &bundle[0]; d.Action == cluster.ActionEvict {
			c.must(world.Evicted{Name: v.Pod(d.Pod).Spec.Name})
		} else if d.Action == cluster.ActionResize && c.from.below(3) > 0 && !c.w.UnderWay(d.After) {
			c.must(world.Resized{Name: v.Pod(d.Pod).Spec.Name})
		}
		c.audit()
	}
	c.audit()
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionBind && c.from.below(3) > 0 {
			name := v.Pod(d.Pod).Spec.Name
			if v.Pod(d.Pod).Phase != cluster.PhasePlacing || c.w.Holds(d) {
				continue // held until an eviction or a resize is done
			}
			c.must(world.Bound{Name: name})
			if c.from.below(2) > 0 {
				c.must(world.Started{Name: name})
			}
		}
	}
}

// bind accepts and reports a bind that no plan asked for.
func (c *town) bind(pod, node string) {
	c.t.Helper()
	v := c.w.View()
	id, _ := c.w.Pod(pod)
	host, _ := c.w.Node(node)
	p, n := v.Pod(id), v.Node(host)
	grants, ok := fit.Grants(v, v.Shape(p.Spec.Shape), n)
	if !ok {
		c.t.Fatalf("no devices for %s on %s", pod, node)
	}
	c.must(world.Accepted{Decision: decision.Decision{
		ID: p.Key, Action: cluster.ActionBind, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation},
		Place: cluster.Placement{Node: host, Shape: p.Spec.Shape, Grants: grants}, Host: cluster.Ref{ID: int32(host), Generation: n.Generation},
	}})
	c.must(world.Bound{Name: pod})
}
