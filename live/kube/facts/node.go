package facts

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// The labels under which GPU feature discovery tells of a node's cards.
const (
	ProductLabel = "nvidia.com/gpu.product"
	MemoryLabel  = "nvidia.com/gpu.memory" // MiB
)

// unnamedModel stands for the model of cards that nobody labelled.
const unnamedModel = "gpu"

// MaxDevices is the most cards of a node that the world takes. A node that
// offers more (cards that are shared in time, counted many times) is used up to
// here.
const MaxDevices = 64

// mebibyte is the unit of MemoryLabel.
const mebibyte = 1 << 20

// Node is what there is to know about a node.
type Node struct {
	Added   world.NodeAdded
	Domains []world.DomainAdded // the widest first; the last one holds the node
	Ready   bool
	// Linked says that all its cards are of one NVLink island.
	Linked bool
	// Images are those that it says it has. Room is what it says it keeps for images, 0
	// where it says nothing, and RoomFault what of that cannot be read; Storage is its
	// ephemeral storage.
	Images        []Image
	Room, Storage quantity.Bytes
	RoomFault     string
}

// NodeOf reads a node. Cards come under the resource name gpu; the kubelet picks
// which of them a pod gets. Where the node is, its labels say, by level.
func NodeOf(n *corev1.Node, gpu corev1.ResourceName, levels *Levels) Node {
	out := Node{Domains: levels.domains(n), Ready: ready(n), Linked: levels.linked(n), Images: images(n)}
	out.Room, out.RoomFault = imageRoom(n)
	storage := n.Status.Capacity[corev1.ResourceEphemeralStorage]
	out.Storage = quantity.Bytes(Units(&storage))
	e := &out.Added
	e.Name, e.UID, e.Labels, e.Authority = n.Name, string(n.UID), traits(n), cluster.AuthorityPlugin
	if last := len(out.Domains); last > 0 {
		e.Domain = out.Domains[last-1].Name
	}
	for name, amount := range n.Status.Allocatable { // order: each entry has a place of its own
		switch name {
		case corev1.ResourceCPU:
			e.CPU = quantity.MilliCPU(Thousandths(&amount))
		case corev1.ResourceMemory:
			e.Memory = quantity.Bytes(Units(&amount))
		case corev1.ResourcePods:
			e.Pods = Units(&amount)
		case gpu:
			e.Devices = devices(n, min(Units(&amount), MaxDevices))
		default:
			e.Extended = counted(e.Extended, name, Units(&amount))
		}
	}
	e.Taints = taints(n)
	// Whether it is ready comes as a change of its life, apart from what it is.
	e.Life = cluster.LifeReady
	return out
}

// counted adds an amount to a map that may be nil.
func counted(m map[string]int64, name corev1.ResourceName, amount int64) map[string]int64 {
	if amount <= 0 {
		return m
	}
	if m == nil {
		m = make(map[string]int64)
	}
	m[string(name)] = amount
	return m
}

func devices(n *corev1.Node, count int64) []world.Device {
	model := n.Labels[ProductLabel]
	if model == "" {
		model = unnamedModel
	}
	memory, err := strconv.ParseInt(n.Labels[MemoryLabel], 10, 32)
	if err != nil || memory < 0 {
		memory = 0 // unknown: then memory binds nobody
	}
	out := make([]world.Device, 0, max(count, 0))
	for range count {
		out = append(out, world.Device{
			Model: model, Memory: quantity.Bytes(memory) * mebibyte,
			Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingNone,
		})
	}
	return out
}

// taints returns the node's taints; a cordon counts as the taint that it brings
// a moment later.
func taints(n *corev1.Node) []world.Taint {
	var out []world.Taint
	cordoned := false
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		effect, known := effectOf(t.Effect)
		if !known {
			continue
		}
		cordoned = cordoned || t.Key == corev1.TaintNodeUnschedulable
		out = append(out, world.Taint{Key: t.Key, Value: t.Value, Effect: effect})
	}
	if n.Spec.Unschedulable && !cordoned {
		out = append(out, world.Taint{Key: corev1.TaintNodeUnschedulable, Effect: cluster.TaintNoSchedule})
	}
	return out
}

func effectOf(e corev1.TaintEffect) (cluster.TaintEffect, bool) {
	switch e {
	case corev1.TaintEffectNoSchedule:
		return cluster.TaintNoSchedule, true
	case corev1.TaintEffectPreferNoSchedule:
		return cluster.TaintPreferNoSchedule, true
	case corev1.TaintEffectNoExecute:
		return cluster.TaintNoExecute, true
	}
	return 0, false
}

func ready(n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
