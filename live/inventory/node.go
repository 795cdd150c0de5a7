package inventory

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// The names under which a node tells of its GPUs, as NVIDIA's device plugin and
// GPU feature discovery write them, and of its place.
const (
	GPUResource = "nvidia.com/gpu"
	countLabel  = "nvidia.com/gpu.count"
	// The shape of a node: how many NUMA nodes, and how many cards an NVLink island has.
	numaLabel   = "topology.headrace.dev/numa-nodes"
	islandLabel = "topology.headrace.dev/nvlink-island-size"
)

// Simulated is the annotation, and SimulatedBy its value, of nodes that KWOK
// plays. RunFor says how long a pod on them runs before it succeeds, as a Go
// duration; without it a pod runs until it is deleted.
const (
	Simulated   = "kwok.x-k8s.io/node"
	SimulatedBy = "fake"
	RunFor      = "headrace.dev/run-for"
)

// ImageSizes is the annotation by which a pod tells simulated nodes how large its images
// are, as IMAGE=SIZE with commas.
const ImageSizes = "headrace.dev/image-sizes"

const (
	region = "region-0"
	// ephemeralStorage is not in the scenarios.
	ephemeralStorage = 500 << 30
	mebibyte         = 1 << 20
)

// Scaled returns n nodes that are mixed as the given ones are: fewer by taking
// every so many-th, more by going round again under new names.
func Scaled(nodes []trace.Node, n int) []trace.Node {
	if n <= 0 || n == len(nodes) || len(nodes) == 0 {
		return nodes
	}
	out := make([]trace.Node, 0, n)
	for i := range n {
		if n < len(nodes) {
			out = append(out, nodes[i*len(nodes)/n])
			continue
		}
		node := nodes[i%len(nodes)]
		if round := i / len(nodes); round > 0 {
			node.Name = fmt.Sprintf("%s-%d", node.Name, round)
			node.Rack = fmt.Sprintf("%s-%d", node.Rack, round)
		}
		out = append(out, node)
	}
	return out
}

// NodeOf returns the Kubernetes node for one of a scenario; the kubelet's device
// plugin offers its cards. It has no condition: whoever plays the node makes it
// ready.
func NodeOf(n *trace.Node) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		corev1.LabelTopologyRegion: region,
	}
	maps.Copy(labels, n.Labels)
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	if n.Rack != "" {
		labels[facts.RackLabel] = n.Rack
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(int64(n.CPU), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(n.Memory), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(n.Pods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(ephemeralStorage, resource.BinarySI),
	}
	if n.GPUs > 0 {
		labels[facts.ProductLabel] = n.Model
		labels[countLabel] = strconv.Itoa(n.GPUs)
		labels[facts.MemoryLabel] = strconv.FormatInt(int64(n.GPUMemory/quantity.Bytes(mebibyte)), 10)
		maps.Copy(labels, topology(cardsOf(n)))
		capacity[GPUResource] = *resource.NewQuantity(int64(n.GPUs), resource.DecimalSI)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: map[string]string{Simulated: SimulatedBy}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}
