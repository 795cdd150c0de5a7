package fit

import "github.com/headrace-dev/headrace/internal/core/cluster"

// strand counts pods per domain of one topology.
type strand struct {
	topology cluster.Symbol
	domains  map[cluster.Symbol]domain
	// inhabited counts the domains with nodes, filled those with pods.
	inhabited, filled int32
	// byCount holds how many inhabited domains have as many pods; no domain has
	// fewer than least.
	byCount []int32
	least   int32
}

// domain is how many nodes there are with one value of the label, and how many of
// the pods that count are on them.
type domain struct{ nodes, pods int32 }

func newStrand(topology cluster.Symbol) strand {
	return strand{topology: topology, domains: make(map[cluster.Symbol]domain)}
}

// book adds nodes and pods to the domain of a node; a node without the label
// belongs to none.
func (s *strand) book(spec *cluster.NodeSpec, nodes, pods int32) {
	value, has := spec.Label(s.topology)
	if !has {
		return
	}
	before := s.domains[value]
	after := domain{nodes: before.nodes + nodes, pods: before.pods + pods}
	if after == (domain{}) {
		delete(s.domains, value)
	} else {
		s.domains[value] = after
	}
	s.tally(before, -1)
	s.tally(after, +1)
}

func (s *strand) tally(d domain, sign int32) {
	if d.pods > 0 {
		s.filled += sign
	}
	if d.nodes <= 0 {
		return
	}
	s.inhabited += sign
	at := max(d.pods, 0)
	for int(at) >= len(s.byCount) {
		s.byCount = append(s.byCount, 0)
	}
	s.byCount[at] += sign
	if sign > 0 {
		s.least = min(s.least, at)
	}
}

// fewest returns the fewest pods that an inhabited domain has.
func (s *strand) fewest() int32 {
	for int(s.least) < len(s.byCount) && s.byCount[s.least] == 0 {
		s.least++
	}
	return s.least
}

// at returns how many pods there are in the domain of a node.
func (s *strand) at(spec *cluster.NodeSpec) int32 {
	value, has := spec.Label(s.topology)
	if !has {
		return 0
	}
	return s.domains[value].pods
}
