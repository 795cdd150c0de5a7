// Package dra reads the objects of Kubernetes Dynamic Resource Allocation
// (resource.k8s.io/v1) for the scheduler, and writes allocations in the form that
// the API server takes.
//
//	pools.Put(slice)                          // ResourceSlices → the devices of a node
//	need, why := dra.NeedOf(claim, classes, pools)   // a ResourceClaim → device requests
//	held := pools.Held(allocation)            // an allocation → what is held of which device
//	result := need.Allocate(claim, node, devices)    // devices that were picked → an allocation
//
// What the decision counts (how much of which card, on which NVLink island and NUMA
// node) becomes a request of the world. What only the rim can know (CEL selectors,
// taints, the rules for rounding amounts) becomes a Selector, which is judged
// device by device. What can be expressed in neither is named in words. The names of
// attributes and capacities that are read stand in names.go and docs/dra.md.
//
// Its values have one owner; there is no client and no clock in it.
package dra
