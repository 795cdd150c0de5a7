// Package tidy finds moves that pay: running pods that go elsewhere so that room which
// is free in pieces becomes room for something.
//
//	s := tidy.New(txn, cycle, rules, hands)
//	set := s.Unlock(&goal, nil)    // nothing has changed yet
//	s.Carry(&goal, set)            // moved in the transaction, the goal is placed
//
// A move is one pod, from where it runs to a place that is free without anybody's
// leaving save by moves of the same set. Each has a price: the work that it loses, its
// restart, and what a move costs besides; each set has a gain: GPU-time that is put to
// use by it. Sets are tried from the fewest moves on, and none is made whose price is
// not below its gain.
//
// The package leaves it to its caller to place pods, and to carry anything out.
package tidy

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Rules are the numbers of a policy for what moves.
type Rules struct {
	// For says which gains are looked for.
	For Gains
	// AtOnce is how many moves may serve one gain.
	AtOnce int32
	// PerHour is how many pods may be moved within an hour; 0: no limit.
	PerHour int32
	// MostLoss is what a move may cost a job of its expected remaining time, in
	// thousandths.
	MostLoss quantity.Milli
	// Price is what each move costs besides work that is lost, in milli-GPU-seconds: what
	// it is to be worth at least.
	Price int64
	// Horizon is for how long room counts that somebody gets: no longer than it is
	// expected to be used.
	Horizon moment.Span
	// Rest is how long a pod stays where it is after it was evicted, or moved.
	Rest moment.Span
	// Surge says that pods which may be replaced, where their owner says so, are: the next
	// one starts first. Owned, that only pods with an owner move: others do not come back.
	Surge, Owned bool
	// WarmUp is what the next one is taken to need until it is as good, where its job does
	// not say.
	WarmUp moment.Span
	// Come is how long room is kept for the next one where it is to come first, and Start
	// how long that has to start; Keep, how long room is kept when the pod has left.
	Come, Start, Keep moment.Span
	// Grace is added to the time that a job says it needs to save its state.
	Grace moment.Span
	// Hypotheses is how many sets one cycle may try out, where it says nothing else.
	Hypotheses int64
}

// Gains are kinds of gain.
type Gains uint8

const (
	Waiting Gains = 1 << iota // room for those who wait
	Demand                    // room for those who are expected to come
	Nodes                     // whole nodes, to be given to gangs or powered down
)

// Default returns the rules that hold unless somebody says otherwise.
func Default() Rules {
	return Rules{
		For: Waiting, AtOnce: 3, PerHour: 60, MostLoss: 50, Price: 100 * 3600, Horizon: moment.Hour,
		Rest: moment.Hour, Grace: 30 * moment.Second,
		Surge: true, WarmUp: moment.Minute, Come: 5 * moment.Minute, Start: 15 * moment.Minute, Keep: 2 * moment.Minute,
		Hypotheses: 4_000, // about 0.1 s
	}
}
