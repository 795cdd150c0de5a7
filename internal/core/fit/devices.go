package fit

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// suits says whether the device is of a kind the request allows, whatever its
// load and health.
func suits(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest) bool {
	if r.Parts {
		return !picks(v, d, r).none()
	}
	if !r.Allows(d.Spec) || r.Selector != 0 && !v.Facts.Selects(r.Selector, d.ID) {
		return false
	}
	switch {
	case r.Profile != 0:
		return d.Spec.Profile(r.Profile) != nil
	case !r.Whole():
		return d.Spec.Sharing == cluster.SharingSlices
	}
	return true
}

// Takes says whether the device could give its part of the request now.
func Takes(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest) bool {
	if r.Parts {
		return !offered(v, d, r).none()
	}
	if d.Health != cluster.Healthy || !suits(v, d, r) {
		return false
	}
	switch {
	case r.Profile != 0:
		return partitionFits(d, r.Profile)
	case r.Whole():
		return d.Holders == 0
	}
	return d.FreeMilli >= r.Milli && (d.Spec.Memory == 0 || d.FreeMemory >= r.Memory)
}

func partitionFits(d *cluster.Device, name cluster.Symbol) bool {
	profile := d.Spec.Profile(name)
	_, short := d.Short(profile)
	return !short && profile.Milli <= d.FreeMilli && profile.Memory <= d.FreeMemory
}

// satisfied says whether one request, alone, finds its devices on the node.
func satisfied(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest) bool {
	if r.Whole() && n.IdleDevices < r.Count || !r.Whole() && r.Profile == 0 && n.FreeMilli < r.Least() {
		return false
	}
	if r.Parts && (r.Count > 1 || r.SameIsland || r.SameNUMA) {
		f := filled(v, n, r, false)
		return f.most(v, n, r) >= int64(r.Count)
	}
	if r.SameIsland || r.SameNUMA {
		return mostLinked(v, n, r, true) >= int64(r.Count)
	}
	found := int32(0)
	for i := range n.Spec.DeviceCount {
		if Takes(v, v.DeviceOf(n, i), r) {
			if found++; found >= r.Count {
				return true
			}
		}
	}
	return r.Count == 0
}

// linkOf is the group a device belongs to under the request's wishes. Devices
// without the asked-for link are alone.
func linkOf(d *cluster.Device, i int32, r *cluster.DeviceRequest) [2]int32 {
	link := [2]int32{cluster.None, cluster.None}
	if r.SameIsland {
		if link[0] = d.Spec.Island; link[0] == cluster.None {
			link[0] = -2 - i
		}
	}
	if r.SameNUMA {
		if link[1] = d.Spec.NUMA; link[1] == cluster.None {
			link[1] = -2 - i
		}
	}
	return link
}

// mostLinked returns the size of the largest group of linked devices that suit
// the request, or, with free, that could give their part now.
func mostLinked(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, free bool) int64 {
	best := int64(0)
	for i := range n.Spec.DeviceCount {
		lead := v.DeviceOf(n, i)
		link, size := linkOf(lead, i, r), int64(0)
		for k := i; k < n.Spec.DeviceCount; k++ {
			d := v.DeviceOf(n, k)
			if linkOf(d, k, r) == link && (free && Takes(v, d, r) || !free && suits(v, d, r)) {
				size++
			}
		}
		best = max(best, size)
	}
	return best
}

// emptyDevices judges one request against the node's devices when idle.
func emptyDevices(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest) decision.Reason {
	var count, modelled int64
	var memory quantity.Bytes
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		if len(r.Models) > 0 && !slices.Contains(r.Models, d.Spec.Model) {
			continue
		}
		modelled++
		memory = max(memory, d.Spec.Memory)
		if suits(v, d, r) {
			count++
		}
	}
	var units fill
	if r.Parts && count > 0 {
		units = filled(v, n, r, true)
		count = units.total
		if units.gaveUp && units.most(v, n, r) < int64(r.Count) {
			return decision.Reason{Code: decision.GaveUp, Need: maxTries, Have: maxTries}
		}
	}
	smallest := max(r.MinMemory, r.Memory)
	switch {
	case count >= int64(r.Count) && (r.SameIsland || r.SameNUMA):
		largest := units.most(v, n, r)
		if !r.Parts {
			largest = mostLinked(v, n, r, false)
		}
		if largest < int64(r.Count) {
			return decision.Reason{Code: decision.DeviceLink, Need: int64(r.Count), Have: largest}
		}
		return decision.Reason{}
	case count >= int64(r.Count):
		return decision.Reason{}
	case modelled == 0 && len(r.Models) > 0:
		return decision.Reason{Code: decision.DeviceModel, Need: int64(r.Count)}
	case count == 0 && memory > 0 && memory < smallest:
		return decision.Reason{Code: decision.DeviceMemorySize, Need: int64(smallest), Have: int64(memory)}
	case count == 0 && modelled >= int64(r.Count):
		return decision.Reason{Code: decision.DeviceKind, Need: int64(r.Count)}
	}
	return decision.Reason{Code: decision.DeviceCount, Need: int64(r.Count), Have: count}
}

// GrantOf is the part of a device that a request takes: of several the best, and
// where none is left the smallest that it picks.
func GrantOf(v *cluster.View, d *cluster.Device, id cluster.DeviceID, r *cluster.DeviceRequest) cluster.Grant {
	switch {
	case r.Parts:
		best, found := bestOf(d, 0, offered(v, d, r))
		if !found {
			best, found = bestOf(emptied(d), 0, picks(v, d, r))
		}
		if found {
			return grantOf(d, id, best.unit)
		}
		return grantOf(d, id, alone)
	case r.Profile != 0:
		profile := d.Spec.Profile(r.Profile)
		return cluster.Grant{Device: id, Milli: profile.Milli, Memory: profile.Memory, Profile: r.Profile}
	case r.Whole():
		return cluster.Grant{Device: id, Milli: quantity.WholeGPU, Memory: d.Spec.Memory}
	case d.Spec.Memory == 0:
		return cluster.Grant{Device: id, Milli: r.Milli}
	}
	return cluster.Grant{Device: id, Milli: r.Milli, Memory: r.Memory}
}

// Presume picks devices for a pod that is on the node already, where nobody told
// which it holds: those that Grants would give, else idle ones as far as there are,
// then those with the most left. It gives fewer than asked for only where the node
// has fewer.
func Presume(v *cluster.View, s *cluster.Shape, n *cluster.Node) []cluster.Grant {
	if grants, ok := Grants(v, s, n); ok {
		return grants
	}
	var given []cluster.Grant
	for k := range s.Devices {
		r := &s.Devices[k]
		first := len(given)
		for range r.Count {
			best, most := cluster.DeviceID(cluster.None), quantity.MilliGPU(0)
			for i := range n.Spec.DeviceCount {
				id := n.Spec.FirstDevice + cluster.DeviceID(i)
				d := overlaid(v.Device(id), id, given)
				if !r.Parts && holds(given[first:], id) || r.Profile != 0 && d.Spec.Profile(r.Profile) == nil || r.Parts && picks(v, &d, r).none() {
					continue
				}
				if best == cluster.None || d.FreeMilli > most {
					best, most = id, d.FreeMilli
				}
			}
			if best == cluster.None {
				break
			}
			d := overlaid(v.Device(best), best, given)
			given = append(given, GrantOf(v, &d, best, r))
		}
	}
	return given
}

// Grants picks devices for all requests of the shape, or says that they do not
// fit together. Whole cards come from the tightest island that holds them, else
// by index; shares, partitions and parts go to the fullest device that takes them, and
// of several parts the one that takes least and leaves most to choose from.
// Equal choices fall to the lowest index. Where that order of picking fails, all
// others are searched. The grants come in the order of the requests.
func Grants(v *cluster.View, s *cluster.Shape, n *cluster.Node) ([]cluster.Grant, bool) {
	if grants, ok := pick(v, s, n); ok {
		return grants, true
	}
	grants, ok, _ := assign(v, s, n)
	return grants, ok
}

// pick takes devices request by request.
func pick(v *cluster.View, s *cluster.Shape, n *cluster.Node) ([]cluster.Grant, bool) {
	grants := make([]cluster.Grant, 0, s.DeviceCount())
	mixed := len(s.Devices) > 1
	var first [maxRequests]int // of each request's grants
	if len(s.Devices) > maxRequests {
		return nil, false
	}
	for _, whole := range [...]bool{true, false} {
		for i := range s.Devices {
			r := &s.Devices[i]
			if r.Whole() != whole {
				continue
			}
			first[i] = len(grants)
			var ok bool
			switch {
			case whole:
				grants, ok = pickWhole(v, n, r, grants)
			case r.Parts:
				grants, ok = pickUnits(v, n, r, grants)
			default:
				grants, ok = pickParts(v, n, r, grants)
			}
			if !ok {
				return nil, false
			}
		}
	}
	if mixed {
		picked := grants
		grants = make([]cluster.Grant, 0, len(picked))
		for i := range s.Devices {
			grants = append(grants, picked[first[i]:first[i]+int(s.Devices[i].Count)]...)
		}
	}
	return grants, true
}

// maxRequests bounds how many device requests one shape is picked for; Kubernetes
// allows 32 in a claim.
const maxRequests = 64

func pickWhole(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, given []cluster.Grant) ([]cluster.Grant, bool) {
	available := func(i int32) bool {
		return Takes(v, v.DeviceOf(n, i), r) && !holds(given, n.Spec.FirstDevice+cluster.DeviceID(i))
	}
	// The tightest linked group that holds all of them, by the wishes of the
	// request, and by island even where none is required.
	wishes := *r
	wishes.SameIsland = true
	lead, size := tightest(v, n, &wishes, available)
	if lead < 0 && !r.SameIsland {
		wishes.SameIsland = false
		lead, size = tightest(v, n, &wishes, available)
	}
	if lead < 0 || size < int64(r.Count) {
		return given, false
	}
	link := linkOf(v.DeviceOf(n, lead), lead, &wishes)
	for i, left := lead, r.Count; left > 0; i++ {
		if d := v.DeviceOf(n, i); linkOf(d, i, &wishes) == link && available(i) {
			given = append(given, GrantOf(v, d, n.Spec.FirstDevice+cluster.DeviceID(i), r))
			left--
		}
	}
	return given, true
}

// tightest returns the first member of the smallest group of available linked
// devices that is large enough, and its size; -1 without one.
func tightest(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, available func(int32) bool) (int32, int64) {
	lead, best := int32(-1), int64(0)
	for i := range n.Spec.DeviceCount {
		if !available(i) {
			continue
		}
		link, size := linkOf(v.DeviceOf(n, i), i, r), int64(0)
		for k := range n.Spec.DeviceCount {
			if linkOf(v.DeviceOf(n, k), k, r) == link && available(k) {
				size++
			}
		}
		if size >= int64(r.Count) && (lead < 0 || size < best) {
			lead, best = i, size
		}
	}
	return lead, best
}

func holds(grants []cluster.Grant, id cluster.DeviceID) bool {
	for i := range grants {
		if grants[i].Device == id {
			return true
		}
	}
	return false
}

func pickParts(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, given []cluster.Grant) ([]cluster.Grant, bool) {
	first := len(given)
	for range r.Count {
		best, left := int32(-1), quantity.MilliGPU(0)
		for i := range n.Spec.DeviceCount {
			id := n.Spec.FirstDevice + cluster.DeviceID(i)
			d := overlaid(v.Device(id), id, given)
			if holds(given[first:], id) || !Takes(v, &d, r) || !linkedWith(v, n, given[first:], i, r) {
				continue
			}
			if len(given) == first && !leads(v, n, given, i, r) {
				continue
			}
			if best < 0 || d.FreeMilli < left {
				best, left = i, d.FreeMilli
			}
		}
		if best < 0 {
			return given, false
		}
		id := n.Spec.FirstDevice + cluster.DeviceID(best)
		given = append(given, GrantOf(v, v.Device(id), id, r))
	}
	return given, true
}

// linkedWith says whether device i belongs with those already picked.
func linkedWith(v *cluster.View, n *cluster.Node, picked []cluster.Grant, i int32, r *cluster.DeviceRequest) bool {
	if len(picked) == 0 || !r.SameIsland && !r.SameNUMA {
		return true
	}
	first := int32(picked[0].Device - n.Spec.FirstDevice)
	return linkOf(v.DeviceOf(n, first), first, r) == linkOf(v.DeviceOf(n, i), i, r)
}

// leads says whether enough devices are linked with device i to give the whole
// request.
func leads(v *cluster.View, n *cluster.Node, given []cluster.Grant, i int32, r *cluster.DeviceRequest) bool {
	if !r.SameIsland && !r.SameNUMA {
		return true
	}
	link, size := linkOf(v.DeviceOf(n, i), i, r), int32(0)
	for k := range n.Spec.DeviceCount {
		id := n.Spec.FirstDevice + cluster.DeviceID(k)
		if d := overlaid(v.Device(id), id, given); linkOf(&d, k, r) == link && Takes(v, &d, r) {
			size++
		}
	}
	return size >= r.Count
}

// overlaid is the device less what was given of it in this search.
func overlaid(d *cluster.Device, id cluster.DeviceID, given []cluster.Grant) cluster.Device {
	out := *d
	for i := range given {
		if given[i].Device == id {
			out.FreeMilli -= given[i].Milli
			out.FreeMemory -= given[i].Memory
			out.Holders++
			if profile := d.Spec.Profile(given[i].Profile); profile != nil {
				out.Used = plus(out.Used, profile.Consumes)
			}
		}
	}
	return out
}

func plus(used, consumed []int64) []int64 {
	out := slices.Clone(consumed)
	for c, amount := range used {
		out[c] += amount
	}
	return out
}
