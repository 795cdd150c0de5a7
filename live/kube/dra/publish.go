package dra

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// Class is the device class of all cards that our driver publishes, PartClass that of
// the parts of cards.
const (
	Class     = Driver
	PartClass = "part." + Driver
)

// ClassOf returns the class of cards. With an extended resource, pods that ask for it
// get these cards.
func ClassOf(extended string) *resourceapi.DeviceClass {
	c := classNamed(Class, fmt.Sprintf("device.driver == %[1]q && !(%[2]q in device.attributes[%[1]q])", Driver, profileAttribute))
	if extended != "" {
		c.Spec.ExtendedResourceName = &extended
	}
	return c
}

// PartClassOf returns the class of the parts of cards.
func PartClassOf() *resourceapi.DeviceClass {
	return classNamed(PartClass, fmt.Sprintf("device.driver == %[1]q && %[2]q in device.attributes[%[1]q]", Driver, profileAttribute))
}

func classNamed(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: expression}},
		}},
	}
}

// SliceOf publishes the cards of a node as our driver does: whole by default, or in
// shares of milli-GPU and bytes.
func SliceOf(node string, cards []world.Device) *resourceapi.ResourceSlice {
	s := sliceNamed(node, node+"-"+Driver)
	for i := range cards {
		s.Spec.Devices = append(s.Spec.Devices, published(&cards[i], i))
	}
	return s
}

func sliceNamed(node, name string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: Driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// Cut says into which parts a card can be cut. Those that fit the counters together
// can be given together.
type Cut struct {
	Counters map[string]int64
	Parts    []Part
}

// Part is one of them. Its name, behind that of its card, is a DNS label; its profile
// is what parts of its kind are asked for by.
type Part struct {
	Name, Profile string
	Milli         quantity.MilliGPU
	Memory        quantity.Bytes
	Takes         map[string]int64
}

// CutSlicesOf publishes the cards of a node with the parts that they can be cut into:
// each card whole, taking all its counters, and each part. The counters have slices of
// their own, as the API wants it.
func CutSlicesOf(node string, cards []world.Device, cut *Cut) []*resourceapi.ResourceSlice {
	var sets []resourceapi.CounterSet
	var devices []resourceapi.Device
	for i := range cards {
		card := cards[i]
		card.Sharing = 0
		whole := published(&card, i)
		set := whole.Name + "-counters"
		sets = append(sets, resourceapi.CounterSet{Name: set, Counters: countersOf(cut.Counters)})
		whole.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: countersOf(cut.Counters)}}
		whole.AllowMultipleAllocations = nil
		whole.Capacity[ComputeName] = capacityOf(*resource.NewQuantity(int64(quantity.WholeGPU), resource.DecimalSI), false)
		devices = append(devices, whole)
		for k := range cut.Parts {
			devices = append(devices, partOf(&card, &whole, &cut.Parts[k], set))
		}
	}
	var out []*resourceapi.ResourceSlice
	add := func(fill func(*resourceapi.ResourceSliceSpec)) {
		s := sliceNamed(node, fmt.Sprintf("%s-%s-%d", node, Driver, len(out)))
		fill(&s.Spec)
		out = append(out, s)
	}
	for list := range slices.Chunk(sets, resourceapi.ResourceSliceMaxCounterSets) {
		add(func(s *resourceapi.ResourceSliceSpec) { s.SharedCounters = list })
	}
	for list := range slices.Chunk(devices, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		add(func(s *resourceapi.ResourceSliceSpec) { s.Devices = list })
	}
	for _, s := range out {
		s.Spec.Pool.ResourceSliceCount = int64(len(out))
	}
	return out
}

func partOf(card *world.Device, whole *resourceapi.Device, p *Part, set string) resourceapi.Device {
	d := resourceapi.Device{
		Name: whole.Name + "-" + p.Name, Attributes: maps.Clone(whole.Attributes),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			MemoryName:  {Value: *resource.NewQuantity(int64(p.Memory), resource.BinarySI)},
			ComputeName: {Value: *resource.NewQuantity(int64(p.Milli), resource.DecimalSI)},
		},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: countersOf(p.Takes)}},
	}
	delete(d.Attributes, UUIDName)
	d.Attributes[ProfileName] = resourceapi.DeviceAttribute{StringValue: &p.Profile}
	if card.Name != "" {
		d.Attributes[ParentName] = resourceapi.DeviceAttribute{StringValue: &card.Name}
	}
	return d
}

func countersOf(amounts map[string]int64) map[string]resourceapi.Counter {
	out := make(map[string]resourceapi.Counter, len(amounts))
	for name, n := range amounts { // order: a map is filled
		out[name] = resourceapi.Counter{Value: *resource.NewQuantity(n, resource.BinarySI)}
	}
	return out
}

func published(c *world.Device, index int) resourceapi.Device {
	many := c.Sharing != 0
	d := resourceapi.Device{
		Name: fmt.Sprintf("gpu-%d", index), AllowMultipleAllocations: &many,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{ModelName: {StringValue: &c.Model}},
		Capacity:   make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity),
	}
	if c.Name != "" {
		d.Attributes[UUIDName] = resourceapi.DeviceAttribute{StringValue: &c.Name}
	}
	for name, number := range map[resourceapi.QualifiedName]int32{NUMAName: c.NUMA, IslandName: c.Island} { // order: a map is filled
		if number >= 0 {
			value := int64(number)
			d.Attributes[name] = resourceapi.DeviceAttribute{IntValue: &value}
		}
	}
	d.Capacity[MemoryName] = capacityOf(*resource.NewQuantity(int64(c.Memory), resource.BinarySI), many)
	if many {
		d.Capacity[ComputeName] = capacityOf(*resource.NewQuantity(int64(quantity.WholeGPU), resource.DecimalSI), many)
	}
	return d
}

// capacityOf is a capacity that is taken whole by those who do not ask for less of
// it, and may be asked for in any amount.
func capacityOf(all resource.Quantity, many bool) resourceapi.DeviceCapacity {
	c := resourceapi.DeviceCapacity{Value: all}
	if many {
		none := *resource.NewQuantity(0, all.Format)
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{
			Default: &all, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &none, Max: &all},
		}
	}
	return c
}
