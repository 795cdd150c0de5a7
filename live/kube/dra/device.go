package dra

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// ID names a device in the whole cluster.
type ID struct{ Driver, Pool, Name string }

func (id ID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Name }

// Device is one device that a driver offers on a node.
type Device struct {
	ID
	// World is the device as the decision sees it.
	World world.Device
	// object is what the driver published; nil once the device is gone.
	object *resourceapi.Device
	// shared says that several claims may hold amounts of it which the decision can
	// count, under the capacities compute and memory.
	shared          bool
	compute, memory resourceapi.QualifiedName
	// A card has parts, of which one profile of World each tells, and beyond is more of
	// them than can be given. A frame is a card that is offered in parts only.
	parts, beyond []*Device
	frame         bool
	// A part knows its card, and its profile where it can be given.
	card     *Device
	profile  world.Profile
	pools    *Pools
	verdicts map[string]verdict
	// keys are the names of its attributes, sorted, and kind is a number for all that it
	// can be told from others by besides: see alike.go.
	keys []resourceapi.QualifiedName
	kind int64
}

// Gone says whether the driver offers the device no more.
func (d *Device) Gone() bool { return d.object == nil && !d.frame }

// Unit returns what a grant of the device stands for: itself without a profile, else
// the part that has it; nil where there is none.
func (d *Device) Unit(profile string) *Device {
	if profile == "" {
		return d
	}
	for _, part := range d.parts {
		if part.profile.Name == profile {
			return part
		}
	}
	return nil
}

// face is what tells of the card: itself, or the first of its parts.
func (d *Device) face() *resourceapi.Device {
	if d.frame {
		return d.parts[0].object
	}
	return d.object
}

// newDevice reads a device as published.
func newDevice(p *Pools, id ID, object *resourceapi.Device) *Device {
	d := &Device{ID: id, pools: p, object: object, verdicts: make(map[string]verdict)}
	w := &d.World
	*w = world.Device{Name: id.Name, Model: id.Driver, Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingNone}
	for _, name := range []string{modelAttribute, modelAttributeAlt} {
		if a, ok := attribute(object, id.Driver, name); ok && a.StringValue != nil && *a.StringValue != "" {
			w.Model = *a.StringValue
			break
		}
	}
	if a, ok := attribute(object, id.Driver, uuidAttribute); ok && a.StringValue != nil && *a.StringValue != "" {
		w.Name = *a.StringValue
	}
	for _, name := range []string{numaAttribute, numaAttributeAlt} {
		if a, ok := attribute(object, id.Driver, name); ok && a.IntValue != nil && *a.IntValue >= 0 && *a.IntValue <= maxLink {
			w.NUMA = int32(*a.IntValue)
			break
		}
	}
	memory, size, hasMemory := capacityNamed(object, id.Driver, memoryCapacity)
	if hasMemory {
		w.Memory = quantity.Bytes(max(size.Value.Value(), 0))
	}
	compute, whole, hasCompute := capacityNamed(object, id.Driver, computeCapacity)
	known := 0
	if hasMemory {
		known++
	}
	if hasCompute {
		known++
	}
	// A card with capacities beyond these two is given whole: what a share takes of
	// them cannot be counted.
	if multiple(object) && hasCompute && whole.Value.CmpInt64(int64(quantity.WholeGPU)) == 0 && known == len(object.Capacity) && len(object.ConsumesCounters) == 0 {
		d.shared, d.compute, d.memory = true, compute, memory
		w.Sharing = cluster.SharingSlices
	}
	return d
}

// maxLink is the largest NUMA node that is taken for one.
const maxLink = 1 << 20

func multiple(d *resourceapi.Device) bool {
	return d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
}

// islandOf returns what a device says of its NVLink island; empty for nothing.
func islandOf(d *Device) string {
	a, ok := attribute(d.face(), d.Driver, islandAttribute)
	switch {
	case !ok:
		return ""
	case a.IntValue != nil:
		return fmt.Sprint(*a.IntValue)
	case a.StringValue != nil:
		return *a.StringValue
	}
	return ""
}
