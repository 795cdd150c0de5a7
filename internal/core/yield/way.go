package yield

import (
	"math/bits"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// Trial is something that is tried out: it evicts, looks whether the taker can be
// placed, and leaves everything as it was.
type Trial func(evict func() (nodes []cluster.NodeID, ok bool)) bool

// allListed bounds the choices of which all sets are listed.
const allListed = 10

// mostPruned bounds the choices that are looked at where not all sets are listed: the
// cheapest of a rack.
const mostPruned = 256

// Way finds who gives way to a group in a set of nodes: all sets are tried from the
// cheapest on where they are few; else all that may be taken is, and what is not needed
// is given back, the dearest first.
func (s *Search) Way(t *Taker, nodes []cluster.NodeID, trial Trial) *Set {
	choices := s.choicesOn(nodes, t)
	if len(choices) == 0 || !s.domainSuffices(nodes, t, choices) {
		return nil
	}
	w := way{search: s, t: t, nodes: nodes, trial: trial}
	for _, straddle := range [...]bool{false, true} {
		var set *Set
		if len(choices) <= allListed {
			set = w.listed(choices, straddle)
		} else {
			set = w.pruned(choices, straddle)
		}
		if set != nil || !slices.ContainsFunc(choices, func(c choice) bool { return c.cross }) {
			return set
		}
	}
	return nil
}

type way struct {
	search *Search
	t      *Taker
	nodes  []cluster.NodeID
	trial  Trial
}

// domainSuffices looks at compute alone, over all nodes.
func (s *Search) domainSuffices(nodes []cluster.NodeID, t *Taker, choices []choice) bool {
	sum := cluster.Amount{}
	for i := range choices {
		sum.Milli += choices[i].here.Milli // slices count twice, which is as well
	}
	for _, id := range nodes {
		sum.Milli += s.txn.View().Node(id).FreeMilli
	}
	return sum.Milli >= t.Need.Milli
}

// try takes a set in a trial.
func (w *way) try(choices []choice, straddle bool) *Set {
	s := w.search
	s.left--
	set := &Set{Node: w.nodes[0], choices: choices}
	straddles := false
	if !w.trial(func() (nodes []cluster.NodeID, ok bool) {
		if straddles, ok = s.take(w.t, choices); !ok || straddles && !straddle {
			return nil, false
		}
		for _, id := range set.Victims() {
			nodes = append(nodes, s.base.Pod(id).Placement.Node)
		}
		return nodes, true
	}) {
		return nil
	}
	for i := range choices {
		set.Cost = set.Cost.with(&choices[i])
	}
	set.Cost.Straddles, set.Cost.Tie = straddles, w.t.Tie(w.nodes[0])
	return set
}

// listed tries all sets, the cheapest first.
func (w *way) listed(choices []choice, straddle bool) *Set {
	var found []candidate
	for mask := 1; mask < 1<<len(choices); mask++ {
		c := candidate{}
		sum := []choice(nil)
		for rest := mask; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros(uint(rest))
			c.picked = append(c.picked, int32(i))
			c.cost = c.cost.with(&choices[i])
			c.cost.Tie += choices[i].key
			sum = append(sum, choices[i])
		}
		if w.search.domainSuffices(w.nodes, w.t, sum) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return a.cost.Compare(&b.cost) })
	l := lister{choices: choices}
	for i := range found {
		if w.search.GaveUp() {
			return nil
		}
		if set := w.try(l.pick(&found[i]), straddle); set != nil {
			return set
		}
	}
	return nil
}

// pruned takes all that may be taken up to the first that makes room, by halving, and
// gives back what is not needed.
func (w *way) pruned(choices []choice, straddle bool) *Set {
	s := w.search
	var may []choice
	for i := range choices[:min(len(choices), mostPruned)] {
		if next := append(slices.Clip(may), choices[i]); s.allowed(w.t, next, straddle) {
			may = next
		}
	}
	if len(may) == 0 || w.try(may, straddle) == nil {
		return nil
	}
	low, high := 1, len(may)
	for low < high {
		if mid := (low + high) / 2; s.domainSuffices(w.nodes, w.t, may[:mid]) && w.try(may[:mid:mid], straddle) != nil {
			high = mid
		} else {
			low = mid + 1
		}
	}
	taken := slices.Clone(may[:high])
	for i := len(taken) - 1; i >= 0 && !s.GaveUp(); i-- {
		less := slices.Delete(slices.Clone(taken), i, i+1)
		if len(less) > 0 && s.domainSuffices(w.nodes, w.t, less) && w.try(less, straddle) != nil {
			taken = less
		}
	}
	return w.try(taken, straddle)
}
