package rank

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Weights are how much each part of a score counts, in thousandths. They are
// policy data.
type Weights struct {
	Fit, Urgency, Affinity quantity.Milli
	// Headroom is the part of fit that headroom has; the rest is placeability.
	Headroom quantity.Milli
}

// DefaultWeights are those of the design: 0.6 fit, 0.3 urgency, 0.1 affinity.
func DefaultWeights() Weights {
	return Weights{Fit: 600, Urgency: 300, Affinity: 100, Headroom: 20}
}

// lossScale is the loss at which placeability is zero: sixteen GPUs, in
// micro-GPU. Fine is the scale of the parts while they are compared.
const lossScale = 16_000_000

// The affinity of a place, in thousandths: caches are warm where the pod ran
// before; devices of one NUMA node are within a distance of 2 of their CPUs.
const (
	ranBefore = 800
	nearby    = 500
)

// Value is the part of a score that depends on node and shape alone, finer than
// decision.ScoreOne so that small losses still count, with the Loss behind it.
func (w Weights) Value(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) (int64, Loss) {
	l := LossOf(v, id, node)
	fit := int64(w.Headroom)*headroom(v, id, node, l.Device)*(lossScale/decision.ScoreOne) - int64(quantity.One-w.Headroom)*l.Worth
	return int64(w.Fit)*fit + int64(w.Affinity)*nearness(v, id, node)*lossScale, l
}

// PriceScale is what a micro-GPU counts in the scale of Value.
func (w Weights) PriceScale() int64 { return int64(w.Fit) * int64(quantity.One-w.Headroom) }

// Return is what going back to the node it ran on before adds to a pod's Value
// there, at least.
func (w Weights) Return() int64 { return int64(w.Affinity) * (ranBefore - nearby) * lossScale }

// headroom is 1 - |need - free| / total of the device's memory, in the scale of
// decision.ScoreOne: a place that is neither too large nor too small. The need is
// what earlier runs of the kind used, never above the request. Zero where the
// memory is unknown.
func headroom(v *cluster.View, id cluster.ShapeID, node cluster.NodeID, device int32) int64 {
	s, n := v.Shape(id), v.Node(node)
	if device == cluster.None || s.Devices[0].Memory == 0 {
		return 0
	}
	d := v.DeviceOf(n, device)
	if d.Spec.Memory == 0 {
		return 0
	}
	need := s.Devices[0].Memory
	if v.Beliefs != nil {
		if forecast := v.Beliefs.Needs.Of(s.Kind); forecast.Memory > 0 {
			need = min(need, forecast.Memory)
		}
	}
	apart := max(d.FreeMemory-need, need-d.FreeMemory)
	return decision.ScoreOne - quantity.MulDiv(int64(apart), decision.ScoreOne, int64(d.Spec.Memory))
}

// nearness is the affinity of a node for a pod that never ran there, in
// thousandths: whether one NUMA node has the idle devices it needs.
func nearness(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) int64 {
	s, n := v.Shape(id), v.Node(node)
	need := s.DeviceCount()
	if need == 0 {
		return 0
	}
	if need == 1 {
		return nearby
	}
	for i := range n.Spec.DeviceCount {
		lead, idle := v.DeviceOf(n, i).Spec.NUMA, int32(0)
		if lead == cluster.None {
			continue
		}
		for k := i; k < n.Spec.DeviceCount; k++ {
			if d := v.DeviceOf(n, k); d.Spec.NUMA == lead && d.Idle() {
				idle++
			}
		}
		if idle >= need {
			return nearby
		}
	}
	return 0
}

// Explain returns the score of a place with its parts, each 0 to
// decision.ScoreOne.
func (w Weights) Explain(v *cluster.View, c decision.Cycle, pod cluster.PodID, id cluster.ShapeID, node cluster.NodeID) decision.Score {
	p, l := v.Pod(pod), LossOf(v, id, node)
	placeability := min(max(decision.ScoreOne-l.Worth/(lossScale/decision.ScoreOne), 0), decision.ScoreOne)
	room := headroom(v, id, node, l.Device)
	s := decision.Score{
		Fit:      (int64(w.Headroom)*room + int64(quantity.One-w.Headroom)*placeability) / int64(quantity.One),
		Urgency:  Urgency(p, c.Now),
		Affinity: nearness(v, id, node) * decision.ScoreOne / int64(quantity.One),
	}
	if p.LastNode == node {
		s.Affinity = ranBefore * decision.ScoreOne / int64(quantity.One)
	}
	s.Total = (int64(w.Fit)*s.Fit + int64(w.Urgency)*s.Urgency + int64(w.Affinity)*s.Affinity) / int64(quantity.One)
	return s
}
