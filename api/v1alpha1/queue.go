package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueLabel names, on a pod, the Queue that it belongs to. While a cluster has no
// Queue at all, it is only a label.
const QueueLabel = "headrace.dev/queue"

// GPUs is the key of GPU compute in a ResourceList of a Queue. The name of the
// resource that nodes offer cards under, nvidia.com/gpu say, means the same.
const GPUs = "gpus"

// Queue is the line of a tenant, and what the tenant can count on. Queues form a
// tree: what a queue uses counts for those above it. It belongs to the cluster, not
// to a namespace.
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what the queue can count on.
	Spec QueueSpec `json:"spec,omitempty"`
	// Status is written by the scheduler.
	Status QueueStatus `json:"status,omitempty"`
}

// QueueList is a list of queues.
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Queue `json:"items"`
}

// ResourceList is amounts by resource: gpus, cpu, memory, or any other resource that
// pods ask for.
type ResourceList map[string]resource.Quantity

// QueueSpec says what a queue can count on.
type QueueSpec struct {
	// Parent is the queue above this one. Leave it out for a queue at the top. A queue
	// whose parent is not there yet waits for it, as do its pods.
	Parent string `json:"parent,omitempty"`
	// Deserved is what the tenant bought. Set it to what its pods must get back when
	// others have borrowed it; whatever is not named here is lent by weight alone.
	Deserved ResourceList `json:"deserved,omitempty"`
	// Limit is never exceeded, however much lies idle. Leave a resource out to let the
	// queue use what nobody else does. To lower it below what is in use evicts nobody:
	// nothing more is placed until enough has left.
	Limit ResourceList `json:"limit,omitempty"`
	// Weight is the queue's part of idle room among its siblings: one of weight 2 gets
	// twice what one of weight 1 does. With 0 it borrows only what nobody else wants. 0
	// to 1000000, 1 when not set.
	Weight *int32 `json:"weight,omitempty"`
}

// QueueStatus is how it stands with a queue, as of the last look of the scheduler.
type QueueStatus struct {
	// Used is what pods of the queue and of those below it hold.
	Used ResourceList `json:"used,omitempty"`
	// Quota is what it can count on for now: what it deserves, moved a little by how
	// much it used in the last hour.
	Quota ResourceList `json:"quota,omitempty"`
	// FairShare is up to what it can take back from others: its quota as far as it
	// wants it, and its part of what nobody else does.
	FairShare ResourceList `json:"fairShare,omitempty"`
	// Waiting is how many pods of the queue and of those below it wait.
	Waiting int32 `json:"waiting,omitempty"`
	// Message says why the queue is not in force; empty: it is.
	Message string `json:"message,omitempty"`
}
