package fit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"pgregory.net/rapid"
)

// possible is the slow, obvious second implementation of "may the shape be
// placed on this node": it tries every choice of devices.
func possible(v *cluster.View, s *cluster.Shape, n *cluster.Node) bool {
	if n.Life != cluster.LifeReady {
		return false
	}
	for d := range s.Need.Dims() {
		if s.Need.At(d) > max(0, n.Free.At(d)) {
			return false
		}
	}
	var devices []cluster.Device
	for i := range n.Spec.DeviceCount {
		d := *v.DeviceOf(n, i)
		d.Used = append(slices.Clone(d.Used), make([]int64, len(d.Spec.Counters)-len(d.Used))...)
		devices = append(devices, d)
	}
	for _, r := range s.Devices {
		if n.Spec.Authority == cluster.AuthorityPlugin && (r.Milli < 1000 || r.Profile != 0 || r.SameIsland || r.SameNUMA) {
			return false
		}
	}
	return assignable(devices, s.Devices, nil)
}

// assignable says whether the requests can be served; chosen are the devices that
// the first of them has already.
func assignable(devices []cluster.Device, requests []cluster.DeviceRequest, chosen []int) bool {
	if len(requests) == 0 {
		return true
	}
	r := requests[0]
	if len(chosen) == int(r.Count) {
		return linked(devices, r, chosen) && assignable(devices, requests[1:], nil)
	}
	for i := range devices {
		before := devices[i]
		if slices.Contains(chosen, i) || !take(&devices[i], r) {
			continue
		}
		if assignable(devices, requests, append(slices.Clone(chosen), i)) {
			devices[i] = before
			return true
		}
		devices[i] = before
	}
	return false
}

func linked(devices []cluster.Device, r cluster.DeviceRequest, chosen []int) bool {
	for _, i := range chosen {
		a, b := devices[chosen[0]].Spec, devices[i].Spec
		if i == chosen[0] {
			continue
		}
		if r.SameIsland && (a.Island == cluster.None || a.Island != b.Island) || r.SameNUMA && (a.NUMA == cluster.None || a.NUMA != b.NUMA) {
			return false
		}
	}
	return true
}

// take books one device's part of the request, if it may.
func take(d *cluster.Device, r cluster.DeviceRequest) bool {
	known := d.Spec.Memory > 0
	switch {
	case d.Health != cluster.Healthy,
		len(r.Models) > 0 && !slices.Contains(r.Models, d.Spec.Model),
		known && (d.Spec.Memory < r.MinMemory || d.Spec.Memory < r.Memory):
		return false
	case r.Profile != 0:
		at := slices.IndexFunc(d.Spec.Profiles, func(p cluster.Profile) bool { return p.Name == r.Profile })
		if at < 0 || d.Spec.Profiles[at].Milli > d.FreeMilli || d.Spec.Profiles[at].Memory > d.FreeMemory {
			return false
		}
		used := slices.Clone(d.Used)
		for c, amount := range d.Spec.Profiles[at].Consumes {
			if used[c] += amount; used[c] > d.Spec.Counters[c].Total {
				return false
			}
		}
		d.Used = used
		d.FreeMilli -= d.Spec.Profiles[at].Milli
		d.FreeMemory -= d.Spec.Profiles[at].Memory
	case r.Milli >= 1000:
		if d.Holders > 0 {
			return false
		}
		d.FreeMilli, d.FreeMemory = 0, 0
	default:
		if d.Spec.Sharing != cluster.SharingSlices || d.FreeMilli < r.Milli || known && d.FreeMemory < r.Memory {
			return false
		}
		d.FreeMilli -= r.Milli
		if known {
			d.FreeMemory -= r.Memory
		}
	}
	d.Holders++
	return true
}

// drawNode returns a rack with one node of up to five devices, some of them
// taken, some sick. Most nodes have devices of one kind only, as real ones do.
func drawNode(t *rapid.T) *rack {
	r := newRack()
	n := rapid.IntRange(0, 5).Draw(t, "devices")
	devices := r.gpus(n, "H200")
	r.kind = rapid.IntRange(-1, 2).Draw(t, "kind")
	for _, d := range devices {
		if r.kind >= 0 {
			d.Island, d.Sharing = int32(rapid.IntRange(0, 1).Draw(t, "island")), cluster.Sharing(r.kind)
			if d.Sharing == cluster.SharingPartition {
				r.partitioned([]*cluster.DeviceSpec{d})
			}
			continue
		}
		d.Model = r.names.Intern(rapid.SampledFrom([]string{"H200", "L4"}).Draw(t, "model"))
		d.Memory = rapid.SampledFrom([]quantity.Bytes{80 << 30, 24 << 30, 0}).Draw(t, "memory")
		d.Island = int32(rapid.IntRange(cluster.None, 1).Draw(t, "island"))
		d.NUMA = int32(rapid.IntRange(cluster.None, 1).Draw(t, "numa"))
		d.Sharing = cluster.Sharing(rapid.IntRange(0, 2).Draw(t, "sharing"))
		if d.Sharing == cluster.SharingPartition {
			d.Memory = 80 << 30
			r.partitioned([]*cluster.DeviceSpec{d})
		}
	}
	node := r.node(devices, func(s *cluster.NodeSpec) {
		if rapid.IntRange(0, 9).Draw(t, "authority") == 0 {
			s.Authority = cluster.AuthorityPlugin
		}
	})
	for i, spec := range devices {
		id := cluster.DeviceID(i)
		switch rapid.IntRange(0, 5).Draw(t, "load") {
		case 0:
			r.fill(node, cluster.Grant{Device: id, Milli: 1000, Memory: spec.Memory})
		case 1, 2:
			switch spec.Sharing {
			case cluster.SharingSlices:
				milli := rapid.SampledFrom([]quantity.MilliGPU{100, 500, 700}).Draw(t, "milli")
				r.fill(node, cluster.Grant{Device: id, Milli: milli, Memory: min(spec.Memory, 20<<30)})
			case cluster.SharingPartition:
				for _, p := range spec.Profiles[:2] {
					if rapid.Bool().Draw(t, "cut") {
						r.fill(node, cluster.Grant{Device: id, Milli: p.Milli, Memory: p.Memory, Profile: p.Name})
					}
				}
			}
		case 3:
			r.SetHealth(id, cluster.Sick)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "life") == 0 {
		r.SetLife(node, cluster.LifeDraining)
	}
	return r
}

func drawRequest(t *rapid.T, r *rack) cluster.DeviceRequest {
	q := cluster.DeviceRequest{Count: int32(rapid.IntRange(1, 3).Draw(t, "count"))}
	kind := rapid.IntRange(0, 2).Draw(t, "kind")
	if r.kind >= 0 && rapid.Bool().Draw(t, "suits") {
		kind = r.kind
	}
	switch kind {
	case 0:
		q.Milli = quantity.WholeGPU
	case 1:
		q.Milli = rapid.SampledFrom([]quantity.MilliGPU{100, 300, 500, 600}).Draw(t, "share")
		q.Memory = rapid.SampledFrom([]quantity.Bytes{0, 10 << 30, 30 << 30}).Draw(t, "memory")
	case 2:
		q.Profile = r.names.Intern(rapid.SampledFrom([]string{"2g", "3g", "wide"}).Draw(t, "profile"))
	}
	if rapid.IntRange(0, 5).Draw(t, "models") == 0 {
		q.Models = []cluster.Symbol{r.names.Intern(rapid.SampledFrom([]string{"H200", "L4", "T4"}).Draw(t, "model"))}
	}
	q.MinMemory = rapid.SampledFrom([]quantity.Bytes{0, 0, 0, 0, 0, 0, 0, 30 << 30, 100 << 30}).Draw(t, "least")
	q.SameIsland = rapid.IntRange(0, 3).Draw(t, "island") == 0
	q.SameNUMA = rapid.IntRange(0, 3).Draw(t, "numa") == 0
	return q
}

// Check says that a shape fits exactly when some choice of devices holds it; the
// choice that Grants makes is admitted, and the books balance with it; a reason
// that has both numbers needs more than there is.
func TestCheckAgreesWithTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawNode(t)
		var requests []cluster.DeviceRequest
		for range rapid.IntRange(0, 3).Draw(t, "requests") {
			requests = append(requests, drawRequest(t, r))
		}
		id := r.shape(requests...)
		r.SetSymbols(r.names.Symbols())
		v, s, n := &r.View, r.Shape(id), r.Node(0)
		why, want := fit.Check(v, id, 0), possible(v, s, n)
		if why.None() != want {
			t.Fatalf("shape %+v on %s: Check says %q, trying everything says %t", s.Devices, describe(v, n), why.Describe(v), want)
		}
		if !want {
			checkNumbers(t, v, s, why)
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
		if len(requests) == 1 {
			checkGrants(t, v, &requests[0], grants)
		}
		r.Charge(pod, place, cluster.PhaseBound)
		if err := cluster.Audit(v); err != nil {
			t.Fatalf("grants %+v: %v", grants, err)
		}
	})
}

func checkNumbers(t *rapid.T, v *cluster.View, s *cluster.Shape, why decision.Reason) {
	switch why.Code {
	case decision.DeviceMemorySize, decision.DeviceCount, decision.DeviceLink, decision.NodeCapacity, decision.NodeRoom,
		decision.DeviceRoom, decision.DeviceMemoryRoom, decision.DeviceProfileRoom, decision.DeviceLinkRoom:
	case decision.DeviceIdle:
		if len(s.Devices) > 1 {
			return // each request fits alone, together they do not
		}
	default:
		return
	}
	if why.Need <= why.Have {
		t.Fatalf("shape %+v: %q needs %d and has %d", s.Devices, why.Describe(v), why.Need, why.Have)
	}
}

func checkGrants(t *rapid.T, v *cluster.View, r *cluster.DeviceRequest, grants []cluster.Grant) {
	var devices []cluster.Device
	var chosen []int
	for i, g := range grants {
		d := *v.Device(g.Device)
		d.Used = append(slices.Clone(d.Used), make([]int64, len(d.Spec.Counters)-len(d.Used))...)
		before := d
		if !take(&d, *r) {
			t.Fatalf("request %+v: device %d does not take it", r, g.Device)
		}
		memory := before.FreeMemory - d.FreeMemory
		if before.FreeMilli-d.FreeMilli != g.Milli || memory != g.Memory || g.Profile != r.Profile {
			t.Fatalf("request %+v: grant %+v, want %d milli-GPU and %d bytes", r, g, before.FreeMilli-d.FreeMilli, memory)
		}
		devices, chosen = append(devices, before), append(chosen, i)
	}
	if !linked(devices, *r, chosen) {
		t.Fatalf("request %+v: devices of grants %+v are not linked", r, grants)
	}
}

// describe draws a node's devices, one to a line.
func describe(v *cluster.View, n *cluster.Node) string {
	out := fmt.Sprintf("a node that is %v, authority %v", n.Life, n.Spec.Authority)
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		out += fmt.Sprintf("\n\t%s %v island %d numa %d sharing %d: health %d, %d holders, free %v %v used %v",
			v.Symbols.Text(d.Spec.Model), d.Spec.Memory, d.Spec.Island, d.Spec.NUMA, d.Spec.Sharing, d.Health, d.Holders, d.FreeMilli, d.FreeMemory, d.Used)
	}
	return out
}

// A reason says "never" exactly when the shape would not fit the node empty,
// healthy and ready, for shapes of one request.
func TestNeverMeansNotEvenEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawNode(t)
		id := r.shape(drawRequest(t, r))
		r.SetSymbols(r.names.Symbols())
		why := fit.Check(&r.View, id, 0)
		empty := newRack()
		var devices []*cluster.DeviceSpec
		for i := range r.Node(0).Spec.DeviceCount {
			devices = append(devices, r.DeviceOf(r.Node(0), i).Spec)
		}
		empty.node(devices)
		want := !possible(&empty.View, r.Shape(id), empty.Node(0))
		if got := why.Code != decision.Fits && why.Code.Future() == decision.Never; got != want {
			t.Fatalf("request %+v on %s: %q, yet impossible on the empty node: %t", r.Shape(id).Devices, describe(&r.View, r.Node(0)), why.Describe(&r.View), want)
		}
	})
}

// Whole cards come from the tightest island that holds them, shares go to the
// fullest device that takes them, equal choices to the lowest index.
func TestGrantsPickTightly(t *testing.T) {
	for _, c := range []struct {
		name    string
		taken   []cluster.Grant
		request cluster.DeviceRequest
		want    []cluster.DeviceID
	}{
		{name: "first of all idle", request: whole(1), want: []cluster.DeviceID{0}},
		{name: "broken island first", taken: []cluster.Grant{{Device: 2, Milli: 1000}}, request: whole(1), want: []cluster.DeviceID{3}},
		{name: "whole island", taken: []cluster.Grant{{Device: 0, Milli: 1000}}, request: whole(2), want: []cluster.DeviceID{2, 3}},
		{name: "across islands", taken: []cluster.Grant{{Device: 0, Milli: 1000}}, request: whole(3), want: []cluster.DeviceID{1, 2, 3}},
		{name: "share on the fullest", taken: []cluster.Grant{{Device: 2, Milli: 500}, {Device: 3, Milli: 300}}, request: share(400, 0), want: []cluster.DeviceID{2}},
		{name: "share on the fullest that takes it", taken: []cluster.Grant{{Device: 2, Milli: 500}, {Device: 3, Milli: 300}}, request: share(600, 0), want: []cluster.DeviceID{3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRack()
			node := r.node(r.gpus(4, "H200"))
			r.fill(node, c.taken...)
			grants, ok := fit.Grants(&r.View, r.Shape(r.shape(c.request)), r.Node(node))
			var got []cluster.DeviceID
			for _, g := range grants {
				got = append(got, g.Device)
			}
			if !ok || !slices.Equal(got, c.want) {
				t.Errorf("request %+v with %+v taken: got %v (%t), want %v", c.request, c.taken, got, ok, c.want)
			}
		})
	}
}

// Two requests that each fit alone share the devices so that both fit, where
// that is possible at all.
func TestGrantsServeTheChoosyRequestToo(t *testing.T) {
	r := newRack()
	devices := r.gpus(2, "H200")
	devices[1].Model = r.names.Intern("L4")
	node := r.node(devices)
	choosy := with(whole(1), func(q *cluster.DeviceRequest) { q.Models = []cluster.Symbol{r.names.Intern("H200")} })
	for _, requests := range [][]cluster.DeviceRequest{{whole(1), choosy}, {choosy, whole(1)}} {
		if _, ok := fit.Grants(&r.View, r.Shape(r.shape(requests...)), r.Node(node)); !ok {
			t.Errorf("requests %+v: no devices found, there are two", requests)
		}
	}
}
