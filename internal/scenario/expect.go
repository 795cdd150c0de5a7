package scenario

import (
	"fmt"
	"maps"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// learnedRuns is how many runs what a file expects rests on: enough to be believed.
const learnedRuns = 16

// mostOff bounds how far what a queue declares may be off, in thousandths.
const mostOff = 1_000_000

// expect tells how long runs of a kind took, or runs of a queue in thousandths of what was
// declared of them, or what runs of a kind needed, as if that had been learned.
func (in *interp) expect(c *call) ([]string, error) {
	name := c.args[1]
	if c.args[0] == "need" {
		return nil, in.expectNeed(c, name)
	}
	r := c.reader("expect " + c.args[0] + " " + name)
	next := in.believes()
	d := cluster.Durations{ByKind: make(map[cluster.Symbol]cluster.Duration), ByOwner: make(map[uint64]cluster.Record)}
	if next.Durations != nil {
		maps.Copy(d.ByKind, next.Durations.ByKind)
		maps.Copy(d.ByOwner, next.Durations.ByOwner)
	}
	switch c.args[0] {
	case "kind":
		k := cluster.Duration{Runs: learnedRuns, Likely: r.span("likely", moment.Hour)}
		k.Low, k.High = r.span("low", k.Likely), r.span("high", k.Likely)
		k.Mean = k.Likely
		if r.err != nil {
			return nil, r.err
		}
		if err := named("expect", name); err != nil {
			return nil, err
		}
		if err := in.apply(world.Interned{Text: name}); err != nil {
			return nil, err
		}
		d.ByKind[in.world.Symbol(name)] = k
	case "queue":
		q := cluster.Record{Runs: learnedRuns, Likely: quantity.Milli(r.number("likely", 1000, 0, mostOff))}
		q.Low, q.High = quantity.Milli(r.number("low", int64(q.Likely), 0, mostOff)), quantity.Milli(r.number("high", int64(q.Likely), 0, mostOff))
		if r.err != nil {
			return nil, r.err
		}
		id, known := in.queue(name)
		if !known {
			return nil, fmt.Errorf("expect queue %s: no such queue%s", name, suggest(name, in.queueNames()))
		}
		d.ByOwner[in.view().Queue(id).Key] = q
	default:
		return nil, fmt.Errorf("expect: kind %q: want kind, queue or need", c.args[0])
	}
	next.Durations = &d
	next.Version++
	return nil, in.apply(world.Learned{Beliefs: &next})
}

// believes is what the scheduler believes, to be changed.
func (in *interp) believes() cluster.Beliefs {
	if b := in.view().Beliefs; b != nil {
		return *b
	}
	return cluster.Beliefs{}
}

// expectNeed tells what runs of a kind needed of a device; shares are charged by it from
// then on.
func (in *interp) expectNeed(c *call, kind string) error {
	r := c.reader("expect need " + kind)
	need := cluster.Need{
		Runs: int32(r.number("runs", learnedRuns, 1, learnedRuns)), Milli: quantity.MilliGPU(r.number("share", 0, 0, int64(quantity.WholeGPU))),
		Memory: r.bytes("gpu-memory", 0),
	}
	charge, after := quantity.Milli(r.number("charge", int64(quantity.One), 0, 10*int64(quantity.One))), int32(r.number("after", 0, 0, learnedRuns))
	if r.err != nil {
		return r.err
	}
	if err := named("expect need", kind); err != nil {
		return err
	}
	if err := in.apply(world.Interned{Text: kind}); err != nil {
		return err
	}
	next := in.believes()
	table := cluster.Needs{ByKind: make(map[cluster.Symbol]cluster.Need), Charge: charge, After: after}
	if next.Needs != nil {
		maps.Copy(table.ByKind, next.Needs.ByKind)
	}
	table.ByKind[in.world.Symbol(kind)] = need
	next.Needs = &table
	next.Version++
	return in.apply(world.Learned{Beliefs: &next})
}
