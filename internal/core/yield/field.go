package yield

import (
	"container/heap"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// class names takers that may take the same from the same.
type class struct {
	of       uint64
	domain   uint64
	queue    cluster.QueueID
	priority int32
}

// field is what a class of takers finds: the nodes by what a set there costs at least.
// While a cycle goes on less and less may be taken, so a cost only grows; a node where
// room came free is looked at anew.
type field struct {
	nodes    plots
	version  []uint32 // per node: entries of older versions are void
	read     int      // of Search.moved
	straddle bool     // no set was found that leaves all queues their shares
	crossing bool     // some set would take from another queue
}

// plot is a node in the field.
type plot struct {
	cost    Cost
	set     *Set // nil: the cost is a bound
	seen    int  // how far Search.moved had come when the set was found
	node    cluster.NodeID
	version uint32
}

type plots []plot

func (p plots) Len() int { return len(p) }
func (p plots) Less(i, j int) bool {
	if c := p[i].cost.Compare(&p[j].cost); c != 0 {
		return c < 0
	}
	return p[i].node < p[j].node
}
func (p plots) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *plots) Push(x any)   { *p = append(*p, x.(plot)) }
func (p *plots) Pop() any {
	old := *p
	last := old[len(old)-1]
	*p = old[:len(old)-1]
	return last
}

// Best returns the cheapest set on any node; nil where there is none. The transaction
// is left as it was.
func (s *Search) Best(t *Taker) *Set {
	of := class{of: t.Class, domain: t.Domain, queue: t.Queue, priority: t.Priority}
	f := s.fields[of]
	if f == nil {
		f = &field{version: make([]uint32, s.txn.View().Nodes.Len())}
		s.fields[of] = f
		s.survey(f, t)
	}
	for _, node := range s.moved[f.read:] {
		f.version[node]++
		s.enter(f, t, node)
	}
	f.read = len(s.moved)
	if set := s.cheapest(f, t); set != nil || f.straddle || !f.crossing {
		return set
	}
	f.straddle = true
	s.survey(f, t)
	return s.cheapest(f, t)
}

// survey enters all nodes.
func (s *Search) survey(f *field, t *Taker) {
	f.nodes = f.nodes[:0]
	for i := range s.txn.View().Nodes.Len() {
		f.version[i]++
		s.enter(f, t, cluster.NodeID(i))
	}
}

// enter bounds what a set on a node costs, and puts it in the heap.
func (s *Search) enter(f *field, t *Taker, node cluster.NodeID) {
	if cost, any := s.bound(f, t, node); any {
		heap.Push(&f.nodes, plot{cost: cost, node: node, version: f.version[node]})
	}
}

// cheapest looks closely at the nodes whose bound is least, until what was found is
// no dearer than any bound.
func (s *Search) cheapest(f *field, t *Taker) *Set {
	for len(f.nodes) > 0 && s.left > 0 {
		top := &f.nodes[0]
		switch {
		case top.version != f.version[top.node]:
			heap.Pop(&f.nodes)
		case top.set != nil && top.seen == len(s.moved):
			return top.set
		default:
			set := s.evaluate(top.node, t, f.straddle)
			if set == nil {
				heap.Pop(&f.nodes)
				continue
			}
			top.set, top.cost, top.seen = set, set.Cost, len(s.moved)
			heap.Fix(&f.nodes, 0)
		}
	}
	return nil
}

// bound is what a set on a node costs at least; any is false where nobody there can
// make room.
func (s *Search) bound(f *field, t *Taker, node cluster.NodeID) (cost Cost, any bool) {
	v := s.txn.View()
	n := v.Node(node)
	if !n.TakesWork() || n.Overdrawn || len(n.Pods) == 0 || t.Within != nil && !t.Within(node) || !s.open(t.Check(node)) {
		return cost, false
	}
	choices := s.choicesOn([]cluster.NodeID{node}, t)
	if !s.enough(node, t, choices) {
		return cost, false
	}
	slices, wholes := 0, 0
	sum := cluster.Amount{}
	for i := range choices {
		f.crossing = f.crossing || choices[i].cross
	}
	for i := range choices {
		sum = sum.Plus(&choices[i].here)
		if s.suffices(node, t, &sum) {
			cost.Band = choices[i].band
			break
		}
	}
	sum = cluster.Amount{}
	for i := range choices {
		if choices[i].slice {
			slices++
			sum = sum.Plus(&choices[i].here)
		}
	}
	if slices == 0 || !s.suffices(node, t, &sum) {
		wholes = 1
	}
	if cost.Wholes = int32(wholes); wholes == 0 {
		cost.Slices = 1
	}
	cost.Lost = -1
	for i := range choices {
		if c := &choices[i]; c.band <= cost.Band && c.slice == (wholes == 0) && (cost.Lost < 0 || c.lost < cost.Lost) {
			cost.Lost = c.lost
		}
	}
	cost.Lost = max(cost.Lost, 0)
	return cost, true
}

// Guarded counts the nodes where room could be made, if it were not for budgets and
// for protection.
func (s *Search) Guarded(t *Taker) int32 {
	v, n := s.txn.View(), int32(0)
	for i := range v.Nodes.Len() {
		id := cluster.NodeID(i)
		node := v.Node(id)
		if !node.TakesWork() || len(node.Pods) == 0 || t.Within != nil && !t.Within(id) || !s.open(t.Check(id)) {
			continue
		}
		sum, guarded, counted := cluster.Amount{}, false, make(map[cluster.BudgetID]int32)
		for _, pod := range node.Pods {
			p := s.base.Pod(pod)
			if p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning || p.Intent != cluster.None || !s.lesser(p, t) {
				continue
			}
			guarded = guarded || !s.evictable(p) || !s.bears(p, counted)
			sum = sum.Plus(&cluster.Amount{Milli: p.Placement.Milli(), Rest: v.Shape(p.Placement.Shape).Need})
		}
		if guarded && s.suffices(id, t, &sum) {
			n++
		}
	}
	return n
}

// lesser says whether a pod would have to give way to the taker, by priorities and
// shares alone.
func (s *Search) lesser(p *cluster.Pod, t *Taker) bool {
	if p.Spec.Queue == t.Queue || s.rules.PrioritiesAlone {
		return p.Spec.Priority < t.Priority
	}
	if s.court == nil || !s.court.Entitled(s.txn.View(), t.Queue, p.Spec.Queue, &t.Need) {
		return false
	}
	gives := cluster.Amount{Milli: p.Placement.Milli(), Rest: s.base.Shape(p.Placement.Shape).Need}
	above, _ := s.court.Above(s.txn.View(), t.Queue, p.Spec.Queue, &t.Need, &gives)
	return above
}
