// Package fit judges whether a pod may be placed on a node.
//
// Check answers with a Reason that names the first constraint that binds and
// two numbers; Explain gathers the reasons of many nodes into the one that
// matters; Grants picks devices for a pod that fits. It leaves the choice among
// nodes that fit to package rank.
package fit

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// Check says why a pod of the shape cannot be placed on the node now. The zero
// Reason means that it can.
func Check(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) decision.Reason {
	s, n := v.Shape(id), v.Node(node)
	if hasRoom(v, s, n) && permission(v, id, node).None() {
		return decision.Reason{}
	}
	if r := emptyNode(v, s, n); !r.None() {
		return r
	}
	if r := permission(v, id, node); !r.None() {
		return r
	}
	return room(v, s, n)
}

// hasRoom is the fast half of Check: free amounts and devices.
func hasRoom(v *cluster.View, s *cluster.Shape, n *cluster.Node) bool {
	if !n.TakesWork() {
		return false
	}
	if _, short := n.Free.ShortOf(&s.Need); short {
		return false
	}
	switch len(s.Devices) {
	case 0:
		return true
	case 1:
		return satisfied(v, n, &s.Devices[0])
	}
	_, fits := Grants(v, s, n)
	return fits
}

// permission judges what could be changed without changing the hardware:
// authority, facts, labels, taints and the node's life.
func permission(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) decision.Reason {
	s, n := v.Shape(id), v.Node(node)
	if n.Spec.Authority == cluster.AuthorityPlugin {
		for i := range s.Devices {
			if r := &s.Devices[i]; !r.Whole() || r.SameIsland || r.SameNUMA {
				return decision.Reason{Code: decision.DeviceAuthority}
			}
		}
	}
	if n.Spec.Selective && slices.ContainsFunc(s.Devices, func(r cluster.DeviceRequest) bool { return r.Selector == 0 }) {
		return decision.Reason{Code: decision.DeviceAuthority}
	}
	if v.Facts.Excludes(id, node) {
		return decision.Reason{Code: decision.NodeExcluded}
	}
	if !selected(v, s, n.Spec) {
		return decision.Reason{Code: decision.NodeSelector}
	}
	if !tolerated(s, n.Spec) {
		return decision.Reason{Code: decision.NodeTaint}
	}
	if !n.TakesWork() {
		return decision.Reason{Code: decision.NodeLife}
	}
	return decision.Reason{}
}

func selected(v *cluster.View, s *cluster.Shape, spec *cluster.NodeSpec) bool {
	if len(s.Selector) == 0 {
		return true
	}
	for _, terms := range s.Selector {
		all := true
		for i := range terms {
			if !meets(v, &terms[i], spec) {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

// affine says whether a node has the labels asked for, whatever features it
// declares: over such nodes pods are spread.
func affine(v *cluster.View, s *cluster.Shape, spec *cluster.NodeSpec) bool {
	for _, terms := range s.Selector {
		missed := func(r cluster.Requirement) bool { return !r.Feature && !meets(v, &r, spec) }
		if !slices.ContainsFunc(terms, missed) {
			return true
		}
	}
	return len(s.Selector) == 0
}

func meets(v *cluster.View, r *cluster.Requirement, spec *cluster.NodeSpec) bool {
	value, has := spec.Label(r.Key)
	switch r.Op {
	case cluster.OpExists:
		return has
	case cluster.OpAbsent:
		return !has
	case cluster.OpGreater, cluster.OpLess:
		number, isNumber := parseInt(v.Symbols.Text(value))
		if !has || !isNumber {
			return false
		}
		if r.Op == cluster.OpGreater {
			return number > r.Number
		}
		return number < r.Number
	}
	among := false
	for _, want := range r.Values {
		among = among || has && want == value
	}
	return among == (r.Op == cluster.OpIn)
}

// parseInt reads a decimal int64, as Kubernetes does for Gt and Lt.
func parseInt(text string) (int64, bool) {
	negative := len(text) > 0 && text[0] == '-'
	digits := text
	if negative {
		digits = text[1:]
	}
	if digits == "" || len(digits) > 18 {
		return 0, false
	}
	n := int64(0)
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		return -n, true
	}
	return n, true
}

func tolerated(s *cluster.Shape, spec *cluster.NodeSpec) bool {
	for i := range spec.Taints {
		taint := &spec.Taints[i]
		if taint.Effect == cluster.TaintPreferNoSchedule {
			continue
		}
		ok := false
		for k := range s.Tolerations {
			t := &s.Tolerations[k]
			ok = ok || (t.Key == 0 || t.Key == taint.Key) && (t.AnyValue || t.Value == taint.Value) && (t.AnyEffect || t.Effect == taint.Effect)
		}
		if !ok {
			return false
		}
	}
	return true
}

// emptyNode judges whether the node could hold the shape with nothing else on
// it and all devices healthy.
func emptyNode(v *cluster.View, s *cluster.Shape, n *cluster.Node) decision.Reason {
	for i := range s.Devices {
		if r := emptyDevices(v, n, &s.Devices[i]); !r.None() {
			return r
		}
	}
	if total := s.DeviceCount(); len(s.Devices) > 1 && wholeCount(s) > n.Spec.DeviceCount {
		return decision.Reason{Code: decision.DeviceCount, Need: int64(total), Have: int64(n.Spec.DeviceCount)}
	}
	if d, short := n.Spec.Allocatable.ShortOf(&s.Need); short {
		return decision.Reason{Code: decision.NodeCapacity, Dim: d, Need: s.Need.At(d), Have: n.Spec.Allocatable.At(d)}
	}
	return decision.Reason{}
}

func wholeCount(s *cluster.Shape) int32 {
	n := int32(0)
	for i := range s.Devices {
		if s.Devices[i].Whole() {
			n += s.Devices[i].Count
		}
	}
	return n
}

// room names the amount that is short now.
func room(v *cluster.View, s *cluster.Shape, n *cluster.Node) decision.Reason {
	if d, short := n.Free.ShortOf(&s.Need); short {
		return decision.Reason{Code: decision.NodeRoom, Dim: d, Need: s.Need.At(d), Have: max(n.Free.At(d), 0)}
	}
	for i := range s.Devices {
		if r := deviceRoom(v, n, &s.Devices[i]); !r.None() {
			return r
		}
	}
	// Each request fits alone, together they do not.
	if _, _, gaveUp := assign(v, s, n); gaveUp {
		return decision.Reason{Code: decision.GaveUp, Need: maxTries, Have: maxTries}
	}
	if slices.ContainsFunc(s.Devices, func(r cluster.DeviceRequest) bool { return r.Parts }) {
		return together(v, s, n)
	}
	return decision.Reason{Code: decision.DeviceIdle, Need: int64(s.DeviceCount()), Have: int64(n.IdleDevices)}
}

// deviceRoom names what one request, alone, is short of.
func deviceRoom(v *cluster.View, n *cluster.Node, r *cluster.DeviceRequest) decision.Reason {
	if satisfied(v, n, r) {
		return decision.Reason{}
	}
	var idle int64
	// What is free per device; memory only where compute suffices. The arrays
	// keep the scan free of allocations.
	var rooms [2][64]int64
	compute, memory := rooms[0][:0], rooms[1][:0]
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		if d.Health != cluster.Healthy || !suits(v, d, r) {
			continue
		}
		if d.Idle() {
			idle++
		}
		compute = append(compute, max(int64(d.FreeMilli), 0))
		if d.FreeMilli >= r.Milli {
			memory = append(memory, freeMemory(d))
		}
	}
	need := int64(r.Count)
	switch {
	case r.Profile != 0 || r.Parts:
		return partRoom(v, n, r)
	case r.Whole() && idle < need:
		return decision.Reason{Code: decision.DeviceIdle, Need: need, Have: idle}
	case r.Whole():
		return decision.Reason{Code: decision.DeviceLinkRoom, Need: need, Have: mostLinked(v, n, r, true)}
	}
	if most := onEach(compute, r.Count); most < int64(r.Milli) {
		return decision.Reason{Code: decision.DeviceRoom, Need: int64(r.Milli), Have: most}
	}
	if most := onEach(memory, r.Count); most < int64(r.Memory) {
		return decision.Reason{Code: decision.DeviceMemoryRoom, Need: int64(r.Memory), Have: most}
	}
	return decision.Reason{Code: decision.DeviceLinkRoom, Need: need, Have: mostLinked(v, n, r, true)}
}

// freeMemory is what a device can give; one of unknown memory binds nobody.
func freeMemory(d *cluster.Device) int64 {
	if d.Spec.Memory == 0 {
		return math.MaxInt64
	}
	return max(int64(d.FreeMemory), 0)
}

// onEach returns the most that each of n devices has.
func onEach(amounts []int64, n int32) int64 {
	if int(n) > len(amounts) {
		return 0
	}
	slices.Sort(amounts)
	return amounts[len(amounts)-int(n)]
}
