package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodGroupLabel names, on a pod, the PodGroup in its namespace that it belongs to.
// It may be a label or an annotation; where both are there, the label counts.
const PodGroupLabel = "headrace.dev/pod-group"

// PodGroup is a set of pods that start all or none, for clusters that do not serve
// the PodGroup of scheduling.k8s.io. It has the form of that object, so that moving
// on means changing the apiVersion.
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
	// there is room. At least 1.
	MinCount int32 `json:"minCount"`
}

// PodGroupStatus is what the scheduler says of a group.
type PodGroupStatus struct {
	// Conditions: PodGroupInitiallyScheduled is True once the group has had its
	// MinCount of pods bound, and stays so. While it is False, its message says what
	// the group waits for.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodGroupInitiallyScheduled is the type of the condition that says whether a group
// has had as many pods bound as start together.
const PodGroupInitiallyScheduled = "PodGroupInitiallyScheduled"
