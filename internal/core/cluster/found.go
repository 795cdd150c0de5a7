package cluster

import "github.com/headrace-dev/headrace/internal/core/quantity"

// What comes as a fact is charged whether it fits or not: a pod that another
// scheduler bound, a node that shrank under its pods. Such a node is overdrawn
// until enough has left, and its row says so, so that an audit can tell it from a
// mistake of ours.

// ChargeFound gives a pod the placement it was found with.
func (l *Ledger) ChargeFound(id PodID, place Placement, phase Phase) {
	l.Charge(id, place, phase)
	l.excuse(place.Node)
	l.excuseQueues(id)
}

// excuseQueues marks the queues of a pod that a fact has taken above their limit.
func (l *Ledger) excuseQueues(id PodID) {
	for q := l.Pod(id).Spec.Queue; q != None; q = l.Queues.At(int32(q)).Parent {
		l.ExcuseQueue(q)
	}
}

// ChangeNode gives a node another spec and other devices, and leaves its pods
// where they are. Devices keep their positions; presume picks anew for a pod
// whose devices are gone. A node whose number of devices changed gets another row,
// which is returned.
func (l *Ledger) ChangeNode(id NodeID, spec NodeSpec, devices []*DeviceSpec, life Life, reuse NodeID, presume func(*Shape, *Node) []Grant) NodeID {
	old := *l.Node(id)
	for _, pod := range old.Pods {
		l.apply(l.Pod(pod), pod, -1)
	}
	claims := l.claimsOf(id)
	for _, row := range claims {
		l.applyClaim(l.Claims.At(row), -1)
		l.Claims.own(row, l.owner, l.recording).Node = None
	}
	to := id
	if int32(len(devices)) == old.Spec.DeviceCount {
		before := *l.Node(id)
		spec.FirstDevice, spec.DeviceCount = old.Spec.FirstDevice, old.Spec.DeviceCount
		for i, d := range devices {
			row := l.device(spec.FirstDevice + DeviceID(i))
			*row = Device{Spec: d, ID: row.ID, Node: id, Health: row.Health, FreeMilli: quantity.WholeGPU, FreeMemory: d.Memory}
		}
		n := l.node(id)
		n.Spec, n.Life, n.Free = &spec, life, spec.Allocatable
		n.Generation++
		l.restate(id, &before)
	} else {
		l.node(id).Company = nil
		l.RemoveNode(id)
		to = l.AddNode(spec, devices, life, reuse)
		l.node(to).Company = old.Company
		if old.Cache != nil {
			kept := *old.Cache
			l.SetCache(to, &kept)
		}
	}
	for _, pod := range old.Pods {
		l.reseat(pod, to, &old, presume)
	}
	l.reseatClaims(claims, to, &old)
	l.excuse(to)
	return to
}

// reseat books a pod on the node that its own has become.
func (l *Ledger) reseat(id PodID, to NodeID, old *Node, presume func(*Shape, *Node) []Grant) {
	p := l.pod(id)
	shape, n := l.Shape(p.Placement.Shape), l.Node(to)
	if !n.Spec.Resizes && p.Placement.Lease != nil {
		p.Placement = p.Placement.Repaid() // nobody there can have resized it
	}
	grants := make([]Grant, len(p.Placement.Grants))
	kept := len(grants) == int(shape.DeviceCount())
	for i, g := range p.Placement.Grants {
		position := g.Device - old.Spec.FirstDevice
		if int32(position) >= n.Spec.DeviceCount {
			kept = false
			break
		}
		g.Device = n.Spec.FirstDevice + position
		if d := l.Device(g.Device).Spec; g.Profile == 0 && (p.Placement.FullMilli(i) >= quantity.WholeGPU || d.Memory == 0) {
			g.Memory = d.Memory
		} else if g.Profile != 0 && d.Profile(g.Profile) == nil {
			kept = false
			break
		}
		grants[i] = g
	}
	if !kept {
		grants = presume(shape, n)
		p.Placement.Identity, p.Placement.Lease = IdentityPresumed, nil
	}
	p.Placement.Node, p.Placement.Grants = to, grants
	if p.Intent != None {
		l.Intents.own(int32(p.Intent), l.owner, l.recording).Place = p.Placement
	}
	l.apply(p, id, +1)
	l.excuseQueues(id) // they may have been above it before
}

// ExcuseNode marks a node that a fact has overdrawn, as was known before.
func (l *Ledger) ExcuseNode(id NodeID) { l.excuse(id) }

// excuse marks a node that a fact has overdrawn.
func (l *Ledger) excuse(id NodeID) {
	if l.overdraws(l.Node(id)) {
		l.node(id).Overdrawn = true
	}
}

// overdraws says whether a node or one of its devices holds more than it has.
func (v *View) overdraws(n *Node) bool {
	if negative(&n.Free) {
		return true
	}
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		if d.FreeMilli < 0 || d.FreeMemory < 0 {
			return true
		}
		for c := range d.Spec.Counters {
			if counterAt(d.Used, c) > d.Spec.Counters[c].Total {
				return true
			}
		}
	}
	return false
}

// Unseat is Discharge of a pod that never was where it is said to be: nobody has left, and
// those beside it stay on their devices.
func (l *Ledger) Unseat(id PodID) {
	at := l.Pod(id).Placement.Node
	if l.Node(at).Overdrawn {
		l.node(at).Overdrawn = false
		defer l.excuse(at)
	}
	l.Discharge(id, PhaseWaiting)
}

// spreadOut moves presumed whole devices off those that two pods are charged
// with, onto idle ones, where a pod has just left an overdrawn node: the kubelet
// never gives a card twice, so what looks idle beside them is not.
func (l *Ledger) spreadOut(id NodeID) {
	n := l.Node(id)
	for _, pod := range n.Pods {
		place := l.Pod(pod).Placement
		if place.Identity != IdentityPresumed {
			continue
		}
		for i := range place.Grants {
			if l.Device(place.Grants[i].Device).Holders < 2 {
				continue
			}
			idle, found := l.idleDevice(n)
			if !found {
				return
			}
			moved := append([]Grant(nil), place.Grants...)
			moved[i].Device, moved[i].Memory = idle, l.Device(idle).Spec.Memory
			l.applyGrant(&place.Grants[i], -1)
			l.applyGrant(&moved[i], +1)
			place.Grants = moved
			l.pod(pod).Placement = place
		}
	}
}

func (v *View) idleDevice(n *Node) (DeviceID, bool) {
	for i := range n.Spec.DeviceCount {
		if v.DeviceOf(n, i).Idle() {
			return n.Spec.FirstDevice + DeviceID(i), true
		}
	}
	return None, false
}
