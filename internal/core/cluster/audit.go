package cluster

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Audit recomputes every account of the view from its pods and says where the
// books differ, or where a limit is exceeded. It returns nil for sound books.
// It reads everything: for tests, and for a live self-check now and then.
func Audit(v *View) error {
	a := audit{
		leaving: newLeaving(v),
		view:    v, milli: make([]quantity.MilliGPU, v.Devices.Len()), memory: make([]quantity.Bytes, v.Devices.Len()),
		holders: make([]int32, v.Devices.Len()), counters: make(map[DeviceID][]int64), used: make([]Vector, v.Nodes.Len()), pods: make([]int, v.Nodes.Len()),
	}
	for _, step := range []func() error{a.gather, a.kept, a.legacies, a.nodes, a.devices, a.totals, a.hashes, a.company, a.queues, a.groups, a.returns, a.jobs, a.sizes, a.dependencies, a.promises, a.leases, a.refusals, a.waiting, a.moved, a.intents, a.caches} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

type audit struct {
	leaving  leaving
	view     *View
	milli    []quantity.MilliGPU
	memory   []quantity.Bytes
	holders  []int32
	counters map[DeviceID][]int64
	used     []Vector
	pods     []int
}

// gather adds up what pods and claims hold.
func (a *audit) gather() error {
	v := a.view
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Phase.Charged() != p.Placement.Placed() && p.Phase != PhaseGone {
			return fmt.Errorf("audit: pod %s is %v with node %d", p.Spec.Name, p.Phase, p.Placement.Node)
		}
		if !p.Phase.Charged() {
			if p.GoneBy != 0 {
				return fmt.Errorf("audit: pod %s is %v, and holds reserved room until %v", p.Spec.Name, p.Phase, p.GoneBy)
			}
			continue
		}
		node := p.Placement.Node
		a.used[node] = a.used[node].Plus(&v.Shape(p.Placement.Shape).Need)
		a.pods[node]++
		for _, g := range p.Placement.Grants {
			if v.Device(g.Device).Node != node {
				return fmt.Errorf("audit: pod %s on %s holds device %d of another node", p.Spec.Name, v.Node(node).Spec.Name, g.Device)
			}
			a.milli[g.Device] += g.Milli
			a.memory[g.Device] += g.Memory
			a.holders[g.Device]++
			a.count(&g)
		}
	}
	for i := range v.Claims.Len() {
		c := v.Claims.At(int32(i))
		for _, g := range c.Grants {
			if v.Device(g.Device).Node != c.Node {
				return fmt.Errorf("audit: claim %s on %s holds device %d of another node", c.Name, v.Node(c.Node).Spec.Name, g.Device)
			}
			a.milli[g.Device] += g.Milli
			a.memory[g.Device] += g.Memory
			a.holders[g.Device]++
			a.count(&g)
		}
	}
	return nil
}

func (a *audit) count(g *Grant) {
	spec := a.view.Device(g.Device).Spec
	for i := range spec.Profiles {
		if g.Profile == 0 || spec.Profiles[i].Name != g.Profile {
			continue
		}
		if a.counters[g.Device] == nil {
			a.counters[g.Device] = make([]int64, len(spec.Counters))
		}
		for c, amount := range spec.Profiles[i].Consumes {
			a.counters[g.Device][c] += amount
		}
	}
}

func (a *audit) nodes() error {
	v := a.view
	for i := range v.Nodes.Len() {
		n := v.Node(NodeID(i))
		if n.Life == LifeOff {
			if a.pods[i] > 0 {
				return fmt.Errorf("audit: %d pods on node %s, which is off", a.pods[i], n.Spec.Name)
			}
			continue
		}
		want := n.Spec.Allocatable.Minus(&a.used[i])
		if !want.Equal(&n.Free) {
			return fmt.Errorf("audit: node %s: free %v, its pods leave %v", n.Spec.Name, n.Free, want)
		}
		if n.Overdrawn && !v.overdraws(n) {
			return fmt.Errorf("audit: node %s: marked as overdrawn, and is not", n.Spec.Name)
		}
		if negative(&n.Free) && !n.Overdrawn && !a.leaving.coversNode(NodeID(i)) {
			return fmt.Errorf("audit: node %s: overdrawn, free %v", n.Spec.Name, n.Free)
		}
		if len(n.Pods) != a.pods[i] {
			return fmt.Errorf("audit: node %s: lists %d pods, holds %d", n.Spec.Name, len(n.Pods), a.pods[i])
		}
		for _, pod := range n.Pods {
			if v.Pod(pod).Placement.Node != NodeID(i) {
				return fmt.Errorf("audit: node %s lists pod %s, which is elsewhere", n.Spec.Name, v.Pod(pod).Spec.Name)
			}
		}
	}
	return nil
}

// hashes checks what nodes repeat of their devices and pods in one word.
func (a *audit) hashes() error {
	v := a.view
	for i := range v.Nodes.Len() {
		n, residents := v.Node(NodeID(i)), uint64(0)
		for _, pod := range n.Pods {
			residents += chance.Mix(v.Shape(v.Pod(pod).Placement.Shape).Key)
		}
		if state := v.stateOf(n); n.State != state || n.Residents != residents {
			return fmt.Errorf("audit: node %s: state %#x and residents %#x, hashed %#x and %#x", n.Spec.Name, n.State, n.Residents, state, residents)
		}
	}
	return nil
}

// company counts anew who is on each node, as relations between pods see it.
func (a *audit) company() error {
	v := a.view
	for i := range v.Nodes.Len() {
		n := v.Node(NodeID(i))
		var want *Company
		for _, pod := range n.Pods {
			if p := v.Pod(pod); p.Kin != 0 {
				want = want.with(v.Kin(p.Kin), p.headcount(+1))
			}
		}
		if !want.equal(n.Company) {
			return fmt.Errorf("audit: node %s: company %+v, counted %+v", n.Spec.Name, n.Company, want)
		}
	}
	return nil
}

func negative(v *Vector) bool {
	for d := range v.Dims() {
		if v.At(d) < 0 {
			return true
		}
	}
	return false
}

func (a *audit) devices() error {
	v := a.view
	for i := range v.Devices.Len() {
		d := v.Device(DeviceID(i))
		name := v.Node(d.Node).Spec.Name + "/" + d.Spec.Name
		switch {
		case v.Node(d.Node).Life == LifeOff:
		case d.FreeMilli != quantity.WholeGPU-a.milli[i] || d.FreeMemory != d.Spec.Memory-a.memory[i] || d.Holders != a.holders[i]:
			return fmt.Errorf("audit: device %s: free %d milli and %d bytes with %d holders; its pods hold %d, %d and are %d",
				name, d.FreeMilli, d.FreeMemory, d.Holders, a.milli[i], a.memory[i], a.holders[i])
		case v.Node(d.Node).Overdrawn:
		case (d.FreeMilli < 0 || d.FreeMemory < 0) && !a.leaving.coversDevice(d):
			return fmt.Errorf("audit: device %s: overdrawn, free %d milli and %d bytes", name, d.FreeMilli, d.FreeMemory)
		}
		for c := range d.Spec.Counters {
			used, want := counterAt(d.Used, c), counterAt(a.counters[DeviceID(i)], c)
			if used != want || used > d.Spec.Counters[c].Total && !v.Node(d.Node).Overdrawn && !a.leaving.coversCounter(d, c) {
				return fmt.Errorf("audit: device %s: counter %d at %d of %d, its pods use %d", name, c, used, d.Spec.Counters[c].Total, want)
			}
		}
	}
	return nil
}

func counterAt(used []int64, c int) int64 {
	if c < len(used) {
		return used[c]
	}
	return 0
}

func (a *audit) totals() error {
	v := a.view
	classes, domains := make([]Totals, v.Classes.Len()), make([]Totals, v.Domains.Len())
	for i := range v.Nodes.Len() {
		n := v.Node(NodeID(i))
		if n.Spec.Class != None {
			classes[n.Spec.Class].add(n, 1)
		}
		for d := n.Spec.Domain; d != None; d = v.Domains.At(int32(d)).Parent {
			domains[d].add(n, 1)
		}
		milli, idle := quantity.MilliGPU(0), int32(0)
		for k := range n.Spec.DeviceCount {
			if d := v.DeviceOf(n, k); d.Health == Healthy {
				milli += max(d.FreeMilli, 0)
				if d.Holders == 0 {
					idle++
				}
			}
		}
		if milli != n.FreeMilli || idle != n.IdleDevices {
			return fmt.Errorf("audit: node %s: %d milli-GPU free on %d idle devices, counted %d on %d", n.Spec.Name, n.FreeMilli, n.IdleDevices, milli, idle)
		}
	}
	for i := range classes {
		if c := v.Classes.At(int32(i)); c.Totals != classes[i] {
			return fmt.Errorf("audit: class %s: totals %+v, counted %+v", c.Name, c.Totals, classes[i])
		}
	}
	for i := range domains {
		if d := v.Domains.At(int32(i)); d.Totals != domains[i] {
			return fmt.Errorf("audit: domain %s: totals %+v, counted %+v", d.Name, d.Totals, domains[i])
		}
	}
	return nil
}

func (a *audit) queues() error {
	v := a.view
	used, milli := make([]Vector, v.Queues.Len()), make([]quantity.MilliGPU, v.Queues.Len())
	var loose Amount
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if !p.Phase.Charged() {
			continue
		}
		shape := v.Shape(p.Placement.Shape)
		if p.Spec.Queue == None {
			loose = loose.Plus(&Amount{Milli: p.Placement.Milli(), Rest: shape.Need})
		}
		for q := p.Spec.Queue; q != None; q = v.Queues.At(int32(q)).Parent {
			used[q] = used[q].Plus(&shape.Need)
			milli[q] += p.Placement.Milli()
		}
	}
	if loose.Milli != v.Loose.Milli || !loose.Rest.Equal(&v.Loose.Rest) {
		return fmt.Errorf("audit: pods without queue: use %v and %d milli-GPU, they hold %v and %d", v.Loose.Rest, v.Loose.Milli, loose.Rest, loose.Milli)
	}
	for i := range used {
		q := v.Queues.At(int32(i))
		if !q.Used.Equal(&used[i]) || q.UsedMilli != milli[i] {
			return fmt.Errorf("audit: queue %s: uses %v and %d milli-GPU, its pods hold %v and %d", q.Name, q.Used, q.UsedMilli, used[i], milli[i])
		}
		if q.above() && !q.Overdrawn && !a.leaving.coversQueue(QueueID(i)) {
			return fmt.Errorf("audit: queue %s: uses %d milli-GPU, its limit is %d; and %v of %v", q.Name, q.UsedMilli, q.LimitMilli, q.Used, q.Limit)
		}
	}
	if loose.Milli != v.Loose.Milli || !loose.Rest.Equal(&v.Loose.Rest) {
		return fmt.Errorf("audit: pods without queue: use %v and %d milli-GPU, they hold %v and %d", v.Loose.Rest, v.Loose.Milli, loose.Rest, loose.Milli)
	}
	return nil
}

func (a *audit) groups() error {
	v := a.view
	type sums struct{ members, placed, tree, children, whole int32 }
	counted := make([]sums, v.Groups.Len())
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Phase == PhaseGone || p.Spec.Group == None {
			continue
		}
		counted[p.Spec.Group].members++
		if p.Phase.inPlace() {
			counted[p.Spec.Group].placed++
			for g := p.Spec.Group; g != None; g = v.Group(g).Parent {
				counted[g].tree++
			}
		}
	}
	for i := range counted {
		if g := v.Group(GroupID(i)); g.Parent != None {
			counted[g.Parent].children++
			if g.Whole() {
				counted[g.Parent].whole++
			}
		}
	}
	for i, want := range counted {
		g := v.Group(GroupID(i))
		if have := (sums{g.Members, g.Placed, g.TreePlaced, g.Children, g.WholeGroups}); have != want {
			return fmt.Errorf("audit: group %s: members, placed, in the tree, children, whole ones %v, counted %v", g.Name, have, want)
		}
		if g.Stuck() != (g.Deadline > 0) {
			return fmt.Errorf("audit: group %s: %d of at least %d members placed, has run: %v, with the deadline %v", g.Name, g.Placed, g.Minimum, g.Ran, g.Deadline)
		}
		if err := v.auditLists(GroupID(i)); err != nil {
			return err
		}
	}
	return nil
}

// auditLists goes through what a group lists.
func (v *View) auditLists(id GroupID) error {
	g := v.Group(id)
	if g.Members == 0 && g.Children == 0 && g.firstMember == None && g.firstChild == None {
		return nil
	}
	children, members := int32(0), int32(0)
	for c := range v.Children(id) {
		if children++; v.Group(c).Parent != id || children > g.Children {
			return fmt.Errorf("audit: group %s lists %s as its child, it is not", g.Name, v.Group(c).Name)
		}
	}
	for pod := range v.Members(id) {
		if members++; v.Pod(pod).Spec.Group != id || v.Pod(pod).Phase == PhaseGone || members > g.Members {
			return fmt.Errorf("audit: group %s lists pod %s, which is not its member", g.Name, v.Pod(pod).Spec.Name)
		}
	}
	if children != g.Children || members != g.Members {
		return fmt.Errorf("audit: group %s lists %d children and %d members, it has %d and %d", g.Name, children, members, g.Children, g.Members)
	}
	return nil
}

func (a *audit) jobs() error {
	v := a.view
	members := make([]int32, v.Jobs.Len())
	for i := range v.Pods.Len() {
		if p := v.Pod(PodID(i)); p.Phase != PhaseGone && p.Spec.Job != None {
			members[p.Spec.Job]++
		}
	}
	for i := range members {
		if j := v.Job(JobID(i)); j.Members != members[i] {
			return fmt.Errorf("audit: job %s: %d pods, counted %d", j.Name, j.Members, members[i])
		}
	}
	return nil
}

func (a *audit) waiting() error {
	v, listed := a.view, 0
	for _, id := range v.AppendWaiting(nil) {
		if p := v.Pod(id); p.Phase != PhaseWaiting {
			return fmt.Errorf("audit: pod %s is listed as waiting, it is %v", p.Spec.Name, p.Phase)
		}
		listed++
	}
	waiting := 0
	for i := range v.Pods.Len() {
		if v.Pod(PodID(i)).Phase == PhaseWaiting {
			waiting++
		}
	}
	if listed != waiting {
		return fmt.Errorf("audit: %d pods wait, %d are listed", waiting, listed)
	}
	return nil
}

func (a *audit) intents() error {
	v := a.view
	for i := range v.Intents.Len() {
		in := v.Intents.At(int32(i))
		if in.ID == 0 {
			continue
		}
		if p := v.Pod(in.Pod); p.Intent != IntentID(i) || !in.Action.during(p.Phase) {
			return fmt.Errorf("audit: an intent to %v pod %s, which is %v", in.Action, p.Spec.Name, p.Phase)
		}
	}
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Phase == PhaseGone || p.Intent == None {
			continue
		}
		if in := v.Intents.At(int32(p.Intent)); in.ID == 0 || in.Pod != PodID(i) {
			return fmt.Errorf("audit: pod %s names an intent that is not its own", p.Spec.Name)
		}
	}
	return nil
}
