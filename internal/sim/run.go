package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// The modes of a run.
const (
	Static = "static"
	Timed  = "timed"
)

// Config is one run.
type Config struct {
	Workload *trace.Workload
	Source   string // how the workload was named, for the result
	Mode     string
	Policy   string
	Seed     int64
	// Load is the offered GPU-time as a share of capacity, for the result.
	Load *float64
	// NodeRank orders nodes of equal score for policies of others. Nil: a hash.
	NodeRank map[string]int32
	// Target is the workload that fragments are measured against and that fgd
	// expects. Nil: Workload itself.
	Target *trace.Workload
	// Tidy moves pods where that pays, by these rules. Nil: none are moved, unless the
	// policy moves some by itself.
	Tidy *tidy.Rules
	// TidyMoves is, in static mode, how many may move, in thousandths of those placed so
	// far.
	TidyMoves int64
	// Failures of nodes and devices, in timed mode.
	Failures Failures
	// Without names ingredients of our own policy that the run leaves out.
	Without []string
	// Starts asks for start times, and for how true they were, in timed mode.
	Starts bool
	// Declared says that jobs say how long they run, to every policy.
	Declared bool
	// Progress is told how many pods of how many have been dealt with.
	Progress func(done, total int)
	// Record is told of everything that enters the world and is decided. Nil:
	// nobody is.
	Record Recorder
	// policy replaces the named policy, in tests.
	policy *engine.Policy
	// Audited recomputes all books after every event; slow, for tests.
	Audited bool
}

// Recorder keeps a journal of a run.
type Recorder interface {
	Begin(p *engine.Policy, side rivals.Side)
	Event(at moment.Instant, e world.Event)
	Cycle(c decision.Cycle, digest uint64)
}

// Ours is the name of our own policy.
const Ours = "headrace"

// PolicyInfo names a policy.
type PolicyInfo struct{ Name, About string }

// Policies lists all policies that a run can name, ours first.
func Policies() []PolicyInfo {
	out := []PolicyInfo{
		{Ours, "our own: expected worth of the room that is left"},
		{Youngest, "our own, where the lowest priority and then the youngest gives way, whatever it loses"},
		{ReserveHead, "our own, with room reserved for the first of each queue"},
		{ReserveAll, "our own, with room reserved for all who wait"},
		{Dense, "our own, with as few cards in use as will do: shares are charged less than they need, and pods wait for a card in use rather than start at once on another"},
	}
	for _, r := range rivals.All() {
		out = append(out, PolicyInfo{r.Name, r.About})
	}
	return out
}

// run is one run in progress.
type run struct {
	Config
	world   *world.World
	decider *engine.Policy
	memo    engine.Memo
	whole   bool
	knows   bool // the policy knows how long jobs have to run
	target  []rivals.Typical

	cycle    uint64
	digest   uint64
	latency  []time.Duration
	decided  int
	reasons  map[string]int
	result   meter.Result
	capacity int64
	learner  *learner
	futile   map[cluster.ShapeID]uint64 // up to which change nobody's moving helped a shape
}

// Run runs a workload to its end.
func Run(c Config) (meter.Result, error) {
	begun := time.Now()
	r, err := newRun(c)
	if err != nil {
		return meter.Result{}, err
	}
	switch c.Mode {
	case Static:
		err = r.static()
	case Timed:
		err = r.timed()
	default:
		err = fmt.Errorf("mode %q: must be %s or %s", c.Mode, Static, Timed)
	}
	if err != nil {
		return meter.Result{}, fmt.Errorf("%s, policy %s, seed %d: %w", c.Workload.Name, c.Policy, c.Seed, err)
	}
	r.finish(begun)
	return r.result, nil
}

func newRun(c Config) (*run, error) {
	r := &run{Config: c, world: world.New(), reasons: make(map[string]int), capacity: int64(c.Workload.GPUCapacity())}
	if len(c.Workload.Nodes) == 0 {
		return nil, fmt.Errorf("workload %s: it has no nodes", c.Workload.Name)
	}
	if r.Target == nil {
		r.Target = c.Workload
	}
	var models []string
	r.target = rivals.TypicalPods(asks(r.Target), func(model string) cluster.Symbol {
		models = append(models, model)
		return r.world.Symbol(model)
	})
	side := rivals.Side{Typical: r.target, NodeRank: c.NodeRank}
	if err := r.choosePolicy(side); err != nil {
		return nil, err
	}
	if c.Mode == Static {
		r.decider = r.decider.Staying() // nothing leaves there
	}
	if c.Tidy != nil {
		r.decider = r.decider.Tidying(c.Tidy)
	}
	if r.Record != nil {
		r.Record.Begin(r.decider, side)
	}
	for _, model := range models {
		if err := r.apply(0, world.Interned{Text: model}); err != nil {
			return nil, err
		}
	}
	if err := r.populate(); err != nil {
		return nil, err
	}
	r.result = meter.Result{
		Schema: meter.Schema, Policy: c.label(), Source: c.Source, Workload: c.Workload.Name, Seed: c.Seed, Mode: c.Mode, Load: c.Load,
		FragTarget: "typical pods of " + r.Target.Name, Detail: &meter.Detail{},
	}
	if c.Tidy != nil && c.Mode == Static {
		r.result.Tidied, r.futile = &meter.Tidied{}, make(map[cluster.ShapeID]uint64)
	}
	r.result.Detail.Heat.Nodes = heatNodes(c.Workload)
	return r, nil
}

func (r *run) choosePolicy(side rivals.Side) error {
	if r.policy != nil {
		r.decider = r.policy
		return r.leaveOut()
	}
	decider, whole, err := Policy(r.Policy, side)
	r.decider, r.whole, r.knows = decider, whole, r.Declared || knowsDurations(r.Policy)
	if isOurs(r.Policy) {
		r.learner = &learner{needs: needsOf(r.Policy)}
	}
	if err != nil {
		return err
	}
	return r.leaveOut()
}

// knowsDurations says whether the policy of a name is told how long jobs run.
func knowsDurations(policy string) bool {
	return slices.ContainsFunc(rivals.All(), func(r rivals.Rival) bool { return r.Name == policy && r.Durations })
}

// Policy makes a policy by name, and says whether its cluster gives cards only
// whole.
func Policy(name string, side rivals.Side) (p *engine.Policy, wholeCards bool, err error) {
	if isOurs(name) {
		p := ours(name)
		if ranks := side.NodeRank; ranks != nil {
			p.Tie = rivals.ByRank(ranks)
		}
		return p, false, nil
	}
	for _, rival := range rivals.All() {
		if rival.Name == name {
			return rival.Policy(side), rival.WholeCards, nil
		}
	}
	return nil, false, fmt.Errorf("policy %q: no such policy", name)
}

// apply takes an event in, and audits the books where asked to.
func (r *run) apply(at moment.Instant, e world.Event) error {
	if err := r.world.Apply(at, e); err != nil {
		return err
	}
	if r.Record != nil {
		r.Record.Event(at, e)
	}
	if r.Audited {
		if err := cluster.Audit(r.world.View()); err != nil {
			return fmt.Errorf("after %T at %v: %w", e, at, err)
		}
	}
	return nil
}

// decide runs one cycle and keeps its figures.
func (r *run) decide(at moment.Instant, kind decision.CycleKind) (*cluster.Snapshot, decision.Plan) {
	r.cycle++
	snapshot := r.world.Snapshot()
	c := decision.Cycle{Number: r.cycle, Now: at, Kind: kind, Seed: r.Seed}
	begun := time.Now()
	plan := engine.Decide(snapshot, c, r.decider, &r.memo)
	r.latency = append(r.latency, time.Since(begun))
	r.decided += len(plan.Decisions)
	digest := plan.Digest(&snapshot.View)
	r.digest = chance.Fold(r.digest, digest)
	if r.Record != nil {
		r.Record.Cycle(c, digest)
	}
	return snapshot, plan
}

// progressStep is after how many pods the caller is told.
const progressStep = 256

func (r *run) progress(done, total int) {
	if r.Progress != nil && done%progressStep == 0 {
		r.Progress(done, total)
	}
}

// countReason remembers why a pod was given up or still waits at the end.
func (r *run) countReason(v *cluster.View, why decision.Reason) {
	// Numbers differ from pod to pod; the table counts kinds of constraint.
	r.reasons[why.Kind(v)]++
}

func (r *run) finish(begun time.Time) {
	res := &r.result
	res.Decisions = r.decided
	slices.Sort(r.latency)
	res.DecideP50Us = micros(quantile(r.latency, 50))
	res.DecideP99Us = micros(quantile(r.latency, 99))
	res.Digest = fmt.Sprintf("%016x", r.digest)
	for reason, n := range r.reasons {
		res.Detail.Reasons = append(res.Detail.Reasons, meter.ReasonCount{Reason: reason, Count: n})
	}
	slices.SortFunc(res.Detail.Reasons, func(a, b meter.ReasonCount) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		if a.Reason < b.Reason {
			return -1
		}
		return 1
	})
	res.WallMs = float64(time.Since(begun).Microseconds()) / 1000
}

// quantile is the element at floor(p·n/100) of a sorted list, the last at most;
// zero of an empty one.
func quantile[T any](sorted []T, p int) T {
	var zero T
	if len(sorted) == 0 {
		return zero
	}
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
