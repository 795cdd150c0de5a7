package warm

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Expectations are the beliefs about arrivals, by artifact. They never change.
type Expectations struct {
	beliefs   *cluster.Beliefs
	artifacts int
	rows      []cluster.Arrival
	of        [][]int32 // by artifact: rows that need it
}

// Expect makes expectations of what is believed, or returns those that still hold.
func Expect(v *cluster.View, old *Expectations) *Expectations {
	if old != nil && old.beliefs == v.Beliefs && old.artifacts == v.Artifacts.Len() {
		return old
	}
	e := &Expectations{beliefs: v.Beliefs, artifacts: v.Artifacts.Len(), of: make([][]int32, v.Artifacts.Len())}
	if v.Beliefs == nil || v.Beliefs.Arrivals == nil {
		return e
	}
	e.rows = v.Beliefs.Arrivals.Rows
	for i := range e.rows {
		for _, id := range e.rows[i].Artifacts {
			e.of[id] = append(e.of[id], int32(i))
		}
	}
	return e
}

// gaps is a set of artifacts that a node lacks, or is to lack.
type gaps struct {
	cache *cluster.Cache
	gone  []cluster.ArtifactID // of what is there
	come  []cluster.ArtifactID // of what is not
}

func (g *gaps) lacks(id cluster.ArtifactID) bool {
	if slices.Contains(g.come, id) {
		return false
	}
	return slices.Contains(g.gone, id) || g.cache.Find(id) < 0 && g.cache.Awaits(id) < 0
}

// wait is how long a start waits on a node with gaps, in milliseconds: artifacts of
// different sorts come side by side.
func (s *Search) wait(needs []cluster.ArtifactID, g *gaps) int64 {
	var times cluster.FetchTimes
	for _, id := range needs {
		if g.lacks(id) {
			a := s.view().Artifact(id)
			times[a.Sort] += g.cache.Takes(a)
		}
	}
	return int64(times.Total(s.rules.Beside) / moment.Millisecond)
}

// copies counts the nodes that hold, or await, all that a kind needs, by the artifact
// that the fewest have.
func (s *Search) copies(needs []cluster.ArtifactID) int {
	least := -1
	for _, id := range needs {
		a := s.view().Artifact(id)
		if n := len(a.Nodes) + int(a.Ways); least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

// copiesOf is copies of what a kind needs, counted once.
func (s *Search) copiesOf(row int32) int {
	if s.counts[row] == 0 {
		s.counts[row] = 1 + s.copies(s.expect.rows[row].Artifacts)
	}
	return s.counts[row] - 1
}

// farCopies is the number of copies beyond which one more saves nothing.
const farCopies = 24

// landing is how many of the starts of a kind, in millionths, land on one more copy
// beside so many others.
func (s *Search) landing(others int) int64 {
	if others > farCopies {
		return 0
	}
	rest := int64(1_000_000)
	for range others {
		rest = rest * int64(quantity.One-s.rules.Reach) / int64(quantity.One)
	}
	return rest * int64(s.rules.Reach) / int64(quantity.One)
}

// worth is what a change of a node's cache changes for those who are expected to start:
// in microseconds of starts per hour. Before and after are what the node lacks.
func (s *Search) worth(row *cluster.Arrival, others int, before, after *gaps) int64 {
	saved := s.wait(row.Artifacts, before) - s.wait(row.Artifacts, after)
	if saved == 0 {
		return 0
	}
	// milliseconds × thousandths per hour = microseconds per hour
	return quantity.MulDiv(saved*int64(row.PerHour), s.landing(others), 1_000_000)
}

// loss is what is lost when one more artifact goes from a node.
func (s *Search) loss(g *gaps, id cluster.ArtifactID) int64 {
	after := *g
	after.gone = append(after.gone[:len(after.gone):len(after.gone)], id)
	sum := int64(0)
	for _, i := range s.expect.of[id] {
		row := &s.expect.rows[i]
		sum -= s.worth(row, max(s.copiesOf(i)-1, 0), g, &after)
	}
	return sum
}
