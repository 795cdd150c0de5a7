package dra

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// Class is the device class of all cards that our driver publishes.
const Class = Driver

// ClassOf returns that class. With an extended resource, pods that ask for it get
// these cards.
func ClassOf(extended string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: Class},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", Driver)}},
		}},
	}
	if extended != "" {
		c.Spec.ExtendedResourceName = &extended
	}
	return c
}

// SliceOf publishes the cards of a node as our driver does: whole by default, or in
// shares of milli-GPU and bytes.
func SliceOf(node string, cards []world.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + Driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: Driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range cards {
		s.Spec.Devices = append(s.Spec.Devices, published(&cards[i], i))
	}
	return s
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
