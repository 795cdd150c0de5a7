package cluster

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Life is where a node stands between being offered and being gone.
type Life uint8

// The stations of a node's life. Only ready nodes take new work; draining ones
// keep what they have until DrainUntil.
const (
	LifeOff Life = iota
	LifeOffered
	LifeLaunching
	LifeReady
	LifeDraining
	LifeReclaimed
)

var lifeNames = [...]string{"off", "offered", "launching", "ready", "draining", "reclaimed"} // const: names of the stations

func (l Life) String() string { return lifeNames[l] }

// Authority says who picks the card on a node. One card never has two.
type Authority uint8

const (
	// AuthorityPlugin leaves the card to the kubelet's device plugin: whole cards
	// only, counted per model, identity observed later.
	AuthorityPlugin Authority = iota
	// AuthorityDRA means that we pick the card, in a ResourceClaim.
	AuthorityDRA
	// AuthorityAgent means that we pick the card, through our node agent.
	AuthorityAgent
)

var authorityNames = [...]string{"plugin", "dra", "agent"} // const: names of the authorities

func (a Authority) String() string { return authorityNames[a] }

// Label is a key with its value, both interned.
type Label struct{ Key, Value Symbol }

// TaintEffect is what a taint does to pods that do not tolerate it.
type TaintEffect uint8

const (
	TaintNoSchedule TaintEffect = iota
	TaintPreferNoSchedule
	TaintNoExecute
)

var taintEffectNames = [...]string{"NoSchedule", "PreferNoSchedule", "NoExecute"} // const: names as in Kubernetes

func (e TaintEffect) String() string { return taintEffectNames[e] }

// Taint keeps pods off a node unless they tolerate it.
type Taint struct {
	Key, Value Symbol
	Effect     TaintEffect
}

// NodeSpec is what does not change about a node while it is the same node. A
// changed node gets a new spec.
type NodeSpec struct {
	Name      string
	UID       string
	Class     ClassID
	Domain    DomainID // the innermost domain it belongs to; None without
	Authority Authority
	// Selective says that only requests with a selector get devices here.
	Selective bool
	// Resizes says that what a running pod holds of a device can be changed.
	Resizes     bool
	Allocatable Vector
	Labels      []Label // sorted by key
	Taints      []Taint
	FirstDevice DeviceID
	DeviceCount int32
}

// Label returns the value of a label and whether the node has it.
func (s *NodeSpec) Label(key Symbol) (Symbol, bool) {
	for _, l := range s.Labels {
		if l.Key == key {
			return l.Value, true
		}
	}
	return 0, false
}

// Node is one row of the node table.
type Node struct {
	Spec       *NodeSpec
	Key        uint64 // hash of the UID, for ties and digests
	Generation uint32
	Life       Life
	DrainUntil moment.Instant // meaningful while draining
	// Free is allocatable less what the charged pods take. It is negative where
	// the node shrank under its pods.
	Free Vector
	// FreeMilli sums over healthy devices; IdleDevices counts the healthy ones
	// that nobody holds. They describe the devices, whatever the node's life.
	FreeMilli   quantity.MilliGPU
	IdleDevices int32
	Pods        []PodID // charged here, in order of charging
	// State is a hash of everything about the node that a pod placed next could
	// notice: class, life, free amounts, devices. Equal states share answers.
	State uint64
	// Overdrawn says that facts took more than there is; it ends when that has left.
	Overdrawn bool
	// Residents is an order-free hash of the shapes of Pods.
	Residents uint64
	// Company counts Pods by what relations between pods ask for.
	Company *Company
	// Cache is what it keeps for pods to come; nil: nothing is known of that.
	Cache *Cache
}

// TakesWork says whether new pods may be placed on the node.
func (n *Node) TakesWork() bool { return n.Life == LifeReady }

// Health is whether a device can be used.
type Health uint8

const (
	Healthy Health = iota
	Sick
)

// Sharing says in which ways a device may be divided.
type Sharing uint8

const (
	SharingNone      Sharing = iota // whole only
	SharingSlices                   // milli-GPU and bytes, freely
	SharingPartition                // profiles out of shared counters
)

// Attribute is a fact about a device: text, or a number where Text is 0.
type Attribute struct {
	Name   Symbol
	Text   Symbol
	Number int64
}

// Counter is a shared supply of a partitionable device (MIG slices, say).
type Counter struct {
	Name  Symbol
	Total int64
}

// Profile is a partition that a device can be cut into.
type Profile struct {
	Name     Symbol
	Milli    quantity.MilliGPU
	Memory   quantity.Bytes
	Consumes []int64 // parallel to the spec's Counters
}

// DeviceSpec is what does not change about a device.
type DeviceSpec struct {
	Name       string // the vendor's UUID, or the index where there is none
	Model      Symbol
	Memory     quantity.Bytes // 0: unknown, then memory binds nobody
	Island     int32          // NVLink island within the node; None without
	NUMA       int32          // NUMA node; None when unknown
	Sharing    Sharing
	Attributes []Attribute // sorted by name
	Counters   []Counter
	Profiles   []Profile
}

// Profile returns the profile of a name; nil where the device has none.
func (s *DeviceSpec) Profile(name Symbol) *Profile {
	if name == 0 {
		return nil
	}
	for i := range s.Profiles {
		if s.Profiles[i].Name == name {
			return &s.Profiles[i]
		}
	}
	return nil
}

// Device is one row of the device table. The devices of a node are consecutive.
type Device struct {
	Spec       *DeviceSpec
	ID         DeviceID
	Node       NodeID
	Health     Health
	Holders    int32 // pods that hold a part of it
	FreeMilli  quantity.MilliGPU
	FreeMemory quantity.Bytes
	Used       []int64 // of the spec's Counters; nil when nothing is
}

// Idle says whether the device is healthy and nobody holds a part of it.
func (d *Device) Idle() bool { return d.Holders == 0 && d.Health == Healthy }
