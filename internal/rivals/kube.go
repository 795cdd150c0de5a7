package rivals

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// most is the highest score a Kubernetes plugin gives.
const most = 100

// What a pod that asks for none is counted with when scored (Kubernetes:
// pkg/scheduler/util/pod_resources.go).
const (
	defaultCPU    = 100
	defaultMemory = 200 * int64(quantity.MiB)
)

// portion is one resource of a node as the plugins see it.
type portion struct {
	used, ask, capacity int64
}

func portionOf(n *cluster.Node, s *cluster.Shape, d cluster.Dim, least int64) portion {
	capacity := n.Spec.Allocatable.At(d)
	return portion{used: capacity - n.Free.At(d), ask: max(s.Need.At(d), least), capacity: capacity}
}

// kubeDefault is NodeResourcesFit with LeastAllocated plus
// NodeResourcesBalancedAllocation, each over CPU and memory with weight 1: what
// is left of the default profile for what a trace carries.
func kubeDefault(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
	s, n := v.Shape(shape), v.Node(node)
	portions := [...]portion{
		portionOf(n, s, cluster.DimCPU, defaultCPU),
		portionOf(n, s, cluster.DimMemory, defaultMemory),
	}
	return leastAllocated(portions[:]) + balanced(n, s)
}

// kubeBinpack is the same profile with MostAllocated over GPUs, CPU and memory,
// each with weight 1.
func kubeBinpack(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
	s, n := v.Shape(shape), v.Node(node)
	portions := [...]portion{
		{used: int64(n.Spec.DeviceCount - n.IdleDevices), ask: int64(s.DeviceCount()), capacity: int64(n.Spec.DeviceCount)},
		portionOf(n, s, cluster.DimCPU, defaultCPU),
		portionOf(n, s, cluster.DimMemory, defaultMemory),
	}
	return mostAllocated(portions[:]) + balanced(n, s)
}

func leastAllocated(portions []portion) int64 {
	return average(portions, func(p portion) int64 {
		if p.used+p.ask > p.capacity {
			return 0
		}
		return (p.capacity - p.used - p.ask) * most / p.capacity
	})
}

func mostAllocated(portions []portion) int64 {
	return average(portions, func(p portion) int64 { return min(p.used+p.ask, p.capacity) * most / p.capacity })
}

func average(portions []portion, value func(portion) int64) int64 {
	sum, n := int64(0), int64(0)
	for _, p := range portions {
		if p.capacity > 0 {
			sum += value(p)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// balanced rewards what brings CPU and memory use closer together than they
// were: Kubernetes 1.37 compares the node with and without the pod.
func balanced(n *cluster.Node, s *cluster.Shape) int64 {
	cpu := portionOf(n, s, cluster.DimCPU, 0)
	memory := portionOf(n, s, cluster.DimMemory, 0)
	if cpu.ask == 0 && memory.ask == 0 {
		return 0
	}
	with := evenness(cpu.used+cpu.ask, cpu.capacity, memory.used+memory.ask, memory.capacity)
	without := evenness(cpu.used, cpu.capacity, memory.used, memory.capacity)
	return most/2 + (most/2+with-without)/2
}

func evenness(a, ofA, b, ofB int64) int64 {
	if ofA == 0 || ofB == 0 {
		return most
	}
	apart := math.Abs(min(float64(a)/float64(ofA), 1)-min(float64(b)/float64(ofB), 1)) / 2
	return int64((1 - apart) * most)
}
