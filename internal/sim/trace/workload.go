// Package trace reads and writes workloads: the nodes of a cluster and the pods
// that arrive in it. Importers turn public traces into a Workload; the project's
// own format keeps one in a file (docs/trace-format.md).
//
// It knows files, not scheduling: names stay text and nothing gets an id here.
package trace

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Workload is a cluster and what arrives in it. The order of Nodes and Pods is
// canonical: seeded draws index into it. Readers keep the order of the file, and
// OpenB sorts by name; ByArrival gives the order in time.
type Workload struct {
	Name  string
	Nodes []Node
	Pods  []Pod
	// Queues says what each tenant has bought; queues that pods name and that are
	// not listed have bought nothing.
	Queues []Queue
	// Timed says that Arrival and Duration of the pods mean something.
	Timed bool
	// Missing names the columns for want of which the workload is not timed.
	Missing []string
	// WarmUp is the beginning that does not count: what arrives before it ends is
	// there to fill the cluster.
	WarmUp moment.Span
}

// GPUCapacity is the compute of all GPUs.
func (w Workload) GPUCapacity() quantity.MilliGPU {
	var total quantity.MilliGPU
	for i := range w.Nodes {
		total += quantity.MilliGPU(w.Nodes[i].GPUs) * quantity.WholeGPU
	}
	return total
}

// GPUDemand is the GPU compute that a pod asks for.
func (p *Pod) GPUDemand() quantity.MilliGPU {
	return quantity.MilliGPU(p.GPUs) * p.Milli
}

// OfferedLoad is the GPU-time that arrives, as a part of what the cluster has from
// the first arrival to the last; 0 where that is not known.
func (w Workload) OfferedLoad() float64 {
	if !w.Timed || len(w.Pods) == 0 {
		return 0
	}
	first, last, asked := w.Pods[0].Arrival, w.Pods[0].Arrival, 0.0
	for i := range w.Pods {
		p := &w.Pods[i]
		first, last = min(first, p.Arrival), max(last, p.Arrival)
		asked += float64(p.GPUDemand()) * float64(p.Duration)
	}
	if has := float64(w.GPUCapacity()) * float64(last.Since(first)); has > 0 {
		return asked / has
	}
	return 0
}

// ByArrival returns the pods in order of arrival; those that arrive together keep
// their order.
func (w Workload) ByArrival() []Pod {
	pods := slices.Clone(w.Pods)
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return pods
}

// Node is one machine.
type Node struct {
	Name   string
	CPU    quantity.MilliCPU
	Memory quantity.Bytes
	Pods   int64 // most pods at once
	// GPUs of one model. GPUMemory is per GPU, 0 when unknown.
	GPUs      int
	Model     string
	GPUMemory quantity.Bytes
	// Island and NUMA give each GPU's NVLink island and NUMA node, -1 for none;
	// both empty when unknown, else of length GPUs.
	Island, NUMA []int32
	Rack, Zone   string
	Labels       map[string]string
	// Whole says that the kubelet's device plugin picks the card, so that cards
	// are only given whole.
	Whole bool
}

// Queue is a tenant's line.
type Queue struct {
	Name     string
	Deserved quantity.MilliGPU
}

// Pod is one task: what it asks for, when it comes, and how it behaves.
type Pod struct {
	Name     string
	Kind     string // runs of one kind resemble each other; may be empty
	Queue    string
	Priority int32
	CPU      quantity.MilliCPU
	Memory   quantity.Bytes
	// GPUs × Milli of each; Milli below 1000 is a share. GPUMemory is per GPU,
	// 0 when not declared.
	GPUs      int
	Milli     quantity.MilliGPU
	GPUMemory quantity.Bytes
	Models    []string // allowed GPU models, in the order given; empty is any
	Arrival   moment.Instant
	// Duration is the run time alone on its request, without waiting and
	// starting. 0 in an untimed workload.
	Duration moment.Span
	SLA      moment.Span // arrival to completion; 0 is no promise
	// Pods of one Group are one job: they start all or none, progress together and
	// end together. Empty: the pod is a job of its own.
	Group string
	// Checkpoint is how much work lies between two saved states; what an evicted run
	// did since the last of them is lost. 0: nothing is ever saved.
	Checkpoint moment.Span
	// Save is what it takes a job to save its state when it is asked to; 0: it cannot
	// be asked.
	Save moment.Span
	// Restart is what it takes an interrupted job to come back to its last saved
	// state, once it has a place again.
	Restart moment.Span
	// Service says that the pod is one of a service of its kind, of which others are as good
	// as it: one may come in its place.
	Service bool
	Use     Use
}

// Use is how a pod really behaves; the zero value is "as requested, unknown".
type Use struct {
	GPUMemory quantity.Bytes // per GPU, really used
	// The run alternates between load phases (reading data, GPU little used) and
	// compute phases, each with the busy share of one GPU in thousandths.
	LoadBusy, ComputeBusy   quantity.Milli
	LoadPhase, ComputePhase moment.Span
	Image, Weights          quantity.Bytes // to be fetched before it starts
	WarmUp                  moment.Span    // after everything is in place
}
