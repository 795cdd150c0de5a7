package fit

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// unit is what a device gives to a request that takes parts: a profile, by its
// position, or the device alone.
type unit int

const alone unit = cluster.MaxProfiles

// offers is what of a device a request picks: profiles, and the device alone.
type offers struct {
	parts uint64
	alone bool
}

func (o offers) none() bool { return o.parts == 0 && !o.alone }

// picks is what the selector of a request picks of a device, whatever its load.
func picks(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest) offers {
	if !r.Allows(d.Spec) {
		return offers{}
	}
	return offers{parts: v.Facts.PartsOf(r.Selector, d.ID) & d.Spec.EveryProfile(), alone: v.Facts.Selects(r.Selector, d.ID)}
}

// offered is what of it the device could give now, each alone.
func offered(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest) offers {
	if d.Health != cluster.Healthy {
		return offers{}
	}
	o := picks(v, d, r)
	return offers{parts: d.Fitting(o.parts), alone: o.alone && d.Holders == 0}
}

// emptied is the device with nobody on it.
func emptied(d *cluster.Device) *cluster.Device {
	return &cluster.Device{Spec: d.Spec, ID: d.ID, Node: d.Node, FreeMilli: quantity.WholeGPU, FreeMemory: d.Spec.Memory}
}

// fill is how many units each device of a node can give to a request.
type fill struct {
	counts [maxDevices]int64
	total  int64
	gaveUp bool // a device may be able to give more
}

// maxDevices is the most devices of one node; package world allows no more.
const maxDevices = 64

// filled counts what each device can give; with empty, when idle and healthy. It
// stops early where any device may serve and there are enough.
func filled(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, empty bool) (f fill) {
	linked := r.SameIsland || r.SameNUMA
	for i := range min(n.Spec.DeviceCount, maxDevices) {
		d, o := v.DeviceOf(n, i), offers{}
		if empty {
			d = emptied(d)
		}
		if o = offered(v, d, r); o.none() {
			continue
		}
		want := int64(r.Count)
		if !linked {
			want -= f.total
		}
		set, gaveUp := packing(d, o.parts, int(want))
		f.counts[i] = int64(bits.OnesCount64(set))
		if set == 0 {
			f.counts[i] = 1
		}
		f.total += f.counts[i]
		f.gaveUp = f.gaveUp || gaveUp
		if !linked && f.total >= int64(r.Count) {
			return f
		}
	}
	return f
}

// most returns how many units the request could get at once on the node, as far as
// it asks for them: from linked devices where it says so.
func (f *fill) most(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest) int64 {
	if !r.SameIsland && !r.SameNUMA {
		return f.total
	}
	best := int64(0)
	for i := range min(n.Spec.DeviceCount, maxDevices) {
		if f.counts[i] > 0 {
			best = max(best, f.within(v, n, r, i))
		}
	}
	return best
}

// within adds up what the devices that are linked with one give.
func (f *fill) within(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, lead int32) int64 {
	link, sum := linkOf(v.DeviceOf(n, lead), lead, r), int64(0)
	for k := range min(n.Spec.DeviceCount, maxDevices) {
		if f.counts[k] > 0 && linkOf(v.DeviceOf(n, k), k, r) == link {
			sum += f.counts[k]
		}
	}
	return sum
}

// packing returns profiles of a set that fit on the device together: as many as are
// wanted, else the most there can be. It says when it gave up looking for more.
func packing(d *cluster.Device, among uint64, want int) (best uint64, gaveUp bool) {
	if among == 0 || want <= 0 {
		return 0, false
	}
	p := packer{device: d, want: want}
	for rest := among; rest != 0; rest &= rest - 1 {
		p.order = append(p.order, bits.TrailingZeros64(rest))
	}
	slices.SortStableFunc(p.order, func(a, b int) int {
		return cmp.Compare(d.Spec.Profiles[a].Milli, d.Spec.Profiles[b].Milli)
	})
	if p.bound() < want {
		p.want = p.bound()
	}
	p.descend(*d, 0, 0)
	return p.best, p.tries > maxTries && bits.OnesCount64(p.best) < p.want
}

// packer looks for the largest set of profiles that fit together, those with the
// least compute first.
type packer struct {
	device *cluster.Device
	order  []int
	want   int
	best   uint64
	tries  int
}

// bound is how many fit by each counter taken alone, the least of them.
func (p *packer) bound() int {
	most := len(p.order)
	amounts := make([]int64, len(p.order))
	for c := range p.device.Spec.Counters {
		for k, i := range p.order {
			amounts[k] = p.device.Spec.Profiles[i].Consumes[c]
		}
		slices.Sort(amounts)
		left, n := p.device.Spec.Counters[c].Total, 0
		if c < len(p.device.Used) {
			left -= p.device.Used[c]
		}
		for n < len(amounts) && (amounts[n] == 0 || amounts[n] <= left) {
			left -= amounts[n]
			n++
		}
		most = min(most, n)
	}
	return most
}

// descend tries the profiles from one on; true ends the search.
func (p *packer) descend(d cluster.Device, from int, set uint64) bool {
	if have := bits.OnesCount64(set); have > bits.OnesCount64(p.best) {
		if p.best = set; have >= p.want {
			return true
		}
	}
	rest := uint64(0)
	for _, i := range p.order[from:] {
		rest |= 1 << i
	}
	rest = d.Fitting(rest)
	for k := from; k < len(p.order); k++ {
		i := p.order[k]
		if rest>>i&1 == 0 {
			continue
		}
		if bits.OnesCount64(set)+bits.OnesCount64(rest) <= bits.OnesCount64(p.best) {
			return false
		}
		if p.tries++; p.tries > maxTries {
			return true
		}
		next := d
		next.Give(&d.Spec.Profiles[i])
		if p.descend(next, k+1, set|1<<i) {
			return true
		}
		rest &^= 1 << i
	}
	return false
}

// choice is a unit of a device, with what speaks for it.
type choice struct {
	position int32
	unit     unit
	left     quantity.MilliGPU // on the device before
	milli    quantity.MilliGPU
	memory   quantity.Bytes
	open     quantity.MilliGPU // of the profiles that still fit afterwards, added up
}

// better prefers the fullest device, then what takes least and leaves most to choose
// from, then the lowest positions.
func (c *choice) better(o *choice) bool {
	return cmp.Or(cmp.Compare(c.left, o.left), cmp.Compare(c.milli, o.milli), cmp.Compare(c.memory, o.memory),
		-cmp.Compare(c.open, o.open), cmp.Compare(c.position, o.position), cmp.Compare(c.unit, o.unit)) < 0
}

// bestOf returns the best unit that a device can give; false where it can give none.
func bestOf(d *cluster.Device, position int32, o offers) (best choice, found bool) {
	least, every := quantity.MilliGPU(quantity.WholeGPU), d.Fitting(d.Spec.EveryProfile())
	for rest := o.parts; rest != 0; rest &= rest - 1 {
		least = min(least, d.Spec.Profiles[bits.TrailingZeros64(rest)].Milli)
	}
	for rest := o.parts; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		p := &d.Spec.Profiles[i]
		if p.Milli > least {
			continue
		}
		c := choice{position: position, unit: unit(i), left: d.FreeMilli, milli: p.Milli, memory: p.Memory}
		after := *d
		after.Give(p)
		for others := after.Fitting(every &^ (1 << i)); others != 0; others &= others - 1 {
			c.open += d.Spec.Profiles[bits.TrailingZeros64(others)].Milli
		}
		if !found || c.better(&best) {
			best, found = c, true
		}
	}
	if o.alone && !found {
		return choice{position: position, unit: alone, left: d.FreeMilli, milli: quantity.WholeGPU, memory: d.Spec.Memory}, true
	}
	return best, found
}

// grantOf is the grant of a unit.
func grantOf(d *cluster.Device, id cluster.DeviceID, u unit) cluster.Grant {
	if u == alone {
		return cluster.Grant{Device: id, Milli: quantity.WholeGPU, Memory: d.Spec.Memory}
	}
	p := &d.Spec.Profiles[u]
	return cluster.Grant{Device: id, Milli: p.Milli, Memory: p.Memory, Profile: p.Name}
}

// pickUnits gives units to a request that takes parts, the best ones one after the
// other; where too few are found so, as many as there can be of each device.
func pickUnits(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, given []cluster.Grant) ([]cluster.Grant, bool) {
	if !r.SameIsland && !r.SameNUMA {
		return unitsFrom(v, n, r, given, func(int32) bool { return true })
	}
	leads := make([]choice, 0, n.Spec.DeviceCount)
	for i := range n.Spec.DeviceCount {
		d := overlaid(v.DeviceOf(n, i), n.Spec.FirstDevice+cluster.DeviceID(i), given)
		if c, ok := bestOf(&d, i, offered(v, &d, r)); ok {
			leads = append(leads, c)
		}
	}
	slices.SortFunc(leads, func(a, b choice) int {
		if a.better(&b) {
			return -1
		}
		return 1
	})
	for _, lead := range leads {
		link := linkOf(v.DeviceOf(n, lead.position), lead.position, r)
		within := func(i int32) bool { return linkOf(v.DeviceOf(n, i), i, r) == link }
		if out, ok := unitsFrom(v, n, r, given, within); ok {
			return out, true
		}
	}
	return given, false
}

// unitsFrom gives units of certain devices.
func unitsFrom(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, given []cluster.Grant, within func(int32) bool) ([]cluster.Grant, bool) {
	first := len(given)
	for range r.Count {
		best, found := choice{}, false
		for i := range n.Spec.DeviceCount {
			if !within(i) {
				continue
			}
			d := overlaid(v.DeviceOf(n, i), n.Spec.FirstDevice+cluster.DeviceID(i), given)
			if found && d.FreeMilli > best.left {
				continue
			}
			if c, ok := bestOf(&d, i, offered(v, &d, r)); ok && (!found || c.better(&best)) {
				best, found = c, true
			}
		}
		if !found {
			return packed(v, n, r, given[:first], within)
		}
		given = append(given, grantOf(v.DeviceOf(n, best.position), n.Spec.FirstDevice+cluster.DeviceID(best.position), best.unit))
	}
	return given, true
}

// packed gives as many units of each device as there can be, the fullest devices
// first.
func packed(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, given []cluster.Grant, within func(int32) bool) ([]cluster.Grant, bool) {
	first, order := len(given), make([]int32, 0, n.Spec.DeviceCount)
	for i := range n.Spec.DeviceCount {
		if within(i) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(v.DeviceOf(n, a).FreeMilli, v.DeviceOf(n, b).FreeMilli) })
	for _, i := range order {
		id := n.Spec.FirstDevice + cluster.DeviceID(i)
		d, left := overlaid(v.Device(id), id, given), int(r.Count)-(len(given)-first)
		o := offered(v, &d, r)
		set, _ := packing(&d, o.parts, left)
		if set == 0 && o.alone && left > 0 {
			given = append(given, grantOf(&d, id, alone))
		}
		for ; set != 0; set &= set - 1 {
			given = append(given, grantOf(&d, id, unit(bits.TrailingZeros64(set))))
		}
	}
	return given, len(given)-first == int(r.Count)
}

// units lists what a device can give to a request, for a search through all choices.
func units(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest) []unit {
	o := offered(v, d, r)
	var out []unit
	for rest := o.parts; rest != 0; rest &= rest - 1 {
		out = append(out, unit(bits.TrailingZeros64(rest)))
	}
	if o.alone {
		out = append(out, alone)
	}
	return out
}

// partRoom names what a request for parts or partitions is short of: how many it
// could get, and the counter that turns most of the others away.
func partRoom(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest) decision.Reason {
	out := decision.Reason{Code: decision.DeviceProfileRoom, Need: int64(r.Count)}
	if r.Parts {
		f := filled(v, n, r, false)
		if out.Have = f.most(v, n, r); f.gaveUp {
			return decision.Reason{Code: decision.GaveUp, Need: maxTries, Have: maxTries}
		}
		if f.total >= out.Need {
			return decision.Reason{Code: decision.DeviceLinkRoom, Need: out.Need, Have: out.Have}
		}
	} else {
		out.Have = mostLinked(v, n, r, true)
	}
	type refusal struct {
		counter cluster.Symbol
		times   int
	}
	var all []refusal
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		if d.Health != cluster.Healthy {
			continue
		}
		for k := range d.Spec.Profiles {
			p := &d.Spec.Profiles[k]
			if r.Parts && picks(v, d, r).parts>>k&1 == 0 || !r.Parts && (p.Name != r.Profile || !suits(v, d, r)) {
				continue
			}
			counter, short := d.Short(p)
			if !short {
				continue
			}
			at := slices.IndexFunc(all, func(x refusal) bool { return x.counter == counter })
			if at < 0 {
				at, all = len(all), append(all, refusal{counter: counter})
			}
			all[at].times++
		}
	}
	best := 0
	for _, x := range all {
		if x.times > best {
			out.About, best = x.counter, x.times
		}
	}
	return out
}

// together says how many devices and parts a node can give to requests that each fit
// alone, one request after the other.
func together(v *cluster.View, s *cluster.Shape, n *cluster.Node) decision.Reason {
	out := decision.Reason{Code: decision.DeviceProfileRoom, Need: int64(s.DeviceCount())}
	for k := range s.Devices {
		first := *s
		first.Devices = s.Devices[:k+1]
		grants, ok := pick(v, &first, n)
		if !ok {
			return out
		}
		out.Have = int64(len(grants))
	}
	return out
}
