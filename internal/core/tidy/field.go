package tidy

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// field is a node as a goal sees it: what is free, and what could leave.
type field struct {
	node   cluster.NodeID
	need   cluster.Vector
	free   cluster.Vector
	share  quantity.MilliGPU // asked for of one device; 0: whole devices, or none
	wholes int32
	plain  bool // whether amounts tell all that matters of devices
	left   []quantity.MilliGPU
	holder []int32
	offers []offer
}

// offer is a pod that could leave.
type offer struct {
	pod    cluster.PodID
	price  int64
	leaves room
}

// room is what pods leave behind.
type room struct {
	rest   cluster.Vector
	grants []cluster.Grant
}

func (r *room) plus(more *room) room {
	return room{rest: r.rest.Plus(&more.rest), grants: append(slices.Clip(r.grants), more.grants...)}
}

// fieldOf looks at a node for a shape. Only pods that could go elsewhere are offered;
// without any the rest is left out.
func (s *Search) fieldOf(id cluster.NodeID, shape *cluster.Shape) field {
	v := s.txn.View()
	n := v.Node(id)
	f := field{node: id, need: shape.Need, free: n.Free, plain: true}
	for _, pod := range n.Pods {
		if !s.hands.Roomy(pod) {
			continue
		}
		p := v.Pod(pod)
		if !s.stood(pod, id) {
			continue // it came in this cycle
		}
		price, ok := s.PriceOf(pod)
		if !ok {
			continue
		}
		grants := make([]cluster.Grant, len(p.Placement.Grants))
		for i, g := range p.Placement.Grants {
			g.Device -= n.Spec.FirstDevice
			grants[i] = g
		}
		f.offers = append(f.offers, offer{pod: pod, price: price, leaves: room{rest: v.Shape(p.Placement.Shape).Need, grants: grants}})
	}
	if len(f.offers) == 0 {
		return f
	}
	slices.SortFunc(f.offers, func(a, b offer) int {
		return cmp.Or(cmp.Compare(s.base.Pod(a.pod).Key, s.base.Pod(b.pod).Key), cmp.Compare(a.pod, b.pod))
	})
	f.ask(shape)
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		left, holders := d.FreeMilli, d.Holders
		if d.Health != cluster.Healthy {
			left, holders = -quantity.WholeGPU, 1<<30
		}
		f.left, f.holder = append(f.left, left), append(f.holder, holders)
	}
	return f
}

// ask says what a shape asks for of devices.
func (f *field) ask(shape *cluster.Shape) {
	for i := range shape.Devices {
		r := &shape.Devices[i]
		switch {
		case r.Whole():
			f.wholes += r.Count
		case r.Count == 1 && len(shape.Devices) == 1 && r.Profile == 0 && !r.Parts:
			f.share = r.Milli
		default:
			f.plain = false
		}
	}
}

// enough says whether there would be room if all left that may.
func (f *field) enough() bool {
	if len(f.offers) == 0 {
		return false
	}
	all := room{}
	for i := range f.offers {
		all = all.plus(&f.offers[i].leaves)
	}
	return f.holds(&all)
}

// holds says whether there is room with so much more, as far as amounts tell.
func (f *field) holds(more *room) bool {
	free := f.free.Plus(&more.rest)
	if _, short := free.ShortOf(&f.need); short {
		return false
	}
	switch {
	case !f.plain:
		return true
	case f.share > 0:
		for i, left := range f.left {
			for k := range more.grants {
				if int(more.grants[k].Device) == i {
					left += more.grants[k].Milli
				}
			}
			if left >= f.share {
				return true
			}
		}
		return false
	case f.wholes > 0:
		idle := int32(0)
		for i, holders := range f.holder {
			for k := range more.grants {
				if int(more.grants[k].Device) == i {
					holders--
				}
			}
			if holders == 0 {
				idle++
			}
		}
		return idle >= f.wholes
	}
	return true
}
