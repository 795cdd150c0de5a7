package dra_test

import (
	"fmt"
	"math/bits"
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

// Devices that are alike share the answer of an expression, as far as it reads no more
// than what they have in common.
func TestAlikeDevices(t *testing.T) {
	p := dra.NewPools()
	var cards []world.Device
	for i := range 3 {
		cards = append(cards, world.Device{Name: fmt.Sprint("GPU-", i), Model: fmt.Sprint("M", i/2), Memory: 80 * quantity.GiB, Island: cluster.None, NUMA: int32(i)})
	}
	p.Put(dra.SliceOf("n", cards))
	devices, _ := p.Devices("n")
	for expression, want := range map[string]string{
		`device.attributes["gpu.headrace.dev"].productName == "M0"`:                                            "true true false",
		`device.attributes["gpu.headrace.dev"]["productName"] == "M1"`:                                         "false false true",
		`device.attributes['gpu.headrace.dev'].uuid == "GPU-1"`:                                                "false true false",
		`device.attributes["gpu.headrace.dev"]["uu" + "id"] == "GPU-2"`:                                        "false false true",
		`device.attributes["gpu.headrace.dev"].exists(k, device.attributes["gpu.headrace.dev"][k] == "GPU-0")`: "true false false",
		`device.attributes["resource.kubernetes.io"].numaNode > 0`:                                             "false true true",
		`cel.bind(a, device.attributes["gpu.headrace.dev"], a.uuid.endsWith("1"))`:                             "false true false",
		`"uuid" in device.attributes["gpu.headrace.dev"] && device.driver == "gpu.headrace.dev"`:               "true true true",
		`device.capacity["gpu.headrace.dev"].memory.compareTo(quantity("81Gi")) < 0`:                           "true true true",
	} {
		need, why := dra.NeedOf(claim(exactly("a", 1, selecting(expression))), classes, p)
		if why != "" {
			t.Errorf("%s: %s", expression, why)
			continue
		}
		if got := strings.Trim(fmt.Sprint(need.Choices[0][0].Selector.Devices(devices)), "[]"); got != want {
			t.Errorf("%s: met by %s, want %s", expression, got, want)
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

// takes is what a device takes of a counter set.
func takes(set string, amounts map[string]string) resourceapi.DeviceCounterConsumption {
	c := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: make(map[string]resourceapi.Counter)}
	for name, amount := range amounts {
		c.Counters[name] = resourceapi.Counter{Value: resource.MustParse(amount)}
	}
	return c
}

// counterSets is a slice with what there is to take.
func counterSets(node string, sets ...resourceapi.DeviceCounterConsumption) *resourceapi.ResourceSlice {
	s := slice("counters-"+node, node, 1, 2)
	for _, c := range sets {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{Name: c.CounterSet, Counters: c.Counters})
	}
	return s
}

func with(d resourceapi.Device, memory string, taken ...resourceapi.DeviceCounterConsumption) resourceapi.Device {
	d.ConsumesCounters = taken
	d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse(memory)}
	return d
}

// The devices that share counters are one card: the one that takes all there is, and
// its parts as profiles. Parts that fit the counters together never come to more compute
// or memory than the card.
func TestPartsOfCards(t *testing.T) {
	all := takes("set", map[string]string{"slice-0": "1", "slice-1": "1", "engines": "3", "none": "0"})
	p := dra.NewPools()
	p.Put(counterSets("n", all))
	p.Put(slice("devices", "n", 1, 2,
		with(card("gpu-0-mig-1"), "30Gi", takes("set", map[string]string{"slice-1": "1"})), with(card("gpu-0"), "80Gi", all),
		with(card("gpu-0-mig-0"), "70Gi", takes("set", map[string]string{"slice-0": "1", "engines": "500m"})),
		with(card("gpu-0-mig-spare"), "0", takes("set", map[string]string{"engines": "1"}))))
	if got := names(p, "n"); got != "true gpu-0" {
		t.Fatalf("%s, want the card alone", got)
	}
	devices, _ := p.Devices("n")
	want := world.Device{
		Name: "GPU-gpu-0", Model: "NVIDIA H100", Memory: 80 * quantity.GiB, NUMA: 1, Sharing: cluster.SharingPartition,
		Counters: map[string]int64{"slice-0": 1, "slice-1": 1, "engines": 3000, "none": 0, "mig-spare itself": 1},
		Profiles: []world.Profile{
			{Name: "mig-0", Milli: 499, Memory: 56 * quantity.GiB, Consumes: map[string]int64{"slice-0": 1, "engines": 500}},
			{Name: "mig-1", Milli: 499, Memory: 24 * quantity.GiB, Consumes: map[string]int64{"slice-1": 1}},
			{Name: "mig-spare", Milli: 1, Consumes: map[string]int64{"engines": 1000, "mig-spare itself": 1}},
		},
	}
	near := cmp.Comparer(func(a, b quantity.Bytes) bool { return max(a-b, b-a) < quantity.MiB })
	if diff := cmp.Diff(want, devices[0].World, near); diff != "" {
		t.Errorf("the card (-want +got):\n%s", diff)
	}
	given := func(names ...string) *resourceapi.AllocationResult {
		a := &resourceapi.AllocationResult{}
		for _, name := range names {
			a.Devices.Results = append(a.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "n", Device: name})
		}
		return a
	}
	node, held := p.Held(given("gpu-0-mig-1", "unknown"))
	if want := []world.Held{{Device: 0, Milli: 499, Memory: devices[0].World.Profiles[1].Memory, Profile: "mig-1"}}; node != "n" || !cmp.Equal(held, want) {
		t.Errorf("on %s %+v, want %+v", node, held, want)
	}
	if d := devices[0].Unit("mig-1"); d == nil || d.Name != "gpu-0-mig-1" || devices[0].Unit("mig-7") != nil || devices[0].Unit("") != devices[0] {
		t.Errorf("the profile mig-1 stands for %v", d)
	}
}

// What cannot be counted is not given: counters that several nodes take of, pools that
// Kubernetes does not take either, parts beyond the most.
func TestPartsThatAreLeftOut(t *testing.T) {
	one, two := takes("one", map[string]string{"c": "2"}), takes("two", map[string]string{"c": "2"})
	half := func(name, set string) resourceapi.Device {
		return with(card(name), "1Gi", takes(set, map[string]string{"c": "1"}))
	}
	groups := half("a", "one")
	groups.ConsumesCounters[0].CompatibilityGroups = []string{"g"}
	elsewhere := half("b", "one")
	elsewhere.NodeName = ptr.To("m")
	here := half("a", "one")
	here.NodeName = ptr.To("n")
	mine := half("c", "two")
	mine.NodeName = ptr.To("n")
	each := slice("devices", "n", 1, 2, here, elsewhere, mine)
	each.Spec.NodeName, each.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
	var many []resourceapi.Device
	for i := range dra.MaxParts + 1 {
		many = append(many, with(card(fmt.Sprint("p-", i)), "1Gi", takes("one", map[string]string{"c": "0"})))
	}
	for _, c := range []struct {
		name    string
		devices *resourceapi.ResourceSlice
		sets    *resourceapi.ResourceSlice
		want    string // names of cards, with how many parts
	}{
		{name: "a card in parts only", devices: slice("devices", "n", 1, 2, half("a", "one"), half("b", "one")), want: "one/+2"},
		{name: "two cards that a device joins", devices: slice("devices", "n", 1, 2, half("a", "one"), half("b", "two"), with(card("both"), "2Gi", one, two)), want: "both+2"},
		{name: "counters that two nodes take of", devices: each, want: "two/+1"},
		{name: "an unknown set", devices: slice("devices", "n", 1, 2, half("a", "three"), card("gpu")), want: ""},
		{name: "an unknown counter", devices: slice("devices", "n", 1, 2, with(card("a"), "1Gi", takes("one", map[string]string{"x": "1"})), card("gpu")), want: ""},
		{name: "one set twice", devices: slice("devices", "n", 1, 2, half("a", "one")), sets: counterSets("n", one, one), want: ""},
		{name: "one name twice", devices: slice("devices", "n", 1, 2, half("a", "one"), half("a", "one")), want: ""},
		{name: "groups", devices: slice("devices", "n", 1, 2, groups), want: ""},
		{name: "too many", devices: slice("devices", "n", 1, 2, many...), want: "one/+64"},
	} {
		p := dra.NewPools()
		if c.sets == nil {
			c.sets = counterSets("n", one, two)
		}
		p.Put(c.sets)
		p.Put(c.devices)
		devices, _ := p.Devices("n")
		var got []string
		for _, d := range devices {
			got = append(got, fmt.Sprintf("%s+%d", d.Name, len(d.World.Profiles)))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: cards %q, want %q", c.name, got, c.want)
		}
		if c.name != "too many" {
			continue
		}
		_, held := p.Held(&resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com", Pool: "n", Device: "p-64"}}}})
		if len(held) != 1 || held[0].Milli != quantity.WholeGPU || held[0].Profile != "" {
			t.Errorf("a part that is left out holds %+v, want all of the card", held)
		}
	}
}

// What we publish of cards with parts reads back as it was said, within the limits of
// the API.
func TestCutSlices(t *testing.T) {
	cards := make([]world.Device, 10)
	for i := range cards {
		cards[i] = world.Device{Name: fmt.Sprint("GPU-", i), Model: "H100", Memory: 80 * quantity.GiB, Island: 0, NUMA: int32(i / 5), Sharing: cluster.SharingSlices}
	}
	cut := &dra.Cut{Counters: map[string]int64{"compute": 7}}
	for i := range 7 {
		place := fmt.Sprint("place-", i)
		cut.Counters[place] = 1
		cut.Parts = append(cut.Parts, dra.Part{Name: fmt.Sprint("mig-1g10gb-", i), Profile: "1g.10gb", Memory: 10 * quantity.GiB, Takes: map[string]int64{"compute": 1, place: 1}})
	}
	p := dra.NewPools()
	for _, s := range dra.CutSlicesOf("n", cards, cut) {
		if len(s.Spec.SharedCounters) > resourceapi.ResourceSliceMaxCounterSets || len(s.Spec.Devices) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures ||
			len(s.Spec.SharedCounters) > 0 && len(s.Spec.Devices) > 0 {
			t.Errorf("slice %s has %d counter sets and %d devices", s.Name, len(s.Spec.SharedCounters), len(s.Spec.Devices))
		}
		p.Put(s)
	}
	devices, _ := p.Devices("n")
	if len(devices) != len(cards) {
		t.Fatalf("%d cards, want %d", len(devices), len(cards))
	}
	for i, d := range devices {
		if d.World.Name != cards[i].Name || d.World.Model != "H100" || d.World.Memory != 80*quantity.GiB || len(d.World.Profiles) != 7 {
			t.Errorf("card %d reads back as %+v", i, d.World)
		}
		for k, profile := range d.World.Profiles {
			if want := (world.Profile{Name: cut.Parts[k].Name, Milli: 142, Memory: 10 * quantity.GiB, Consumes: cut.Parts[k].Takes}); !cmp.Equal(profile, want) {
				t.Errorf("part %d of card %d reads back as %+v, want %+v", k, i, profile, want)
			}
		}
	}
	count := func(class *resourceapi.DeviceClass) (whole, parts int) {
		q := exactly("a", 1)
		q.Exactly.DeviceClassName = class.Name
		need, why := dra.NeedOf(claim(q), func(string) *resourceapi.DeviceClass { return class }, p)
		if why != "" {
			t.Fatal(why)
		}
		for _, meets := range need.Choices[0][0].Selector.Devices(devices) {
			if meets {
				whole++
			}
		}
		for _, set := range need.Choices[0][0].Selector.Parts(devices) {
			parts += bits.OnesCount64(set)
		}
		return whole, parts
	}
	if whole, parts := count(dra.ClassOf("")); whole != 10 || parts != 0 {
		t.Errorf("the class of cards has %d cards and %d parts", whole, parts)
	}
	if whole, parts := count(dra.PartClassOf()); whole != 0 || parts != 70 {
		t.Errorf("the class of parts has %d cards and %d parts", whole, parts)
	}
}
