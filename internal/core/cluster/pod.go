package cluster

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// DeviceRequest asks for Count devices, each whole, or a share, or a profile, or
// whatever its selector picks of a device.
type DeviceRequest struct {
	Count  int32
	Milli  quantity.MilliGPU // per device; WholeGPU means the device alone; of a profile or a part, the most one takes
	Memory quantity.Bytes    // per device; 0 asks for none in particular
	// Profile, when set, asks for partitions of that name instead of a share.
	Profile Symbol
	// Models lists the models allowed, sorted; empty allows any.
	Models []Symbol
	// MinMemory is the least memory the device must have in all.
	MinMemory quantity.Bytes
	// SameIsland requires all devices in one NVLink island.
	SameIsland bool
	// SameNUMA requires all devices on one NUMA node.
	SameNUMA bool
	// Selector, when set, names a condition that only the rim can judge: the facts
	// say which devices meet it.
	Selector Symbol
	// Parts says that each of Count is what the selector picks: a device alone, or one
	// of its profiles. Several may come from one device.
	Parts bool
}

// Allows says whether the device's model and size are among those asked for. A
// device of unknown memory is large enough.
func (r *DeviceRequest) Allows(d *DeviceSpec) bool {
	return (len(r.Models) == 0 || slices.Contains(r.Models, d.Model)) && (d.Memory == 0 || d.Memory >= max(r.MinMemory, r.Memory))
}

// Whole says whether the request takes devices alone.
func (r *DeviceRequest) Whole() bool {
	return r.Milli >= quantity.WholeGPU && r.Profile == 0 && !r.Parts
}

// Least is the least compute of one device that the request may take.
func (r *DeviceRequest) Least() quantity.MilliGPU {
	if r.Parts {
		return min(r.Milli, 1)
	}
	return r.Milli
}

// Operator compares a node's label with the values of a Requirement.
type Operator uint8

const (
	OpIn Operator = iota
	OpNotIn
	OpExists
	OpAbsent
	OpGreater // the label, read as an integer, is greater than Number
	OpLess
)

// Requirement is one condition on a node's labels.
type Requirement struct {
	Key    Symbol
	Op     Operator
	Values []Symbol
	Number int64
	// Feature says that it is about a feature that nodes declare: no pod goes where
	// it is not met, but such nodes count where pods are spread.
	Feature bool
}

// Toleration lets a pod onto nodes with a taint. Key 0 tolerates every key.
type Toleration struct {
	Key, Value Symbol
	AnyValue   bool
	AnyEffect  bool
	Effect     TaintEffect
}

// Shape is what a pod asks for, apart from its name. Pods of equal shape get
// equal answers, so shapes are interned.
type Shape struct {
	Key     uint64 // hash of the content
	Need    Vector // effective request; DimPods is 1
	Devices []DeviceRequest
	// Selector holds alternatives: one whole list must be met. Empty: any node.
	Selector    [][]Requirement
	Tolerations []Toleration
	// Kind is what runs like this are known by: forecasts of need go by it.
	Kind Symbol
}

// Milli returns the compute that the shape takes in all.
func (s *Shape) Milli() quantity.MilliGPU {
	var sum quantity.MilliGPU
	for i := range s.Devices {
		sum += quantity.MilliGPU(s.Devices[i].Count) * s.Devices[i].Milli
	}
	return sum
}

// LeastMilli returns the least compute that the shape may take in all.
func (s *Shape) LeastMilli() quantity.MilliGPU {
	var sum quantity.MilliGPU
	for i := range s.Devices {
		sum += quantity.MilliGPU(s.Devices[i].Count) * s.Devices[i].Least()
	}
	return sum
}

// DeviceCount returns how many devices, or parts of devices, the shape takes.
func (s *Shape) DeviceCount() int32 {
	var n int32
	for i := range s.Devices {
		n += s.Devices[i].Count
	}
	return n
}

// Grant is a part of one device given to a pod.
type Grant struct {
	Device  DeviceID
	Milli   quantity.MilliGPU
	Memory  quantity.Bytes
	Profile Symbol
}

// Identity says how surely we know which devices a pod holds.
type Identity uint8

const (
	// IdentityDecided: we picked the devices.
	IdentityDecided Identity = iota
	// IdentityPresumed: the kubelet picks; the grants stand for any of the model.
	IdentityPresumed
	// IdentityObserved: the kubelet picked, and told.
	IdentityObserved
)

// Placement is where a pod is and what it holds there. The zero value would be
// node 0, so an absent placement has Node None.
type Placement struct {
	Node     NodeID
	Shape    ShapeID // the shape in force: the pod's own or an alternative
	Grants   []Grant
	Identity Identity
	// Lease is what has been lent of the grants, which are less by it; nil: nothing.
	Lease *Lease `json:",omitempty"`
}

// Nowhere is the placement of a pod that has none.
func Nowhere() Placement { return Placement{Node: None, Shape: None} }

// Milli is the compute that the placement takes of all its devices.
func (p *Placement) Milli() quantity.MilliGPU {
	var sum quantity.MilliGPU
	for i := range p.Grants {
		sum += p.Grants[i].Milli
	}
	return sum
}

// Placed says whether there is a place.
func (p *Placement) Placed() bool { return p.Node != None }

// Phase is where a pod stands.
type Phase uint8

// A pod goes down this list, and from terminating back to waiting when it was
// evicted to be run again.
//
//	waiting ─▶ placing ─▶ bound ─▶ running ─▶ gone
//	   ▲                              │
//	   └──────── terminating ◀────────┘
const (
	PhaseGone        Phase = iota // the row is free
	PhaseWaiting                  // wants a place
	PhaseHeld                     // not to be decided yet (gated)
	PhasePlacing                  // an intent to bind it is under way; charged
	PhaseBound                    // bound, not started yet; charged
	PhaseRunning                  // charged
	PhaseTerminating              // told to go, still there; charged
)

var phaseNames = [...]string{"gone", "waiting", "held", "placing", "bound", "running", "terminating"} // const: names of the phases

func (p Phase) String() string { return phaseNames[p] }

// Asks lists the shapes a pod would take, best first.
func (s *PodSpec) Asks(i int) (ShapeID, bool) {
	switch {
	case i == 0:
		return s.Shape, true
	case i <= len(s.Alternatives):
		return s.Alternatives[i-1], true
	}
	return None, false
}

// Charged says whether a pod in this phase holds its placement.
func (p Phase) Charged() bool { return p >= PhasePlacing }

// PodSpec is what does not change about a pod.
type PodSpec struct {
	Name string
	UID  string
	// Shape is what the pod is charged with, Asked what it asks for: less may be known
	// to do.
	Shape, Asked ShapeID
	// Alternatives are shapes to fall back to, best first.
	Alternatives []ShapeID
	Kind         Symbol // runs of one kind resemble each other
	Group        GroupID
	Job          JobID
	Service      ServiceID
	// Owner, where set, makes pods that are as good as each other: one that goes is
	// followed by another. Surges says that such a one may come first. HeirOf names the pod
	// that this one follows, where that is known.
	Owner    Symbol
	Surges   bool
	HeirOf   string
	Queue    QueueID
	Rank     int32 // within its group; None without
	Priority int32
	// SLATotal is the time from arrival within which the pod should have
	// finished; 0 is no such promise.
	SLATotal moment.Span
	// Deadline is by when its job is to be done; 0: there is none.
	Deadline moment.Instant
	// Expected is the declared run time; 0 when not declared.
	Expected  moment.Span
	Protected bool // never evicted for others
	// SLA is the class of service that its job names, or that its priority stands for; 0:
	// none. Gives and Keeps are what the class says.
	SLA   Symbol
	Gives Giving
	Keeps bool // lends nothing
	// PreemptNever says that nothing is to be evicted for the pod.
	PreemptNever bool
	Policy       Symbol
	// Artifacts are what has to be on its node before it starts, each once.
	Artifacts []ArtifactID
	// Own is what the pod said of itself: its job speaks where it said nothing.
	Own PodOwn
}

// Plain says whether there is no more to a pod than one shape: no group and no second
// choice.
func (s *PodSpec) Plain() bool { return s.Group == None && len(s.Alternatives) == 0 }

// PodOwn is what a pod says of itself that its job says otherwise.
type PodOwn struct {
	Queue     QueueID // None: nothing said
	Kind      Symbol
	Runs      Symbol // what its run times are known by, where it has no kind
	Priority  int32  // 0: nothing said
	SLATotal  moment.Span
	Expected  moment.Span
	Protected bool
}

// Pod is one row of the pod table.
type Pod struct {
	Spec       *PodSpec
	Key        uint64 // hash of the UID, for ties and digests
	Generation uint32
	Phase      Phase
	Attempt    int32
	Placement  Placement
	Kin        KinID // how it stands to other pods; 0 without
	// Reserved says that the room it is charged with is still to be left by others.
	Reserved bool
	LastNode NodeID   // where it ran before; None without
	Intent   IntentID // the intent under way for it; None without
	Budget   BudgetID // what its eviction counts against; None without
	Arrived  moment.Instant
	Bound    moment.Instant // of this attempt
	Started  moment.Instant // of this attempt
	Repaid   moment.Instant // when it got back what it had lent; 0: never
	Refused  Refusals       // of its binds: it is not tried again before
	Kept     Refusals       // of its evictions: it is not told to go again before
	// Displaced is when it was evicted last, by a decision; 0: never. Evictions
	// counts how often.
	Displaced moment.Instant
	Evictions int32
	// Rests is since when it stays where it is, as far as moves go: it was to be replaced, or
	// came in place of another; 0: never.
	Rests moment.Instant
	// GoneBy is until when it may be in room that is reserved for others from then on:
	// it said that it would have ended. 0: in none.
	GoneBy moment.Instant
	// Ran is how long its earlier attempts ran, and pods of its job before it.
	Ran moment.Span
	// Busy is how busy its GPUs are, as a worker of a job.
	Busy Gauge

	// The list of its group's members.
	nextMember, lastMember PodID
}

// Refusals is how often in a row the cluster has refused something about a pod, and
// until when that is not tried again. The zero value is for what was not refused.
type Refusals struct {
	Count int32
	Node  NodeID         // that refused last, where Count is not 0; None for one that is gone
	Until moment.Instant // Never: not before something has changed
}

// BacksOff says whether a pod in line has no turn yet, since its binds were refused.
func (p *Pod) BacksOff(now moment.Instant) bool { return p.Refused.Until > now }

// RanFor is how long the pod has run until now, over all its attempts.
func (p *Pod) RanFor(now moment.Instant) moment.Span {
	runs := p.Phase == PhaseRunning || p.Phase == PhaseTerminating && p.Started != 0 && p.Started >= p.Bound
	if !runs {
		return p.Ran
	}
	return p.Ran + now.Since(p.Started)
}

// RanFor is how long a pod, or any of its tree of groups, has run until now.
func (v *View) RanFor(p *Pod, now moment.Instant) moment.Span {
	if p.Spec.Group == None {
		return p.RanFor(now)
	}
	most := moment.Span(0)
	for id := range v.TreeMembers(v.Root(p.Spec.Group)) {
		most = max(most, v.Pod(id).RanFor(now))
	}
	return most
}
