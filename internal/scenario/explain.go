package scenario

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

func explainStatements() []statement {
	return []statement{
		{"explain", form{usage: "pod NAME", least: 2, most: 2}, false, (*interp).explain},
		{"why", form{usage: "POD NODE", least: 2, most: 2}, false, (*interp).why},
		{"exclude", form{usage: "POD NODE", least: 2, most: 2}, false, (*interp).exclude},
		{"include", form{usage: "POD NODE", least: 2, most: 2}, false, (*interp).include},
	}
}

// explain says why a pod waits, or where it is and what spoke for the place.
func (in *interp) explain(c *call) ([]string, error) {
	if c.args[0] != "pod" {
		return nil, fmt.Errorf("explain: kind %q: want pod", c.args[0])
	}
	id, err := in.pod(c.args[1])
	if err != nil {
		return nil, err
	}
	v := in.view()
	p := v.Pod(id)
	if why := engine.Deadlined(engine.HeldBack(v, id, in.now), v, id, in.now); !why.None() {
		lines := []string{fmt.Sprintf("%s, %s: %s", p.Spec.Name, stationOf(p), why.Describe(v))}
		if p.Placement.Placed() {
			lines = append(lines, in.explainPlace(v, p)...)
		}
		return lines, nil
	}
	if p.Placement.Placed() {
		return in.explainPlace(v, p), nil
	}
	return eachChoice(p, fmt.Sprintf("%s, %v", p.Spec.Name, p.Phase), func(shape cluster.ShapeID) string {
		why := engine.Deadlined(in.binding(v, id, shape), v, id, in.now)
		if why.None() {
			return "there is room, the next cycle decides"
		}
		return why.Describe(v) + in.outlook(v, id)
	}), nil
}

// outlook is where and when a pod would start that the next cycle lets wait, as far as
// the policy tells.
func (in *interp) outlook(v *cluster.View, id cluster.PodID) (text string) {
	if in.policy.Reserve == engine.ReserveOff && !in.policy.Foretells {
		return ""
	}
	w := in.nextWaiting(id)
	if w.Reserved != nil {
		text += "; " + w.Reserved.Describe(v, moment.Instant.String)
	}
	if w.Starts != nil {
		text += "; " + w.Starts.Describe(moment.Instant.String)
	}
	return text
}

// binding is what keeps a pod of a shape from every node, or its group from
// starting.
func (in *interp) binding(v *cluster.View, id cluster.PodID, shape cluster.ShapeID) decision.Reason {
	if in.policy.Reserve != engine.ReserveOff || len(v.Pod(id).Spec.Artifacts) > 0 {
		return in.nextReason(id)
	}
	if group := v.Pod(id).Spec.Group; group != cluster.None {
		if g := v.Group(group); in.policy.Sizes != nil || !v.Stands(group) || len(g.Topology) > 0 || g.Wished > 0 || g.Parent != cluster.None {
			return in.nextReason(id)
		}
	}
	if why := fit.Queue(v, id, shape); !why.None() {
		return why
	}
	return fit.ExplainPod(v, id, shape)
}

// nextReason is why the next cycle would let a pod wait, if it would.
func (in *interp) nextReason(id cluster.PodID) decision.Reason {
	if w := in.nextWaiting(id); w.Why != nil {
		return *w.Why
	}
	return decision.Reason{}
}

// nextWaiting is what the next cycle would say of a pod that it lets wait.
func (in *interp) nextWaiting(id cluster.PodID) decision.Waiting {
	plan := engine.Decide(in.world.Snapshot(), in.nextCycle(decision.CycleArrival), in.policy, &in.memo)
	for _, w := range plan.Waiting {
		if w.Pod == id {
			return w
		}
	}
	return decision.Waiting{}
}

// eachChoice prints a line for each shape that the pod would take.
func eachChoice(p *cluster.Pod, subject string, answer func(cluster.ShapeID) string) []string {
	if len(p.Spec.Alternatives) == 0 {
		return []string{subject + ": " + answer(p.Spec.Shape)}
	}
	var out []string
	for i := 0; ; i++ {
		shape, more := p.Spec.Asks(i)
		if !more {
			return out
		}
		out = append(out, fmt.Sprintf("%s, choice %d: %s", subject, i+1, answer(shape)))
	}
}

func (in *interp) explainPlace(v *cluster.View, p *cluster.Pod) []string {
	line := fmt.Sprintf("%s, %v: on %s", p.Spec.Name, p.Phase, decision.PlaceLine(v, &p.Placement))
	if i := slices.Index(p.Spec.Alternatives, p.Placement.Shape); i >= 0 && p.Placement.Shape != p.Spec.Shape {
		line += fmt.Sprintf(", choice %d", i+2)
	}
	because, known := in.because[p.Spec.Name]
	if !known {
		return []string{line}
	}
	if because.InPlaceOf != "" {
		return []string{line, "its place was kept for it: it comes in place of " + because.InPlaceOf}
	}
	s := because.Score
	score := fmt.Sprintf("chosen by %s, score %d", because.Policy, s.Total)
	if s.Fit != 0 || s.Urgency != 0 || s.Affinity != 0 {
		score += fmt.Sprintf(" (fit %d, urgency %d, affinity %d, of %d each)", s.Fit, s.Urgency, s.Affinity, decision.ScoreOne)
	}
	lines := []string{line, score}
	if ends := because.LeaseEnds; ends > 0 {
		lines = append(lines, fmt.Sprintf("others get back at %v what they lent here, and it may have to leave then", ends))
	}
	if m := because.Move; m != nil {
		lines = append(lines, m.Describe())
	}
	if end := because.End; end > 0 {
		lines = append(lines, fmt.Sprintf("its deadline %v could not be met then, the earliest end was %v", because.Deadline, end))
	}
	return lines
}

// why asks one node about one pod, as if the pod were new.
func (in *interp) why(c *call) ([]string, error) {
	pod, err := in.pod(c.args[0])
	if err != nil {
		return nil, err
	}
	node, err := in.node(c.args[1])
	if err != nil {
		return nil, err
	}
	v := in.view()
	return eachChoice(v.Pod(pod), c.args[0]+" on "+c.args[1], func(shape cluster.ShapeID) string {
		return fit.CheckPod(v, pod, shape, node).Describe(v)
	}), nil
}

// exclusion is a fact from outside: pods of the shape may not be on the node.
type exclusion struct {
	shape uint64 // its key
	node  string
}

func (in *interp) exclude(c *call) ([]string, error) {
	e, err := in.exclusion(c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(in.excluded, e) {
		in.excluded = append(in.excluded, e)
	}
	return nil, in.tellFacts()
}

func (in *interp) include(c *call) ([]string, error) {
	e, err := in.exclusion(c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(in.excluded, e) {
		return nil, fmt.Errorf("include %s %s: it is not excluded", c.args[0], c.args[1])
	}
	in.excluded = slices.DeleteFunc(in.excluded, func(x exclusion) bool { return x == e })
	return nil, in.tellFacts()
}

func (in *interp) exclusion(c *call) (exclusion, error) {
	pod, err := in.pod(c.args[0])
	if err != nil {
		return exclusion{}, err
	}
	if _, err := in.node(c.args[1]); err != nil {
		return exclusion{}, err
	}
	return exclusion{shape: in.view().Shape(in.view().Pod(pod).Spec.Shape).Key, node: c.args[1]}, nil
}

// forgetNode drops the facts about a node that is gone.
func (in *interp) forgetNode(name string) error {
	if !slices.ContainsFunc(in.excluded, func(e exclusion) bool { return e.node == name }) {
		return nil
	}
	in.excluded = slices.DeleteFunc(in.excluded, func(e exclusion) bool { return e.node == name })
	return in.tellFacts()
}

// tellFacts replaces the bit sets by those of the present exclusions, and of the
// selectors that pods have named.
func (in *interp) tellFacts() error {
	if len(in.excluded)+len(in.selectors) == 0 {
		return in.apply(world.FactsKnown{})
	}
	facts := &cluster.Facts{Excluded: make(map[cluster.ShapeID][]uint64)}
	for _, e := range in.excluded {
		node, ok := in.world.Node(e.node)
		shape, known := in.shapeOf(e.shape)
		if !ok || !known {
			continue
		}
		set := facts.Excluded[shape]
		for len(set)*64 <= int(node) {
			set = append(set, 0)
		}
		set[node/64] |= 1 << (node % 64)
		facts.Excluded[shape] = set
	}
	if err := in.picked(facts); err != nil {
		return err
	}
	return in.apply(world.FactsKnown{Facts: facts})
}

// shapeOf finds a shape by its key.
func (in *interp) shapeOf(key uint64) (cluster.ShapeID, bool) {
	v := in.view()
	for i := range v.Shapes.Len() {
		if v.Shapes.At(int32(i)).Key == key {
			return cluster.ShapeID(i), true
		}
	}
	return cluster.None, false
}
