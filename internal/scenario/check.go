package scenario

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
)

// Violation is a fault of Headrace, not of the file: an invariant that did not
// hold after a statement, or a panic within it.
type Violation struct{ What string }

func (v *Violation) Error() string { return v.What }

func violated(format string, args ...any) error {
	return &Violation{What: "invariant broken: " + fmt.Sprintf(format, args...)}
}

// check holds the present state against what must always hold: the books
// balance and no limit is exceeded; the next cycle is the same plan when decided
// again and with a fresh memo; deciding leaves the snapshot as it was; every pod
// that stays waiting has a reason.
func (in *interp) check() error {
	if err := cluster.Audit(in.view()); err != nil {
		return violated("%v", err)
	}
	snapshot := in.world.Snapshot()
	before := snapshot.Digest()
	if live := in.view().Digest(); live != before {
		return violated("a snapshot with digest %016x of a world with digest %016x", before, live)
	}
	c := in.nextCycle(decision.CycleArrival)
	first := engine.Decide(snapshot, c, in.policy, &in.memo)
	again := engine.Decide(snapshot, c, in.policy, &in.memo)
	fresh := engine.Decide(snapshot, c, in.policy, new(engine.Memo))
	if a, b := first.Digest(&snapshot.View), again.Digest(&snapshot.View); a != b {
		return violated("deciding twice gives two plans:\n%s\nand\n%s", brief(snapshot, &first), brief(snapshot, &again))
	}
	if a, b := first.Digest(&snapshot.View), fresh.Digest(&snapshot.View); a != b {
		return violated("a fresh memo gives another plan than the kept one:\n%s\nand\n%s", brief(snapshot, &fresh), brief(snapshot, &first))
	}
	if after := snapshot.Digest(); after != before {
		return violated("deciding changed the snapshot: digest %016x, it was %016x", after, before)
	}
	if err := obedient(snapshot, &first); err != nil {
		return err
	}
	if err := in.allOrNone(snapshot, &first); err != nil {
		return err
	}
	return in.reasoned(snapshot, &first)
}

// obedient holds the devices that a plan gives against what was asked for, which
// the last check of a placement leaves to the search: models, memory, links. It
// looks at pods with one request; the grants of several are not told apart.
func obedient(s *cluster.Snapshot, plan *decision.Plan) error {
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if d.Action != cluster.ActionBind || len(s.Shape(d.Place.Shape).Devices) != 1 {
			continue
		}
		r := &s.Shape(d.Place.Shape).Devices[0]
		first := s.Device(d.Place.Grants[0].Device).Spec
		for _, g := range d.Place.Grants {
			spec := s.Device(g.Device).Spec
			switch {
			case len(r.Models) > 0 && !slices.Contains(r.Models, spec.Model), spec.Memory > 0 && spec.Memory < max(r.MinMemory, r.Memory):
				return violated("%s: the card is not of a kind that was asked for", d.Line(&s.View))
			case r.SameIsland && spec.Island != first.Island, r.SameNUMA && spec.NUMA != first.NUMA:
				return violated("%s: the cards are not linked", d.Line(&s.View))
			case r.Parts && !s.Facts.Selects(r.Selector, g.Device) && s.Facts.PartsOf(r.Selector, g.Device) == 0,
				!r.Parts && (g.Profile != r.Profile || r.Profile == 0 && g.Milli != r.Milli):
				return violated("%s: it asks for %v of a card", d.Line(&s.View), r.Milli)
			}
		}
	}
	return nil
}

// reasoned says whether each waiting pod is either placed by the plan or has a
// reason in it. That the policy lets it wait is one only for a policy that
// chooses for itself.
func (in *interp) reasoned(s *cluster.Snapshot, plan *decision.Plan) error {
	answered := make(map[cluster.PodID]bool)
	for i := range plan.Decisions {
		answered[plan.Decisions[i].Pod] = true
	}
	for _, w := range plan.Waiting {
		choosy := in.policy.Choose != nil || in.policy.Round != nil
		if w.Why.None() || w.Why.Code == decision.PolicyWaits && !choosy {
			return violated("pod %s waits although nothing binds it", s.Pod(w.Pod).Spec.Name)
		}
		answered[w.Pod] = true
	}
	for _, id := range s.AppendWaiting(nil) {
		if !answered[id] {
			return violated("pod %s waits without a reason", s.Pod(id).Spec.Name)
		}
	}
	for i := range s.Pods.Len() {
		if p := s.Pod(cluster.PodID(i)); p.Phase == cluster.PhasePlacing && p.Reserved && !answered[cluster.PodID(i)] {
			return violated("pod %s, for which room is reserved, waits without a reason", p.Spec.Name)
		}
	}
	return nil
}

// brief is a plan in one line.
func brief(s *cluster.Snapshot, plan *decision.Plan) string {
	lines := planLines(&s.View, plan)
	if len(lines) > 8 {
		lines = append(lines[:8], fmt.Sprintf("… %d more", len(lines)-8))
	}
	out := ""
	for i, line := range lines {
		if i > 0 {
			out += "; "
		}
		out += line
	}
	return out
}

// nextCycle is the cycle that a decision now would be.
func (in *interp) nextCycle(kind decision.CycleKind) decision.Cycle {
	return decision.Cycle{Number: in.cycle + 1, Now: in.now, Kind: kind, Seed: in.seed}
}
