package yield

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Trial is something that is tried out: it evicts, looks whether the taker can be
// placed, and leaves everything as it was.
type Trial func(evict func() (nodes []cluster.NodeID, ok bool)) bool

// mostTried bounds the sets that are tried one by one, the cheapest first, before all
// that may be taken is, and what is not needed is given back.
const mostTried = 100

// mostPruned bounds the choices of which sets are tried one by one, and how many are
// taken to be given back: the cheapest of a rack.
const mostPruned = 256

// Way finds who gives way to a group in a set of nodes, which are in order: sets are
// tried from the cheapest on where few have to go. Else it begins with a guess, the sets
// that leave room for one member after the other, or with all that may be taken, and
// gives back what is not needed, the dearest first.
func (s *Search) Way(t *Taker, nodes []cluster.NodeID, guess func() []*Set, trial Trial) *Set {
	choices := s.choicesOn(nodes, t)
	if len(choices) == 0 || !s.domainSuffices(nodes, t, choices) {
		return nil
	}
	w := way{search: s, t: t, nodes: nodes, trial: trial}
	crossing := slices.ContainsFunc(choices, func(c choice) bool { return c.cross })
	var members []choice
	guessed := false
	for _, straddle := range [...]bool{false, true} {
		var set *Set
		few, known := len(choices) <= mostPruned, false
		if few {
			set, known = w.listed(choices, straddle)
		}
		if !known {
			if !guessed {
				members, guessed = s.union(choices, guess()), true
			}
			set = w.trimmed(members, straddle)
			if few || set == nil {
				if other := w.pruned(choices, straddle); other != nil && (set == nil || other.Cost.Compare(&set.Cost) < 0) {
					set = other
				}
			}
		}
		if set != nil || !crossing || s.GaveUp() {
			return set
		}
	}
	return nil
}

// union is what the choices of sets come to, of those that may be taken: who gives a
// slice in one set and goes whole in another goes whole.
func (s *Search) union(choices []choice, sets []*Set) (out []choice) {
	v := s.txn.View()
	gone := make(map[cluster.PodID]bool)
	whole := make(map[cluster.GroupID]bool)
	for _, set := range sets {
		for i := range set.choices {
			c := &set.choices[i]
			if group := s.base.Pod(c.pods[0]).Spec.Group; group != cluster.None && !c.slice {
				whole[v.Root(group)] = true
			}
			for _, pod := range c.pods {
				gone[pod] = true
			}
		}
	}
	for i := range choices {
		c := &choices[i]
		group := s.base.Pod(c.pods[0]).Spec.Group
		takes := gone[c.pods[0]]
		if group != cluster.None {
			takes = whole[v.Root(group)] != c.slice && (gone[c.pods[0]] || !c.slice)
		}
		if takes {
			out = append(out, *c)
		}
	}
	return out
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
	return s.idle(nodes)+sum.Milli >= t.Need.Milli
}

func (s *Search) idle(nodes []cluster.NodeID) (sum quantity.MilliGPU) {
	for _, id := range nodes {
		sum += s.txn.View().Node(id).FreeMilli
	}
	return sum
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

// listed tries sets, the cheapest first; known is false where they are too many.
func (w *way) listed(choices []choice, straddle bool) (set *Set, known bool) {
	idle := w.search.idle(w.nodes)
	l := lister{
		search:   w.search,
		suffices: func(sum *cluster.Amount) bool { return idle+sum.Milli >= w.t.Need.Milli },
		try:      func(picked []choice) *Set { return w.try(picked, straddle) },
		tries:    mostTried,
	}
	return l.exact(choices)
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
	return w.trimmed(may[:high], straddle)
}

// trimmed gives back what is not needed of a set, the dearest first; nil where it does
// not make room.
func (w *way) trimmed(taken []choice, straddle bool) *Set {
	if len(taken) == 0 {
		return nil
	}
	set := w.try(taken, straddle)
	for i := len(taken) - 1; set != nil && i >= 0 && !w.search.GaveUp(); i-- {
		less := slices.Delete(slices.Clone(taken), i, i+1)
		if len(less) == 0 || !w.search.domainSuffices(w.nodes, w.t, less) {
			continue
		}
		if fewer := w.try(less, straddle); fewer != nil {
			taken, set = less, fewer
		}
	}
	return set
}
