package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A pod that moves may be followed by another: its heir. Room is kept for that one, and
// once it runs, who was to be replaced goes. Both follow from what was decided before,
// whatever the policy says now.

// inherit places those for whom room is kept, without a search, and returns who is left in
// line. One that does not fit there any more has its turn as others do.
func (r *round) inherit(line []cluster.PodID) []cluster.PodID {
	if len(r.txn.Base().Legacies()) == 0 {
		return line
	}
	v := r.txn.View()
	heirs := slices.DeleteFunc(slices.Clone(line), func(pod cluster.PodID) bool { return v.Pod(pod).Spec.Owner == 0 })
	// Those who were named as heirs first.
	slices.SortFunc(heirs, func(a, b cluster.PodID) int {
		if x, y := v.Pod(a).Spec.HeirOf != "", v.Pod(b).Spec.HeirOf != ""; x != y {
			if x {
				return -1
			}
			return 1
		}
		return compareAlike(v, r.cycle.Now, a, b)
	})
	fits := func(pod cluster.PodID) func(*cluster.Placement) bool {
		return func(place *cluster.Placement) bool { return fit.CheckPod(v, pod, place.Shape, place.Node).None() }
	}
	placed := make(map[cluster.PodID]bool)
	for _, pod := range heirs {
		for _, g := range r.txn.Base().Legacies() {
			now := v.Legacy(g.ID)
			if now == nil || !now.Suits(v.Pod(pod)) || r.txn.Inherit(pod, g.ID, fits(pod)) != nil {
				continue
			}
			r.explain(pod, decision.Explanation{Policy: r.policy.Name, InPlaceOf: g.Name, Inherits: g.ID})
			r.memo.touch(g.Place.Node)
			r.used(v.Pod(pod).Spec.Queue)
			placed[pod] = true
			break
		}
	}
	return slices.DeleteFunc(line, func(pod cluster.PodID) bool { return placed[pod] })
}

// succeed tells those to go whose heirs run: all who are replaced for one thing together.
func (r *round) succeed() (out []decision.Decision) {
	v := r.txn.Base()
	for i := range v.Legacies() {
		g := &v.Legacies()[i]
		if !g.Surge || !runsFor(&v.View, g.Set) || r.cycle.Profile != 0 && v.Pod(g.Of).Spec.Policy != r.cycle.Profile {
			continue
		}
		p := v.Pod(g.Of)
		n := v.Node(p.Placement.Node)
		out = append(out, decision.Decision{
			ID: g.ID, Action: cluster.ActionEvict, Pod: g.Of, Subject: p.Key, Row: cluster.Ref{ID: int32(g.Of), Generation: p.Generation},
			Place: p.Placement, Host: cluster.Ref{ID: int32(p.Placement.Node), Generation: n.Generation}, RelyOn: n.State, Deadline: moment.Never,
			Because: decision.Explanation{Policy: r.policy.Name, ReplacedBy: v.Pod(g.Heir).Spec.Name},
		})
	}
	return out
}

// runsFor says whether the heirs of all who are replaced for one thing run.
func runsFor(v *cluster.View, set uint64) bool {
	for _, g := range v.Legacies() {
		if g.Surge && g.Set == set && (g.Heir == cluster.None || v.Pod(g.Heir).Phase != cluster.PhaseRunning) {
			return false
		}
	}
	return true
}
