package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Txn is a scratch copy of a Snapshot in which placements are tried out. It
// never touches the snapshot. Use: Begin, then Place and Evict as wanted, with
// Mark and Rollback around what may be regretted, then Changes.
type Txn struct {
	ledger  Ledger
	base    *Snapshot
	touched []PodID // in order of touch, repeats included
}

// Begin opens a transaction on a snapshot.
func Begin(s *Snapshot) *Txn {
	t := &Txn{base: s}
	t.ledger = Ledger{View: s.View, owner: new(owner), recording: true}
	// The log of the world is not ours to extend; touched nodes are kept apart.
	t.ledger.changes = nil
	t.ledger.changesBase = s.Position()
	return t
}

// View shows the state as the transaction would leave it.
func (t *Txn) View() *View { return &t.ledger.View }

// Base is the snapshot underneath.
func (t *Txn) Base() *Snapshot { return t.base }

// Mark is a point that Rollback can return to.
type Mark struct {
	nodes, devices, pods, queues, domains, classes, waiting tableMark
	touched                                                 int
}

// Mark remembers the present state.
func (t *Txn) Mark() Mark {
	l := &t.ledger
	return Mark{
		nodes: l.Nodes.mark(), devices: l.Devices.mark(), pods: l.Pods.mark(), queues: l.Queues.mark(),
		domains: l.Domains.mark(), classes: l.Classes.mark(), waiting: l.waiting.mark(), touched: len(t.touched),
	}
}

// Rollback returns to a mark taken earlier in this transaction. Marks taken
// after that one are void.
func (t *Txn) Rollback(m Mark) {
	l := &t.ledger
	l.Nodes.rollback(m.nodes, l.owner)
	l.Devices.rollback(m.devices, l.owner)
	l.Pods.rollback(m.pods, l.owner)
	l.Queues.rollback(m.queues, l.owner)
	l.Domains.rollback(m.domains, l.owner)
	l.Classes.rollback(m.classes, l.owner)
	l.waiting.rollback(m.waiting, l.owner)
	t.touched = t.touched[:m.touched]
}

// TouchedNodes lists the nodes whose rows were written since the transaction
// began, rolled back or not, repeats included; complete is false when there
// were too many to keep. Caches of node scores need it.
func (t *Txn) TouchedNodes() (nodes []NodeID, complete bool) {
	return t.ledger.changes, t.ledger.changesBase == t.base.Position()
}

// Place gives a waiting pod a place. It refuses, changing nothing, what would
// overdraw the node or a device.
func (t *Txn) Place(pod PodID, place Placement) error {
	if p := t.ledger.Pod(pod); p.Phase != PhaseWaiting {
		return fmt.Errorf("place %s: it is %v, not waiting", p.Spec.Name, p.Phase)
	}
	if err := t.ledger.Admit(pod, &place); err != nil {
		return err
	}
	t.ledger.Charge(pod, place, PhasePlacing)
	t.touched = append(t.touched, pod)
	return nil
}

// Evict takes a pod's place away; it waits again. It refuses a pod that an
// accepted decision is under way for: the world would.
func (t *Txn) Evict(pod PodID) error {
	switch p := t.ledger.Pod(pod); {
	case !p.Phase.Charged():
		return fmt.Errorf("evict %s: it is %v and holds nothing", p.Spec.Name, p.Phase)
	case p.Intent != None:
		return fmt.Errorf("evict %s: it is %v already", p.Spec.Name, p.Phase)
	}
	t.ledger.Discharge(pod, PhaseWaiting)
	t.touched = append(t.touched, pod)
	return nil
}

// Resize gives a placed pod another of its shapes, or other grants, on the same
// node. It refuses, changing nothing, what would overdraw.
func (t *Txn) Resize(pod PodID, shape ShapeID, grants []Grant) error {
	p := *t.ledger.Pod(pod)
	if !p.Phase.Charged() {
		return fmt.Errorf("resize %s: it is %v and holds nothing", p.Spec.Name, p.Phase)
	}
	if p.Intent != None {
		return fmt.Errorf("resize %s: it is %v already", p.Spec.Name, p.Phase)
	}
	mark := t.Mark()
	t.ledger.Discharge(pod, PhaseWaiting)
	place := Placement{Node: p.Placement.Node, Shape: shape, Grants: grants, Identity: p.Placement.Identity}
	if err := t.ledger.Admit(pod, &place); err != nil {
		t.Rollback(mark)
		return err
	}
	t.ledger.Charge(pod, place, p.Phase)
	row := t.ledger.pod(pod)
	row.LastNode = p.LastNode
	t.touched = append(t.touched, pod)
	return nil
}

// Change is the net difference for one pod.
type Change struct {
	Pod      PodID
	From, To Placement
}

// Changes returns what differs from the snapshot, in order of first touch. A
// pod that was evicted and put back as it was is not among them.
func (t *Txn) Changes() []Change {
	var out []Change
	seen := make(map[PodID]bool, len(t.touched))
	for _, id := range t.touched {
		if seen[id] {
			continue
		}
		seen[id] = true
		from, to := t.base.Pod(id).Placement, t.ledger.Pod(id).Placement
		if from.Node == to.Node && from.Shape == to.Shape && slices.Equal(from.Grants, to.Grants) {
			continue
		}
		out = append(out, Change{Pod: id, From: from, To: to})
	}
	return out
}

// Admit says whether a placement would stay within every limit of its node and
// devices. It is the last check of a plan, not a search: package fit gives
// reasons.
func (l *Ledger) Admit(pod PodID, place *Placement) error {
	p := l.Pod(pod)
	if place.Node < 0 || int(place.Node) >= l.Nodes.Len() {
		return fmt.Errorf("place %s: no node with id %d", p.Spec.Name, place.Node)
	}
	n := l.Node(place.Node)
	if !p.Spec.asksFor(place.Shape) {
		return fmt.Errorf("place %s on %s: it does not ask for shape %d", p.Spec.Name, n.Spec.Name, place.Shape)
	}
	shape := l.Shape(place.Shape)
	if !n.TakesWork() {
		return fmt.Errorf("place %s on %s: the node is %v", p.Spec.Name, n.Spec.Name, n.Life)
	}
	if d, short := n.Free.ShortOf(&shape.Need); short {
		return fmt.Errorf("place %s on %s: %s needs %d, free %d", p.Spec.Name, n.Spec.Name, l.DimName(d), shape.Need.At(d), n.Free.At(d))
	}
	for q := p.Spec.Queue; q != None; q = l.Queues.At(int32(q)).Parent {
		if row := l.Queues.At(int32(q)); row.LimitMilli > 0 && row.UsedMilli+place.Milli() > row.LimitMilli {
			return fmt.Errorf("place %s: queue %s would use %d milli-GPU, its limit is %d", p.Spec.Name, row.Name, row.UsedMilli+place.Milli(), row.LimitMilli)
		}
	}
	if len(place.Grants) != int(shape.DeviceCount()) {
		return fmt.Errorf("place %s on %s: %d devices given, %d asked for", p.Spec.Name, n.Spec.Name, len(place.Grants), shape.DeviceCount())
	}
	for i := range place.Grants {
		if err := l.admitGrant(n, shape, place.Grants, i); err != nil {
			return fmt.Errorf("place %s on %s: %w", p.Spec.Name, n.Spec.Name, err)
		}
	}
	return nil
}

// wants says whether one of the shape's requests allows the device's model and
// size.
func (s *Shape) wants(d *DeviceSpec) bool {
	for i := range s.Devices {
		r := &s.Devices[i]
		if (len(r.Models) == 0 || slices.Contains(r.Models, d.Model)) && (d.Memory == 0 || d.Memory >= max(r.MinMemory, r.Memory)) {
			return true
		}
	}
	return false
}

func (s *PodSpec) asksFor(shape ShapeID) bool {
	return s.Shape == shape || slices.Contains(s.Alternatives, shape)
}

func (l *Ledger) admitGrant(n *Node, shape *Shape, grants []Grant, i int) error {
	g := &grants[i]
	if offset := g.Device - n.Spec.FirstDevice; offset < 0 || int32(offset) >= n.Spec.DeviceCount {
		return fmt.Errorf("device %d is not on this node", g.Device)
	}
	d := l.Device(g.Device)
	var milli quantity.MilliGPU
	var memory quantity.Bytes
	for k := range grants[:i+1] {
		if grants[k].Device == g.Device {
			milli += grants[k].Milli
			memory += grants[k].Memory
		}
	}
	switch {
	case g.Milli < 0 || g.Memory < 0:
		return fmt.Errorf("device %s cannot give %d milli-GPU and %d bytes", d.Spec.Name, g.Milli, g.Memory)
	case d.Health != Healthy:
		return fmt.Errorf("device %s is sick", d.Spec.Name)
	case !shape.wants(d.Spec):
		return fmt.Errorf("device %s is not of a model and size it asks for", d.Spec.Name)
	case milli > d.FreeMilli:
		return fmt.Errorf("device %s has %d milli-GPU free, not %d", d.Spec.Name, d.FreeMilli, milli)
	case memory > d.FreeMemory:
		return fmt.Errorf("device %s has %d bytes free, not %d", d.Spec.Name, d.FreeMemory, memory)
	case g.Milli >= quantity.WholeGPU && d.Holders > 0:
		return fmt.Errorf("device %s is held by %d others", d.Spec.Name, d.Holders)
	}
	return l.admitProfile(d, grants[:i+1])
}

// admitProfile judges the last of the grants; those before it on the same device
// count as given.
func (l *Ledger) admitProfile(d *Device, grants []Grant) error {
	last := &grants[len(grants)-1]
	profile := d.Spec.Profile(last.Profile)
	switch {
	case last.Profile == 0:
		return nil
	case profile == nil:
		return fmt.Errorf("device %s has no profile %s", d.Spec.Name, l.Symbols.Text(last.Profile))
	}
	for c := range profile.Consumes {
		used := counterAt(d.Used, c)
		for k := range grants {
			if p := d.Spec.Profile(grants[k].Profile); p != nil && grants[k].Device == last.Device {
				used += p.Consumes[c]
			}
		}
		if used > d.Spec.Counters[c].Total {
			return fmt.Errorf("device %s has no room for profile %s", d.Spec.Name, l.Symbols.Text(last.Profile))
		}
	}
	return nil
}
