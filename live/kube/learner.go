package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/beliefs"
)

// learner is the part of the books that is about what was learned.
type learner struct {
	demand  learn.Demand
	beliefs cluster.Beliefs
	// asks are what pods asked for, by the shape that the world made of it.
	asks map[cluster.ShapeID]ask
	// until is the instant up to which what came was learned by an instance before.
	until moment.Instant
	kept  int64 // pods that what was kept last rests on

	runs      learn.Durations
	runsStale bool  // the world does not know of the last runs yet
	keptRuns  int64 // runs that what was kept last rests on
	keptEnds  moment.Instant
	arriving
	foretold
}

// kindsKept and runsKept bound the run times that are kept: each takes some thirty bytes.
const (
	kindsKept = 1000
	runsKept  = 16
)

// noteRun takes in that a pod has come to its end by itself.
func (b *books) noteRun(key string, p *pod) {
	id, known := b.world.Pod(key)
	if !known || p.footing != charged || !p.running || p.seen.Leaving || p.leaving || p.evicting || p.seen.Started == 0 {
		return
	}
	v := b.world.View()
	spec := v.Pod(id).Spec
	took := b.instant().Since(p.seen.Started)
	b.runsStale = b.runs.Observe(spec.Kind, learn.Run{Began: p.seen.Started, Took: took}) || b.runsStale
	if spec.Expected > 0 && spec.Queue != cluster.None {
		b.runsStale = b.runs.Declared(v.Queue(spec.Queue).Key, spec.Expected, took) || b.runsStale
	}
}

// believeRuns tells the world how long runs take.
func (b *books) believeRuns() {
	if !b.runsStale {
		return
	}
	b.runsStale = false
	b.beliefs.Durations = b.runs.Table(b.runsUnderWay())
	b.tellBeliefs()
}

// tellBeliefs replaces the world's beliefs.
func (b *books) tellBeliefs() {
	b.beliefs.Version++
	beliefs := b.beliefs
	b.must(world.Learned{Beliefs: &beliefs})
}

// runsUnderWay lists, by kind, the runs that go on.
func (b *books) runsUnderWay() map[cluster.Symbol][]learn.Run {
	v, out := b.world.View(), make(map[cluster.Symbol][]learn.Run)
	for i := range v.Pods.Len() {
		if p := v.Pod(cluster.PodID(i)); p.Phase == cluster.PhaseRunning && p.Spec.Kind != 0 && p.Started > 0 {
			out[p.Spec.Kind] = append(out[p.Spec.Kind], learn.Run{Began: p.Started, Took: b.instant().Since(p.Started)})
		}
	}
	return out
}

// keepRuns adds run times, and how work ended, to what is kept.
func (b *books) keepRuns(out *beliefs.Beliefs) {
	symbols := b.world.View().Symbols
	runs := b.runs.Runs(kindsKept, runsKept)
	for _, k := range runs.Kinds {
		one := beliefs.Runs{Kind: symbols.Text(k.Kind)}
		for _, run := range k.Last {
			one.Began, one.Took = append(one.Began, int64(run.Began)), append(one.Took, int64(run.Took))
		}
		out.Runs = append(out.Runs, one)
	}
	for _, o := range runs.Owners {
		one := beliefs.Word{Owner: o.Owner}
		for _, took := range o.Took {
			one.Took = append(one.Took, int64(took))
		}
		out.Words = append(out.Words, one)
	}
	for _, e := range b.ends() {
		out.Ended = append(out.Ended, beliefs.Ended{Name: e.Name, Began: int64(e.Began), At: int64(e.Ended), Failed: e.Failed})
	}
}

// rememberRuns brings run times back, and how work ended.
func (b *books) rememberRuns(kept *beliefs.Beliefs) error {
	var runs learn.Runs
	for _, one := range kept.Runs {
		if one.Kind == "" {
			return errors.New("runs of a kind without a name")
		}
		b.must(world.Interned{Text: one.Kind})
		k := learn.KindRuns{Kind: b.world.Symbol(one.Kind)}
		if len(one.Began) != len(one.Took) {
			return fmt.Errorf("runs of kind %s: %d began and %d took: must be as many", one.Kind, len(one.Began), len(one.Took))
		}
		for i, took := range one.Took {
			k.Last = append(k.Last, learn.Run{Began: moment.Instant(one.Began[i]), Took: moment.Span(took)})
		}
		runs.Kinds = append(runs.Kinds, k)
	}
	for _, one := range kept.Words {
		o := learn.OwnerRuns{Owner: one.Owner}
		for _, took := range one.Took {
			o.Took = append(o.Took, quantity.Milli(took))
		}
		runs.Owners = append(runs.Owners, o)
	}
	durations, err := learn.DurationsFrom(runs)
	if err != nil {
		return err
	}
	for _, e := range kept.Ended {
		// The clocks of two instances differ a little.
		began, ended := min(moment.Instant(e.Began), b.instant()), min(moment.Instant(e.At), b.instant())
		if err := b.apply(world.JobRecalled{Name: e.Name, Began: began, Ended: ended, Failed: e.Failed}); err != nil {
			return fmt.Errorf("the end of %q, at %d: %w", e.Name, e.At, err)
		}
		b.keptEnds = max(b.keptEnds, ended)
	}
	b.runs, b.keptRuns, b.runsStale = durations, durations.Seen(), durations.Seen() > 0
	return nil
}

// lastEnd is when the last of the works that are remembered ended.
func (b *books) lastEnd() (last moment.Instant) {
	v := b.world.View()
	for i := range v.Jobs.Len() {
		if j := v.Job(cluster.JobID(i)); j.Over() {
			last = max(last, j.Ended)
		}
	}
	return last
}

// ask is what a pod asked for.
type ask struct {
	request world.Request
	kind    string
}

// observe feeds an arrival to what is expected, once for each pod, whichever
// instance saw it first.
func (b *books) observe(key string) {
	p := b.pods[key]
	e := &p.entered
	if p.observed {
		return
	}
	p.observed = true
	if e.Since != 0 && e.Since <= b.until {
		return
	}
	v := b.world.View()
	id, _ := b.world.Pod(key)
	shape := v.Pod(id).Spec.Shape
	b.noteAsk(shape, e.Request, e.Kind)
	if b.demand.Observe(shape) {
		b.believe()
	}
}

func (b *books) noteAsk(shape cluster.ShapeID, r world.Request, kind string) {
	if b.asks == nil {
		b.asks = make(map[cluster.ShapeID]ask)
	}
	if _, known := b.asks[shape]; !known {
		b.asks[shape] = ask{request: r, kind: kind}
	}
}

// believe tells the world what is expected now.
func (b *books) believe() {
	v := b.world.View()
	b.beliefs.Demand, b.beliefs.Worth = b.demand.Table(), learn.Worth(v, &b.demand)
	b.tellBeliefs()
}

// expect works out what was remembered means for the nodes as they are.
func (b *books) expect() {
	if b.demand.Seen() > 0 && b.beliefs.Demand == nil {
		b.believe()
	}
}

// errNothingNew says that what was learned is kept already.
var errNothingNew = errors.New("nothing was learned since")

// learned returns what was learned, to be kept, if it is more than at the last
// time.
func (b *books) learned() (*beliefs.Beliefs, error) {
	ends := b.lastEnd()
	if b.demand.Seen() == b.kept && b.epoch == b.keptEpoch && b.runs.Seen() == b.keptRuns && b.arrivals.Seen() == b.keptArrivals && b.starts.Seen() == b.keptStarts && ends == b.keptEnds {
		return nil, errNothingNew
	}
	b.kept, b.keptEpoch, b.keptRuns, b.keptEnds, b.keptArrivals = b.demand.Seen(), b.epoch, b.runs.Seen(), ends, b.arrivals.Seen()
	s := b.demand.State()
	out := &beliefs.Beliefs{At: b.now.UnixMicro(), Next: s.Next, Left: s.Left}
	usage := b.usage()
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		out.Epoch = int64(b.epoch)
		out.Queues = append(out.Queues, beliefs.Queue{Name: name, Usage: usage[name]})
	}
	for _, c := range s.Counts {
		a := b.asks[c.Shape]
		out.Asks = append(out.Asks, beliefs.Ask{Kind: a.kind, Request: a.request, Pods: c.Pods})
	}
	for _, p := range s.Prices {
		out.Fill = append(out.Fill, beliefs.Price{Milli: p.Milli, Price: p.Price})
	}
	b.keptStarts = b.starts.Seen()
	b.keepRuns(out)
	b.keepStarts(out)
	b.keepArrivals(out)
	return out, nil
}

// remember brings back what an instance before this one learned. It comes before
// the first pod; what it means for the nodes is worked out when they are known.
func (b *books) remember(kept *beliefs.Beliefs) error {
	if at := time.UnixMicro(kept.At); kept.At < 0 || at.After(b.now.Add(clockSkew)) {
		return fmt.Errorf("they are of %v, which is yet to come", at.UTC())
	}
	if kept.Epoch > 0 && kept.Epoch <= b.now.UnixMicro() {
		b.epoch, b.keptEpoch = moment.Instant(kept.Epoch), moment.Instant(kept.Epoch)
	}
	for i := range kept.Queues {
		b.usages[kept.Queues[i].Name] = kept.Queues[i].Usage
	}
	s := learn.State{Next: kept.Next, Left: kept.Left}
	for i := range kept.Asks {
		a := &kept.Asks[i]
		if err := b.apply(world.ShapeKnown{Request: a.Request, Kind: a.Kind}); err != nil {
			return err
		}
		shape, _ := b.world.Shape(&a.Request, a.Kind)
		b.noteAsk(shape, a.Request, a.Kind)
		s.Counts = append(s.Counts, learn.Count{Shape: shape, Pods: a.Pods})
	}
	for _, p := range kept.Fill {
		s.Prices = append(s.Prices, learn.Price{Milli: p.Milli, Price: p.Price})
	}
	demand, err := learn.DemandFrom(s)
	if err != nil {
		return err
	}
	if err := b.rememberRuns(kept); err != nil {
		return err
	}
	if err := b.rememberArrivals(kept.Arrivals); err != nil {
		return err
	}
	if err := b.rememberStarts(kept.Starts); err != nil {
		return err
	}
	b.demand, b.until, b.kept = demand, moment.Instant(kept.At), demand.Seen()
	return nil
}

// clockSkew is how far apart the clocks of two instances may be.
const clockSkew = time.Hour

// demandDigest hashes the table of what is expected; equal tables have equal
// digests, in whichever order and run.
func (b *books) demandDigest() uint64 {
	v, sum := b.world.View(), uint64(0)
	for _, row := range b.demand.Table().Rows {
		sum += chance.Hash(v.Shape(row.Shape).Key, uint64(row.Weight))
	}
	return sum
}
