package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodGroupLabel names, on a pod, the PodGroup in its namespace that it belongs to.
// It may be a label or an annotation; where both are there, the label counts.
const PodGroupLabel = "headrace.dev/pod-group"

// SubGroupLabel names, on a pod, the sub-group of its PodGroup that it belongs to. It
// may be a label or an annotation; where both are there, the label counts.
const SubGroupLabel = "headrace.dev/sub-group"

// RankLabel says, on a pod, which rank it has among the members of its group, from 0.
// It may be a label or an annotation; where both are there, the label counts. Without
// it, the index that an indexed Job gives its pods is the rank.
const RankLabel = "headrace.dev/rank"

// PodGroup is a set of pods that start all or none. It has the form of the PodGroup
// of scheduling.k8s.io, so that a plain one moves on by a change of its apiVersion,
// and says more where that has no words: sub-groups, preferred topology, groups of
// groups without a Workload.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says how the pods of the group are placed.
	Spec PodGroupSpec `json:"spec"`
	// Status is written by the scheduler.
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupList is a list of pod groups.
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodGroup `json:"items"`
}

// PodGroupSpec says how the pods of a group are placed.
type PodGroupSpec struct {
	// SchedulingPolicy is what the pods have to do with each other: set exactly one
	// of its fields.
	SchedulingPolicy SchedulingPolicy `json:"schedulingPolicy"`
	// SchedulingConstraints say how near together the pods of the group are placed,
	// those of its sub-groups and of the groups below it included. Leave it out where
	// that does not matter.
	SchedulingConstraints *SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	// SubGroups are the parts of the group that have a minimum of their own: the
	// prefill and the decode pods of a model, say. A pod names its part by the label
	// or annotation headrace.dev/sub-group. The group starts when all of them can, or
	// as many as minGroupCount says. At most 32.
	SubGroups []SubGroup `json:"subGroups,omitempty"`
	// Parent is the PodGroup of the same namespace that this one is a part of: the
	// whole tree starts or none of it. Leave it out for a group that stands alone. A
	// parent that is not there yet is waited for. At most 8 groups are above each
	// other, sub-groups included.
	Parent string `json:"parent,omitempty"`
	// Communication is how the ranks of the group talk to each other: Ring (each with
	// the next), Tree (the binary tree of NCCL). Set it where pods have ranks, and
	// those that talk are placed side by side. None when not set.
	Communication Communication `json:"communication,omitempty"`
	// HoldSeconds is how long a group of which no pod has run yet may keep the room
	// of those that have a place, when others have lost theirs and none is found for
	// them. Then it gives all its room back and waits again. 1 to 86400, 300 when
	// not set.
	HoldSeconds *int32 `json:"holdSeconds,omitempty"`
}

// SchedulingPolicy is what the pods of a group have to do with each other.
type SchedulingPolicy struct {
	// Basic places each pod by itself, as if there were no group.
	Basic *BasicPolicy `json:"basic,omitempty"`
	// Gang starts a number of pods together or none.
	Gang *GangPolicy `json:"gang,omitempty"`
}

// BasicPolicy has nothing to set.
type BasicPolicy struct{}

// GangPolicy starts a number of pods together or none.
type GangPolicy struct {
	// MinCount is how many pods start together: set it to the number of workers
	// without which the work cannot begin. Further pods of the group are placed as
	// there is room. Pods of sub-groups and of groups below do not count. 0, the value
	// when it is not set, is for a group that is made of others.
	MinCount int32 `json:"minCount,omitempty"`
	// MaxCount is up to how many pods are placed: set it where more workers than that
	// are of no use. At least minCount; all there are when not set.
	MaxCount *int32 `json:"maxCount,omitempty"`
	// MinGroupCount is how many of the sub-groups and of the groups that name this one
	// as their parent start together; the others join later, each whole. Set it on a
	// group of groups, so that it does not start before all have been created. At least
	// 1. All that are there when not set.
	MinGroupCount *int32 `json:"minGroupCount,omitempty"`
}

// SubGroup is a part of a group with a minimum of its own.
type SubGroup struct {
	// Name is what pods name it by: a DNS label, each once.
	Name string `json:"name"`
	// MinCount is how many pods of the part start together. At least 1.
	MinCount int32 `json:"minCount"`
	// MaxCount is up to how many pods of the part are placed. At least minCount; all
	// there are when not set.
	MaxCount *int32 `json:"maxCount,omitempty"`
	// Topology is what the pods of this part share, beside what the whole group does.
	// Two parts that each need a rack may be in different ones.
	Topology []TopologyConstraint `json:"topology,omitempty"`
	// Communication is how the ranks of this part talk to each other. None when not set.
	Communication Communication `json:"communication,omitempty"`
}

// SchedulingConstraints say how near together the pods of a group are placed.
type SchedulingConstraints struct {
	// Topology lists what the pods share. Several levels go together: a zone that is
	// required, and a rack that is preferred.
	Topology []TopologyConstraint `json:"topology,omitempty"`
}

// TopologyConstraint is a domain that pods share. Set either its level or its key.
type TopologyConstraint struct {
	// Level is what they share: an NVLink Island (all cards of all pods are linked, and
	// so on one node), a Node, a Rack, a Zone, a Region. Which label of a node is its
	// rack is a setting of the scheduler.
	Level Level `json:"level,omitempty"`
	// Key is the label of nodes whose value they share, as in the PodGroup of
	// scheduling.k8s.io: kubernetes.io/hostname, or one that the scheduler takes for a
	// level.
	Key string `json:"key,omitempty"`
	// Mode is Required: the group waits for a domain that holds it; or Preferred: such a
	// domain is tried first, and given up where none has room. Required when not set.
	Mode ConstraintMode `json:"mode,omitempty"`
}

// Level is a kind of domain.
type Level string

// The levels, from the closest to the widest.
const (
	Island Level = "Island"
	Node   Level = "Node"
	Rack   Level = "Rack"
	Zone   Level = "Zone"
	Region Level = "Region"
)

// ConstraintMode says whether a constraint may be given up.
type ConstraintMode string

// The modes.
const (
	Required  ConstraintMode = "Required"
	Preferred ConstraintMode = "Preferred"
)

// Communication is a pattern in which ranks talk.
type Communication string

// The patterns.
const (
	None Communication = "None"
	Ring Communication = "Ring"
	Tree Communication = "Tree"
)

// PodGroupStatus is what the scheduler says of a group.
type PodGroupStatus struct {
	// Conditions: PodGroupInitiallyScheduled is True once the group has had its
	// MinCount of pods bound, and what it needs of sub-groups and groups below it, and
	// stays so. While it is False, its message says what the group waits for.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodGroupInitiallyScheduled is the type of the condition that says whether a group
// has had as many pods bound as start together.
const PodGroupInitiallyScheduled = "PodGroupInitiallyScheduled"
