package engine

import (
	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// sweep is one cycle's making way in progress.
type sweep struct {
	*round
	freed bool // something was evicted, which may make room for more pods
	moves int  // rises with all that is placed
	// refused holds, of groups that are alike, at how many moves nothing could be done.
	refused map[uint64]int
	// asked holds the units for which room was looked for, and whether the search for it
	// gave up.
	asked map[cluster.GroupID]bool
	// hopeless holds for whom nothing could be done. With a lower priority, less can.
	hopeless map[claimant]refusal
	// open counts, by queue, the claimants in line for whom something may be done;
	// counted are those.
	open    map[cluster.QueueID]int
	counted map[claimant]bool
	// claimants are all in line, of groups or not.
	claimants map[claimant]bool
	wasted    int64 // hypotheses for which nothing was found
	lots      bool  // the budget is for those whose lot it is
	gaveUp    *decision.Reason
}

// claimant names takers that may take the same.
type claimant struct {
	of    tie
	queue cluster.QueueID
}

// refusal is why nobody gives way.
type refusal struct {
	grade   yield.Grade
	guarded int32 // nodes that budgets and protection keep
	gaveUp  bool
}

// newSweep counts the claimants in line. Members of groups are counted one by one: their
// queues stay in line.
func newSweep(r *round, line []cluster.PodID) *sweep {
	s := &sweep{
		round: r, hopeless: make(map[claimant]refusal), asked: make(map[cluster.GroupID]bool),
		open: make(map[cluster.QueueID]int), counted: make(map[claimant]bool), claimants: make(map[claimant]bool),
	}
	for _, pod := range line {
		of := s.claimantOf(pod)
		grouped := r.txn.View().Pod(pod).Spec.Group != cluster.None
		if !grouped && s.counted[of] {
			continue
		}
		s.claimants[of] = true
		if s.open[of.queue]++; !grouped {
			s.counted[of] = true
		}
	}
	return s
}

func (s *sweep) claimantOf(pod cluster.PodID) claimant {
	v := s.txn.View()
	spec := v.Pod(pod).Spec
	return claimant{of: tie{kin: v.Ties(pod), shape: spec.Shape}, queue: spec.Queue}
}

// refuse remembers that nothing can be done for a claimant. When that is so for all of
// a queue, they leave the line.
func (s *sweep) refuse(pod cluster.PodID, of claimant, no refusal) {
	s.hopeless[of] = no
	if !s.counted[of] || s.txn.View().Pod(pod).Spec.Group != cluster.None {
		return
	}
	delete(s.counted, of)
	if s.open[of.queue]--; s.open[of.queue] == 0 {
		s.drop(of.queue)
	}
}

// tell says why a pod still waits: what binds it, and what came of looking for
// somebody who gives way to it.
func (s *sweep) tell(pod cluster.PodID, why *decision.Reason) *decision.Reason {
	budget, left := s.ways.Budget()
	gaveUp := left == 0
	if unit := s.waitingUnit(pod); unit != cluster.None {
		cut, asked := s.asked[unit]
		gaveUp = gaveUp && !asked || cut
	} else if no, asked := s.hopeless[s.claimantOf(pod)]; asked && s.grade(pod) <= no.grade {
		if gaveUp = no.gaveUp; no.guarded > 0 {
			out := *why
			out.Guarded = no.guarded
			return &out
		}
	}
	if gaveUp {
		if s.gaveUp == nil {
			s.gaveUp = &decision.Reason{Code: decision.GaveUp, Need: budget, Have: budget}
		}
		return s.gaveUp
	}
	return why
}

// wastedPart is which part of a budget may go into looking in vain, as a divisor, until
// the rest is for those whose lot it is; of lotsInAll claimants one has it in a cycle,
// another in the next.
const (
	wastedPart = 2
	lotsInAll  = 16
)

// affords says whether the search goes on. When much of the budget has been used in
// vain, the rest is for those whose lot it is: so that nobody waits forever behind others
// for whom much is tried in every cycle, and nothing found.
func (s *sweep) affords() bool {
	budget, left := s.ways.Budget()
	if !s.lots && s.wasted > budget/wastedPart {
		s.lots = true
		s.draw()
	}
	return left > 0
}

// seek begins the search for one taker, and says how to end it: what was used in vain
// is counted.
func (s *sweep) seek() (end func(found bool)) {
	_, before := s.ways.Budget()
	s.ways.Begin()
	return func(found bool) {
		if _, left := s.ways.Budget(); !found {
			s.wasted += before - left
		}
	}
}

// draw drops the queues in which nobody has the lot.
func (s *sweep) draw() {
	if s.line.shares == nil {
		return
	}
	with := make(map[cluster.QueueID]bool)
	// order: sets are filled, whatever the order.
	for of := range s.claimants {
		if s.hasLot(of) {
			with[of.queue] = true
		}
	}
	for i := range s.txn.Base().Queues.Len() {
		if q := cluster.QueueID(i); s.open[q] > 0 && !with[q] {
			s.drop(q)
		}
	}
}

// lucky says whether a pod may be served: everybody is, until only those are whose lot
// it is.
func (s *sweep) lucky(pod cluster.PodID) bool { return !s.lots || s.hasLot(s.claimantOf(pod)) }

func (s *sweep) hasLot(of claimant) bool {
	v := s.txn.Base()
	h := chance.Mix(v.Shape(of.of.shape).Key)
	if of.queue != cluster.None {
		h = chance.Fold(h, v.Queue(of.queue).Key)
	}
	return (h+s.cycle.Number)%lotsInAll == 0
}

// unveil tells the search what has changed by a start.
func (s *sweep) unveil(mark cluster.Mark) { s.stir(s.stirred(mark)) }

// stand is a pod and a node that it was on, or is on now.
type stand struct {
	pod  cluster.PodID
	node cluster.NodeID
}

// stirred lists where pods have been placed or evicted since a mark.
func (s *sweep) stirred(mark cluster.Mark) (out []stand) {
	for _, pod := range s.txn.TouchedSince(mark) {
		for _, node := range [...]cluster.NodeID{s.txn.Base().Pod(pod).Placement.Node, s.txn.View().Pod(pod).Placement.Node} {
			if node != cluster.None {
				out = append(out, stand{pod, node})
			}
		}
	}
	return out
}

func (s *sweep) stir(all []stand) {
	for _, at := range all {
		s.ways.Moved(at.pod, at.node)
	}
}
