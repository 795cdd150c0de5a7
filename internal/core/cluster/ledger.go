package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Ledger is a View that can be changed. Every amount in it is charged and
// discharged here and nowhere else, so that the books balance by construction.
// The world owns one; a Txn is one with a memory.
type Ledger struct {
	View
	owner     *owner
	recording bool
	now       moment.Instant // to which the use of queues is counted; 0 in trials
	regrouped []GroupID      // groups that changed, until they are asked for
}

// NewLedger returns an empty one.
func NewLedger() *Ledger {
	l := &Ledger{owner: new(owner)}
	l.lineage = new(owner)
	return l
}

// Freeze returns the present state as a Snapshot. It costs the table headers;
// later writes copy the pages they touch.
func (l *Ledger) Freeze() *Snapshot {
	l.owner = new(owner)
	return &Snapshot{View: l.frozen()}
}

// changesKept bounds the change log: a reader further behind compares all nodes.
const changesKept = 1 << 16

// The rows for writing.

func (l *Ledger) node(id NodeID) *Node { return l.Nodes.own(int32(id), l.owner, l.recording) }
func (l *Ledger) pod(id PodID) *Pod    { return l.Pods.own(int32(id), l.owner, l.recording) }
func (l *Ledger) device(id DeviceID) *Device {
	return l.Devices.own(int32(id), l.owner, l.recording)
}

// AddShape adds a shape; the caller has made sure that it is new.
func (l *Ledger) AddShape(s Shape) ShapeID { return ShapeID(l.Shapes.grow(l.owner, s)) }

// SetProfileMilli tells all shapes that ask for a partition how much of a device
// one takes.
func (l *Ledger) SetProfileMilli(profile Symbol, milli quantity.MilliGPU) {
	for i := range l.Shapes.Len() {
		s := l.Shapes.At(int32(i))
		if !slices.ContainsFunc(s.Devices, func(r DeviceRequest) bool { return r.Profile == profile }) {
			continue
		}
		devices := slices.Clone(s.Devices)
		for k := range devices {
			if devices[k].Profile == profile {
				devices[k].Milli = milli
			}
		}
		l.Shapes.own(int32(i), l.owner, l.recording).Devices = devices
		l.shapeEdits++
	}
}

// AddClass adds a class of nodes.
func (l *Ledger) AddClass(c Class) ClassID { return ClassID(l.Classes.grow(l.owner, c)) }

// AddDomain adds a domain; its parent is there already.
func (l *Ledger) AddDomain(d Domain) DomainID { return DomainID(l.Domains.grow(l.owner, d)) }

// AddNode adds a node with its devices, all free. The spec's FirstDevice and
// DeviceCount are filled in here. An id that a removed node left is reused when
// the number of devices is the same.
func (l *Ledger) AddNode(spec NodeSpec, devices []*DeviceSpec, life Life, reuse NodeID) NodeID {
	id, first, generation := reuse, DeviceID(None), uint32(0)
	if reuse != None {
		old := l.Node(reuse)
		first, generation = old.Spec.FirstDevice, old.Generation+1
	} else {
		first = DeviceID(l.Devices.Len())
		for range devices {
			l.Devices.grow(l.owner, Device{})
		}
		id = NodeID(l.Nodes.grow(l.owner, Node{}))
	}
	spec.FirstDevice, spec.DeviceCount = first, int32(len(devices))
	for i, d := range devices {
		*l.device(first + DeviceID(i)) = Device{Spec: d, ID: first + DeviceID(i), Node: id, FreeMilli: quantity.WholeGPU, FreeMemory: d.Memory}
	}
	n := l.node(id)
	*n = Node{Spec: &spec, Key: chance.HashString(spec.UID), Generation: generation, Life: life, Free: spec.Allocatable}
	l.restate(id, &Node{Spec: &spec})
	return id
}

// SetLife moves a node to another station of its life.
func (l *Ledger) SetLife(id NodeID, life Life) {
	before := *l.Node(id)
	l.node(id).Life = life
	l.restate(id, &before)
}

// SetHealth says whether a device can be used. Pods that hold it keep it.
func (l *Ledger) SetHealth(id DeviceID, health Health) {
	node := l.Device(id).Node
	before := *l.Node(node)
	l.device(id).Health = health
	l.restate(node, &before)
}

// AddPod adds a pod that holds nothing, under a fresh id or one left by a pod
// that is gone.
func (l *Ledger) AddPod(p Pod, reuse PodID) PodID {
	id := reuse
	if l.Pods.Len() == 0 || p.Spec.Priority < l.LowestPriority {
		l.LowestPriority = p.Spec.Priority
	}
	if reuse == None {
		id = PodID(l.Pods.grow(l.owner, Pod{}))
		for l.waiting.Len()*64 <= int(id) {
			l.waiting.grow(l.owner, 0)
		}
	} else {
		p.Generation = l.Pod(reuse).Generation + 1
	}
	phase := p.Phase
	p.Phase = PhaseGone
	*l.pod(id) = p
	l.setPhase(id, phase)
	return id
}

// setPhase moves a pod to another phase and keeps the set of waiting pods.
func (l *Ledger) setPhase(id PodID, phase Phase) {
	p := l.pod(id)
	if (p.Phase == PhaseWaiting) != (phase == PhaseWaiting) {
		*l.waiting.own(int32(id)/64, l.owner, l.recording) ^= 1 << (uint(id) % 64)
	}
	if p.Spec.Group != None {
		l.countMember(id, p.Spec.Group, p.Phase, phase)
	}
	if p.Spec.Job != None && (p.Phase == PhaseGone) != (phase == PhaseGone) {
		if row := l.EditJob(p.Spec.Job); phase == PhaseGone {
			row.Members--
		} else {
			row.Members++
		}
	}
	p.Phase = phase
}

// Respecify gives a pod another spec, of the same group and job. The queue may differ
// only while it holds nothing; what it holds does not change with what it asks for.
func (l *Ledger) Respecify(id PodID, spec *PodSpec) {
	p := l.pod(id)
	if p.Phase.Charged() && p.Spec.Queue != spec.Queue || p.Spec.Group != spec.Group || p.Spec.Job != spec.Job {
		panic(fmt.Sprintf("cluster: pod %d in phase %v is given another queue, group or job", id, p.Phase))
	}
	l.LowestPriority = min(l.LowestPriority, spec.Priority)
	p.Spec = spec
}

// SetPhase moves a pod between phases that hold the same: charged ones, or
// uncharged ones.
func (l *Ledger) SetPhase(id PodID, phase Phase) {
	if l.Pod(id).Phase.Charged() != phase.Charged() {
		panic(fmt.Sprintf("cluster: pod %d from %v to %v without a charge", id, l.Pod(id).Phase, phase))
	}
	if (l.Pod(id).Phase == PhaseTerminating) == (phase == PhaseTerminating) {
		l.setPhase(id, phase)
		return
	}
	l.recount(l.pod(id), func() { l.setPhase(id, phase) })
}

// EditPod returns a pod for changing what no account depends on: times,
// attempts, the intent. Phase and Placement have methods of their own.
func (l *Ledger) EditPod(id PodID) *Pod { return l.pod(id) }

// Charge gives a pod its placement. It does not ask whether there is room:
// facts are facts. Admit asks.
func (l *Ledger) Charge(id PodID, place Placement, phase Phase) {
	if l.Pod(id).Phase.Charged() || !phase.Charged() {
		panic(fmt.Sprintf("cluster: charge of pod %d in phase %v as %v", id, l.Pod(id).Phase, phase))
	}
	l.setPhase(id, phase)
	p := l.pod(id)
	p.Placement = place
	l.apply(p, id, +1)
	l.attend(p, +1)
}

// Reserve charges a waiting pod at a place that others are still to leave. Its node,
// devices and queues may be overdrawn by it until they have left; Audit holds that
// against those who are on their way.
func (l *Ledger) Reserve(id PodID, place Placement) {
	l.SetReserved(id, true)
	l.Charge(id, place, PhasePlacing)
}

// Discharge takes a pod's placement back and remembers where it was.
func (l *Ledger) Discharge(id PodID, phase Phase) {
	if !l.Pod(id).Phase.Charged() || phase.Charged() {
		panic(fmt.Sprintf("cluster: discharge of pod %d in phase %v as %v", id, l.Pod(id).Phase, phase))
	}
	l.attend(l.Pod(id), -1)
	l.setPhase(id, phase)
	p := l.pod(id)
	p.Reserved, p.Kept, p.GoneBy, p.Busy = false, Refusals{}, 0, Gauge{}
	l.apply(p, id, -1)
	p.LastNode = p.Placement.Node
	p.Placement = Nowhere()
}

// apply books a pod's placement with the given sign: devices, node, totals,
// queues.
func (l *Ledger) apply(p *Pod, id PodID, sign int64) {
	place := &p.Placement
	shape := l.Shape(place.Shape)
	l.noteLease(p, id, sign)
	before := *l.Node(place.Node)
	for i := range place.Grants {
		l.applyGrant(&place.Grants[i], sign)
	}
	n := l.node(place.Node)
	if sign > 0 {
		n.Free = n.Free.Minus(&shape.Need)
		n.Pods = appended(n.Pods, id)
		n.Residents += chance.Mix(shape.Key)
	} else {
		n.Free = n.Free.Plus(&shape.Need)
		n.Pods = removed(n.Pods, id)
		n.Residents -= chance.Mix(shape.Key)
		if n.Overdrawn {
			l.spreadOut(place.Node)
		}
	}
	l.restate(place.Node, &before)
	if p.Spec.Queue == None {
		l.Loose = l.Loose.Plus(&Amount{Milli: quantity.MilliGPU(sign) * place.Milli(), Rest: shape.Need.times(sign)})
	}
	for q := p.Spec.Queue; q != None; q = l.Queue(q).Parent {
		l.use(q, &shape.Need, place.Milli(), sign)
	}
}

func (l *Ledger) applyGrant(g *Grant, sign int64) {
	d := l.device(g.Device)
	d.FreeMilli -= quantity.MilliGPU(sign) * g.Milli
	d.FreeMemory -= quantity.Bytes(sign) * g.Memory
	d.Holders += int32(sign)
	if g.Profile == 0 {
		return
	}
	for i := range d.Spec.Profiles {
		if profile := &d.Spec.Profiles[i]; profile.Name == g.Profile {
			used := make([]int64, len(d.Spec.Counters))
			copy(used, d.Used)
			for c, amount := range profile.Consumes {
				used[c] += sign * amount
			}
			d.Used = used
		}
	}
}

func appended[T any](list []T, id T) []T {
	out := make([]T, len(list)+1)
	copy(out, list)
	out[len(list)] = id
	return out
}

func removed[T comparable](list []T, id T) []T {
	out := make([]T, 0, len(list)-1)
	for _, other := range list {
		if other != id {
			out = append(out, other)
		}
	}
	return out
}

// restate recomputes what a node's row derives from its devices, and moves the
// difference into the totals of its class and domains.
func (l *Ledger) restate(id NodeID, before *Node) {
	n := l.node(id)
	n.FreeMilli, n.IdleDevices = 0, 0
	for i := range n.Spec.DeviceCount {
		d := l.DeviceOf(n, i)
		if d.Health == Healthy {
			n.FreeMilli += max(d.FreeMilli, 0)
		}
		if d.Idle() {
			n.IdleDevices++
		}
	}
	n.Overdrawn = n.Overdrawn && l.overdraws(n)
	n.State = l.stateOf(n)
	l.total(before, -1)
	l.total(n, +1)
	l.logChange(id)
}

// total adds a node's row to the totals of its class and domains, or takes it off.
func (l *Ledger) total(n *Node, sign int64) {
	if n.Spec.Class != None {
		l.Classes.own(int32(n.Spec.Class), l.owner, l.recording).Totals.add(n, sign)
	}
	for d := n.Spec.Domain; d != None; d = l.Domains.At(int32(d)).Parent {
		l.Domains.own(int32(d), l.owner, l.recording).Totals.add(n, sign)
	}
}

func (l *Ledger) logChange(id NodeID) {
	if len(l.changes) >= changesKept {
		half := len(l.changes) / 2
		l.changes = append([]NodeID(nil), l.changes[half:]...)
		l.changesBase += uint64(half)
	}
	l.changes = append(l.changes, id)
}

// stateOf hashes what a pod placed next could notice of a node.
func (v *View) stateOf(n *Node) uint64 {
	class := uint64(0)
	if n.Spec.Class != None {
		class = v.Classes.At(int32(n.Spec.Class)).Key
	}
	h := chance.Fold(class, uint64(n.Life))
	// Absent amounts hash as zero ones, so that a node which got back all it gave
	// is again like one that gave nothing.
	for _, amount := range n.Free.inline {
		h = chance.Fold(h, uint64(amount))
	}
	for _, amount := range trimmed(n.Free.extra) {
		h = chance.Fold(h, uint64(amount))
	}
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		flags := uint64(d.Health) << 1
		if d.Holders > 0 {
			flags |= 1
		}
		h = chance.Fold(h, uint64(d.FreeMilli)<<8|flags)
		h = chance.Fold(h, uint64(d.FreeMemory))
		for c := range d.Spec.Counters {
			h = chance.Fold(h, uint64(counterAt(d.Used, c)))
		}
	}
	return h
}

// RemoveNode takes a node away. No pod may be charged to it any more, and none
// remembers it: the next node of this id is another one.
func (l *Ledger) RemoveNode(id NodeID) {
	if n := l.Node(id); len(n.Pods) > 0 {
		panic(fmt.Sprintf("cluster: node %s removed under %d pods", n.Spec.Name, len(n.Pods)))
	}
	if claims := l.claimsOf(id); len(claims) > 0 {
		panic(fmt.Sprintf("cluster: node %s removed under %d claims", l.Node(id).Spec.Name, len(claims)))
	}
	for i := range l.Pods.Len() {
		if l.Pod(PodID(i)).LastNode == id {
			l.pod(PodID(i)).LastNode = None
		}
	}
	l.forgetRefuser(id)
	l.SetCache(id, nil)
	l.SetLife(id, LifeOff)
}

// SetBeliefs replaces what is believed.
func (l *Ledger) SetBeliefs(b *Beliefs) { l.Beliefs = b }

// SetFacts replaces the rim's bit sets.
func (l *Ledger) SetFacts(f *Facts) { l.Facts = f }

// SetSymbols shows the interner's present table.
func (l *Ledger) SetSymbols(s Symbols) { l.Symbols = s }

// SetExtended names the extended dimensions.
func (l *Ledger) SetExtended(names []Symbol) { l.Extended = names }

// AddIntent records a decision under way, in a free row where there is one.
func (l *Ledger) AddIntent(in Intent, reuse IntentID) IntentID {
	if reuse != None {
		*l.Intents.own(int32(reuse), l.owner, l.recording) = in
		return reuse
	}
	return IntentID(l.Intents.grow(l.owner, in))
}

// EditIntent returns an intent for changing.
func (l *Ledger) EditIntent(id IntentID) *Intent {
	return l.Intents.own(int32(id), l.owner, l.recording)
}

// DropIntent frees the row of an intent that is finished or withdrawn.
func (l *Ledger) DropIntent(id IntentID) {
	*l.Intents.own(int32(id), l.owner, l.recording) = Intent{Pod: None, Place: Nowhere(), Before: Nowhere()}
}
