package cluster

import "github.com/headrace-dev/headrace/internal/core/quantity"

// leaving is what pods on their way out hold, where room is reserved for others: a
// reservation may overdraw that much and no more.
type leaving struct {
	view     *View
	reserved map[NodeID]bool
	queued   map[QueueID]bool // queues with reserved pods
	need     map[NodeID]Vector
	milli    map[DeviceID]quantity.MilliGPU
	memory   map[DeviceID]quantity.Bytes
	counters map[DeviceID][]int64
	used     map[QueueID]Amount
}

func newLeaving(v *View) leaving {
	l := leaving{view: v}
	for i := range v.Pods.Len() {
		if p := v.Pod(PodID(i)); p.Reserved && p.Placement.Placed() {
			l.reserve(p)
		}
	}
	for i := range v.Intents.Len() {
		if in := v.Intents.At(int32(i)); in.ID != 0 && in.Action == ActionResize && in.Before.Placed() {
			l.reserve(v.Pod(in.Pod))
		}
	}
	if l.reserved == nil {
		return l
	}
	l.need, l.milli, l.memory = make(map[NodeID]Vector), make(map[DeviceID]quantity.MilliGPU), make(map[DeviceID]quantity.Bytes)
	l.counters, l.used = make(map[DeviceID][]int64), make(map[QueueID]Amount)
	for i := range v.Pods.Len() {
		if p := v.Pod(PodID(i)); p.Phase == PhaseTerminating {
			l.leave(p)
		}
	}
	for i := range v.Intents.Len() {
		in := v.Intents.At(int32(i))
		if in.ID != 0 && in.Action == ActionResize && in.Place.Lease != nil {
			l.lend(in)
		}
		if in.ID != 0 && in.Action == ActionReplace {
			l.leave(v.Pod(in.Pod))
		}
	}
	return l
}

// lend counts what a pod is about to lend.
func (l *leaving) lend(in *Intent) {
	for i, g := range in.Place.Grants {
		l.milli[g.Device] += in.Place.Lease.Lent[i]
	}
	for q := l.view.Pod(in.Pod).Spec.Queue; q != None; q = l.view.Queues.At(int32(q)).Parent {
		used := l.used[q]
		used.Milli += in.Place.LentMilli()
		l.used[q] = used
	}
}

func (l *leaving) reserve(p *Pod) {
	if l.reserved == nil {
		l.reserved, l.queued = make(map[NodeID]bool), make(map[QueueID]bool)
	}
	l.reserved[p.Placement.Node] = true
	for q := p.Spec.Queue; q != None; q = l.view.Queues.At(int32(q)).Parent {
		l.queued[q] = true
	}
}

func (l *leaving) leave(p *Pod) {
	need := l.need[p.Placement.Node]
	l.need[p.Placement.Node] = need.Plus(&l.view.Shape(p.Placement.Shape).Need)
	for _, g := range p.Placement.Grants {
		l.milli[g.Device] += g.Milli
		l.memory[g.Device] += g.Memory
		spec := l.view.Device(g.Device).Spec
		if profile := spec.Profile(g.Profile); profile != nil {
			if l.counters[g.Device] == nil {
				l.counters[g.Device] = make([]int64, len(spec.Counters))
			}
			for c, amount := range profile.Consumes {
				l.counters[g.Device][c] += amount
			}
		}
	}
	for q := p.Spec.Queue; q != None; q = l.view.Queues.At(int32(q)).Parent {
		sum, own := l.used[q], Amount{Milli: p.Placement.Milli(), Rest: l.view.Shape(p.Placement.Shape).Need}
		l.used[q] = sum.Plus(&own)
	}
}

func (l *leaving) coversNode(id NodeID) bool {
	need := l.need[id]
	free := l.view.Node(id).Free.Plus(&need)
	return l.reserved[id] && !negative(&free)
}

func (l *leaving) coversDevice(d *Device) bool {
	return l.reserved[d.Node] && d.FreeMilli+l.milli[d.ID] >= 0 && d.FreeMemory+l.memory[d.ID] >= 0
}

func (l *leaving) coversCounter(d *Device, c int) bool {
	return l.reserved[d.Node] && counterAt(d.Used, c)-counterAt(l.counters[d.ID], c) <= d.Spec.Counters[c].Total
}

func (l *leaving) coversQueue(id QueueID) bool {
	q, gone := *l.view.Queues.At(int32(id)), l.used[id]
	q.UsedMilli, q.Used = q.UsedMilli-gone.Milli, q.Used.Minus(&gone.Rest)
	return l.queued[id] && !q.above()
}
