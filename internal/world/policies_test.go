package world_test

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// packed scores the nodes with the least free compute highest.
func packed(v *cluster.View, _ cluster.ShapeID, node cluster.NodeID) int64 {
	return -int64(v.Node(node).FreeMilli)
}

// restless moves pods for next to nothing.
func restless() *tidy.Rules {
	r := tidy.Default()
	r.For, r.Price, r.PerHour, r.MostLoss = tidy.Waiting|tidy.Demand|tidy.Nodes, 1, 0, 1000
	return &r
}

// policies are one of each kind: what a Policy can replace is replaced in one of
// them.
func policies() []*engine.Policy {
	return []*engine.Policy{
		engine.Headrace(),
		engine.Headrace().Preempting(),
		{Name: "packed", Score: packed},
		{Name: "packed, preempting", Score: packed, Yields: rules()},
		{Name: "no score"},
		{Name: "residents", Residents: true, Score: func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
			alike := int64(0)
			for _, pod := range v.Node(node).Pods {
				if v.Pod(pod).Placement.Shape == shape {
					alike++
				}
			}
			return alike
		}},
		{Name: "tie", Tie: func(v *cluster.View, node cluster.NodeID) uint64 { return ^v.Node(node).Key }},
		{Name: "affinity", Score: packed, Affinity: 2500},
		{Name: "beliefs", Score: func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64 {
			version := uint64(0)
			if v.Beliefs != nil {
				version = v.Beliefs.Version
			}
			return int64(chance.Hash(version, v.Shape(shape).Key, v.Node(node).State) % 5)
		}},
		{Name: "choose", Choose: func(v *cluster.View, c decision.Cycle, pod cluster.PodID, feasible []cluster.NodeID) cluster.NodeID {
			return slices.MinFunc(feasible, func(a, b cluster.NodeID) int { return compareFor(v, c, pod, a, b) })
		}},
		{Name: "order", Score: packed, Order: func(v *cluster.View, _ decision.Cycle, pods []cluster.PodID) {
			slices.SortFunc(pods, func(a, b cluster.PodID) int { return cmp.Compare(v.Pod(a).Key, v.Pod(b).Key) })
		}},
		{Name: "last device", Score: packed, Grants: lastDevice},
		{Name: "round", Round: round},
		engine.Headrace().Lending(),
		engine.Headrace().Preempting().Lending(),
		engine.Headrace().Reserving(engine.ReserveHead).Foretelling(),
		engine.Headrace().Preempting().Reserving(engine.ReserveAll),
		engine.Headrace().Tidying(restless()),
		engine.Headrace().Staying().Reserving(engine.ReserveHead).Tidying(restless()),
	}
}

func compareFor(v *cluster.View, c decision.Cycle, pod cluster.PodID, a, b cluster.NodeID) int {
	hash := func(n cluster.NodeID) uint64 { return chance.Hash(uint64(c.Seed), v.Pod(pod).Key, v.Node(n).Key) }
	return cmp.Compare(hash(a), hash(b))
}

// lastDevice gives single shares the last device that takes them.
func lastDevice(v *cluster.View, _ decision.Cycle, _ cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool) {
	s, n := v.Shape(shape), v.Node(node)
	if len(s.Devices) != 1 || s.Devices[0].Count != 1 {
		return fit.Grants(v, s, n)
	}
	for i := n.Spec.DeviceCount - 1; i >= 0; i-- {
		if d := v.DeviceOf(n, i); fit.Takes(v, d, &s.Devices[0]) {
			return []cluster.Grant{fit.GrantOf(v, d, n.Spec.FirstDevice+cluster.DeviceID(i), &s.Devices[0])}, true
		}
	}
	return nil, false
}

// round places what it can by the state at its start, so that some steps
// overdraw and are refused. For the first pod that fits nowhere it puts out the
// least important one of the same shape.
func round(v *cluster.View, c decision.Cycle) []engine.Step {
	pods := v.AppendWaiting(nil)
	slices.SortFunc(pods, func(a, b cluster.PodID) int {
		x, y := v.Pod(a), v.Pod(b)
		return cmp.Or(-cmp.Compare(x.Spec.Priority, y.Spec.Priority), cmp.Compare(x.Key, y.Key))
	})
	var steps []engine.Step
	evicted := false
	for _, pod := range pods {
		shape := v.Pod(pod).Spec.Shape
		best := cluster.NodeID(cluster.None)
		for i := range v.Nodes.Len() {
			node := cluster.NodeID(i)
			if fit.Check(v, shape, node).None() && (best == cluster.None || compareFor(v, c, pod, node, best) < 0) {
				best = node
			}
		}
		switch {
		case best != cluster.None:
			grants, _ := fit.Grants(v, v.Shape(shape), v.Node(best))
			steps = append(steps, engine.Step{Pod: pod, Place: cluster.Placement{Node: best, Shape: shape, Grants: grants}})
		case !evicted:
			if victim := victimOf(v, pod); victim != cluster.None {
				evicted = true
				steps = append(steps, engine.Step{Pod: victim, Place: cluster.Nowhere()}, engine.Step{Pod: pod, Place: v.Pod(victim).Placement})
			}
		}
	}
	return steps
}

func victimOf(v *cluster.View, pod cluster.PodID) cluster.PodID {
	victim := cluster.PodID(cluster.None)
	for i := range v.Pods.Len() {
		id, p := cluster.PodID(i), v.Pod(cluster.PodID(i))
		if !p.Phase.Charged() || p.Placement.Shape != v.Pod(pod).Spec.Shape || p.Spec.Priority >= v.Pod(pod).Spec.Priority {
			continue
		}
		if victim == cluster.None || p.Key < v.Pod(victim).Key {
			victim = id
		}
	}
	return victim
}

// careless gives devices that do not hold the pod: every place is refused.
func careless() *engine.Policy {
	return &engine.Policy{Name: "careless", Grants: func(v *cluster.View, _ decision.Cycle, _ cluster.PodID, _ cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool) {
		return []cluster.Grant{{Device: v.Node(node).Spec.FirstDevice, Milli: 2 * quantity.WholeGPU}}, true
	}}
}

// rules are the default ones.
func rules() *yield.Rules {
	out := yield.Default()
	return &out
}
