package inventory

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// linkedFrom is from how many cards a machine is taken to have NVLink between all of
// them, and numaFrom two NUMA nodes, where the scenario does not say: as boards of
// four and eight cards are built.
const linkedFrom, numaFrom = 4, 2

// cardsOf lists the cards of a node.
func cardsOf(n *trace.Node) []world.Device {
	cards := make([]world.Device, n.GPUs)
	for i := range cards {
		c := &cards[i]
		*c = world.Device{
			Name: fmt.Sprintf("GPU-%s-%d", n.Name, i), Model: n.Model, Memory: n.GPUMemory,
			Island: cluster.None, NUMA: 0, Sharing: cluster.SharingSlices,
		}
		switch {
		case len(n.Island) == n.GPUs:
			c.Island = n.Island[i]
		case n.GPUs >= linkedFrom:
			c.Island = 0
		}
		switch {
		case len(n.NUMA) == n.GPUs:
			c.NUMA = n.NUMA[i]
		case n.GPUs >= numaFrom:
			c.NUMA = int32(i * 2 / n.GPUs)
		}
	}
	return cards
}

// topology tells of NUMA nodes and NVLink islands as labels.
func topology(cards []world.Device) map[string]string {
	numa, islands := make(map[int32]bool), make(map[int32]int)
	for i := range cards {
		if cards[i].NUMA != cluster.None {
			numa[cards[i].NUMA] = true
		}
		if cards[i].Island != cluster.None {
			islands[cards[i].Island]++
		}
	}
	largest := 1
	for _, size := range islands { // order: the largest does not depend on it
		largest = max(largest, size)
	}
	return map[string]string{numaLabel: strconv.Itoa(max(len(numa), 1)), islandLabel: strconv.Itoa(largest)}
}

// DRANodeOf returns the node with its cards offered by a DRA driver instead, which
// lets them be shared; the slice is nil where it has none.
func DRANodeOf(n *trace.Node) (*corev1.Node, *resourceapi.ResourceSlice) {
	node := NodeOf(n)
	if n.GPUs == 0 {
		return node, nil
	}
	delete(node.Status.Capacity, GPUResource)
	delete(node.Status.Allocatable, GPUResource)
	return node, dra.SliceOf(n.Name, cardsOf(n))
}
