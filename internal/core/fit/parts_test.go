package fit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// part is one of a card: from which of the places in a row it takes how many, and how
// much of what else there is.
type part struct {
	name        string
	start, size int
	compute     int64
	milli       quantity.MilliGPU
}

// cut makes a device partitionable into parts over so many places.
func (r *rack) cut(d *cluster.DeviceSpec, places int, compute int64, parts ...part) {
	d.Sharing = cluster.SharingPartition
	for i := range places {
		d.Counters = append(d.Counters, cluster.Counter{Name: r.names.Intern(fmt.Sprint("place-", i)), Total: 1})
	}
	d.Counters = append(d.Counters, cluster.Counter{Name: r.names.Intern("compute"), Total: compute})
	for i := range parts { // each can be given once
		d.Counters = append(d.Counters, cluster.Counter{Name: r.names.Intern("once-" + parts[i].name), Total: 1})
	}
	for i, p := range parts {
		consumes := make([]int64, len(d.Counters))
		for k := range p.size {
			consumes[p.start+k] = 1
		}
		consumes[places] = p.compute
		consumes[places+1+i] = 1
		d.Profiles = append(d.Profiles, cluster.Profile{Name: r.names.Intern(p.name), Milli: p.milli, Memory: 10 * quantity.GiB * quantity.Bytes(p.size), Consumes: consumes})
	}
}

// mig is a card as NVIDIA's are cut: eight places and seven units of compute.
func (r *rack) mig(d *cluster.DeviceSpec) {
	var all []part
	for _, k := range []struct {
		name    string
		size    int
		compute int64
		starts  []int
	}{{"1g", 1, 1, []int{0, 1, 2, 3, 4, 5, 6}}, {"2g", 2, 2, []int{0, 2, 4}}, {"3g", 4, 3, []int{0, 4}}, {"4g", 4, 4, []int{0}}, {"7g", 8, 7, []int{0}}} {
		for _, start := range k.starts {
			all = append(all, part{fmt.Sprint(k.name, "-", start), start, k.size, k.compute, quantity.MilliGPU(125 * k.size)})
		}
	}
	r.cut(d, 8, 7, all...)
}

// knows gives the ledger facts: of each device whether it meets the selector, and
// which of its profiles do.
func (r *rack) knows(selector string, meets func(d *cluster.Device) bool, picks func(name string) bool) cluster.Symbol {
	name := r.names.Intern(selector)
	r.SetSymbols(r.names.Symbols())
	next := &cluster.Facts{Selected: map[cluster.Symbol][]uint64{}, Parts: map[cluster.Symbol][]uint64{}}
	if r.Facts != nil {
		for s, set := range r.Facts.Selected { // order: a map is filled
			next.Selected[s], next.Parts[s] = set, r.Facts.Parts[s]
		}
	}
	set, parts := []uint64{0}, make([]uint64, r.Devices.Len())
	for i := range r.Devices.Len() {
		d := r.Device(cluster.DeviceID(i))
		if meets(d) {
			set[0] |= 1 << i
		}
		for k := range d.Spec.Profiles {
			if picks(r.Symbols.Text(d.Spec.Profiles[k].Name)) {
				parts[i] |= 1 << k
			}
		}
	}
	next.Selected[name], next.Parts[name] = set, parts
	r.SetFacts(next)
	return name
}

func parts(n int32, selector cluster.Symbol) cluster.DeviceRequest {
	return cluster.DeviceRequest{Count: n, Milli: quantity.WholeGPU, Selector: selector, Parts: true}
}

// draw draws a set of letters: which devices or profiles a selector picks.
func drawPicked(t *rapid.T, label string) map[string]bool {
	out := make(map[string]bool)
	for _, name := range []string{"0", "1", "2", "a", "b", "c", "d", "e"} {
		out[name] = rapid.IntRange(0, 2).Draw(t, label+name) > 0
	}
	return out
}

// drawParts returns a rack with one node of up to three devices with a few parts each,
// some of them given.
func drawParts(t *rapid.T) *rack {
	r := newRack()
	devices := r.gpus(rapid.IntRange(1, 3).Draw(t, "devices"), "H200")
	for _, d := range devices {
		var all []part
		for k := range rapid.IntRange(0, 5).Draw(t, "parts") {
			size := rapid.IntRange(0, 3).Draw(t, "size")
			all = append(all, part{
				name: string(rune('a' + k)), start: rapid.IntRange(0, 4-size).Draw(t, "start"), size: size,
				compute: int64(rapid.IntRange(0, 3).Draw(t, "compute")), milli: quantity.MilliGPU(rapid.SampledFrom([]int{100, 200}).Draw(t, "milli")),
			})
		}
		r.cut(d, 4, 5, all...)
		d.Island = int32(rapid.IntRange(cluster.None, 1).Draw(t, "island"))
	}
	node := r.node(devices)
	for i, spec := range devices {
		id := cluster.DeviceID(i)
		switch load := rapid.IntRange(0, 7).Draw(t, "load"); {
		case load == 0:
			r.fill(node, cluster.Grant{Device: id, Milli: 1000, Memory: spec.Memory})
		case load == 1:
			r.SetHealth(id, cluster.Sick)
		case load < 5 && len(spec.Profiles) > 0:
			p := spec.Profiles[0]
			r.fill(node, cluster.Grant{Device: id, Milli: p.Milli, Memory: p.Memory, Profile: p.Name})
		}
	}
	return r
}

// holds says whether the requests can be served: it tries every choice of units.
func holds(v *cluster.View, devices []cluster.Device, requests []cluster.DeviceRequest, given int32, from int, chosen []int) bool {
	if len(requests) == 0 {
		return true
	}
	r := requests[0]
	if given == r.Count {
		return linked(devices, r, chosen) && holds(v, devices, requests[1:], 0, 0, nil)
	}
	const units = cluster.MaxProfiles + 1
	for at := from; at < len(devices)*units; at++ {
		i, u := at/units, at%units
		before := devices[i]
		d := &devices[i]
		taken := false
		switch {
		case d.Health != cluster.Healthy:
		case u < len(d.Spec.Profiles) && r.Parts:
			p := d.Spec.Profiles[u]
			taken = v.Facts.PartsOf(r.Selector, d.ID)>>u&1 == 1 && take(d, cluster.DeviceRequest{Count: 1, Profile: p.Name})
		case u == units-1 && v.Facts.Selects(r.Selector, d.ID):
			taken = take(d, cluster.DeviceRequest{Count: 1, Milli: quantity.WholeGPU})
		}
		if taken && holds(v, devices, requests, given+1, at+1, append(slices.Clone(chosen), i)) {
			devices[i] = before
			return true
		}
		devices[i] = before
	}
	return false
}

// A shape that asks for parts fits exactly where some choice of parts holds it; the
// choice that Grants makes is admitted, and the books balance with it.
func TestPartsAgreeWithTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawParts(t)
		var requests []cluster.DeviceRequest
		for k := range rapid.IntRange(1, 2).Draw(t, "requests") {
			cards, picked := drawPicked(t, "card"), drawPicked(t, "part")
			selector := r.knows(fmt.Sprint("s", k), func(d *cluster.Device) bool { return cards[d.Spec.Name] }, func(name string) bool { return picked[name] })
			q := parts(int32(rapid.IntRange(1, 4).Draw(t, "count")), selector)
			q.Parts = rapid.IntRange(0, 4).Draw(t, "whole") > 0
			q.SameIsland = rapid.IntRange(0, 3).Draw(t, "same island") == 0
			requests = append(requests, q)
		}
		id := r.shape(requests...)
		v, s, n := &r.View, r.Shape(id), r.Node(0)
		var devices []cluster.Device
		for i := range n.Spec.DeviceCount {
			d := *v.DeviceOf(n, i)
			d.Used = append(slices.Clone(d.Used), make([]int64, len(d.Spec.Counters)-len(d.Used))...)
			devices = append(devices, d)
		}
		why, want := fit.Check(v, id, 0), holds(v, devices, requests, 0, 0, nil)
		if why.None() != want {
			t.Fatalf("shape %+v on %s: Check says %q, trying everything says %t", s.Devices, describe(v, n), why.Describe(v), want)
		}
		if !want {
			if why.Code == decision.DeviceProfileRoom && why.Need <= why.Have {
				t.Fatalf("shape %+v: %q needs %d and has %d", s.Devices, why.Describe(v), why.Need, why.Have)
			}
			return
		}
		grants, ok := fit.Grants(v, s, n)
		if !ok {
			t.Fatalf("shape %+v on %s: Check says it fits, Grants finds no devices", s.Devices, describe(v, n))
		}
		place := cluster.Placement{Node: 0, Shape: id, Grants: grants}
		pod := r.pod(id)
		if err := r.Admit(pod, &place); err != nil {
			t.Fatalf("shape %+v on %s: grants %+v: %v", s.Devices, describe(v, n), grants, err)
		}
		r.Charge(pod, place, cluster.PhaseBound)
		if err := cluster.Audit(v); err != nil {
			t.Fatalf("grants %+v: %v", grants, err)
		}
	})
}

// Parts come from the fullest card that has one; of several it is the one that takes
// least and leaves most to choose from. A card alone is the last choice.
func TestPartsArePickedTightly(t *testing.T) {
	any := func(string) bool { return true }
	kind := func(kinds ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(kinds, name[:2]) }
	}
	cards, none := func(*cluster.Device) bool { return true }, func(*cluster.Device) bool { return false }
	for _, c := range []struct {
		name  string
		taken []string // of card 1
		count int32
		meets func(*cluster.Device) bool
		picks func(string) bool
		want  []string
	}{
		{name: "the least part, at the end", count: 1, meets: cards, picks: any, want: []string{"0/1g-6"}},
		{name: "the fullest card", taken: []string{"1g-6"}, count: 1, meets: none, picks: kind("1g"), want: []string{"1/1g-4"}},
		{name: "a middle part leaves the other half whole", taken: []string{"1g-6", "1g-4"}, count: 1, meets: none, picks: kind("2g", "3g"), want: []string{"1/2g-0"}},
		{name: "several of one card", count: 3, meets: none, picks: kind("3g"), want: []string{"0/3g-4", "0/3g-0", "1/3g-4"}},
		{name: "beyond one card", taken: []string{"3g-0"}, count: 9, meets: none, picks: kind("1g"), want: []string{"1/1g-6", "1/1g-4", "1/1g-5", "0/1g-6", "0/1g-4", "0/1g-5", "0/1g-0", "0/1g-1", "0/1g-2"}},
		{name: "a card alone where no part will do", taken: []string{"1g-0"}, count: 1, meets: cards, picks: kind("xx"), want: []string{"0"}},
		{name: "no card alone while a part is given", taken: []string{"1g-0"}, count: 2, meets: cards, picks: kind("xx")},
		{name: "too many for compute", count: 15, meets: none, picks: any},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRack()
			devices := r.gpus(2, "H100")
			for _, d := range devices {
				r.mig(d)
			}
			node := r.node(devices)
			for _, name := range c.taken {
				p := devices[1].Profile(r.names.Intern(name))
				r.fill(node, cluster.Grant{Device: 1, Milli: p.Milli, Memory: p.Memory, Profile: p.Name})
			}
			selector := r.knows("s", c.meets, c.picks)
			grants, ok := fit.Grants(&r.View, r.Shape(r.shape(parts(c.count, selector))), r.Node(node))
			var got []string
			for _, g := range grants {
				text := fmt.Sprint(g.Device)
				if g.Profile != 0 {
					text += "/" + r.Symbols.Text(g.Profile)
				}
				got = append(got, text)
			}
			if ok != (c.want != nil) || ok && !cmp.Equal(got, c.want) {
				t.Errorf("got %v (%t), want %v", got, ok, c.want)
			}
		})
	}
}

// What a request for parts is short of is told with the counter that binds.
func TestPartsReasons(t *testing.T) {
	r := newRack()
	devices := r.gpus(1, "H100")
	r.mig(devices[0])
	node := r.node(devices)
	picks := func(name string) bool { return name[:2] == "3g" }
	selector := r.knows("s", func(*cluster.Device) bool { return false }, picks)
	three, one := r.shape(parts(3, selector)), r.shape(parts(1, selector))
	nothing := r.shape(parts(1, r.names.Intern("not known")))
	if got := fit.Check(&r.View, three, node).Describe(&r.View); got != "needs 3 devices on one node, the largest node has 2; never in this cluster" {
		t.Errorf("three: %q", got)
	}
	if got := fit.Check(&r.View, nothing, node).Code; got != decision.DeviceKind {
		t.Errorf("nothing is picked: code %v", got)
	}
	for _, name := range []string{"1g-2", "1g-5"} {
		p := devices[0].Profile(r.names.Intern(name))
		r.fill(node, cluster.Grant{Device: 0, Milli: p.Milli, Memory: p.Memory, Profile: p.Name})
	}
	r.SetSymbols(r.names.Symbols())
	if got := fit.Check(&r.View, one, node).Describe(&r.View); got != "needs room for 1 partition on one node, there is room for 0 (too little is left of place-2); waiting for room" {
		t.Errorf("one: %q", got)
	}
}
