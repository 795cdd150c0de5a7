package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// scores is what is kept per shape: for each node its score and, in one heap per
// lane, the best. Nodes whose placement takes the same scarce things share a
// lane, since what that costs may change from one decision to the next.
type scores struct {
	read     int    // how far into dirty
	epoch    uint64 // of dirty
	revision uint64 // of the beliefs
	used     uint64 // clock of the last use
	states   []uint64
	values   []int64
	takes    []uint64
	lanes    []lane
	tally    fit.Tally // the nodes' reasons
}

// lane is a heap of claims, the best first. Claims of nodes that changed since
// are out of date; they are dropped when they come to the top, or when there are
// too many.
type lane struct {
	takes  uint64
	valid  int
	claims []claim
}

// claim is a node with the score it had when it was pushed.
type claim struct {
	value int64
	node  int32
}

// claimSlack is how many claims may be out of date before they are renewed,
// beyond as many as are valid.
const claimSlack = 32

func newScores(n int) *scores {
	s := &scores{states: make([]uint64, n), values: make([]int64, n), takes: make([]uint64, n)}
	for i := range s.values {
		s.values[i] = unfit
	}
	return s
}

// set makes a value the node's score.
func (s *scores) set(node cluster.NodeID, value int64, takes uint64, ties []uint64) {
	if s.values[node] != unfit {
		s.lane(s.takes[node]).valid--
	}
	s.values[node], s.takes[node] = value, takes
	if value == unfit {
		return
	}
	l := s.lane(takes)
	l.valid++
	if len(l.claims) > 2*l.valid+claimSlack {
		s.renew(l, ties)
	}
	l.push(claim{value: value, node: int32(node)}, ties)
}

// lane returns the lane of a set of scarce things; there are few.
func (s *scores) lane(takes uint64) *lane {
	for i := range s.lanes {
		if s.lanes[i].takes == takes {
			return &s.lanes[i]
		}
	}
	s.lanes = append(s.lanes, lane{takes: takes})
	return &s.lanes[len(s.lanes)-1]
}

// holds says whether a claim is up to date.
func (s *scores) holds(l *lane, c claim) bool {
	return s.values[c.node] == c.value && s.takes[c.node] == l.takes
}

// renew makes the claims anew from the rows. Dropping those that are out of date
// would not do: a node that came back to an earlier score may be there twice.
func (s *scores) renew(l *lane, ties []uint64) {
	l.claims = l.claims[:0]
	for i, value := range s.values {
		if value != unfit && s.takes[i] == l.takes {
			l.push(claim{value: value, node: int32(i)}, ties)
		}
	}
}

// top returns the best node of a lane; -1 where there is none.
func (s *scores) top(l *lane, ties []uint64) int32 {
	for len(l.claims) > 0 {
		if s.holds(l, l.claims[0]) {
			return l.claims[0].node
		}
		l.pop(ties)
	}
	return -1
}

// earlier says whether node a comes before b among equals: the lower tie, then
// the lower id.
func earlier(ties []uint64, a, b int32) bool {
	return ties[a] < ties[b] || ties[a] == ties[b] && a < b
}

func before(a, b claim, ties []uint64) bool {
	return a.value > b.value || a.value == b.value && earlier(ties, a.node, b.node)
}

func (l *lane) push(c claim, ties []uint64) {
	l.claims = append(l.claims, c)
	for i := len(l.claims) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(l.claims[i], l.claims[parent], ties) {
			return
		}
		l.claims[i], l.claims[parent] = l.claims[parent], l.claims[i]
		i = parent
	}
}

func (l *lane) pop(ties []uint64) {
	last := len(l.claims) - 1
	l.claims[0] = l.claims[last]
	l.claims = l.claims[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && before(l.claims[child+1], l.claims[child], ties) {
			child++
		}
		if child >= last || !before(l.claims[child], l.claims[i], ties) {
			return
		}
		l.claims[i], l.claims[child] = l.claims[child], l.claims[i]
		i = child
	}
}
