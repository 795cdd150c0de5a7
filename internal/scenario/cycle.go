package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

func cycleStatements() []statement {
	return []statement{
		{"after", form{usage: "SPAN", least: 1, most: 1}, false, (*interp).after},
		{"decide", form{usage: "[review] [dry] [hold-outcomes] [tries=N]", flags: []string{"review", "dry", "hold-outcomes"}, fields: []string{"tries"}}, false, (*interp).decide},
		{"rounds", form{usage: "[MAX]", most: 1}, false, (*interp).rounds},
		{"outcome", form{usage: "NAME bound|refused|started|evicted|resized|not-resized", least: 2, most: 2}, false, (*interp).outcome},
		{"evict", form{usage: "NAME…", least: 1, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return in.eachPod(c, in.evict)
		}},
	}
}

// after moves the clock.
func (in *interp) after(c *call) ([]string, error) {
	s, ok := parseSpan(c.args[0])
	if !ok || in.now.Add(s) > moment.Instant(maxSpan) {
		return nil, fmt.Errorf("after: span %q: want one as in 10s or 1h30m, up to 100 years in all", c.args[0])
	}
	if err := in.beginEpochs(in.now.Add(s)); err != nil {
		return nil, err
	}
	in.now = in.now.Add(s)
	return nil, nil
}

// decide runs one cycle and prints its plan.
func (in *interp) decide(c *call) ([]string, error) {
	r := c.reader("decide")
	kind := decision.CycleArrival
	if r.has("review") {
		kind = decision.CycleReview
	}
	cycle := in.nextCycle(kind)
	if cycle.Budget = r.number("tries", 0, 1, math.MaxInt32); r.err != nil {
		return nil, r.err
	}
	snapshot := in.world.Snapshot()
	plan := engine.Decide(snapshot, cycle, in.policy, &in.memo)
	lines := planLines(&snapshot.View, &plan)
	if r.has("dry") {
		return lines, nil
	}
	return lines, in.commit(&snapshot.View, &plan, r.has("hold-outcomes"))
}

// planLines prints a plan: decisions in order, then, by name, who waits for
// what.
func planLines(v *cluster.View, plan *decision.Plan) []string {
	var out []string
	for i := range plan.Decisions {
		out = append(out, plan.Decisions[i].Line(v))
	}
	waiting := slices.Clone(plan.Waiting)
	slices.SortFunc(waiting, func(a, b decision.Waiting) int { return compareNames(v.Pod(a.Pod).Spec.Name, v.Pod(b.Pod).Spec.Name) })
	for _, w := range waiting {
		out = append(out, "wait "+v.Pod(w.Pod).Spec.Name+": "+w.Why.Describe(v))
	}
	if out == nil {
		return []string{"nothing to do"}
	}
	return out
}

// commit accepts all decisions of a plan and, unless they are held, lets them
// succeed at once, in the order of the plan. A decision that the very world it
// was made for refuses is a fault.
func (in *interp) commit(v *cluster.View, plan *decision.Plan, held bool) error {
	in.cycle++
	for _, bundle := range plan.Bundles() {
		if err := in.apply(world.Acceptance(bundle)); err != nil {
			return violated("the plan's own world refuses %s: %v", bundle[0].Line(v), err)
		}
		for i := range bundle {
			if err := in.succeed(v, &bundle[i], held); err != nil {
				return err
			}
		}
	}
	return nil
}

// succeed lets an accepted decision be carried out, unless it is held.
func (in *interp) succeed(v *cluster.View, d *decision.Decision, held bool) error {
	name := v.Pod(d.Pod).Spec.Name
	if d.Action != cluster.ActionResize {
		in.because[name] = d.Because
	}
	if d.Action == cluster.ActionBind && in.world.Holds(d) {
		in.held = append(in.held, *d)
		return nil
	}
	if held {
		return nil
	}
	var outcome world.Event = world.Bound{Name: name}
	switch d.Action {
	case cluster.ActionEvict:
		outcome = world.Evicted{Name: name}
	case cluster.ActionResize:
		outcome = world.Resized{Name: name}
	}
	if err := in.apply(outcome); err != nil {
		return violated("after %s: %v", d.Line(v), err)
	}
	return nil
}

// release carries out the binds whose evictions have ended, as far as they are held
// still; those that have no room after all wait again. Their outcome is to be told.
func (in *interp) release() error {
	for _, name := range in.world.Lapsed(in.now) {
		if err := in.apply(world.HoldDropped{Name: name}); err != nil {
			return err
		}
	}
	plan := decision.Plan{Decisions: in.held}
	in.held = nil
	for _, bundle := range plan.Bundles() {
		switch {
		case !in.world.Holds(&bundle[0]):
		case slices.ContainsFunc(bundle, func(d decision.Decision) bool { return in.world.UnderWay(d.After) }):
			in.held = append(in.held, bundle...)
		case in.apply(world.Acceptance(bundle)) != nil:
			if err := in.apply(world.HoldDropped{Name: in.view().Pod(bundle[0].Pod).Spec.Name}); err != nil {
				return err
			}
		}
	}
	for _, name := range in.world.NeedlessLoans() {
		if err := in.apply(world.ResizeRefused{Name: name}); err != nil {
			return err
		}
	}
	for _, name := range in.world.Needless() {
		if err := in.apply(world.EvictRefused{Name: name}); err != nil {
			return err
		}
	}
	return nil
}

// Limits of rounds.
const (
	usualRounds = 10
	maxRounds   = 1000
)

// rounds decides until nothing changes any more, the clock standing still.
func (in *interp) rounds(c *call) ([]string, error) {
	most := int64(usualRounds)
	if len(c.args) > 0 {
		n, err := strconv.ParseInt(c.args[0], 10, 64)
		if err != nil || n < 1 || n > maxRounds {
			return nil, fmt.Errorf("rounds: most %q: want an integer from 1 to %d", c.args[0], maxRounds)
		}
		most = n
	}
	decisions := 0
	for round := range most {
		snapshot := in.world.Snapshot()
		plan := engine.Decide(snapshot, in.nextCycle(decision.CycleReview), in.policy, &in.memo)
		if len(plan.Decisions) == 0 {
			return []string{fmt.Sprintf("quiet after %s, %s", counted(int(round), "round"), counted(decisions, "decision"))}, nil
		}
		if err := in.commit(&snapshot.View, &plan, false); err != nil {
			return nil, err
		}
		decisions += len(plan.Decisions)
	}
	return []string{fmt.Sprintf("not quiet after %s, %s", counted(int(most), "round"), counted(decisions, "decision"))}, nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// outcome tells what came of a decision that was held.
func (in *interp) outcome(c *call) ([]string, error) {
	name := c.args[0]
	if _, err := in.pod(name); err != nil {
		return nil, err
	}
	kinds := []string{"bound", "refused", "started", "evicted", "resized", "not-resized"}
	switch slices.Index(kinds, c.args[1]) {
	case 0:
		return nil, in.apply(world.Bound{Name: name})
	case 1:
		return nil, in.apply(world.BindRefused{Name: name})
	case 2:
		return nil, in.apply(world.Started{Name: name})
	case 3:
		return nil, in.apply(world.Evicted{Name: name})
	case 4:
		return nil, in.apply(world.Resized{Name: name})
	case 5:
		return nil, in.apply(world.ResizeRefused{Name: name})
	}
	return nil, fmt.Errorf("outcome %s: kind %q: %s", name, c.args[1], suggest(c.args[1], kinds)[2:])
}

// evict tells a pod to go, as an operator would. It leaves when its outcome
// says so.
func (in *interp) evict(name string) error {
	id, err := in.pod(name)
	if err != nil {
		return err
	}
	in.cycle++
	p := in.view().Pod(id)
	return in.apply(world.Accepted{Decision: decision.Decision{
		ID:     chance.Hash(in.cycle, p.Key, uint64(p.Attempt), uint64(cluster.ActionEvict)),
		Action: cluster.ActionEvict, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation},
		Place: p.Placement, Deadline: moment.Never,
	}})
}
