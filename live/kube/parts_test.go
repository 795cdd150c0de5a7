package kube

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// anything is the class of cards and parts alike.
func anything() *resourceapi.DeviceClass {
	c := dra.ClassOf("")
	c.Name = "anything"
	c.Spec.Selectors[0].CEL.Expression = fmt.Sprintf("device.driver == %q", dra.Driver)
	return c
}

// cutTruth is a truth with one node of cards that are offered in parts.
func cutTruth(t *testing.T, slices ...*resourceapi.ResourceSlice) *drawTruth {
	w := newDrawTruth(t, 0, 0)
	w.books.classSeen("anything", anything())
	w.books.classSeen(dra.PartClass, dra.PartClassOf())
	w.addNode("n", slices...)
	return w
}

func consuming(set string, amounts map[string]string) resourceapi.DeviceCounterConsumption {
	c := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: make(map[string]resourceapi.Counter)}
	for name, amount := range amounts { // order: a map is filled
		c.Counters[name] = resourceapi.Counter{Value: resource.MustParse(amount)}
	}
	return c
}

// randomCut draws a pool of up to three counter sets and the devices that take of them:
// mostly cards with parts as drivers publish them, some devices that take of two sets,
// some that take nothing.
func randomCut(from *rand.Rand) []*resourceapi.ResourceSlice {
	pool := dra.SliceOf("n", nil)
	counters := pool.DeepCopy()
	counters.Name = "n-counters"
	sets := 1 + from.Intn(3)
	totals := make([]map[string]string, sets)
	device := func(name string, memory int64, takes ...resourceapi.DeviceCounterConsumption) {
		kind := string("xyz"[from.Intn(3)])
		pool.Spec.Devices = append(pool.Spec.Devices, resourceapi.Device{
			Name: name, ConsumesCounters: takes,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &kind}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{dra.MemoryName: {Value: *resource.NewQuantity(memory<<30, resource.BinarySI)}},
		})
	}
	// part draws what a part takes of a set: a run of its places, and something of the rest.
	part := func(set int) resourceapi.DeviceCounterConsumption {
		takes := make(map[string]string)
		for start, k := from.Intn(4), from.Intn(4); k > 0 && start < 4; start, k = start+1, k-1 {
			takes[fmt.Sprint("place-", start)] = "1"
		}
		takes["compute"] = []string{"1", "2", "500m", "0"}[from.Intn(4)]
		if from.Intn(2) == 0 {
			takes["memory"] = fmt.Sprintf("%dGi", 1+from.Intn(40))
		}
		if takes["compute"] == "0" && len(takes) == 1 {
			takes["compute"] = "1"
		}
		return consuming(fmt.Sprint("set-", set), takes)
	}
	for i := range sets {
		totals[i] = map[string]string{"place-0": "1", "place-1": "1", "place-2": "1", "place-3": "1", "compute": "5", "memory": "80Gi", "none": "0"}
		set := fmt.Sprint("set-", i)
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: consuming(set, totals[i]).Counters})
		if from.Intn(4) > 0 {
			device(fmt.Sprint("gpu-", i), 80, consuming(set, totals[i]))
		}
		for k := range from.Intn(6) {
			device(fmt.Sprintf("gpu-%d-part-%d", i, k), int64(from.Intn(90)), part(i))
		}
	}
	if sets > 1 && from.Intn(4) == 0 {
		device("both", 100, part(0), part(1))
	}
	if from.Intn(3) == 0 {
		device("plain", 40)
	}
	pool.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
	return []*resourceapi.ResourceSlice{pool, counters}
}

func asking(name string, count int64, expression, memory string) resourceapi.DeviceRequest {
	q := &resourceapi.ExactDeviceRequest{DeviceClassName: "anything", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	if expression != "" {
		q.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	}
	if memory != "" {
		q.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{dra.MemoryName: resource.MustParse(memory)}}
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: q}
}

func specOf(requests ...resourceapi.DeviceRequest) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}
}

// randomParts draws a claim for parts, by kind, by memory, or for anything.
func randomParts(from *rand.Rand) resourceapi.ResourceClaimSpec {
	var requests []resourceapi.DeviceRequest
	for k := range 1 + from.Intn(5)/4 {
		expression, memory := "", ""
		switch from.Intn(4) {
		case 0:
			expression = fmt.Sprintf(`device.attributes[%q].kind == "%c"`, dra.Driver, "xyz"[from.Intn(3)])
		case 1:
			expression = fmt.Sprintf(`device.capacity[%q].memory.compareTo(quantity("%dGi")) >= 0`, dra.Driver, from.Intn(90))
		case 2:
			memory = fmt.Sprintf("%dGi", from.Intn(80))
		}
		requests = append(requests, asking(fmt.Sprint("r", k), 1+from.Int63n(3), expression, memory))
	}
	return specOf(requests...)
}

// Of cards and their parts, drawn at random, never more is given than the counters
// hold, by upstream's rules; and a claim that waits, on an empty node too, finds no room
// by upstream's rules either.
func TestPartsAgainstUpstream(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	given, waited := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			from := rand.New(rand.NewSource(int64(seed)))
			w := cutTruth(t, randomCut(from)...)
			for i := range 12 {
				name := fmt.Sprint("c-", i)
				w.createClaim(name, randomParts(from))
				w.createUser(fmt.Sprint("p-", i), name)
				if i > 0 && from.Intn(3) == 0 {
					w.leave(fmt.Sprint("ns/p-", from.Intn(i)))
				}
				w.settleClaimsAll()
				w.check()
				w.countersHold()
				w.nobodyWaitsForNothing()
			}
			for _, c := range w.claims { // order: counts
				if c.Status.Allocation != nil {
					given++
				} else {
					waited++
				}
			}
			// A scheduler that starts now charges the same.
			again := newDrawTruth(t, 0, 0)
			again.books.classSeen("anything", anything())
			again.addNode("n", w.slices["n"]...)
			for _, name := range slices.Sorted(maps.Keys(w.claims)) {
				again.books.claimSeen(w.claims[name])
			}
			for len(again.untold) > 0 {
				again.tell()
			}
			again.books.settleClaims()
			if a, b := devicesOf(w), devicesOf(again); a != b {
				t.Errorf("devices are charged as\n%swant, as before the restart,\n%s", b, a)
			}
		})
	}
	if given < seeds || waited < seeds/2 {
		t.Errorf("%d claims were allocated and %d waited: too few to show anything", given, waited)
	}
}

// devicesOf draws what is charged to each device.
func devicesOf(w *drawTruth) string {
	v, out := w.books.world.View(), ""
	for i := range v.Devices.Len() {
		d := v.Device(cluster.DeviceID(i))
		used := make([]int64, len(d.Spec.Counters))
		copy(used, d.Used)
		out += fmt.Sprintf("%s: %d holders, free %d and %d, used %v\n", d.Spec.Name, d.Holders, d.FreeMilli, d.FreeMemory, used)
	}
	return out
}

// countersHold adds up by hand what all allocations take of the counters, and fails
// where that is more than there is, or where a device is given twice.
func (w *drawTruth) countersHold() {
	w.Helper()
	left, takes := make(map[string]resource.Quantity), make(map[string][]resourceapi.DeviceCounterConsumption)
	for node, published := range w.slices { // order: maps are filled
		for _, s := range published {
			for _, set := range s.Spec.SharedCounters {
				for name, c := range set.Counters { // order: a map is filled
					left[node+"/"+set.Name+"/"+name] = c.Value.DeepCopy()
				}
			}
			for _, d := range s.Spec.Devices {
				takes[node+"/"+d.Name] = d.ConsumesCounters
			}
		}
	}
	holder := make(map[string]string)
	for name, c := range w.claims { // order: sums
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			id := r.Pool + "/" + r.Device
			if holder[id] != "" {
				w.Fatalf("device %s is given to %s and %s", id, holder[id], name)
			}
			holder[id] = name
			for _, consumption := range takes[id] {
				for counter, amount := range consumption.Counters { // order: sums
					key := r.Pool + "/" + consumption.CounterSet + "/" + counter
					sum := left[key]
					sum.Sub(amount.Value)
					if left[key] = sum; sum.Sign() < 0 {
						w.Fatalf("counter %s is overdrawn by %s", key, sum.String())
					}
				}
			}
		}
	}
}

// halves are cards of two halves.
func halves(cards int) []*resourceapi.ResourceSlice {
	var list []world.Device
	for i := range cards {
		list = append(list, world.Device{Name: fmt.Sprint("GPU-", i), Model: "M", Memory: 80 * quantity.GiB, Island: cluster.None, NUMA: 0})
	}
	cut := &dra.Cut{Counters: map[string]int64{"half-0": 1, "half-1": 1}}
	for i := range 2 {
		cut.Parts = append(cut.Parts, dra.Part{Name: fmt.Sprint("half-", i), Profile: "half", Memory: 40 * quantity.GiB, Takes: map[string]int64{fmt.Sprint("half-", i): 1}})
	}
	return dra.CutSlicesOf("n", list, cut)
}

// deviceOf is the only device that a claim was given.
func (w *drawTruth) deviceOf(name string) string {
	if c := w.claims["ns/"+name]; c.Status.Allocation != nil {
		return c.Status.Allocation.Devices.Results[0].Device
	}
	return "none"
}

// A part of a card that another scheduler gave is charged, and keeps the card from
// being given whole; when it is given back, the card is.
func TestForeignParts(t *testing.T) {
	w := cutTruth(t, halves(1)...)
	foreign := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foreign", UID: "f"}}
	foreign.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "x", Driver: dra.Driver, Pool: "n", Device: "gpu-0-half-0"},
	}}}
	w.write(foreign)
	half := asking("a", 1, fmt.Sprintf("device.attributes[%q].profile == 'half'", dra.Driver), "")
	for _, name := range []string{"half", "third"} {
		w.createClaim(name, specOf(half))
		w.createUser(name, name)
		w.settleClaimsAll()
	}
	whole := asking("a", 1, "", "")
	whole.Exactly.DeviceClassName = dra.Class
	w.createClaim("whole", specOf(whole))
	w.createUser("whole", "whole")
	w.settleClaimsAll()
	w.check()
	if a, b, c := w.deviceOf("half"), w.deviceOf("third"), w.deviceOf("whole"); a != "gpu-0-half-1" || b != "none" || c != "none" {
		t.Fatalf("given are %s, %s and %s, want the other half alone", a, b, c)
	}
	if why := w.books.pods["ns/third"].why.sentence; !strings.Contains(why, "needs room for 1 partition on one node, there is room for 0 (too little is left of half-0)") {
		t.Errorf("the second half waits: %s", why)
	}
	if why := w.books.pods["ns/whole"].why.sentence; !strings.Contains(why, "needs 1 idle device") {
		t.Errorf("the whole card waits: %s", why)
	}
	w.leave("ns/third")
	w.leave("ns/half")
	back := foreign.DeepCopy()
	back.Status.Allocation = nil
	w.write(back)
	w.settleClaimsAll()
	w.check()
	if got := w.deviceOf("whole"); got != "gpu-0" {
		t.Errorf("after both halves were given back %s is given, want the card", got)
	}
}

// A part else a whole card: the second is taken where there is no part.
func TestPartElseCard(t *testing.T) {
	w := cutTruth(t, halves(2)...)
	either := resourceapi.DeviceRequest{Name: "a", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "part", DeviceClassName: dra.PartClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 3},
		{Name: "card", DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}
	for _, name := range []string{"first", "second"} {
		w.createClaim(name, specOf(either))
		w.createUser(name, name)
		w.settleClaimsAll()
	}
	parts := w.claims["ns/first"].Status.Allocation
	if parts == nil || len(parts.Devices.Results) != 3 || parts.Devices.Results[0].Request != "a/part" {
		t.Fatalf("the first is given %+v, want three parts", parts)
	}
	if got := w.deviceOf("second"); got != "none" {
		t.Errorf("the second is given %s, want to wait: a part of each card is held", got)
	}
	w.leave("ns/first")
	w.settleClaimsAll()
	if got := len(w.claims["ns/second"].Status.Allocation.Devices.Results); got != 3 {
		t.Errorf("after the first left the second is given %d devices, want three parts", got)
	}
	w.check()
	w.countersHold()
}
