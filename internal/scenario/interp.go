package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// statement is one row of the table of what can be said.
type statement struct {
	name string
	form
	block bool // indented lines may follow
	run   func(in *interp, c *call) ([]string, error)
}

// call is a statement that is being run.
type call struct {
	words
	text  string
	block []blockLine
}

// reader reads the fields of the call on behalf of a subject.
func (c *call) reader(of string) *reader { return &reader{of: of, w: &c.words} }

// statements is the whole language, family by family.
func statements() []statement {
	return slices.Concat(
		policyStatements(), nodeStatements(), podStatements(), changeStatements(), groupStatements(), tieStatements(), queueStatements(),
		jobStatements(), sizeStatements(), budgetStatements(), slaStatements(), cycleStatements(), timeStatements(), warmStatements(),
		restartStatements(), showStatements(), explainStatements())
}

// Limits on what one file builds, so that a slip of the finger ends in a
// message and not in a swapping machine.
const (
	maxCount = 1000   // of one statement
	maxRows  = 10_000 // nodes, or pods, of one file
)

// interp is a world with a clock and a policy, and what the statements remember
// beside it.
type interp struct {
	table []statement
	names []string

	world    *world.World
	now      moment.Instant
	policies []policyRow
	policy   *engine.Policy
	whole    bool // the policy's cluster gives cards only whole
	seed     int64
	memo     engine.Memo
	cycle    uint64
	rows     int // most nodes, and most pods
	nodes    int // added so far
	pods     int

	slow     latencies
	due      []due // by time
	refusals []refusal
	specs    map[string]world.PodAdded
	guards   map[string]string               // budgets, by pod
	stops    map[string]moment.Span          // how long a pod takes to stop, where that was said
	outside  uint64                          // counts what happened that was not decided
	fault    error                           // of the outcome that was told last
	machines map[string]world.NodeAdded      // what nodes are, by name
	spaces   map[string]world.NamespaceKnown // and namespaces
	kept     []world.Event                   // what was believed of queues at the last checkpoint
	evicted  []eviction
	watched  map[uint64]moment.Instant // until when what is kept for heirs is, as planned
	said     []string                  // of what happened by itself, not printed yet

	because  map[string]decision.Explanation // of the pods that were placed, by name
	held     []decision.Decision             // binds that come after evictions under way
	notes    map[uint64]note                 // on them, by decision
	excluded []exclusion
	// selectors are the conditions on parts of cards that pods have named.
	selectors []selector
	digests   []uint64 // those shown, in order of first sight
}

// newInterp returns an empty world under our own policy.
func newInterp() *interp {
	in := &interp{
		table: statements(), world: world.New(), policies: policies(), rows: maxRows,
		because: make(map[string]decision.Explanation), notes: make(map[uint64]note),
		specs: make(map[string]world.PodAdded), guards: make(map[string]string), stops: make(map[string]moment.Span),
		watched: make(map[uint64]moment.Instant), machines: make(map[string]world.NodeAdded), spaces: make(map[string]world.NamespaceKnown),
	}
	for i := range in.table {
		in.names = append(in.names, in.table[i].name)
	}
	in.policy = in.policies[0].build(nil)
	return in
}

// do runs one statement. An error is a refusal, unless it is a *Violation.
func (in *interp) do(s *stmt) ([]string, error) {
	c := &call{words: split(s.text), text: s.text, block: s.block}
	i := slices.Index(in.names, c.name)
	if i < 0 {
		return nil, fmt.Errorf("statement %q: no such statement%s", c.name, suggest(c.name, in.names))
	}
	row := &in.table[i]
	if err := c.conform(&row.form); err != nil && row.name != "at" { // the rest of its line is another statement's
		return nil, err
	}
	if !slices.Contains(ownDoing(), row.name) {
		in.outside++
	}
	if !row.block && len(c.block) > 0 {
		return nil, fmt.Errorf("%s: indented line %q: this statement has none", c.name, c.block[0].text)
	}
	return row.run(in, c)
}

func (in *interp) apply(e world.Event) error {
	return in.world.Apply(in.now, e)
}

// ownDoing are the statements that are not events from outside.
func ownDoing() []string {
	return []string{"decide", "rounds", "after", "run", "at", "flap", "latency", "outcome", "show", "explain", "why", "restart"}
}

// view shows the world as it is now.
func (in *interp) view() *cluster.View { return in.world.View() }

func (in *interp) pod(name string) (cluster.PodID, error) {
	id, ok := in.world.Pod(name)
	if !ok {
		return id, fmt.Errorf("pod %q: no such pod%s", name, suggestAny(name, in.podNames()))
	}
	return id, nil
}

func (in *interp) node(name string) (cluster.NodeID, error) {
	id, ok := in.world.Node(name)
	if !ok {
		return id, fmt.Errorf("node %q: no such node%s", name, suggestAny(name, in.nodeNames()))
	}
	return id, nil
}

// suggestAny is suggest, silent where no name is near.
func suggestAny(name string, names []string) string {
	if text := suggest(name, names); strings.HasPrefix(text, ";") {
		return text
	}
	return ""
}

func (in *interp) podNames() []string {
	v := in.view()
	var out []string
	for _, id := range in.livePods() {
		out = append(out, v.Pod(id).Spec.Name)
	}
	return out
}

func (in *interp) nodeNames() []string {
	v := in.view()
	var out []string
	for _, id := range in.liveNodes() {
		out = append(out, v.Node(id).Spec.Name)
	}
	return out
}

// livePods lists the pods that are there, by name.
func (in *interp) livePods() []cluster.PodID {
	v := in.view()
	var out []cluster.PodID
	for i := range v.Pods.Len() {
		if id := cluster.PodID(i); v.Pod(id).Phase != cluster.PhaseGone {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b cluster.PodID) int { return compareNames(v.Pod(a).Spec.Name, v.Pod(b).Spec.Name) })
	return out
}

// liveNodes lists the nodes that are there, by name.
func (in *interp) liveNodes() []cluster.NodeID {
	v := in.view()
	var out []cluster.NodeID
	for i := range v.Nodes.Len() {
		if id := cluster.NodeID(i); v.Node(id).Life != cluster.LifeOff {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b cluster.NodeID) int { return compareNames(v.Node(a).Spec.Name, v.Node(b).Spec.Name) })
	return out
}

// compareNames puts n2 before n10: shorter runs of digits first.
func compareNames(a, b string) int {
	stem := func(s string) string { return strings.TrimRight(s, "0123456789") }
	if x, y := stem(a), stem(b); x == y && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// numbered gives the names of count things called by one name.
func numbered(name string, count int64) []string {
	if count == 1 {
		return []string{name}
	}
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		name += "-"
	}
	out := make([]string, count)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", name, i+1)
	}
	return out
}
