package fit

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Slots is at most how many pods of a shape a node takes now, with all its devices
// or, where it is not None, with those of one island; 0 where Check has a reason. It
// is exact for shapes that ask for whole cards or a part of one, relations to other
// pods apart.
func Slots(v *cluster.View, id cluster.ShapeID, node cluster.NodeID, island int32) int32 {
	s, n := v.Shape(id), v.Node(node)
	if island != cluster.None && n.Spec.Authority == cluster.AuthorityPlugin {
		return 0 // the kubelet picks the cards
	}
	if !hasRoom(v, s, n) || !permission(v, id, node).None() {
		return 0
	}
	return slots(v, s, n, island, false)
}

// Capacity is what Slots would be at most if the node were empty, healthy and open
// to all.
func Capacity(v *cluster.View, id cluster.ShapeID, node cluster.NodeID, island int32) int32 {
	s, n := v.Shape(id), v.Node(node)
	if !emptyNode(v, s, n).None() {
		return 0
	}
	return slots(v, s, n, island, true)
}

func slots(v *cluster.View, s *cluster.Shape, n *cluster.Node, island int32, empty bool) int32 {
	free := &n.Free
	if empty {
		free = &n.Spec.Allocatable
	}
	most := int64(math.MaxInt32)
	for d := range s.Need.Dims() {
		if need := s.Need.At(d); need > 0 {
			most = min(most, free.At(d)/need)
		}
	}
	for i := range s.Devices {
		if most > 0 {
			most = min(most, deviceSlots(v, n, &s.Devices[i], island, empty))
		}
	}
	return int32(max(most, 0))
}

// deviceSlots is how many pods find the devices of one request.
func deviceSlots(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, island int32, empty bool) int64 {
	if r.Count == 0 {
		return math.MaxInt32
	}
	var parts [64]int64
	var links [64][2]int32
	found := 0
	for i := range min(n.Spec.DeviceCount, int32(len(parts))) {
		d := v.DeviceOf(n, i)
		if island != cluster.None && d.Spec.Island != island {
			continue
		}
		if p := partsOf(v, d, r, empty); p > 0 {
			parts[found], links[found] = p, linkOf(d, i, r)
			found++
		}
	}
	sum := int64(0)
	for i := range found {
		if parts[i] == 0 {
			continue
		}
		// All devices of one link, or all there are.
		var linked [64]int64
		count := 0
		for k := i; k < found; k++ {
			if parts[k] > 0 && links[k] == links[i] {
				linked[count] = parts[k]
				count++
				parts[k] = 0
			}
		}
		sum += together(linked[:count], int64(r.Count), r.Profile != 0)
	}
	return sum
}

// together is how many pods get n parts each, of n devices, or of any.
func together(parts []int64, n int64, any bool) int64 {
	sum := int64(0)
	for _, p := range parts {
		sum += p
	}
	if any || n == 1 {
		return sum / n
	}
	for pods := sum / n; pods > 0; pods-- {
		reach := int64(0)
		for _, p := range parts {
			reach += min(p, pods)
		}
		if reach >= n*pods {
			return pods
		}
	}
	return 0
}

// partsOf is how many parts as the request asks for a device gives.
func partsOf(v *cluster.View, d *cluster.Device, r *cluster.DeviceRequest, empty bool) int64 {
	if empty && !suits(v, d, r) || !empty && !Takes(v, d, r) {
		return 0
	}
	milli, memory := int64(d.FreeMilli), int64(d.FreeMemory)
	if empty {
		milli, memory = int64(quantity.WholeGPU), int64(d.Spec.Memory)
	}
	if r.Whole() {
		return 1
	}
	wants, bytes := int64(r.Milli), int64(r.Memory)
	most := int64(math.MaxInt32)
	if r.Profile != 0 {
		profile := d.Spec.Profile(r.Profile)
		wants, bytes = int64(profile.Milli), int64(profile.Memory)
		for c, amount := range profile.Consumes {
			used := int64(0)
			if c < len(d.Used) && !empty {
				used = d.Used[c]
			}
			if amount > 0 {
				most = min(most, (d.Spec.Counters[c].Total-used)/amount)
			}
		}
	}
	if wants > 0 {
		most = min(most, milli/wants)
	}
	if bytes > 0 && d.Spec.Memory > 0 {
		most = min(most, memory/bytes)
	}
	return most
}

// Linked says why a shape for which a node has room does not find it on one of its
// islands.
func Linked(v *cluster.View, id cluster.ShapeID, node cluster.NodeID, island int32) decision.Reason {
	s, n := v.Shape(id), v.Node(node)
	if n.Spec.Authority == cluster.AuthorityPlugin {
		return decision.Reason{Code: decision.DeviceAuthority}
	}
	for i := range s.Devices {
		r := &s.Devices[i]
		if deviceSlots(v, n, r, island, true) == 0 {
			return decision.Reason{Code: decision.DeviceLink, Need: int64(r.Count), Have: linkedOn(v, n, r, island, false)}
		}
		if deviceSlots(v, n, r, island, false) == 0 {
			return decision.Reason{Code: decision.DeviceLinkRoom, Need: int64(r.Count), Have: linkedOn(v, n, r, island, true)}
		}
	}
	return decision.Reason{}
}

// linkedOn counts the devices of an island that suit a request, or could give their
// part now.
func linkedOn(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, island int32, free bool) int64 {
	sum := int64(0)
	for i := range n.Spec.DeviceCount {
		if d := v.DeviceOf(n, i); d.Spec.Island == island && (free && Takes(v, d, r) || !free && suits(v, d, r)) {
			sum++
		}
	}
	return sum
}

// GrantsOn picks devices for all requests of the shape from one island of the node,
// or says that they do not fit together there.
func GrantsOn(v *cluster.View, s *cluster.Shape, n *cluster.Node, island int32) ([]cluster.Grant, bool) {
	var grants []cluster.Grant
	first := make([]int, len(s.Devices))
	for _, whole := range [...]bool{true, false} {
		for i := range s.Devices {
			if r := &s.Devices[i]; r.Whole() == whole {
				first[i] = len(grants)
				var ok bool
				if grants, ok = pickOn(v, n, r, island, grants); !ok {
					return nil, false
				}
			}
		}
	}
	out := make([]cluster.Grant, 0, len(grants))
	for i := range s.Devices {
		out = append(out, grants[first[i]:first[i]+int(s.Devices[i].Count)]...)
	}
	return out, true
}

// pickOn adds the devices of one request: of those linked as it asks the fullest,
// then the first.
func pickOn(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest, island int32, given []cluster.Grant) ([]cluster.Grant, bool) {
	for lead := range n.Spec.DeviceCount {
		link := linkOf(v.DeviceOf(n, lead), lead, r)
		own := given
		for range r.Count {
			best, left := cluster.DeviceID(cluster.None), quantity.MilliGPU(0)
			for i := lead; i < n.Spec.DeviceCount; i++ {
				id := n.Spec.FirstDevice + cluster.DeviceID(i)
				d := overlaid(v.Device(id), id, own)
				if d.Spec.Island != island || holds(own[len(given):], id) || linkOf(&d, i, r) != link || !Takes(v, &d, r) {
					continue
				}
				if best == cluster.None || d.FreeMilli < left {
					best, left = id, d.FreeMilli
				}
			}
			if best == cluster.None {
				break
			}
			own = append(own, GrantOf(v.Device(best), best, r))
		}
		if len(own) == len(given)+int(r.Count) {
			return own, true
		}
		if !r.SameIsland && !r.SameNUMA {
			break
		}
	}
	return given, false
}
