package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Beliefs are what was learned, as integer tables. They never change in place;
// an event replaces them. Any part may be nil: nothing was learned yet.
type Beliefs struct {
	// Version rises with every replacement.
	Version uint64
	Demand  *Demand
	Worth   *Worth
	Needs   *Needs
	// Durations tells how long runs took.
	Durations *Durations
	// Arrivals tells how often work of each kind comes.
	Arrivals *Arrivals
	// Starts tells how true foretold starts were.
	Starts *Starts `json:",omitempty"`
}

// ScoresAs says whether nodes have the same scores under other beliefs: how often work
// comes, and how true foretold starts were, is no part of them.
func (b *Beliefs) ScoresAs(other *Beliefs) bool {
	if b == nil || other == nil {
		return b == other
	}
	return b.Demand == other.Demand && b.Worth == other.Worth && b.Needs == other.Needs && b.Durations == other.Durations
}

// Demand is what is expected to be asked for: the shapes seen, with weights that
// sum to one million or a little less.
type Demand struct {
	Rows []DemandRow // by weight, the largest first
	Pods int64       // how many arrivals it rests on
}

// DemandRow is one expected shape.
type DemandRow struct {
	Shape  ShapeID
	Weight int64 // parts per million of the pods that arrive
}

// Worth says what room is worth under the expected demand. Amounts of worth are
// in micro-GPU: a millionth of one GPU put to use. docs/adr/0005 derives the
// tables; package learn makes them, package rank reads them.
type Worth struct {
	// Hole is, by the milli-GPU left on a device, how much of it will be put to
	// use by what still comes.
	Hole [quantity.WholeGPU + 1]int64
	// Starvation is, per class, what a node will not put to use for want of CPU:
	// by free CPU in steps of CPUStep, and by the sum of Hole in tenths of a GPU.
	Starvation [][][]int64
	CPUStep    quantity.MilliCPU
	// The prices of scarce resources per class, in nano-GPU per milli-CPU, per MiB
	// and per milli-GPU.
	CPU, Memory, GPU []int64
	// Slots are kinds of request that need several idle devices of one node, and
	// Sizes kinds of request for more than half a device: few places can host
	// them, so each place has a price.
	Slots []Slot
	Sizes []Size
	// Turnover is how many pods left per pod that came, in thousandths: with it
	// grows what it costs to break into a node that is about to be idle.
	Turnover int64
	// Seen is the room that the pods take which the expectations rest on: as much
	// of Hole as a good packing of them fills.
	Seen quantity.MilliGPU
}

// The most slots and sizes: together they are the bits of a word.
const (
	MaxSlots = 56
	MaxSizes = 8
)

// Slot is a request for several idle devices of one node.
type Slot struct {
	Devices int32
	CPU     quantity.MilliCPU
	Memory  quantity.Bytes
	Models  []Symbol // empty: any
	Shape   ShapeID  // None for an assumed request for a whole node
	// Expected is how many such requests or larger ones came, in thousandths, for
	// Worth.Seen of demand; Margin is how many more to be ready for.
	Expected, Margin int64
}

// FitsIn says whether a node with so many idle devices of a model, and so much CPU
// and memory free, could host the request.
func (s *Slot) FitsIn(idle int32, cpu, memory int64, model Symbol) bool {
	return idle >= s.Devices && cpu >= int64(s.CPU) && memory >= int64(s.Memory) && (len(s.Models) == 0 || slices.Contains(s.Models, model))
}

// Size is a request for more than half of a device.
type Size struct {
	Milli    quantity.MilliGPU
	Expected int64 // as in Slot
}

// Needs tells, per kind, what runs really used: a moving-window forecast.
type Needs struct {
	ByKind map[Symbol]Need
	// Charge is how much of the compute that runs of its kind need a share is charged
	// with, in thousandths; 0: what it asks for, and as much memory.
	Charge quantity.Milli `json:",omitempty"`
	// After is how many runs of a kind have to have ended before its shares are charged so;
	// 0: three.
	After int32 `json:",omitempty"`
}

// Known says whether a forecast rests on enough runs for shares to be charged by it.
func (n *Needs) Known(need Need) bool { return need.Runs >= cmp.Or(n.After, 3) }

// Of returns the forecast for a kind; zero where nothing is known.
func (n *Needs) Of(kind Symbol) Need {
	if n == nil || kind == 0 {
		return Need{}
	}
	return n.ByKind[kind]
}

// Need is a forecast for one kind of run, never above the request it is
// applied to.
type Need struct {
	Memory quantity.Bytes // per device, 0: unknown
	// Milli is the compute of a device that it keeps busy, as a mean over the run; 0:
	// unknown.
	Milli quantity.MilliGPU `json:",omitempty"`
	Runs  int32             // how many it rests on
}

// Durations tells, per kind, how long runs took from start to end, and how far what
// owners declare is to be believed.
type Durations struct {
	ByKind map[Symbol]Duration
	// ByOwner goes by the keys of queues.
	ByOwner map[uint64]Record `json:",omitempty"`
}

// Record is how long runs of an owner took, in thousandths of what it had declared.
type Record struct {
	Low, Likely, High quantity.Milli
	Runs              int32 // how many it rests on
}

// RunTime is how long a run is expected to take: one of ten is over before Low, and one
// of ten is not by High, as far as that is known. The zero value is for one of which
// nobody knows.
type RunTime struct{ Low, Likely, High moment.Span }

// At is the run time at a part of the way, in thousandths, from the shortest to the
// longest: in straight lines through 100, 500 and 900, and level beyond.
func (t RunTime) At(part quantity.Milli) moment.Span {
	line := func(from, to moment.Span, at quantity.Milli) moment.Span {
		return from + moment.Span(quantity.MulDiv(int64(to-from), int64(at), 400))
	}
	switch {
	case part <= 100:
		return t.Low
	case part < 500:
		return line(t.Low, t.Likely, part-100)
	case part < 900:
		return line(t.Likely, t.High, part-500)
	}
	return t.High
}

// times is a span in thousandths, at least one microsecond.
func times(s moment.Span, by quantity.Milli) moment.Span {
	return moment.Span(max(quantity.MulDiv(int64(s), int64(by), 1000), 1))
}

// Duration is a forecast for one kind of run.
type Duration struct {
	Mean   moment.Span
	Spread moment.Span // mean distance of a run from Mean
	// Low, Likely and High are those of RunTime: 0 with Mean where only that is known.
	Low    moment.Span `json:",omitempty"`
	Likely moment.Span `json:",omitempty"`
	High   moment.Span `json:",omitempty"`
	Runs   int32       // how many it rests on
	// Seen are those runs, the shortest first; empty where only the rest is known.
	Seen []moment.Span `json:",omitempty"`
}

// Equal says whether two forecasts say the same.
func (d *Duration) Equal(other *Duration) bool {
	return d.Mean == other.Mean && d.Spread == other.Spread && d.Low == other.Low && d.Likely == other.Likely &&
		d.High == other.High && d.Runs == other.Runs && slices.Equal(d.Seen, other.Seen)
}

// Of returns the forecast for a kind; zero where nothing is known.
func (d *Durations) Of(kind Symbol) Duration {
	if d == nil || kind == 0 {
		return Duration{}
	}
	return d.ByKind[kind]
}

// recordRuns is how many runs of an owner have to have ended before its word is
// discounted by them.
const recordRuns = 3

// ExpectedRun is how long a run of the pod is expected to take: as declared, discounted by
// the record of its queue; else as earlier runs of its kind.
func (v *View) ExpectedRun(p *Pod) RunTime {
	var d *Durations
	if v.Beliefs != nil {
		d = v.Beliefs.Durations
	}
	if said := p.Spec.Expected; said > 0 {
		if d != nil && p.Spec.Queue != None {
			if r := d.ByOwner[v.Queue(p.Spec.Queue).Key]; r.Runs >= recordRuns {
				return RunTime{Low: times(said, r.Low), Likely: times(said, r.Likely), High: times(said, r.High)}
			}
		}
		return RunTime{Low: said, Likely: said, High: said}
	}
	k := d.Of(p.Spec.Kind)
	if k.Likely == 0 {
		return RunTime{Low: max(k.Mean-k.Spread, min(k.Mean, 1)), Likely: k.Mean, High: k.Mean + k.Spread}
	}
	return RunTime{Low: k.Low, Likely: k.Likely, High: k.High}
}

// Arrivals tells how often work comes that needs artifacts.
type Arrivals struct {
	Rows []Arrival // the most frequent first
}

// Arrival is one kind of work.
type Arrival struct {
	Kind      Symbol
	Artifacts []ArtifactID // that each needs, once each
	Shape     ShapeID      // that it asked for last
	PerHour   quantity.Milli
}

func (a *Arrivals) check(v *View) error {
	for i := range a.Rows {
		row := &a.Rows[i]
		if row.Shape < 0 || int(row.Shape) >= v.Shapes.Len() {
			return fmt.Errorf("arrivals of kind %q: shape %d: there are %d", v.Symbols.Text(row.Kind), row.Shape, v.Shapes.Len())
		}
		if row.PerHour < 0 {
			return fmt.Errorf("arrivals of kind %q: %d thousandths per hour: must not be negative", v.Symbols.Text(row.Kind), row.PerHour)
		}
		for _, id := range row.Artifacts {
			if id < 0 || int(id) >= v.Artifacts.Len() {
				return fmt.Errorf("arrivals of kind %q: artifact %d: there are %d", v.Symbols.Text(row.Kind), id, v.Artifacts.Len())
			}
		}
	}
	return nil
}

// Check says what is wrong with beliefs that come from outside: tables of the
// wrong form, shapes that do not exist.
func (b *Beliefs) Check(v *View) error {
	if b == nil {
		return nil
	}
	if b.Demand != nil {
		for i, row := range b.Demand.Rows {
			if row.Shape < 0 || int(row.Shape) >= v.Shapes.Len() {
				return fmt.Errorf("demand row %d: shape %d: there are %d", i, row.Shape, v.Shapes.Len())
			}
		}
	}
	if b.Needs != nil {
		if b.Needs.Charge < 0 {
			return fmt.Errorf("needs: charge %d: must not be negative", b.Needs.Charge)
		}
		for kind, n := range b.Needs.ByKind { // order: one that is wrong is enough
			if n.Memory < 0 || n.Milli < 0 || n.Milli > quantity.WholeGPU || n.Runs < 0 {
				return fmt.Errorf("need of kind %q: %d milli-GPU, memory %v, %d runs: must be 0 to 1000, and not negative", v.Symbols.Text(kind), n.Milli, n.Memory, n.Runs)
			}
		}
	}
	if b.Durations != nil {
		for kind, d := range b.Durations.ByKind { // order: one that is wrong is enough
			if d.Mean < 0 || d.Spread < 0 || d.Runs < 0 || d.Mean+d.Spread < 0 {
				return fmt.Errorf("duration of kind %q: mean %v, spread %v, %d runs: must not be negative", v.Symbols.Text(kind), d.Mean, d.Spread, d.Runs)
			}
			if d.Low < 0 || d.Likely < d.Low || d.High < d.Likely {
				return fmt.Errorf("duration of kind %q: low %v, likely %v, high %v: must not be negative, and in order", v.Symbols.Text(kind), d.Low, d.Likely, d.High)
			}
			if len(d.Seen) > 0 && (d.Seen[0] < 0 || !slices.IsSorted(d.Seen)) {
				return fmt.Errorf("duration of kind %q: runs %v: must not be negative, and in order", v.Symbols.Text(kind), d.Seen)
			}
		}
		for owner, r := range b.Durations.ByOwner { // order: one that is wrong is enough
			if r.Low < 0 || r.Likely < r.Low || r.High < r.Likely || r.Runs < 0 {
				return fmt.Errorf("record of owner %016x: low %d, likely %d, high %d, %d runs: must not be negative, and in order", owner, r.Low, r.Likely, r.High, r.Runs)
			}
		}
	}
	if b.Arrivals != nil {
		if err := b.Arrivals.check(v); err != nil {
			return err
		}
	}
	if b.Starts != nil {
		if err := b.Starts.check(); err != nil {
			return err
		}
	}
	if b.Worth != nil {
		return b.Worth.check(v)
	}
	return nil
}

func (w *Worth) check(v *View) error {
	switch {
	case len(w.Slots) > MaxSlots || len(w.Sizes) > MaxSizes:
		return fmt.Errorf("%d slots and %d sizes: at most %d and %d", len(w.Slots), len(w.Sizes), MaxSlots, MaxSizes)
	case len(w.CPU) != len(w.Memory) || len(w.CPU) != len(w.GPU):
		return fmt.Errorf("prices of %d, %d and %d classes: must be as many", len(w.CPU), len(w.Memory), len(w.GPU))
	case w.CPUStep <= 0:
		return fmt.Errorf("CPU step %d: must be positive", w.CPUStep)
	}
	for i := range w.Slots {
		if s := w.Slots[i].Shape; s < None || int(s) >= v.Shapes.Len() {
			return fmt.Errorf("slot %d: shape %d: there are %d", i, s, v.Shapes.Len())
		}
	}
	for class, table := range w.Starvation {
		for _, row := range table {
			if len(table) < 2 || len(row) < 2 || len(row) != len(table[0]) {
				return fmt.Errorf("starvation of class %d: the table is not a rectangle of at least 2 by 2", class)
			}
		}
	}
	return nil
}
