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
		{"expect", form{usage: "kind|queue NAME low= likely= high= | need KIND share= gpu-memory=", least: 2, most: 2, fields: []string{"low", "likely", "high", "share", "gpu-memory", "charge", "runs", "after"}}, false, (*interp).expect},
		{"after", form{usage: "SPAN", least: 1, most: 1}, false, (*interp).after},
		{"decide", form{usage: "[review] [dry] [hold-outcomes] [tries=N]", flags: []string{"review", "dry", "hold-outcomes"}, fields: []string{"tries"}}, false, (*interp).decide},
		{"rounds", form{usage: "[MAX]", most: 1}, false, (*interp).rounds},
		{"outcome", form{usage: "NAME bound|refused|started|evicted|not-evicted|resized|not-resized", least: 2, most: 2}, false, (*interp).outcome},
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
	return in.moveTo(in.now.Add(s))
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
		line := "wait " + v.Pod(w.Pod).Spec.Name + ": " + w.Why.Describe(v)
		if w.Reserved != nil {
			line += "; " + w.Reserved.Describe(v, moment.Instant.String)
		}
		if w.Starts != nil {
			line += "; " + w.Starts.Describe(moment.Instant.String)
		}
		out = append(out, line)
	}
	if out == nil {
		return []string{"nothing to do"}
	}
	return out
}

// commit accepts all decisions of a plan and, unless they are held, lets them
// succeed at once, in the order of the plan; who saves first goes when that is done. A decision that the very world it
// was made for refuses is a fault.
func (in *interp) commit(v *cluster.View, plan *decision.Plan, held bool) error {
	in.cycle++
	for _, bundle := range plan.Bundles() {
		if err := in.apply(world.Acceptance(bundle)); err != nil {
			return violated("the plan's own world refuses %s: %v", bundle[0].Line(v), err)
		}
		in.noteEvictions(v, bundle, plan)
		for i := range bundle {
			if err := in.succeed(v, &bundle[i], held); err != nil {
				return err
			}
		}
	}
	return nil
}

// succeed lets an accepted decision be carried out, unless it is held: at once, or
// after the time that the cluster takes.
func (in *interp) succeed(v *cluster.View, d *decision.Decision, held bool) error {
	if d.Action == cluster.ActionPrefetch {
		if held {
			return nil
		}
		return in.apply(world.PrefetchDone{Node: v.Node(d.Prefetch.Node).Spec.Name, Artifact: v.Artifact(d.Prefetch.Artifact).Name})
	}
	if d.Action == cluster.ActionScale {
		return nil // it is done with its acceptance
	}
	name := v.Pod(d.Pod).Spec.Name
	if d.Action != cluster.ActionResize {
		in.because[name] = d.Because
	}
	if d.Action == cluster.ActionReplace {
		return nil // its owner makes another
	}
	if d.Action == cluster.ActionBind && in.world.Holds(d) {
		in.held = append(in.held, *d)
		in.notes[d.ID] = note{outside: in.outside, quiet: held}
		return nil
	}
	if held {
		return nil
	}
	return in.carryOut(v, d)
}

// carryOut lets a decision happen, now or after the time that the cluster takes.
func (in *interp) carryOut(v *cluster.View, d *decision.Decision) error {
	name := v.Pod(d.Pod).Spec.Name
	if d.Action == cluster.ActionResize {
		if err := in.apply(world.Resized{Name: name}); err != nil {
			return violated("after %s: %v", d.Line(v), err)
		}
		return nil
	}
	evict := d.Action == cluster.ActionEvict
	span, kind := in.slow.bind, dueBound
	if evict {
		if d.Because.ReplacedBy == "" {
			if err := in.spend(in.guards[name]); err != nil {
				return err
			}
		}
		span, kind = in.stopping(name), dueGone
		if d.Save {
			span = d.Deadline.Since(in.now)
		}
	}
	if span > 0 {
		return in.plan(due{at: in.now.Add(span), intent: d.ID, name: name, kind: kind})
	}
	if in.carry(name, evict); in.fault != nil {
		return violated("after %s: %v", d.Line(v), in.fault)
	}
	return nil
}

// note is what is remembered of a bind that holds room: how much had happened from
// outside when it was decided, and whether the file tells its outcome.
type note struct {
	outside uint64
	quiet   bool
}

// release carries out the binds whose evictions have ended, as far as they are held
// still; those that have no room after all wait again: something from outside must
// have come between.
func (in *interp) release() error {
	for _, name := range in.world.Lapsed(in.now) {
		in.outside++
		if err := in.apply(world.HoldDropped{Name: name}); err != nil {
			return err
		}
	}
	if err := in.forlorn(); err != nil {
		return err
	}
	plan := decision.Plan{Decisions: in.held}
	in.held = nil
	for _, bundle := range plan.Bundles() {
		switch {
		case !in.world.Holds(&bundle[0]):
		case slices.ContainsFunc(bundle, func(d decision.Decision) bool { return in.world.UnderWay(d.After) }):
			in.held = append(in.held, bundle...)
		default:
			if err := in.takeRoom(bundle); err != nil {
				return err
			}
		}
	}
	return in.withdraw()
}

// takeRoom lets a bundle have the room that it has held.
func (in *interp) takeRoom(bundle []decision.Decision) error {
	noted := in.notes[bundle[0].ID]
	name := in.view().Pod(bundle[0].Pod).Spec.Name
	refusal := in.apply(world.Acceptance(bundle))
	if refusal == nil {
		for i := range bundle {
			if noted.quiet && in.slow.bind == 0 {
				continue
			}
			if err := in.carryOut(in.view(), &bundle[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := in.apply(world.HoldDropped{Name: name}); err != nil {
		return violated("%v", err)
	}
	if noted.outside == in.outside {
		return violated("pods were evicted for %s, and it does not start: %v", name, refusal)
	}
	return nil
}

// withdraw takes back what is not needed any more.
func (in *interp) withdraw() error {
	for _, name := range in.world.NeedlessLoans() {
		in.outside++
		if err := in.apply(world.ResizeRefused{Name: name}); err != nil {
			return err
		}
	}
	for _, name := range in.world.Needless() {
		if slices.ContainsFunc(in.due, func(d due) bool { return d.kind == dueGone && d.name == name }) {
			continue // it was told to go, and does
		}
		in.outside++
		if err := in.apply(world.EvictRefused{Name: name, Withdrawn: true}); err != nil {
			return err
		}
		in.endEviction(name, "withdrawn")
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
	decisions, before := 0, len(in.evicted)
	for round := range most {
		snapshot := in.world.Snapshot()
		plan := engine.Decide(snapshot, in.nextCycle(decision.CycleReview), in.policy, &in.memo)
		if len(plan.Decisions) == 0 {
			return []string{fmt.Sprintf("quiet after %s, %s", counted(int(round), "round"), counted(decisions, "decision"))}, nil
		}
		if err := in.commit(&snapshot.View, &plan, false); err != nil {
			return nil, err
		}
		if name := in.evictedTwice(before); name != "" {
			return nil, violated("pod %s was evicted twice while nothing happened", name)
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
	kinds := []string{"bound", "refused", "started", "evicted", "not-evicted", "resized", "not-resized"}
	switch slices.Index(kinds, c.args[1]) {
	case 0:
		return nil, in.apply(world.Bound{Name: name})
	case 1:
		if err := in.apply(world.BindRefused{Name: name}); err != nil {
			return nil, err
		}
		in.backsOff(name)
		return nil, in.fault
	case 2:
		return nil, in.apply(world.Started{Name: name})
	case 3:
		err := in.departed(name)
		if err == nil {
			in.endEviction(name, "gone")
		}
		return nil, err
	case 4:
		err := in.apply(world.EvictRefused{Name: name})
		if err == nil {
			in.endEviction(name, "refused")
		}
		return nil, err
	case 5:
		return nil, in.apply(world.Resized{Name: name})
	case 6:
		return nil, in.apply(world.ResizeRefused{Name: name})
	}
	return nil, fmt.Errorf("outcome %s: kind %q: %s", name, c.args[1], suggest(c.args[1], kinds)[2:])
}

// evict tells a pod to go, as an operator would. It leaves when its outcome
// says so, or after the time that it takes to stop.
func (in *interp) evict(name string) error {
	id, err := in.pod(name)
	if err != nil {
		return err
	}
	in.cycle++
	p := in.view().Pod(id)
	d := decision.Decision{
		ID:     chance.Hash(in.cycle, p.Key, uint64(p.Attempt), uint64(cluster.ActionEvict)),
		Action: cluster.ActionEvict, Pod: id, Subject: p.Key, Row: cluster.Ref{ID: int32(id), Generation: p.Generation},
		Place: p.Placement, Deadline: moment.Never,
	}
	if err := in.apply(world.Accepted{Decision: d}); err != nil {
		return err
	}
	in.evicted = append(in.evicted, eviction{pod: name, job: in.jobName(p.Spec.Job), taker: "an operator", at: in.now, outcome: "under way"})
	if span := in.stopping(name); span > 0 {
		return in.plan(due{at: in.now.Add(span), intent: d.ID, name: name, kind: dueGone})
	}
	return nil
}
