package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

func timeStatements() []statement {
	return []statement{
		{"latency", form{usage: "[bind=2s] [start=10s] [evict=30s]", fields: []string{"bind", "start", "evict"}}, false, (*interp).setLatency},
		{"refuse", form{usage: "bind|evict POD [times=N]", least: 2, most: 2, fields: []string{"times"}}, false, (*interp).refuse},
		{"at", form{usage: "SPAN STATEMENT"}, true, (*interp).at},
		{"flap", form{usage: "NODE every=30s [times=3]", least: 1, most: 1, fields: []string{"every", "times"}}, false, (*interp).flap},
		{"run", form{usage: "SPAN", least: 1, most: 1}, false, (*interp).runFor},
	}
}

// Limits on what is to come, and on how long a run is followed.
const (
	maxDue      = 10_000
	maxRun      = moment.Day
	maxFlaps    = 100
	reviewEvery = 10 * moment.Second
	// checkpointEvery is how far beliefs may be behind after a restart.
	checkpointEvery = moment.Minute
)

// latencies say how long the cluster takes to do what it is told.
type latencies struct{ bind, start, evict moment.Span }

// due is something that happens when the clock gets there.
type due struct {
	at     moment.Instant
	intent uint64 // of the decision whose outcome it is; 0: of none
	name   string // of the pod
	stmt   *stmt  // what a file says for then; nil: an outcome
	kind   dueKind
}

type dueKind uint8

const (
	dueStatement dueKind = iota
	dueBound
	dueStarted
	dueGone
	dueResume
	dueForlorn
)

// refusal is what the cluster will not do, and how many times more; -1: ever.
type refusal struct {
	evict bool
	pod   string
	left  int64
}

func (in *interp) setLatency(c *call) ([]string, error) {
	r := c.reader("latency")
	next := latencies{bind: r.span("bind", 0), start: r.span("start", 0), evict: r.span("evict", 0)}
	if r.err == nil {
		in.slow = next
	}
	return nil, r.err
}

// refuse says which write will fail.
func (in *interp) refuse(c *call) ([]string, error) {
	kinds := []string{"bind", "evict"}
	kind := slices.Index(kinds, c.args[0])
	if kind < 0 {
		return nil, fmt.Errorf("refuse: kind %q: want one of bind, evict", c.args[0])
	}
	if _, err := in.pod(c.args[1]); err != nil {
		return nil, fmt.Errorf("refuse: %w", err)
	}
	r := c.reader("refuse " + c.args[0])
	next := refusal{evict: kind == 1, pod: c.args[1], left: r.number("times", -1, 0, 1000)}
	if r.err != nil {
		return nil, r.err
	}
	in.refusals = slices.DeleteFunc(in.refusals, func(f refusal) bool { return f.evict == next.evict && f.pod == next.pod })
	if next.left != 0 {
		in.refusals = append(in.refusals, next)
	}
	return nil, nil
}

// refused says whether a write fails, and counts it.
func (in *interp) refused(evict bool, pod string) bool {
	for i := range in.refusals {
		f := &in.refusals[i]
		if f.evict != evict || f.pod != pod {
			continue
		}
		if f.left--; f.left == 0 {
			in.refusals = slices.Delete(in.refusals, i, i+1)
		}
		return true
	}
	return false
}

// at writes a statement down for later.
func (in *interp) at(c *call) ([]string, error) {
	_, rest, _ := strings.Cut(c.text, " ")
	when, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
	span, ok := parseSpan(when)
	if !ok || in.now.Add(span) > moment.Instant(maxSpan) {
		return nil, fmt.Errorf("at: span %q: want one as in 10s or 1h30m, then a statement", when)
	}
	later := split(text)
	i := slices.Index(in.names, later.name)
	if i < 0 {
		return nil, fmt.Errorf("at %s: statement %q: no such statement%s", when, later.name, suggest(later.name, in.names))
	}
	if slices.Contains([]string{"at", "after", "run", "flap"}, later.name) {
		return nil, fmt.Errorf("at %s: statement %q: it moves the clock itself", when, later.name)
	}
	if err := later.conform(&in.table[i].form); err != nil {
		return nil, fmt.Errorf("at %s: %w", when, err)
	}
	return nil, in.plan(due{at: in.now.Add(span), stmt: &stmt{text: strings.TrimSpace(text), block: c.block}})
}

// flap takes a node away from new work and gives it back, time after time.
func (in *interp) flap(c *call) ([]string, error) {
	name := c.args[0]
	if _, err := in.node(name); err != nil {
		return nil, err
	}
	r := c.reader("flap " + name)
	every, times := r.span("every", 0), r.number("times", 1, 1, maxFlaps)
	if r.err == nil && every < 2 {
		r.fail("every", r.text("every", ""), "a span of time, as in 30s")
	}
	if r.err == nil && in.now.Add(every*moment.Span(times)) > moment.Instant(maxSpan) {
		r.fail("every", r.text("every", ""), "a shorter span")
	}
	for k := range times {
		if r.err != nil {
			break
		}
		down := in.now.Add(every * moment.Span(k)).Add(every / 2)
		r.err = in.plan(due{at: down, stmt: &stmt{text: "node-life " + name + " launching"}})
		if r.err == nil {
			r.err = in.plan(due{at: in.now.Add(every * moment.Span(k+1)), stmt: &stmt{text: "node-life " + name + " ready"}})
		}
	}
	return nil, r.err
}

// plan writes down what is to come, in order of time and then of writing.
func (in *interp) plan(d due) error {
	if len(in.due) >= maxDue {
		return fmt.Errorf("at %v: %d things are to come already: at most %d", d.at, len(in.due), maxDue)
	}
	i, _ := slices.BinarySearchFunc(in.due, d, func(a, b due) int {
		if a.at <= b.at {
			return -1
		}
		return 1
	})
	in.due = slices.Insert(in.due, i, d)
	return nil
}

// runFor lets the scheduler work while the clock goes: a cycle whenever something
// happened, and one that looks at everything every ten seconds.
func (in *interp) runFor(c *call) ([]string, error) {
	s, ok := parseSpan(c.args[0])
	if !ok || s > maxRun || in.now.Add(s) > moment.Instant(maxSpan) {
		return nil, fmt.Errorf("run: span %q: want one as in 10s or 1h30m, up to %v", c.args[0], maxRun)
	}
	var out, waiting []string
	start, until := in.now, in.now.Add(s)
	kind := decision.CycleReview
	for {
		lines, waits, err := in.cycleNow(kind)
		if out = append(out, lines...); err != nil {
			return out, err
		}
		waiting = waits
		next := start.Add((in.now.Since(start)/reviewEvery + 1) * reviewEvery)
		kind = decision.CycleReview
		if len(in.due) > 0 && in.due[0].at < next {
			next, kind = in.due[0].at, decision.CycleArrival
		}
		if next > until {
			break
		}
		happened, err := in.moveTo(next)
		if out = append(out, happened...); err != nil {
			return out, err
		}
	}
	happened, err := in.moveTo(until)
	out = append(append(out, happened...), waiting...)
	if out == nil {
		out = []string{"nothing happens"}
	}
	return out, err
}

// cycleNow decides and lets the plan be carried out.
func (in *interp) cycleNow(kind decision.CycleKind) (decided, waiting []string, err error) {
	snapshot := in.world.Snapshot()
	plan := engine.Decide(snapshot, in.nextCycle(kind), in.policy, &in.memo)
	for i := range plan.Decisions {
		decided = append(decided, fmt.Sprintf("%v: %s", in.now, plan.Decisions[i].Line(&snapshot.View)))
	}
	rest := plan
	rest.Decisions = nil
	if len(plan.Waiting) > 0 {
		waiting = planLines(&snapshot.View, &rest)
	}
	if len(plan.Decisions) == 0 {
		return decided, waiting, nil
	}
	if err = in.commit(&snapshot.View, &plan, false); err == nil {
		err = in.settled()
	}
	return decided, waiting, err
}

// settled carries out what can be now, and looks at the invariants.
func (in *interp) settled() error {
	if err := in.release(); err != nil {
		return err
	}
	if err := in.watchLegacies(); err != nil {
		return err
	}
	return in.check()
}

// moveTo moves the clock, and lets happen what lies on the way.
func (in *interp) moveTo(until moment.Instant) ([]string, error) {
	var out []string
	for len(in.due) > 0 && in.due[0].at <= until {
		d := in.due[0]
		in.due = slices.Delete(in.due, 0, 1)
		if err := in.tick(d.at); err != nil {
			return out, err
		}
		lines, err := in.happen(&d)
		if out = append(out, lines...); err != nil {
			return out, err
		}
		if err := in.settled(); err != nil {
			return out, err
		}
		out = append(out, in.tellSaid()...)
	}
	return out, in.tick(until)
}

// tick moves the clock alone, and begins the quota epochs on its way.
func (in *interp) tick(until moment.Instant) error {
	if err := in.beginEpochs(until); err != nil {
		return err
	}
	if at := moment.Instant(int64(until) / int64(checkpointEvery) * int64(checkpointEvery)); at >= in.now && until > 0 {
		in.kept = in.world.Beliefs(at)
	}
	in.now = until
	return nil
}

// happen lets one thing happen and says what it was.
func (in *interp) happen(d *due) ([]string, error) {
	stamp := fmt.Sprintf("%v: ", in.now)
	switch d.kind {
	case dueStatement:
		lines, err := in.do(d.stmt)
		if broken, ok := err.(*Violation); ok {
			return nil, broken
		}
		if err != nil {
			lines = append(lines, "error: "+err.Error())
		}
		out := []string{stamp + d.stmt.text}
		for _, line := range lines {
			out = append(out, stamp+line)
		}
		return out, nil
	case dueResume:
		return in.resume(d.name, stamp), nil
	case dueForlorn:
		return nil, nil // looked at after everything that happens
	case dueStarted:
		if id, ok := in.world.Pod(d.name); !ok || in.view().Pod(id).Phase != cluster.PhaseBound || in.attempt(id) != d.intent {
			return nil, nil
		}
		return []string{stamp + d.name + " runs"}, in.apply(world.Started{Name: d.name})
	}
	if !in.underWay(d.name, d.intent) {
		return nil, nil
	}
	return []string{stamp + in.carry(d.name, d.kind == dueGone)}, in.fault
}

// underWay says whether a decision about the pod is, still.
func (in *interp) underWay(pod string, intent uint64) bool {
	id, ok := in.world.Pod(pod)
	if !ok {
		return false
	}
	v := in.view()
	p := v.Pod(id)
	return p.Intent != cluster.None && v.Intents.At(int32(p.Intent)).ID == intent
}

// carry brings the outcome of a decision about a pod, and says which it is. What
// the world refuses stays in fault.
func (in *interp) carry(name string, evict bool) string {
	if in.refused(evict, name) {
		in.outside++
		if evict {
			in.endEviction(name, "refused")
			in.fault = in.apply(world.EvictRefused{Name: name})
			return "the eviction of " + name + " is refused"
		}
		if in.fault = in.apply(world.BindRefused{Name: name}); in.fault != nil {
			return ""
		}
		return "the bind of " + name + " is refused, " + in.backsOff(name)
	}
	if evict {
		in.endEviction(name, "gone")
		in.fault = in.departed(name)
		return name + " is gone"
	}
	if in.fault = in.apply(world.Bound{Name: name}); in.fault == nil && in.slow.start > 0 {
		id, _ := in.world.Pod(name)
		in.fault = in.plan(due{at: in.now.Add(in.slow.start), name: name, kind: dueStarted, intent: in.attempt(id)})
	}
	return name + " is bound"
}

// attempt tells one stay of a pod from its next.
func (in *interp) attempt(id cluster.PodID) uint64 {
	p := in.view().Pod(id)
	return chance.Hash(p.Key, uint64(p.Attempt), uint64(p.Bound))
}

// stopping is how long a pod takes to go.
func (in *interp) stopping(name string) moment.Span {
	if span := in.stops[name]; span > 0 {
		return span
	}
	return in.slow.evict
}

// backsOff says when a pod whose bind was refused is tried again, and plans that.
func (in *interp) backsOff(name string) string {
	id, _ := in.world.Pod(name)
	until := in.view().Pod(id).Refused.Until
	if until == moment.Never {
		return "it is set aside"
	}
	in.fault = in.plan(due{at: until, name: name, kind: dueResume})
	return fmt.Sprintf("it is tried again in %v", until.Since(in.now))
}

// resume says that a pod has its turn again.
func (in *interp) resume(name, stamp string) []string {
	id, ok := in.world.Pod(name)
	if !ok || in.view().Pod(id).Phase != cluster.PhaseWaiting || in.view().Pod(id).Refused.Until != in.now {
		return nil
	}
	in.outside++
	return []string{stamp + name + " is back in its line"}
}
