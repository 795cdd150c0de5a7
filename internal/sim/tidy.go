package sim

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// tidy looks whether a pod that found no place gets one when others move, and moves
// them. All who move have left before anybody comes.
func (r *run) tidy(pod *trace.Pod, m *gauge) (*cluster.Snapshot, decision.Plan, error) {
	snapshot, plan := r.decide(0, decision.CycleReview)
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionEvict {
			if err := r.apply(0, world.Accepted{Decision: *d}); err != nil {
				return nil, plan, err
			}
			r.result.Tidied.Moves++
		}
	}
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionEvict {
			if err := r.apply(0, world.Evicted{Name: snapshot.Pod(d.Pod).Spec.Name}); err != nil {
				return nil, plan, err
			}
			m.remeasure(r.world.View(), d.Place.Node)
		}
	}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if d.Action != cluster.ActionBind {
			continue
		}
		name := snapshot.Pod(d.Pod).Spec.Name
		if err := r.apply(0, world.Accepted{Decision: *d}); err != nil {
			return nil, plan, err
		}
		if err := r.apply(0, world.Bound{Name: name}); err != nil {
			return nil, plan, err
		}
		m.remeasure(r.world.View(), d.Place.Node)
		if name == pod.Name {
			r.result.Placed++
			m.allocated += int64(pod.GPUDemand())
			r.result.Tidied.PodsUnlocked++
			r.result.Tidied.MilliUnlocked += int64(pod.GPUDemand())
		}
	}
	return snapshot, plan, nil
}
