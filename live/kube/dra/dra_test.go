package dra_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// text and number are attributes.
func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

func number(n int64) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{IntValue: &n} }

// slice is one of a pool of NVIDIA's driver.
func slice(name, node string, generation, count int64, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: &node, Devices: devices,
		Pool: resourceapi.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: count},
	}}
}

func card(name string) resourceapi.Device {
	return resourceapi.Device{
		Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"productName": text("NVIDIA H100"), "uuid": text("GPU-" + name), "resource.kubernetes.io/numaNode": number(1), "gpu.nvidia.com/nvlinkIsland": text("b"),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}
}

func names(p *dra.Pools, node string) string {
	devices, managed := p.Devices(node)
	out := fmt.Sprint(managed)
	for _, d := range devices {
		out += " " + d.Name
		if d.Gone() {
			out += "(gone)"
		}
	}
	return out
}

// A pool counts when it is complete, by its newest generation; devices keep their
// positions when some go.
func TestPools(t *testing.T) {
	p := dra.NewPools()
	for _, c := range []struct {
		what    string
		do      func() []string
		changed []string
		want    string
	}{
		{"half a pool", func() []string { return p.Put(slice("a", "n", 1, 2, card("gpu-10"), card("gpu-2"))) }, []string{"n"}, "true"},
		{"the other half", func() []string { return p.Put(slice("b", "n", 1, 2, card("gpu-3"))) }, []string{"n"}, "true gpu-2 gpu-3 gpu-10"},
		{"half of a newer one", func() []string { return p.Put(slice("a", "n", 2, 2, card("gpu-3"))) }, []string{"n"}, "true gpu-2(gone) gpu-3(gone) gpu-10(gone)"},
		{"all of it, one device less and one more", func() []string { return p.Put(slice("b", "n", 2, 2, card("gpu-4"), card("gpu-10"))) }, []string{"n"}, "true gpu-2(gone) gpu-3 gpu-10 gpu-4"},
		{"an unknown one is deleted", func() []string { return p.Delete("z") }, nil, "true gpu-2(gone) gpu-3 gpu-10 gpu-4"},
		{"it moves to another node", func() []string { p.Delete("a"); return p.Delete("b") }, []string{"n"}, "false"},
	} {
		if got := c.do(); !cmp.Equal(got, c.changed) {
			t.Errorf("%s: nodes %v changed, want %v", c.what, got, c.changed)
		}
		if got := names(p, "n"); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// The published names become what the decision counts.
func TestDevice(t *testing.T) {
	p := dra.NewPools()
	other := card("gpu-1")
	delete(other.Attributes, "gpu.nvidia.com/nvlinkIsland")
	other.Attributes["productName"] = number(7)
	p.Put(slice("a", "n", 1, 1, card("gpu-0"), other))
	devices, _ := p.Devices("n")
	want := []world.Device{
		{Name: "GPU-gpu-0", Model: "NVIDIA H100", Memory: 80 * quantity.GiB, Island: 0, NUMA: 1, Sharing: cluster.SharingNone},
		{Name: "GPU-gpu-1", Model: "gpu.nvidia.com", Memory: 80 * quantity.GiB, Island: cluster.None, NUMA: 1, Sharing: cluster.SharingNone},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], devices[i].World); diff != "" {
			t.Errorf("device %d (-want +got):\n%s", i, diff)
		}
	}
	// What we publish reads back as it was.
	cards := []world.Device{{Name: "u", Model: "L4", Memory: 24 * quantity.GiB, Island: cluster.None, NUMA: 0, Sharing: cluster.SharingSlices}}
	p.Put(dra.SliceOf("m", cards))
	devices, _ = p.Devices("m")
	if diff := cmp.Diff(cards[0], devices[0].World); diff != "" {
		t.Errorf("our own (-want +got):\n%s", diff)
	}
}

// claim asks for devices of our class.
func claim(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
}

func exactly(name string, count int64, change ...func(*resourceapi.ExactDeviceRequest)) resourceapi.DeviceRequest {
	q := &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	for _, c := range change {
		c(q)
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: q}
}

func capacity(milli, memory string) func(*resourceapi.ExactDeviceRequest) {
	return func(q *resourceapi.ExactDeviceRequest) {
		q.Capacity = &resourceapi.CapacityRequirements{Requests: make(map[resourceapi.QualifiedName]resource.Quantity)}
		if milli != "" {
			q.Capacity.Requests[dra.ComputeName] = resource.MustParse(milli)
		}
		if memory != "" {
			q.Capacity.Requests[dra.MemoryName] = resource.MustParse(memory)
		}
	}
}

func selecting(cel string) func(*resourceapi.ExactDeviceRequest) {
	return func(q *resourceapi.ExactDeviceRequest) {
		q.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: cel}}}
	}
}

func classes(name string) *resourceapi.DeviceClass {
	if name == dra.Class {
		return dra.ClassOf("")
	}
	return nil
}

// shared are two nodes of two cards of our driver, of two sizes.
func shared() *dra.Pools {
	p := dra.NewPools()
	for i, size := range []quantity.Bytes{80 * quantity.GiB, 24 * quantity.GiB} {
		c := world.Device{Model: fmt.Sprint("M", i), Memory: size, Island: 0, NUMA: int32(i), Sharing: cluster.SharingSlices}
		p.Put(dra.SliceOf(fmt.Sprint("n-", i), []world.Device{c, c}))
	}
	return p
}

// What a claim asks for is read, or what in it cannot be placed is named.
func TestNeedOf(t *testing.T) {
	match := func(name string, requests ...string) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) {
			c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(name))})
		}
	}
	for _, c := range []struct {
		name   string
		claim  *resourceapi.ResourceClaim
		change func(*resourceapi.ResourceClaim)
		want   string // each choice: count x milli of bytes, with what is linked
		meets  string // devices per node that meet the first request
		why    string
	}{
		{name: "whole cards", claim: claim(exactly("a", 2)), want: "[2x1000/0]", meets: "2 2"},
		{name: "a share", claim: claim(exactly("a", 1, capacity("300", "10Gi"))), want: "[1x300/10737418240]", meets: "2 2"},
		{name: "a share of memory alone is a whole card's compute", claim: claim(exactly("a", 1, capacity("", "10Gi"))), want: "[1x1000/0]", meets: "2 2"},
		{name: "more memory than some have", claim: claim(exactly("a", 1, capacity("300", "30Gi"))), want: "[1x300/32212254720]", meets: "2 0"},
		{name: "a share without memory takes all of it, which is not one amount", claim: claim(exactly("a", 1, capacity("300", ""))), want: "[1x300/85899345920]", meets: "2 0"},
		{name: "a selector", claim: claim(exactly("a", 1, selecting(`device.attributes["gpu.headrace.dev"].productName == "M1"`))), want: "[1x1000/0]", meets: "0 2"},
		{name: "a selector by size", claim: claim(exactly("a", 1, selecting(`device.capacity["gpu.headrace.dev"].memory.compareTo(quantity("40Gi")) > 0`))), want: "[1x1000/0]", meets: "2 0"},
		{name: "island and NUMA", claim: claim(exactly("a", 2)), change: func(c *resourceapi.ResourceClaim) {
			match(string(dra.IslandMatch))(c)
			match(string(dra.NUMAMatch), "a")(c)
		}, want: "[2x1000/0+island+numa]", meets: "2 2"},
		{name: "two requests", claim: claim(exactly("a", 1), exactly("b", 1, capacity("10", "0"))), want: "[1x1000/0 1x10/0]", meets: "2 2"},
		{name: "choices", claim: claim(exactly("z", 1), resourceapi.DeviceRequest{Name: "a", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "x", DeviceClassName: dra.Class, Count: 2}, {Name: "y", DeviceClassName: dra.Class, Count: 1},
		}}), want: "[1x1000/0 2x1000/0] [1x1000/0 1x1000/0]", meets: "2 2"},
		{name: "no such class", claim: claim(resourceapi.DeviceRequest{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "none", Count: 1}}), why: "device class none, which does not exist"},
		{name: "all devices", claim: claim(exactly("a", 0, func(q *resourceapi.ExactDeviceRequest) { q.AllocationMode = resourceapi.DeviceAllocationModeAll })), why: "request a with allocation mode All"},
		{name: "administration", claim: claim(exactly("a", 1, func(q *resourceapi.ExactDeviceRequest) { q.AdminAccess = ptr.To(true) })), why: "request a with access for administration"},
		{name: "too many", claim: claim(exactly("a", 20), exactly("b", 20)), why: "40 devices in one claim, where at most 32 are allowed"},
		{name: "far too many", claim: claim(exactly("a", 1<<40)), why: "1099511627776 devices in one claim"},
		{name: "another attribute", claim: claim(exactly("a", 2)), change: match("example.com/serial"), why: "matchAttribute example.com/serial, where gpu.headrace.dev/nvlinkIsland and resource.kubernetes.io/numaNode are known"},
		{name: "over two requests", claim: claim(exactly("a", 1), exactly("b", 1)), change: match(string(dra.NUMAMatch)), why: "matchAttribute resource.kubernetes.io/numaNode over several requests"},
		{name: "an expression that does not compile", claim: claim(exactly("a", 1, selecting("device."))), why: `request a, whose selector "device."`},
		{name: "an expression that fails", claim: claim(exactly("a", 1, selecting(`device.attributes["x"].y == 1`))), why: "no such key: y"},
		{name: "two lists of choices", claim: claim(
			resourceapi.DeviceRequest{Name: "a", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "x", DeviceClassName: dra.Class, Count: 1}, {Name: "y", DeviceClassName: dra.Class, Count: 1}}},
			resourceapi.DeviceRequest{Name: "b", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "x", DeviceClassName: dra.Class, Count: 1}, {Name: "y", DeviceClassName: dra.Class, Count: 1}}},
		), why: "two requests with firstAvailable in one claim"},
		{name: "neither exactly nor a choice", claim: claim(resourceapi.DeviceRequest{Name: "a"}), why: "request a is of a kind that is not known"},
	} {
		if c.change != nil {
			c.change(c.claim)
		}
		p := shared()
		need, why := dra.NeedOf(c.claim, classes, p)
		if (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: cannot be placed because of %q, want %q", c.name, why, c.why)
		}
		if c.why != "" || why != "" {
			continue
		}
		var got []string
		for _, choice := range need.Choices {
			var list []string
			for _, r := range choice {
				one := fmt.Sprintf("%dx%d/%d", r.World.Count, r.World.Milli, r.World.Memory)
				if r.World.SameIsland {
					one += "+island"
				}
				if r.World.SameNUMA {
					one += "+numa"
				}
				list = append(list, one)
			}
			got = append(got, fmt.Sprint(list))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		var meets []string
		for _, node := range []string{"n-0", "n-1"} {
			devices, _ := p.Devices(node)
			n := 0
			for _, ok := range need.Choices[0][0].Selector.Devices(devices) {
				if ok {
					n++
				}
			}
			meets = append(meets, fmt.Sprint(n))
		}
		if got := strings.Join(meets, " "); got != c.meets {
			t.Errorf("%s: %s devices meet it, want %s", c.name, got, c.meets)
		}
	}
}

// A tainted device is given to those who tolerate it.
func TestTaints(t *testing.T) {
	count := func(p *dra.Pools, q resourceapi.DeviceRequest) int {
		need, why := dra.NeedOf(claim(q), classes, p)
		if why != "" {
			t.Fatal(why)
		}
		n := 0
		for _, node := range p.Nodes() {
			devices, _ := p.Devices(node)
			for _, ok := range need.Choices[0][0].Selector.Devices(devices) {
				if ok {
					n++
				}
			}
		}
		return n
	}
	p := shared()
	p.PutRule(&resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Pool: ptr.To("n-1"), Device: ptr.To("gpu-0")},
		Taint:          resourceapi.DeviceTaint{Key: "sick", Effect: resourceapi.DeviceTaintEffectNoExecute},
	}})
	tolerant := exactly("a", 1, func(q *resourceapi.ExactDeviceRequest) {
		q.Tolerations = []resourceapi.DeviceToleration{{Key: "sick", Operator: resourceapi.DeviceTolerationOpExists}}
	})
	if got := [2]int{count(p, exactly("a", 1)), count(p, tolerant)}; got != [2]int{3, 4} {
		t.Errorf("%v devices meet an intolerant and a tolerant request, want 3 and 4", got)
	}
	p.DeleteRule("r")
	if got := count(p, exactly("a", 1)); got != 4 {
		t.Errorf("without the rule %d meet it, want 4", got)
	}
}

// The parts of a card are not offered; who holds one keeps the card from being given
// whole.
func TestPartsOfCards(t *testing.T) {
	all := func(amounts ...string) []resourceapi.DeviceCounterConsumption {
		c := resourceapi.DeviceCounterConsumption{CounterSet: "set", Counters: make(map[string]resourceapi.Counter)}
		for i, amount := range amounts {
			c.Counters[fmt.Sprint("slice-", i)] = resourceapi.Counter{Value: resource.MustParse(amount)}
		}
		return []resourceapi.DeviceCounterConsumption{c}
	}
	whole, part := card("gpu-0"), card("gpu-0-mig-0")
	whole.ConsumesCounters, part.ConsumesCounters = all("1", "1"), all("1")
	counters := slice("counters", "n", 1, 2)
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"slice-0": {Value: resource.MustParse("1")}, "slice-1": {Value: resource.MustParse("1")}}}}
	p := dra.NewPools()
	p.Put(counters)
	p.Put(slice("devices", "n", 1, 2, part, whole))
	if got := names(p, "n"); got != "true gpu-0" {
		t.Errorf("%s, want the card alone", got)
	}
	node, held := p.Held(&resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: "gpu.nvidia.com", Pool: "n", Device: "gpu-0-mig-0"}, {Driver: "gpu.nvidia.com", Pool: "n", Device: "unknown"},
	}}})
	if node != "n" || !cmp.Equal(held, []world.Held{{Device: 0}}) {
		t.Errorf("on %s %+v, want a hold of the card without a share", node, held)
	}
}
