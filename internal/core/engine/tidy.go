package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/tidy"
)

// Tidying returns the policy with pods moved where that pays, by some rules; nil: none
// are.
func (p *Policy) Tidying(rules *tidy.Rules) *Policy {
	out := *p
	out.Tidies = rules
	return &out
}

// tidy moves running pods where that makes room which is worth more than the moves.
func (r *round) tidy() {
	rules := r.policy.Tidies
	r.movers = tidy.New(r.txn, r.cycle, *rules, &movers{round: r, known: make([]roominess, r.txn.View().Shapes.Len())})
	if rules.For&tidy.Waiting != 0 {
		r.tidyForWaiting()
	}
	for rules.For&tidy.Demand != 0 && r.movers.Allowed() > 0 {
		set := r.movers.Improve()
		if set == nil {
			break
		}
		r.tellMoves(set, "", set.Gain, "")
	}
	for rules.For&tidy.Nodes != 0 && r.movers.Allowed() > 0 {
		set := r.movers.Empty()
		if set == nil {
			break
		}
		r.tellMoves(set, "", set.Gain, r.txn.View().Node(set.Node).Spec.Name)
	}
}

// tidyForWaiting makes room for those who wait, in the order of their turn.
func (r *round) tidyForWaiting() {
	line := make([]cluster.PodID, 0, len(r.waiting))
	for i := range r.waiting {
		// A worker goes only where its job is, and that is not moved.
		if w := &r.waiting[i]; w.Why.Code.LeavingHelps() && r.workerOf(w.Pod) == nil {
			line = append(line, w.Pod)
		}
	}
	if len(line) == 0 || r.movers.Allowed() <= 0 {
		return
	}
	r.lineUp(line)
	refused := make(map[claimant]bool) // nobody's moving helps those who ask alike, until somebody has moved
	units := make(map[cluster.GroupID]bool)
	any := false
	for pod, more := r.next(); more && !r.movers.GaveUp() && r.movers.Allowed() > 0; pod, more = r.next() {
		spec := r.txn.View().Pod(pod).Spec
		of := claimant{of: tie{kin: r.txn.View().Ties(pod), shape: spec.Shape}, queue: spec.Queue}
		unit := r.waitingUnit(pod)
		switch {
		case r.placed(pod) || r.orphaned(pod) || unit == cluster.None && refused[of] || unit != cluster.None && units[unit]:
		case unit != cluster.None && r.unlockUnit(unit), unit == cluster.None && r.unlock(pod):
			any = true
			clear(refused)
		case unit != cluster.None:
			units[unit] = true
		default:
			refused[of] = true
		}
	}
	r.line = turns{}
	if any {
		r.stillWaiting()
	}
}

// stillWaiting drops those who have got a place from those who wait.
func (r *round) stillWaiting() {
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		if r.placed(w.Pod) {
			continue
		}
		if w.Why.Members > 0 && r.waitingUnit(w.Pod) == cluster.None {
			w.Why = r.binding(w.Pod) // its group has started without it
		}
		kept = append(kept, w)
	}
	r.waiting = kept
}

// unlock makes room for one pod.
func (r *round) unlock(pod cluster.PodID) bool {
	v := r.txn.View()
	if !fit.Queue(v, pod, v.Pod(pod).Spec.Shape).None() {
		return false
	}
	g := tidy.Goal{Pod: pod, Gain: r.movers.GainOf(pod)}
	set := r.movers.Unlock(&g, nil)
	if set == nil || !r.movers.Carry(&g, set) {
		return false
	}
	r.tellMoves(set, v.Pod(pod).Spec.Name, g.Gain, "")
	return true
}

// tellMoves says why pods move.
func (r *round) tellMoves(set *tidy.Set, taker string, gain int64, node string) {
	for i := range set.Moves {
		because := r.because[set.Moves[i].Pod]
		because.Policy = r.policy.Name
		because.Move = &decision.Move{For: taker, Node: node, Gain: gain, Price: set.Price, Moves: int32(len(set.Moves))}
		if pod := r.txn.Base().Pod(set.Moves[i].Pod); r.movers.Surges(pod) {
			because.Move.Surge, because.Move.Set = true, set.Key(r.txn.Base())
		}
		r.explain(set.Moves[i].Pod, because)
	}
}

// unlockUnit makes room for what a unit lacks of its minimum, in the first of its domains
// where moves are worth it: who moves is found member by member, then the unit starts as
// it does wherever there is room.
func (r *round) unlockUnit(unit cluster.GroupID) bool {
	own := &r.squads[unit]
	waiting := r.unseated(own.members)
	if r.lacking(unit) != nil || len(waiting) == 0 {
		return false
	}
	v, gain := r.txn.View(), int64(0)
	missing := int(v.TreeMinimum(unit) - v.Group(unit).TreePlaced)
	members := slices.Clone(waiting)
	r.inOrder(members)
	for _, pod := range members[:min(max(missing, 0), len(members))] {
		gain += r.movers.GainOf(pod)
	}
	s := &sweep{round: r}
	domains := s.domainsOf(unit)
	for i := 0; i < len(domains) && !r.movers.GaveUp(); i++ {
		d := &domains[i]
		moves := r.guessMoves(members, missing, d.nodes, gain)
		if moves == nil || moves.Price > gain {
			continue
		}
		why := own.why
		own.why = nil
		if r.attempt(func() bool {
			return r.movers.Move(moves, func() bool { return s.startIn(unit, d.spot) })
		}) {
			r.tellMoves(moves, v.Group(unit).Name, gain, "")
			return true
		}
		own.why = why
	}
	return false
}

// guessMoves is who moves in some nodes where members find room one by one; nil where
// not enough of them do, or nobody moves. Everything is as before afterwards.
func (r *round) guessMoves(members []cluster.PodID, missing int, nodes []cluster.NodeID, gain int64) *tidy.Set {
	all := &tidy.Set{Gain: gain}
	var sets []*tidy.Set
	r.attempt(func() bool {
		for _, pod := range members {
			if missing == 0 {
				break
			}
			shape := r.txn.View().Pod(pod).Spec.Shape
			if !fit.Queue(r.txn.View(), pod, shape).None() {
				continue
			}
			if node := r.chooseAmong(pod, shape, gang.Where{Nodes: nodes, Island: cluster.None}); node != cluster.None && r.take(pod, shape, node, cluster.None) {
				missing--
				continue
			}
			g := tidy.Goal{Pod: pod, Gain: gain - all.Price}
			set := r.movers.Unlock(&g, nodes)
			if set == nil || !r.movers.Carry(&g, set) {
				continue
			}
			sets = append(sets, set)
			all.Moves, all.Price = append(all.Moves, set.Moves...), all.Price+set.Price
			missing--
		}
		return false
	})
	for _, set := range sets {
		r.movers.Forget(set)
	}
	if missing > 0 || len(all.Moves) == 0 || len(all.Moves) > int(r.policy.Tidies.AtOnce) || !r.movers.Alike(all.Moves) {
		return nil
	}
	return all
}

// timeMove says of an eviction that moves a pod who saves its work first, and until when
// its next place is kept; and when it is gone.
func (r *round) timeMove(d *decision.Decision) (gone moment.Instant) {
	d.Yields, gone = d.Because.Move.For != "", r.cycle.Now
	rules := r.policy.Tidies
	if d.Action == cluster.ActionReplace {
		d.Target.Until, d.Target.Wait = gone.Add(rules.Come), rules.Start
		return d.Target.Until.Add(rules.Start)
	}
	if until, saves := r.movers.SavesFirst(d.Pod); saves {
		d.Save, d.Deadline, gone = true, until, until
	}
	if d.Target != nil && d.Target.Bind == 0 {
		d.Target.Wait = rules.Keep
	} else if d.Target != nil {
		d.Target.Until = gone.Add(r.policy.hold())
	}
	return gone
}
