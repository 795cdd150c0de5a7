package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Admit says whether a placement would stay within every limit of its node and
// devices. It is the last check of a plan, not a search: package fit gives
// reasons.
func (l *Ledger) Admit(pod PodID, place *Placement) error { return l.admit(pod, place, true) }

func (l *Ledger) admit(pod PodID, place *Placement, queues bool) error {
	p := l.Pod(pod)
	if place.Node < 0 || int(place.Node) >= l.Nodes.Len() {
		return fmt.Errorf("place %s: no node with id %d", p.Spec.Name, place.Node)
	}
	n := l.Node(place.Node)
	if !p.Spec.AsksFor(place.Shape) {
		return fmt.Errorf("place %s on %s: it does not ask for shape %d", p.Spec.Name, n.Spec.Name, place.Shape)
	}
	shape := l.Shape(place.Shape)
	if !n.TakesWork() {
		return fmt.Errorf("place %s on %s: the node is %v", p.Spec.Name, n.Spec.Name, n.Life)
	}
	if d, short := n.Free.ShortOf(&shape.Need); short {
		return fmt.Errorf("place %s on %s: %s needs %d, free %d", p.Spec.Name, n.Spec.Name, l.DimName(d), shape.Need.At(d), n.Free.At(d))
	}
	if port, taken := l.portTaken(p, n); taken {
		return fmt.Errorf("place %s on %s: host port %d is taken", p.Spec.Name, n.Spec.Name, port)
	}
	ask := Amount{Milli: place.Milli(), Rest: shape.Need}
	for q := p.Spec.Queue; q != None && queues; q = l.Queue(q).Parent {
		row := l.Queue(q)
		switch d, over := row.Exceeds(&ask); {
		case over && d == DimMilli:
			return fmt.Errorf("place %s: queue %s would use %d milli-GPU, its limit is %d", p.Spec.Name, row.Name, row.UsedMilli+place.Milli(), row.LimitMilli)
		case over:
			return fmt.Errorf("place %s: queue %s would use %d of %s, its limit is %d", p.Spec.Name, row.Name, row.Used.At(d)+ask.Rest.At(d), l.DimName(d), row.Limit.At(d))
		}
	}
	if len(place.Grants) != int(shape.DeviceCount()) {
		return fmt.Errorf("place %s on %s: %d devices given, %d asked for", p.Spec.Name, n.Spec.Name, len(place.Grants), shape.DeviceCount())
	}
	for i := range place.Grants {
		if err := l.admitGrant(n, place.Grants, i); err != nil {
			return fmt.Errorf("place %s on %s: %w", p.Spec.Name, n.Spec.Name, err)
		}
	}
	if !place.sound() || !l.covers(shape, place.full()) {
		return fmt.Errorf("place %s on %s: the devices given are not those it asks for", p.Spec.Name, n.Spec.Name)
	}
	return nil
}

// portTaken returns a port of the host that the pod wants and another pod has.
func (v *View) portTaken(p *Pod, n *Node) (int32, bool) {
	if p.Kin == 0 || n.Company == nil {
		return 0, false
	}
	for _, want := range v.Kin(p.Kin).Ports {
		if slices.ContainsFunc(n.Company.Ports, want.Conflicts) {
			return want.Number, true
		}
	}
	return 0, false
}

// covers says whether the grants are what the shape asks for: for each request as
// many devices of an allowed kind as it wants, and of each as much. Only partitions
// may come from one device several times.
func (l *Ledger) covers(s *Shape, grants []Grant) bool {
	if l.inOrder(s, grants) {
		return true
	}
	by := make([]int, len(grants)) // which request a grant serves, from 1
	for i := range s.Devices {
		found := int32(0)
		for k := range grants {
			if found < s.Devices[i].Count && by[k] == 0 && l.serves(&s.Devices[i], &grants[k]) && (grants[k].Profile != 0 || !given(grants, by, i+1, grants[k].Device)) {
				by[k] = i + 1
				found++
			}
		}
		if found < s.Devices[i].Count {
			return false
		}
	}
	return true
}

// inOrder says whether the grants serve the requests in their order.
func (l *Ledger) inOrder(s *Shape, grants []Grant) bool {
	next := 0
	for i := range s.Devices {
		first := next
		for range s.Devices[i].Count {
			g := &grants[next]
			if !l.serves(&s.Devices[i], g) {
				return false
			}
			for k := first; k < next; k++ {
				if g.Profile == 0 && grants[k].Device == g.Device {
					return false
				}
			}
			next++
		}
	}
	return true
}

// serves says whether a grant is one part of what a request asks for.
func (l *Ledger) serves(r *DeviceRequest, g *Grant) bool {
	d := l.Device(g.Device).Spec
	if r.Parts && g.Profile != 0 {
		for i := range d.Profiles {
			if p := &d.Profiles[i]; p.Name == g.Profile {
				own := Grant{Device: g.Device, Milli: p.Milli, Memory: p.Memory, Profile: p.Name}
				return r.Allows(d) && l.Facts.PartsOf(r.Selector, g.Device)>>i&1 == 1 && *g == own
			}
		}
		return false
	}
	if !r.Allows(d) || !l.Facts.Selects(r.Selector, g.Device) {
		return false
	}
	if r.Parts {
		return *g == Grant{Device: g.Device, Milli: quantity.WholeGPU, Memory: d.Memory}
	}
	if r.Profile != 0 {
		p := d.Profile(r.Profile)
		return p != nil && *g == Grant{Device: g.Device, Milli: p.Milli, Memory: p.Memory, Profile: r.Profile}
	}
	memory := r.Memory
	if r.Whole() || d.Memory == 0 {
		memory = d.Memory
	}
	return *g == Grant{Device: g.Device, Milli: r.Milli, Memory: memory}
}

// given says whether a request has been given the device already.
func given(grants []Grant, by []int, request int, device DeviceID) bool {
	for k := range grants {
		if by[k] == request && grants[k].Device == device {
			return true
		}
	}
	return false
}

// AsksFor says whether a shape is among those that a pod would take.
func (s *PodSpec) AsksFor(shape ShapeID) bool {
	return s.Shape == shape || slices.Contains(s.Alternatives, shape)
}

func (l *Ledger) admitGrant(n *Node, grants []Grant, i int) error {
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
