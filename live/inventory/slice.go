package inventory

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/catalogue"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
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

// PartsNodeOf does as DRANodeOf, and offers cards that support MIG in parts as well:
// such a card is given whole or in parts, the others are shared.
func PartsNodeOf(n *trace.Node) (*corev1.Node, []*resourceapi.ResourceSlice) {
	node, slice := DRANodeOf(n)
	if slice == nil {
		return node, nil
	}
	if cut := cutOf(n); cut != nil {
		return node, dra.CutSlicesOf(n.Name, cardsOf(n), cut)
	}
	return node, []*resourceapi.ResourceSlice{slice}
}

// The counters of a card with MIG, as NVIDIA's driver names them or nearly so.
const (
	memorySlice    = "memory-slice-"
	computeCounter = "compute-slices"
	mediaCounter   = "media-engines"
)

// cutOf says into which parts the cards of a node can be cut: each placement of each
// profile is one; nil where the model has none.
func cutOf(n *trace.Node) *dra.Cut {
	m, known := catalogue.Lookup(n.Model)
	places := m.Placements()
	if !known || places == nil {
		return nil
	}
	cut := &dra.Cut{Counters: map[string]int64{computeCounter: catalogue.ComputeSlices, mediaCounter: 1}}
	for i := range catalogue.MemorySlices {
		cut.Counters[memorySlice+strconv.Itoa(i)] = 1
	}
	label := strings.NewReplacer(".", "", "+", "-")
	for _, p := range places {
		for _, start := range p.Starts {
			part := dra.Part{
				Name: fmt.Sprintf("mig-%s-%d", label.Replace(p.Profile), start), Profile: p.Profile,
				Milli:  quantity.MilliGPU(int(quantity.WholeGPU) * p.Compute / catalogue.ComputeSlices),
				Memory: n.GPUMemory / catalogue.MemorySlices * quantity.Bytes(p.MemorySlices),
				Takes:  map[string]int64{computeCounter: int64(p.Compute)},
			}
			for k := range p.MemorySlices {
				part.Takes[memorySlice+strconv.Itoa(start+k)] = 1
			}
			if p.Media {
				part.Takes[mediaCounter] = 1
			}
			cut.Parts = append(cut.Parts, part)
		}
	}
	return cut
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
