package dra

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Driver is the name of the driver whose devices can be shared by milli-GPU and
// bytes: what Headrace's own node agent and the simulated nodes publish.
const Driver = "gpu.headrace.dev"

// The attributes and capacities that are read. A bare name is looked up in the
// driver's own domain, as Kubernetes does; a name with a domain in that one.
const (
	modelAttribute    = "productName" // text; NVIDIA's and our name for the model
	modelAttributeAlt = "model"
	uuidAttribute     = "uuid"
	profileAttribute  = "profile"                         // text; of a part: its kind
	islandAttribute   = "nvlinkIsland"                    // number or text; cards of one value share NVLink
	numaAttribute     = "resource.kubernetes.io/numaNode" // number
	numaAttributeAlt  = "numaNode"

	memoryCapacity  = "memory"   // bytes
	computeCapacity = "milliGPU" // 1000 of a whole card
)

// The names as simulated nodes and admission write them.
const (
	ModelName   = resourceapi.QualifiedName(modelAttribute)
	UUIDName    = resourceapi.QualifiedName(uuidAttribute)
	ProfileName = resourceapi.QualifiedName(profileAttribute)
	ParentName  = resourceapi.QualifiedName("parentUUID") // of a part: the UUID of its card
	IslandName  = resourceapi.QualifiedName(islandAttribute)
	NUMAName    = resourceapi.QualifiedName(numaAttribute)
	MemoryName  = resourceapi.QualifiedName(memoryCapacity)
	ComputeName = resourceapi.QualifiedName(computeCapacity)
	IslandMatch = resourceapi.FullyQualifiedName(Driver + "/" + islandAttribute)
	NUMAMatch   = resourceapi.FullyQualifiedName(numaAttribute)
)

// attribute looks an attribute up: under its full name, else in the driver's domain.
func attribute(d *resourceapi.Device, driver, name string) (resourceapi.DeviceAttribute, bool) {
	if a, ok := d.Attributes[resourceapi.QualifiedName(name)]; ok {
		return a, true
	}
	domain, id, qualified := strings.Cut(name, "/")
	if !qualified {
		a, ok := d.Attributes[resourceapi.QualifiedName(driver+"/"+name)]
		return a, ok
	}
	if domain != driver {
		return resourceapi.DeviceAttribute{}, false
	}
	a, ok := d.Attributes[resourceapi.QualifiedName(id)]
	return a, ok
}

// capacityNamed returns the full name under which a device has a capacity, and it.
func capacityNamed(d *resourceapi.Device, driver, name string) (resourceapi.QualifiedName, resourceapi.DeviceCapacity, bool) {
	for _, full := range []resourceapi.QualifiedName{resourceapi.QualifiedName(name), resourceapi.QualifiedName(driver + "/" + name)} {
		if c, ok := d.Capacity[full]; ok {
			return full, c, true
		}
	}
	return "", resourceapi.DeviceCapacity{}, false
}

// isIsland and isNUMA say whether a fully qualified attribute is one of those that
// the decision knows.
func isIsland(name resourceapi.FullyQualifiedName) bool {
	_, id, _ := strings.Cut(string(name), "/")
	return id == islandAttribute
}

func isNUMA(name resourceapi.FullyQualifiedName) bool {
	_, id, _ := strings.Cut(string(name), "/")
	return string(name) == numaAttribute || id == numaAttributeAlt
}
