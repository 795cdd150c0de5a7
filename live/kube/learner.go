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
}

// ask is what a pod asked for.
type ask struct {
	request world.Request
	kind    string
}

// observe feeds an arrival to what is expected, once for each pod, whichever
// instance saw it first.
func (b *books) observe(key string) {
	e := &b.pods[key].entered
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
	b.beliefs.Version++
	beliefs := b.beliefs
	b.must(world.Learned{Beliefs: &beliefs})
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
	if b.demand.Seen() == b.kept && b.epoch == b.keptEpoch {
		return nil, errNothingNew
	}
	b.kept, b.keptEpoch = b.demand.Seen(), b.epoch
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
