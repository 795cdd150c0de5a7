package yield

import (
	"container/heap"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/share"
)

// reach names takers that ask for the same and may take from the same queues, if these
// have nothing more in common with them than the row.
type reach struct {
	of    uint64
	scope int32
}

// class names takers that may take the same from the same.
type class struct {
	reach
	queue cluster.QueueID
	grade Grade
}

// field is nodes by what a set there costs at least. While a cycle goes on less and less
// may be taken, so a cost only grows; a node that has changed is looked at anew.
//
// Each class has a field of the nodes near it: where its own queue is, or those have
// something that it has more in common with than others. All others are one field for
// all classes of a reach: what one of them finds there holds for all of them.
type field struct {
	plots plots
	nodes []cluster.NodeID // in order
	seen  []uint32         // by position in nodes: the version that was entered
	read  int              // of Search.moved
}

// plot is a node in a field.
type plot struct {
	cost    Cost
	set     *Set // nil: the cost is a bound
	at      int  // how far Search.moved had come when the set was found
	node    cluster.NodeID
	version uint32
}

type plots []*plot

func (p plots) Len() int { return len(p) }
func (p plots) Less(i, j int) bool {
	if c := p[i].cost.Compare(&p[j].cost); c != 0 {
		return c < 0
	}
	return p[i].node < p[j].node
}
func (p plots) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *plots) Push(x any)   { *p = append(*p, x.(*plot)) }
func (p *plots) Pop() any {
	old := *p
	last := old[len(old)-1]
	*p = old[:len(old)-1]
	return last
}

// Best returns the cheapest set on any node; nil where there is none. The transaction
// is left as it was.
func (s *Search) Best(t *Taker) *Set {
	scope := share.Scope{}
	if s.standing != nil {
		scope = s.standing.ScopeOf(s.txn.View(), t.Queue, &t.Need)
	}
	near := s.nearField(t, scope)
	far := s.farField(t, scope)
	var aside []*plot
	defer func() {
		for _, p := range aside {
			heap.Push(&far.plots, p)
		}
	}()
	for !s.GaveUp() {
		s.clear(near)
		s.clear(far)
		switch {
		case len(far.plots) > 0 && near.covers(far.plots[0].node):
			aside = append(aside, heap.Pop(&far.plots).(*plot))
			continue
		case len(near.plots)+len(far.plots) == 0:
			return nil
		}
		f := near
		if len(near.plots) == 0 || len(far.plots) > 0 && far.plots[0].cost.Compare(&near.plots[0].cost) < 0 {
			f = far
		}
		if p := f.plots[0]; p.set != nil && p.at == len(s.moved) {
			return p.set
		}
		s.examine(f, t)
	}
	return nil
}

// BestOn returns the cheapest set on any of some nodes.
func (s *Search) BestOn(t *Taker, nodes []cluster.NodeID) *Set {
	f := &field{nodes: nodes}
	s.plant(f, func(*choice) bool { return true })
	s.follow(f, t, func(c *choice) bool { return s.ours(c, t) && c.grade < t.Grade || s.over(c, t) })
	for !s.GaveUp() && len(f.plots) > 0 {
		if p := f.plots[0]; p.set != nil {
			return p.set
		}
		s.examine(f, t)
	}
	return nil
}

// clear drops entries that are void from the head of a field.
func (s *Search) clear(f *field) {
	for len(f.plots) > 0 && f.plots[0].version != s.versions[f.plots[0].node] {
		heap.Pop(&f.plots)
	}
}

// examine looks closely at the first node of a field.
func (s *Search) examine(f *field, t *Taker) {
	p := f.plots[0]
	set, crossing, closed := s.evaluate(p.node, t, p.cost.Straddles)
	switch {
	case set != nil:
		p.set, p.cost, p.at = set, set.Cost, len(s.moved)
		heap.Fix(&f.plots, 0)
	case s.GaveUp():
	case crossing && !closed && !p.cost.Straddles:
		p.cost.Straddles = true // what leaves a queue below its share comes last
		heap.Fix(&f.plots, 0)
	default:
		heap.Pop(&f.plots)
	}
}

func (f *field) covers(node cluster.NodeID) bool {
	_, there := slices.BinarySearch(f.nodes, node)
	return there
}

// nearField returns the nodes where a taker's own queue may give something, or queues
// that it has more in common with than its scope.
func (s *Search) nearField(t *Taker, scope share.Scope) *field {
	of := class{reach: reach{of: t.Class, scope: scope.Row()}, queue: t.Queue, grade: t.Grade}
	may := func(c *choice) bool { return s.ours(c, t) && c.grade < t.Grade || scope.Near(c.queue) && s.over(c, t) }
	admit := func(c *choice) bool { return s.ours(c, t) && c.grade < t.Grade || s.over(c, t) }
	f := s.near[of]
	if f == nil {
		f = &field{}
		s.near[of] = f
		all := s.queues()
		if s.outranks(t) && !s.rules.PrioritiesAlone {
			f.nodes = append(f.nodes, s.homes[t.Queue]...)
		}
		if s.rules.PrioritiesAlone || !scope.Alone() {
			for _, q := range all {
				if s.rules.PrioritiesAlone || scope.Near(q) && s.standing.Over(s.txn.View(), q, &t.Need) {
					f.nodes = append(f.nodes, s.homes[q]...)
				}
			}
		}
		s.plant(f, may)
	}
	s.follow(f, t, admit)
	return f
}

// farField returns the nodes of all other queues that a taker may take from.
func (s *Search) farField(t *Taker, scope share.Scope) *field {
	if scope.Nobody() {
		return &field{}
	}
	admit := func(c *choice) bool { return scope.Has(c.queue) && s.over(c, t) }
	of := reach{of: t.Class, scope: scope.Row()}
	f := s.far[of]
	if f == nil {
		f = &field{}
		s.far[of] = f
		for _, q := range s.queues() {
			if scope.Has(q) && s.standing.Over(s.txn.View(), q, &t.Need) {
				f.nodes = append(f.nodes, s.homes[q]...)
			}
		}
		s.plant(f, admit)
	}
	s.follow(f, t, admit)
	return f
}

// plant leaves a field the nodes where something is admitted.
func (s *Search) plant(f *field, admit func(*choice) bool) {
	f.nodes = slices.Clone(f.nodes)
	slices.Sort(f.nodes)
	f.nodes = slices.DeleteFunc(slices.Compact(f.nodes), func(node cluster.NodeID) bool {
		stock := s.stockOf(node).choices
		for i := range stock {
			if admit(&stock[i]) {
				return false
			}
		}
		return true
	})
	f.seen = make([]uint32, len(f.nodes))
	for i := range f.seen {
		f.seen[i] = s.versions[f.nodes[i]] - 1
	}
	f.read = -1
}

// follow enters the nodes that are new or have changed.
func (s *Search) follow(f *field, t *Taker, admit func(*choice) bool) {
	switch {
	case f.read == len(s.moved):
		return
	case f.read >= 0 && len(s.moved)-f.read < len(f.nodes)/8:
		for _, node := range s.moved[f.read:] {
			if i, there := slices.BinarySearch(f.nodes, node); there {
				s.enter(f, i, t, admit)
			}
		}
	default:
		for i := range f.nodes {
			s.enter(f, i, t, admit)
		}
	}
	f.read = len(s.moved)
}

func (s *Search) enter(f *field, i int, t *Taker, admit func(*choice) bool) {
	node := f.nodes[i]
	if f.seen[i] == s.versions[node] {
		return
	}
	f.seen[i] = s.versions[node]
	if cost, any := s.bound(node, t, admit); any {
		heap.Push(&f.plots, &plot{cost: cost, node: node, version: f.seen[i]})
	}
}

// over says whether a choice is of a queue that has more than its share.
func (s *Search) over(c *choice, t *Taker) bool {
	return s.standing != nil && c.queue != t.Queue && s.standing.Over(s.txn.View(), c.queue, &t.Need)
}

// queues lists the queues that have pods anywhere, and finds their homes.
func (s *Search) queues() []cluster.QueueID {
	if s.homes != nil {
		return s.present
	}
	s.homes = make(map[cluster.QueueID][]cluster.NodeID)
	for i := range s.base.Nodes.Len() {
		node := cluster.NodeID(i)
		for _, id := range s.base.Node(node).Pods {
			p := s.base.Pod(id)
			if !p.Phase.Charged() || p.Placement.Node != node {
				continue
			}
			at := s.homes[p.Spec.Queue]
			if at == nil {
				s.present = append(s.present, p.Spec.Queue)
			}
			if len(at) == 0 || at[len(at)-1] != node {
				s.homes[p.Spec.Queue] = append(at, node)
			}
		}
	}
	return s.present
}
