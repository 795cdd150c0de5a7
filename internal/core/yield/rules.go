// Package yield finds who gives way to a pod that has no room: the cheapest set of
// victims, chosen together with the node.
//
//	s := yield.New(txn, cycle, rules, court)
//	set, guarded := s.Best(&taker)     // nothing has changed yet
//	s.Carry(set)                       // evicted in the transaction
//
// A choice is what can be taken of a unit: one surplus pod of an elastic group (a
// slice), or the unit with all its pods (whole). Costs are compared field by field:
// see Cost. Small sets are found exactly, large ones by taking all that may be taken
// and giving back what is not needed, the dearest first.
//
// The package leaves it to its caller to place the taker, and to carry anything out.
package yield

import (
	"cmp"

	"github.com/headrace-dev/headrace/internal/core/cluster"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
)

// Rules are the numbers of a policy for who gives way.
type Rules struct {
	// Band is how many priorities are as good as one when victims are chosen.
	Band int32
	// MinRun protects a unit that was evicted before, from its new start on.
	MinRun moment.Span
	// Hold is how long freed room is kept for whom it was freed.
	Hold moment.Span
	// Grace is added to the time that a job says it needs to save its state.
	Grace moment.Span
	// Hypotheses is how many sets one cycle may try out, where it says nothing else.
	Hypotheses int64
	// PrioritiesAlone lets a lower priority give way whatever the queue.
	PrioritiesAlone bool
	// Youngest leaves out what work would be lost: among equals the youngest goes, as
	// with kube-scheduler.
	Youngest bool
	// ClassBlind leaves out of account that work of some SLA classes gives way before that
	// of others.
	ClassBlind bool
	// Tiers lets work give way to that of its queue and priority which has run for less.
	Tiers rank.Tiers
}

// Grade orders work of one queue: the lower gives way to the higher.
type Grade int64

// Steps is how many tiers the grades of one priority tell apart.
const Steps = 1 << 16

// GradeOf goes by the priority, then by the tier.
func (r *Rules) GradeOf(v *cluster.View, p *cluster.Pod, now moment.Instant) Grade {
	g := Grade(p.Spec.Priority) * Steps
	if !r.PrioritiesAlone {
		g -= Grade(r.Tiers.Of(v, p, now))
	}
	return g
}

// Default returns the rules that hold unless somebody says otherwise.
func Default() Rules {
	return Rules{
		Band: 100, MinRun: 10 * moment.Minute, Hold: 10 * moment.Minute, Grace: 30 * moment.Second,
		Hypotheses: 4_000, // about 0.1 s where each finds somebody
		Tiers:      rank.Tiers{moment.Hour, 16 * moment.Hour},
	}
}

// Cost is what it costs that a set of victims goes; the smaller in the first field
// that differs, the cheaper.
type Cost struct {
	Straddles bool   // a queue falls below its share by it
	Band      int64  // the highest priority band among the victims, and in it the class that gives way last
	Wholes    int32  // units that go whole
	Slices    int32  // pods that elastic groups can spare
	Lost      int64  // work lost, in milli-GPU-seconds
	Age       int64  // of the victim that runs for longest
	Takes     int64  // milli-GPU
	Tie       uint64 // of the node, then of the victims
}

// Compare orders costs.
func (c *Cost) Compare(d *Cost) int {
	if c.Straddles != d.Straddles {
		if c.Straddles {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(c.Band, d.Band), cmp.Compare(c.Wholes, d.Wholes), cmp.Compare(c.Slices, d.Slices),
		cmp.Compare(c.Lost, d.Lost), cmp.Compare(c.Age, d.Age), cmp.Compare(c.Takes, d.Takes), cmp.Compare(c.Tie, d.Tie))
}

// with adds a choice.
func (c Cost) with(x *choice) Cost {
	if c.Wholes+c.Slices == 0 || x.band > c.Band {
		c.Band = x.band
	}
	if x.slice {
		c.Slices++
	} else {
		c.Wholes++
	}
	c.Lost += x.lost
	c.Age = max(c.Age, x.age)
	c.Takes += int64(x.gives.Milli)
	return c
}

// givings is how many steps Giving.Order has.
const givings = 3

// levelOf orders victims: by priority band, then by when their SLA classes give way.
func (r *Rules) levelOf(band int64, gives cluster.Giving) int64 {
	if r.ClassBlind {
		gives = cluster.GivesNormally
	}
	return band*givings + gives.Order()
}

// bandOf cuts priorities into bands: 0 to width - 1 is one of them.
func (r *Rules) bandOf(priority int32) int64 {
	width, p := int64(max(r.Band, 1)), int64(priority)
	if p < 0 {
		return -(-(p+1)/width + 1)
	}
	return p / width
}
