package sim

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// tidy looks whether a pod that found no place gets one when others move, and moves
// them. All who move have left before anybody comes.
func (r *run) tidy(pod *trace.Pod, snapshot *cluster.Snapshot, plan decision.Plan, m *gauge) (*cluster.Snapshot, decision.Plan, error) {
	if int64(r.result.Tidied.Moves+int(r.Tidy.AtOnce))*1000 > r.TidyMoves*int64(r.result.Placed) {
		return snapshot, plan, nil // the budget is used up, for now
	}
	shape := snapshot.Pod(plan.Waiting[0].Pod).Spec.Shape
	if at, known := r.futile[shape]; known && at == snapshot.Position() {
		return snapshot, plan, nil // a pod that asked for the same got nothing, and all is as it was then
	}
	snapshot, plan = r.decide(0, decision.CycleReview)
	if len(plan.Decisions) == 0 {
		r.futile[shape] = snapshot.Position()
	}
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

// LeastRules are the rules under which a move has to place so much compute at least, for
// as long as anybody looks.
func LeastRules(milli int64) *tidy.Rules {
	rules := tidy.Default()
	rules.PerHour, rules.Price = 0, milli*int64(rules.Horizon/moment.Second)
	return &rules
}

// reportTidied fills in what moves came to.
func (r *run) reportTidied() {
	t := r.result.Tidied
	if t == nil {
		return
	}
	t.BudgetPermille = float64(r.TidyMoves)
	t.LeastMilli = r.Tidy.Price / int64(r.Tidy.Horizon/moment.Second)
	if t.Moves > 0 {
		t.MilliPerMove = float64(t.MilliUnlocked) / float64(t.Moves)
	}
	if r.result.Placed > 0 {
		t.MovesPermille = 1000 * float64(t.Moves) / float64(r.result.Placed)
	}
}

// countMoves counts, in timed mode, the pods that are told to move.
func (c *clock) countMoves(bundle []decision.Decision) {
	if c.decider.Tidies == nil {
		return
	}
	if c.result.Moves == nil {
		c.result.Moves = new(float64)
	}
	for i := range bundle {
		if d := &bundle[i]; d.Because.Move != nil && (d.Action == cluster.ActionEvict || d.Action == cluster.ActionReplace) {
			*c.result.Moves++
		}
	}
}
