package rank

import (
	"math/bits"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// maxDevices is the most devices of one node that are told apart; package world
// allows no more.
const maxDevices = 64

// sizeBit is the first bit of a Loss that stands for a size, not a slot.
const sizeBit = cluster.MaxSlots

// room is what is free on a node, cheap to change: the worth of a node is taken
// before and after a placement on it.
type room struct {
	class  cluster.ClassID
	cpu    int64
	memory int64
	idle   int32
	count  int32
	model  cluster.Symbol
	left   [maxDevices]int16 // milli-GPU; -1 for a device that cannot be used
	held   [maxDevices]bool
}

func roomOf(v *cluster.View, n *cluster.Node) (r room) {
	r.class, r.cpu, r.memory = n.Spec.Class, n.Free.At(cluster.DimCPU), n.Free.At(cluster.DimMemory)
	r.idle, r.count = n.IdleDevices, n.Spec.DeviceCount
	for i := range r.count {
		d := v.DeviceOf(n, i)
		r.left[i] = int16(max(d.FreeMilli, -1))
		r.held[i] = d.Holders > 0
		if d.Health != cluster.Healthy {
			r.left[i] = -1
		}
		r.model = d.Spec.Model
	}
	return r
}

// take gives part of a device away.
func (r *room) take(device int32, milli quantity.MilliGPU) {
	if !r.held[device] {
		r.held[device] = true
		r.idle--
	}
	r.left[device] -= int16(milli)
}

// worth is what will be put to use of the room: what fits its holes, less what
// starves for want of CPU.
func (r *room) worth(w *cluster.Worth) int64 {
	var holes int64
	for _, left := range r.left[:r.count] {
		if left > 0 {
			holes += w.Hole[left]
		}
	}
	return holes - r.starvation(w, holes)
}

// starvation reads the class's table with linear interpolation both ways.
func (r *room) starvation(w *cluster.Worth, holes int64) int64 {
	if int(r.class) >= len(w.Starvation) || r.class < 0 || len(w.Starvation[r.class]) < 2 {
		return 0
	}
	table := w.Starvation[r.class]
	const tenth = 100_000 // micro-GPU
	c, cPart := between(r.cpu, int64(w.CPUStep), len(table))
	g, gPart := between(holes, tenth, len(table[0]))
	low := (1000-gPart)*table[c][g] + gPart*table[c][g+1]
	high := (1000-gPart)*table[c+1][g] + gPart*table[c+1][g+1]
	return ((1000-cPart)*low + cPart*high) / 1_000_000
}

// between places x on a grid: the point below, and how far beyond it in
// thousandths. Off the grid it is the nearest end.
func between(x, step int64, points int) (below, part int64) {
	x = max(x, 0)
	below, part = x/step, x%step*1000/step
	if below >= int64(points)-1 {
		return int64(points) - 2, 1000
	}
	return below, part
}

// hosts says which slots the room can host, as bits.
func (r *room) hosts(w *cluster.Worth) uint64 {
	if r.idle < 2 {
		return 0
	}
	var set uint64
	for i := range w.Slots {
		if w.Slots[i].FitsIn(r.idle, r.cpu, r.memory, r.model) {
			set |= 1 << i
		}
	}
	return set
}

// Offers is what one node offers: per slot and size, in how many ways it can host
// it, and the worth of its holes in milli-GPU.
type Offers struct {
	Ways [cluster.MaxSlots + cluster.MaxSizes]uint8
	Room int32
}

// OffersOf counts what a node offers now.
func OffersOf(v *cluster.View, node cluster.NodeID) (o Offers) {
	n := v.Node(node)
	w := worthOf(v)
	if w == nil || !n.TakesWork() {
		return o
	}
	r := roomOf(v, n)
	for set := r.hosts(w); set != 0; set &= set - 1 {
		o.Ways[bits.TrailingZeros64(set)] = 1
	}
	for _, left := range r.left[:r.count] {
		if left <= 0 {
			continue
		}
		o.Room += int32(w.Hole[left] / 1000)
		for i := range w.Sizes {
			if int64(left) >= int64(w.Sizes[i].Milli) {
				o.Ways[sizeBit+i]++
			}
		}
	}
	return o
}

func worthOf(v *cluster.View) *cluster.Worth {
	if v.Beliefs == nil {
		return nil
	}
	return v.Beliefs.Worth
}

// Loss is what a placement takes from those who still come: worth in micro-GPU
// beyond what the pod itself puts to use, and the slots and sizes that the node
// hosted before and does not afterwards, as bits. Smaller is better.
type Loss struct {
	Worth int64
	Takes uint64
	// Device is the one that gives the share; None where devices are whole.
	Device int32
}

// LossOf weighs the best way to place a shape on a node that it fits.
func LossOf(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) Loss {
	w, s, n := worthOf(v), v.Shape(id), v.Node(node)
	before := roomOf(v, n)
	if w == nil {
		return tightest(v, n, &before, s)
	}
	own := 1000*int64(s.Milli()) - before.price(w, s)
	base := before.worth(w)
	after := before
	after.cpu -= s.Need.At(cluster.DimCPU)
	after.memory -= s.Need.At(cluster.DimMemory)
	l := Loss{Device: cluster.None}
	if device, milli, one := oneShare(s); one {
		l.Device = before.bestDevice(w, &after, device, milli, v, n)
		after.take(l.Device, milli)
		l.Takes = crossed(w, before.left[l.Device], milli)
	} else {
		after.takeWhole(v, n, s)
	}
	l.Worth = base - after.worth(w) - own + before.breakInto(w, s, before.idle-after.idle)
	if hosted := before.hosts(w); hosted != 0 {
		l.Takes |= hosted &^ after.hosts(w) &^ ownSlots(w, s, id)
	}
	return l
}

// What breaking into a node costs where pods leave: the share of packing that is
// left after each device that is busy already, in thousandths.
const (
	packing = 6000 // milli-GPU, for the first device of an idle node
	fading  = 850
)

// breakInto is the price of devices that were idle, on a node that could be idle
// as a whole soon: where pods leave, requests for many devices wait for the nodes
// with the fewest busy ones. It falls with each busy device.
func (r *room) breakInto(w *cluster.Worth, s *cluster.Shape, taken int32) (cost int64) {
	if w.Turnover == 0 || taken == 0 || !r.awaited(w, s.DeviceCount()) {
		return 0
	}
	each := int64(packing) * min(w.Turnover, 1000)
	for range r.count - r.idle {
		each = each * fading / 1000
	}
	for range taken {
		cost += each
		each = each * fading / 1000
	}
	return cost
}

// awaited says whether a request for more devices than these was seen that such a
// node may host.
func (r *room) awaited(w *cluster.Worth, devices int32) bool {
	for i := range w.Slots {
		s := &w.Slots[i]
		if s.Shape != cluster.None && s.Devices > devices && s.Devices <= r.count && (len(s.Models) == 0 || slices.Contains(s.Models, r.model)) {
			return true
		}
	}
	return false
}

// oneShare returns the request of a shape that asks for one part of one device.
func oneShare(s *cluster.Shape) (*cluster.DeviceRequest, quantity.MilliGPU, bool) {
	if len(s.Devices) != 1 || s.Devices[0].Count != 1 || s.Devices[0].Whole() || s.Devices[0].Profile != 0 || s.Devices[0].Parts {
		return nil, 0, false
	}
	return &s.Devices[0], s.Devices[0].Milli, true
}

// takeWhole gives devices away as package fit does by default: idle ones from
// the lowest index; for parts, the fullest that hold them.
func (r *room) takeWhole(v *cluster.View, n *cluster.Node, s *cluster.Shape) {
	for i := range s.Devices {
		request := &s.Devices[i]
		var parts [maxDevices]quantity.MilliGPU // of a request for parts: what each device would give
		if request.Parts {
			parts = smallest(v, n, request)
		}
		for range request.Count {
			best, given := int32(-1), quantity.MilliGPU(0)
			for d := range r.count {
				milli := request.Milli
				if request.Parts {
					milli = parts[d]
				}
				alone := request.Whole() || request.Parts && milli == quantity.WholeGPU
				if milli == 0 || int64(r.left[d]) < int64(milli) || alone && r.held[d] {
					continue
				}
				if best < 0 || r.left[d] < r.left[best] {
					best, given = d, milli
				}
			}
			if best >= 0 {
				r.take(best, given)
			}
		}
	}
}

// smallest returns the least compute that each device of a node gives to a request
// for parts now; 0 where it gives nothing.
func smallest(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest) (out [maxDevices]quantity.MilliGPU) {
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		if d.Health != cluster.Healthy || !r.Allows(d.Spec) {
			continue
		}
		if d.Holders == 0 && v.Facts.Selects(r.Selector, d.ID) {
			out[i] = quantity.WholeGPU
		}
		for parts := d.Fitting(v.Facts.PartsOf(r.Selector, d.ID)); parts != 0; parts &= parts - 1 {
			if milli := d.Spec.Profiles[bits.TrailingZeros64(parts)].Milli; out[i] == 0 || milli < out[i] {
				out[i] = milli
			}
		}
	}
	return out
}

// bestDevice returns the device from which a share takes the least worth; among
// equals the fullest, then the lowest index.
func (r *room) bestDevice(w *cluster.Worth, after *room, request *cluster.DeviceRequest, milli quantity.MilliGPU, v *cluster.View, n *cluster.Node) int32 {
	best, most := int32(-1), int64(0)
	for i := range r.count {
		left := r.left[i]
		if int64(left) < int64(milli) || !gives(v, v.DeviceOf(n, i), request) || best >= 0 && left == r.left[best] {
			continue
		}
		after.left[i] = left - int16(milli)
		worth := after.worth(w)
		after.left[i] = left
		if best < 0 || worth > most || worth == most && left < r.left[best] {
			best, most = i, worth
		}
	}
	return best
}

// gives says whether a healthy device has the memory, the model and what else is
// asked for in a share.
func gives(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest) bool {
	return r.Allows(d.Spec) && (r.Selector == 0 || v.Facts.Selects(r.Selector, d.ID)) && (d.Spec.Memory == 0 || d.FreeMemory >= r.Memory) && d.Spec.Sharing == cluster.SharingSlices
}

// price is what the resources themselves cost on nodes of the class.
func (r *room) price(w *cluster.Worth, s *cluster.Shape) int64 {
	if int(r.class) >= len(w.CPU) || r.class < 0 {
		return 0
	}
	cpu := w.CPU[r.class] * s.Need.At(cluster.DimCPU)
	memory := w.Memory[r.class] * (s.Need.At(cluster.DimMemory) / int64(quantity.MiB))
	return (cpu + memory + w.GPU[r.class]*int64(s.Milli())) / 1000
}

// crossed says below which sizes a device falls, as bits. A pod of the size or
// above it is not charged for its own kind.
func crossed(w *cluster.Worth, left int16, milli quantity.MilliGPU) (set uint64) {
	for i := range w.Sizes {
		if size := w.Sizes[i].Milli; milli < size && quantity.MilliGPU(left) >= size && quantity.MilliGPU(left)-milli < size {
			set |= 1 << (sizeBit + i)
		}
	}
	return set
}

func ownSlots(w *cluster.Worth, s *cluster.Shape, id cluster.ShapeID) (set uint64) {
	if s.DeviceCount() <= 1 {
		return 0
	}
	for i := range w.Slots {
		if w.Slots[i].Shape == id {
			set |= 1 << i
		}
	}
	return set
}

// tightest is the loss as long as nothing is known of what comes: the room that
// is left, so that the fullest node and device that fit are best.
func tightest(v *cluster.View, n *cluster.Node, r *room, s *cluster.Shape) Loss {
	l := Loss{Device: cluster.None}
	for _, left := range r.left[:r.count] {
		l.Worth += 1000 * int64(max(left, 0))
	}
	if request, milli, one := oneShare(s); one {
		for i := range r.count {
			if int64(r.left[i]) >= int64(milli) && gives(v, v.DeviceOf(n, i), request) && (l.Device == cluster.None || r.left[i] < r.left[l.Device]) {
				l.Device = i
			}
		}
	}
	return l
}
