package fit

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// maxTries bounds the search for devices on one node: two requests on eight
// unlike devices need a few hundred.
const maxTries = 4096

// assignment is the search for devices for several requests at once. It goes
// through all choices, for where picking request by request found none.
type assignment struct {
	view   *cluster.View
	shape  *cluster.Shape
	node   *cluster.Node
	grants []cluster.Grant
	tries  int
	// selective says that requests single out devices which are otherwise alike.
	selective bool
}

// gaveUp says that the search ended without knowing.
func (a *assignment) gaveUp() bool { return a.tries > maxTries }

// found goes through the choices for request i and those behind it; taken
// devices of it are given already, the next comes from index from on.
func (a *assignment) found(i int, taken, from int32) bool {
	if i == len(a.shape.Devices) {
		return true
	}
	r := &a.shape.Devices[i]
	if taken == r.Count {
		return a.found(i+1, 0, 0)
	}
	if r.Parts {
		return a.foundUnits(i, taken, from, -1)
	}
	first := len(a.grants) - int(taken)
	var failed *cluster.Device // the last one tried here
	for k := from; k < a.node.Spec.DeviceCount; k++ {
		id := a.node.Spec.FirstDevice + cluster.DeviceID(k)
		d := overlaid(a.view.Device(id), id, a.grants)
		if !Takes(a.view, &d, r) || !linkedWith(a.view, a.node, a.grants[first:], k, r) || failed != nil && !a.selective && alike(failed, &d) {
			continue
		}
		if a.tries++; a.gaveUp() {
			return false
		}
		a.grants = append(a.grants, GrantOf(a.view, &d, id, r))
		if a.found(i, taken+1, k+1) {
			return true
		}
		a.grants = a.grants[:len(a.grants)-1]
		failed = &d
	}
	return false
}

// foundUnits does the same for a request that takes parts, of which one device may
// give several: the next comes from behind unit last of the first device.
func (a *assignment) foundUnits(i int, taken, from int32, last unit) bool {
	r := &a.shape.Devices[i]
	if taken == r.Count {
		return a.found(i+1, 0, 0)
	}
	first := len(a.grants) - int(taken)
	for k := from; k < a.node.Spec.DeviceCount; k++ {
		id := a.node.Spec.FirstDevice + cluster.DeviceID(k)
		d := overlaid(a.view.Device(id), id, a.grants)
		if !linkedWith(a.view, a.node, a.grants[first:], k, r) {
			continue
		}
		for _, u := range units(a.view, &d, r) {
			if k == from && u <= last {
				continue
			}
			if a.tries++; a.gaveUp() {
				return false
			}
			a.grants = append(a.grants, grantOf(&d, id, u))
			if a.foundUnits(i, taken+1, k, u) {
				return true
			}
			a.grants = a.grants[:len(a.grants)-1]
		}
	}
	return false
}

// alike says whether two devices can stand in for one another. It may miss some.
func alike(a, b *cluster.Device) bool {
	x, y := a.Spec, b.Spec
	return x.Model == y.Model && x.Memory == y.Memory && x.Sharing == y.Sharing && x.NUMA == y.NUMA &&
		x.Island == y.Island && x.Island != cluster.None && len(x.Profiles)+len(y.Profiles) == 0 &&
		a.Holders == b.Holders && a.FreeMilli == b.FreeMilli && a.FreeMemory == b.FreeMemory
}

// assign searches devices for all requests of the shape.
func assign(v *cluster.View, s *cluster.Shape, n *cluster.Node) (grants []cluster.Grant, ok, gaveUp bool) {
	if len(s.Devices) < 2 {
		return nil, false, false
	}
	for i := range s.Devices {
		if !satisfied(v, n, &s.Devices[i]) {
			return nil, false, false
		}
	}
	a := assignment{
		view: v, shape: s, node: n, grants: make([]cluster.Grant, 0, s.DeviceCount()),
		selective: slices.ContainsFunc(s.Devices, func(r cluster.DeviceRequest) bool { return r.Selector != 0 }),
	}
	if a.found(0, 0, 0) {
		return a.grants, true, false
	}
	return nil, false, a.gaveUp()
}
