package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A running pod may lend a quarter of its compute until its quota epoch ends. Only
// compute: memory of a running process cannot be taken. What it has lent is not
// charged to it, nor to its queue; when the lease is over it gets it back first of all.

// Lease is what the holder of a placement has lent, until an instant. It never
// changes in place.
type Lease struct {
	Since, Until moment.Instant
	Lent         []quantity.MilliGPU // of each grant
	// With lists, sorted, the keys of the others that held a part of these devices
	// when it began: who came later holds what was lent.
	With []uint64
}

// leaseEpoch is the length of a quota epoch.
const leaseEpoch = 10 * moment.Minute

// LeaseEnd is when a lease that begins now ends.
func LeaseEnd(now moment.Instant) moment.Instant {
	return moment.Instant(int64(now) / int64(leaseEpoch) * int64(leaseEpoch)).Add(leaseEpoch)
}

// FullMilli is what grant i is of its device when nothing is lent.
func (p *Placement) FullMilli(i int) quantity.MilliGPU {
	if p.Lease == nil || i >= len(p.Lease.Lent) {
		return p.Grants[i].Milli
	}
	return p.Grants[i].Milli + p.Lease.Lent[i]
}

// LentMilli is what is lent of all devices.
func (p *Placement) LentMilli() quantity.MilliGPU {
	var sum quantity.MilliGPU
	if p.Lease != nil {
		for _, m := range p.Lease.Lent {
			sum += m
		}
	}
	return sum
}

// full returns the grants as they are when nothing is lent.
func (p *Placement) full() []Grant {
	if p.Lease == nil {
		return p.Grants
	}
	out := slices.Clone(p.Grants)
	for i := range out {
		out[i].Milli = p.FullMilli(i)
	}
	return out
}

// Repaid returns the placement with what was lent.
func (p *Placement) Repaid() Placement {
	out := *p
	out.Grants, out.Lease = p.full(), nil
	return out
}

// Resizes says whether another placement is this one with something lent, or with
// what was lent given back.
func (p *Placement) Resizes(q *Placement) bool {
	return p.Node == q.Node && p.Node != None && p.Shape == q.Shape && p.Identity == q.Identity &&
		(p.Lease == nil) != (q.Lease == nil) && slices.Equal(p.full(), q.full())
}

func (s *Lease) same(t *Lease) bool {
	if s == nil || t == nil {
		return s == t
	}
	return s.Since == t.Since && s.Until == t.Until && slices.Equal(s.Lent, t.Lent) && slices.Equal(s.With, t.With)
}

// sound says whether a lease, if any, is one of these grants.
func (p *Placement) sound() bool {
	if p.Lease == nil {
		return true
	}
	if len(p.Lease.Lent) != len(p.Grants) || p.Identity != IdentityDecided || p.LentMilli() <= 0 {
		return false
	}
	for i, m := range p.Lease.Lent {
		if m < 0 || m > 0 && (p.Grants[i].Milli < 1 || p.Grants[i].Profile != 0) {
			return false
		}
	}
	return true
}

func (s *Lease) digest() uint64 {
	h := chance.Hash(25, uint64(s.Since), uint64(s.Until))
	for _, m := range s.Lent {
		h = chance.Fold(h, uint64(m))
	}
	for _, key := range s.With {
		h = chance.Fold(h, key)
	}
	return h
}

// Lender is a pod that may lend, and what it would give in all.
type Lender struct {
	Pod   PodID
	Gives quantity.MilliGPU
}

// Lenders lists the pods of a node that may lend a quarter now, in order of charging.
// Whether they should is not looked at.
func (v *View) Lenders(node NodeID, now moment.Instant) []Lender {
	if !v.Node(node).Spec.Resizes {
		return nil
	}
	var out []Lender
	for _, id := range v.Node(node).Pods {
		if lease, err := v.leaseOf(id, now, LeaseEnd(now)); err == nil {
			out = append(out, Lender{Pod: id, Gives: (&Placement{Lease: lease}).LentMilli()})
		}
	}
	return out
}

// leaseOf returns what a pod can lend; an error says why it cannot.
func (v *View) leaseOf(id PodID, now, until moment.Instant) (*Lease, error) {
	p := v.Pod(id)
	place := &p.Placement
	switch {
	case p.Phase != PhaseBound && p.Phase != PhaseRunning:
		return nil, fmt.Errorf("lend of %s: it is %v, not running", p.Spec.Name, p.Phase)
	case p.Intent != None:
		return nil, fmt.Errorf("lend of %s: a decision is under way for it", p.Spec.Name)
	case !v.Node(place.Node).Spec.Resizes:
		return nil, fmt.Errorf("lend of %s: what runs on %s cannot be resized", p.Spec.Name, v.Node(place.Node).Spec.Name)
	case place.Identity != IdentityDecided:
		return nil, fmt.Errorf("lend of %s: its devices are not ours to divide", p.Spec.Name)
	case place.Lease != nil:
		return nil, fmt.Errorf("lend of %s: it has lent until %v", p.Spec.Name, place.Lease.Until)
	case until <= now:
		return nil, fmt.Errorf("lend of %s: until %v, which is over", p.Spec.Name, until)
	case p.Repaid > 0 && now < LeaseEnd(p.Repaid):
		return nil, fmt.Errorf("lend of %s: it got a quarter back in this epoch", p.Spec.Name)
	}
	lease := &Lease{Since: now, Until: until, Lent: make([]quantity.MilliGPU, len(place.Grants))}
	for i := range place.Grants {
		g := &place.Grants[i]
		d := v.Device(g.Device)
		if g.Profile == 0 && g.Milli > 1 && d.Spec.Sharing == SharingSlices && d.Health == Healthy {
			lease.Lent[i] = max(g.Milli/4, 1)
		}
	}
	if (&Placement{Lease: lease}).LentMilli() == 0 {
		return nil, fmt.Errorf("lend of %s: it holds no share of a device that can be divided", p.Spec.Name)
	}
	lease.With = v.besides(id)
	return lease, nil
}

// MayLend says whether a pod can lend what a lease says, no more and no less.
func (v *View) MayLend(id PodID, lease *Lease) error {
	own, err := v.leaseOf(id, lease.Since, lease.Until)
	if err == nil && !slices.Equal(own.Lent, lease.Lent) {
		return fmt.Errorf("lend of %s: %v of its devices, it is to be %v", v.Pod(id).Spec.Name, lease.Lent, own.Lent)
	}
	return err
}

// besides lists, sorted, the keys of the other pods that hold a part of a pod's
// devices.
func (v *View) besides(id PodID) []uint64 {
	var out []uint64
	place := &v.Pod(id).Placement
	for _, other := range v.Node(place.Node).Pods {
		if other != id && v.Pod(other).Placement.touches(place) {
			out = append(out, v.Pod(other).Key)
		}
	}
	slices.Sort(out)
	return out
}

func (p *Placement) touches(q *Placement) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return slices.ContainsFunc(q.Grants, func(h Grant) bool { return g.Device == h.Device })
	})
}

// lent returns a placement with a lease.
func (p *Placement) lent(lease *Lease) Placement {
	out := *p
	out.Grants, out.Lease = slices.Clone(p.Grants), lease
	for i := range out.Grants {
		out.Grants[i].Milli -= lease.Lent[i]
	}
	return out
}

// Rebook charges a pod with another placement on its node, in the same phase: one that
// is lent of, or given back to. It does not ask whether there is room.
func (l *Ledger) Rebook(id PodID, place Placement) {
	p := l.pod(id)
	if !p.Phase.Charged() || p.Placement.Node != place.Node || p.Placement.Shape != place.Shape {
		panic(fmt.Sprintf("cluster: pod %d in phase %v is rebooked from node %d to %d", id, p.Phase, p.Placement.Node, place.Node))
	}
	overdrawn := l.Node(place.Node).Overdrawn
	l.apply(p, id, -1)
	p = l.pod(id)
	p.Placement = place
	l.apply(p, id, +1)
	if overdrawn {
		l.excuse(place.Node)
	}
	l.excuseQueues(id)
}

// Reshape lets a charged pod take what another shape asks for of its node, on the
// devices that it holds. It does not ask whether there is room: that is a fact.
func (l *Ledger) Reshape(id PodID, shape ShapeID) {
	p := l.pod(id)
	if !p.Phase.Charged() {
		panic(fmt.Sprintf("cluster: pod %d in phase %v is given another shape", id, p.Phase))
	}
	l.apply(p, id, -1)
	p = l.pod(id)
	p.Placement.Shape = shape
	if p.Intent != None {
		l.Intents.own(int32(p.Intent), l.owner, l.recording).Place = p.Placement
	}
	l.apply(p, id, +1)
	l.excuse(p.Placement.Node)
	l.excuseQueues(id)
}

// RepayFits says whether a lender's devices have what it lent. Its queue is not asked:
// what comes back is no new work.
func (v *View) RepayFits(id PodID) error {
	p := v.Pod(id)
	if p.Placement.Lease == nil {
		return fmt.Errorf("restore %s: it has lent nothing", p.Spec.Name)
	}
	for i, g := range p.Placement.Grants {
		lent := quantity.MilliGPU(0)
		for k := range p.Placement.Grants[:i+1] {
			if p.Placement.Grants[k].Device == g.Device {
				lent += p.Placement.Lease.Lent[k]
			}
		}
		if free := v.Device(g.Device).FreeMilli; lent > max(free, 0) {
			return fmt.Errorf("restore %s: device %s has %d milli-GPU free, it lent %d", p.Spec.Name, v.Device(g.Device).Spec.Name, free, lent)
		}
	}
	return nil
}

// Owing lists the pods that have lent something, in no order that means anything.
func (v *View) Owing() []PodID { return v.lenders }

// Lend takes a quarter of what a running pod holds of devices, until an instant. It
// refuses, changing nothing, where that is not possible.
func (t *Txn) Lend(pod PodID, now, until moment.Instant) error {
	lease, err := t.ledger.leaseOf(pod, now, until)
	if err != nil {
		return err
	}
	place := &t.ledger.Pod(pod).Placement
	t.ledger.Rebook(pod, place.lent(lease))
	t.freed++
	t.touched = append(t.touched, pod)
	return nil
}

// Restore gives a pod back what it has lent. It refuses, changing nothing, where the
// room is taken.
func (t *Txn) Restore(pod PodID, now moment.Instant) error {
	if p := t.ledger.Pod(pod); p.Intent != None {
		return fmt.Errorf("restore %s: a decision is under way for it", p.Spec.Name)
	}
	if err := t.ledger.RepayFits(pod); err != nil {
		return err
	}
	place := &t.ledger.Pod(pod).Placement
	t.ledger.Rebook(pod, place.Repaid())
	t.ledger.pod(pod).Repaid = now
	t.touched = append(t.touched, pod)
	return nil
}

// noteLease keeps the list of lenders; slices of it are never changed in place.
func (l *Ledger) noteLease(p *Pod, id PodID, sign int64) {
	switch {
	case p.Placement.Lease == nil:
	case sign > 0:
		l.lenders = appended(l.lenders, id)
	default:
		l.lenders = removed(l.lenders, id)
	}
}

// leases recounts who has lent what.
func (a *audit) leases() error {
	v, n := a.view, 0
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Placement.Lease == nil {
			continue
		}
		n++
		listed := slices.Contains(v.lenders, PodID(i))
		if !p.Phase.Charged() || !p.Placement.sound() || !listed || p.Placement.Lease.Until <= p.Placement.Lease.Since {
			return fmt.Errorf("audit: pod %s, %v, holds %+v with the lease %+v, listed: %v", p.Spec.Name, p.Phase, p.Placement.Grants, *p.Placement.Lease, listed)
		}
	}
	if n != len(v.lenders) {
		return fmt.Errorf("audit: %d pods have lent something, %d are listed", n, len(v.lenders))
	}
	return nil
}
