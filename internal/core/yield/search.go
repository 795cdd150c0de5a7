package yield

import (
	"cmp"
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/share"
)

// Taker is a pod that has no room.
type Taker struct {
	Pod      cluster.PodID
	Queue    cluster.QueueID
	Priority int32
	Grade    Grade
	Need     cluster.Amount
	Own      cluster.GroupID // the root of its groups, where some of them have a place: they do not give way to it
	// Check says what binds the pod on a node, in the transaction as it is.
	Check func(cluster.NodeID) decision.Reason
	// Class is equal for takers that ask for the same on all nodes.
	Class uint64
	// Tie ranks nodes that cost the same.
	Tie func(cluster.NodeID) uint64
}

// Set is who gives way on one node.
type Set struct {
	Node    cluster.NodeID
	Cost    Cost
	choices []choice
}

// Victims lists the pods of a set.
func (s *Set) Victims() []cluster.PodID {
	var out []cluster.PodID
	for i := range s.choices {
		out = append(out, s.choices[i].pods...)
	}
	return out
}

// Search is one cycle's search for victims.
type Search struct {
	txn      *cluster.Txn
	base     *cluster.Snapshot
	cycle    decision.Cycle
	rules    Rules
	standing *share.Standing // of the queues; nil: nobody gives way across them

	left, budget int64
	floor        int64 // what the search for one taker leaves
	spent        map[cluster.BudgetID]int32
	stocks       []stock  // by node
	versions     []uint32 // by node: rises with every change
	moved        []cluster.NodeID
	homes        map[cluster.QueueID][]cluster.NodeID // where pods of a queue are
	near         map[class]*field
	far          map[reach]*field
	bars         map[reach]bar
	lowest       map[cluster.QueueID]Grade // of those that may have to go; nil before the first look
	trees        []cluster.GroupID         // those looked at, while choices are listed
	amounts      []int64                   // scratch of bounds
	guarded      []cluster.NodeID          // where somebody is kept by a budget, or protected
	guards       int                       // nodes looked at for what is guarded
	present      []cluster.QueueID         // the queues with pods anywhere
	admitted     []*choice                 // scratch of bounds
}

// New begins a search in a transaction. Without a standing nobody gives way across
// queues.
func New(t *cluster.Txn, c decision.Cycle, r Rules, standing *share.Standing) *Search {
	if r.PrioritiesAlone {
		standing = nil
	}
	s := &Search{
		txn: t, base: t.Base(), cycle: c, rules: r, standing: standing, budget: r.Hypotheses,
		spent: t.Base().Outstanding(), versions: make([]uint32, t.Base().Nodes.Len()),
		near: make(map[class]*field), far: make(map[reach]*field), bars: make(map[reach]bar),
	}
	if c.Budget > 0 {
		s.budget = c.Budget
	}
	s.left = s.budget
	return s
}

// Begin begins the search for one taker. It may use so much of the budget that one which
// is hard to serve leaves something for others.
func (s *Search) Begin() {
	s.floor = max(s.left-max(s.budget/takersAtLeast, leastPerTaker), 0)
}

// takersAtLeast is how many takers a budget is enough for, where it is large.
const takersAtLeast = 4

// leastPerTaker is what the search for one taker may use of a small budget.
const leastPerTaker = 256

// GaveUp says whether the search for the taker ended because it may try no more sets.
func (s *Search) GaveUp() bool { return s.left <= s.floor }

// Budget is how many sets a cycle may try, and how many of them are left.
func (s *Search) Budget() (all, left int64) { return s.budget, max(s.left, 0) }

// Moved tells that a pod was placed on a node, or has left it.
func (s *Search) Moved(pod cluster.PodID, node cluster.NodeID) {
	s.stir(node)
	if group := s.base.Pod(pod).Spec.Group; group != cluster.None {
		s.stirTree(s.txn.View().Root(group))
	}
}

// stir forgets what was known of a node.
func (s *Search) stir(node cluster.NodeID) {
	if s.versions[node]++; s.stocks != nil {
		s.stocks[node].known = false
	}
	s.moved = append(s.moved, node)
}

// stirTree stirs the nodes on which a tree of groups is: what one of its pods does
// changes what the others are.
func (s *Search) stirTree(root cluster.GroupID) {
	for id := range s.txn.View().TreeMembers(root) {
		if p := s.base.Pod(id); p.Phase.Charged() {
			s.stir(p.Placement.Node)
		}
	}
}

// evaluate finds the cheapest set on one node; nil where there is none: crossing says
// then whether one of its choices is of another queue, and closed that room is not what
// binds there. It leaves the transaction as it was. A look counts as one hypothesis at
// least.
func (s *Search) evaluate(node cluster.NodeID, t *Taker, straddle bool) (set *Set, crossing, closed bool) {
	before := s.left
	defer func() { s.left = min(s.left, before-1) }()
	if !s.open(t.Check(node)) {
		return nil, false, true
	}
	choices := s.choicesOn([]cluster.NodeID{node}, t)
	if !s.enough(node, t, choices) {
		return nil, false, false
	}
	crossing = slices.ContainsFunc(choices, func(c choice) bool { return c.cross })
	set, known := s.exact(node, t, choices, straddle)
	if !known {
		set = s.greedy(node, t, choices, straddle)
	}
	return set, crossing, false
}

// open says whether what binds is room that others hold.
func (s *Search) open(why decision.Reason) bool { return Helps(why.Code) }

// Helps says whether somebody's leaving may undo what binds.
func Helps(c decision.Code) bool { return c.LeavingHelps() }

// enough says whether all choices together leave as much as is needed; more than the
// amounts is not looked at.
func (s *Search) enough(node cluster.NodeID, t *Taker, choices []choice) bool {
	sum := cluster.Amount{}
	for i := range choices {
		sum = sum.Plus(&choices[i].here)
	}
	return len(choices) > 0 && s.suffices(node, t, &sum)
}

// suffices says whether a node has room for the taker with so much more free, by the
// amounts alone.
func (s *Search) suffices(node cluster.NodeID, t *Taker, more *cluster.Amount) bool {
	n := s.txn.View().Node(node)
	if n.FreeMilli+more.Milli < t.Need.Milli {
		return false
	}
	free := n.Free.Plus(&more.Rest)
	_, short := free.ShortOf(&t.Need.Rest)
	return !short
}

// setsListed bounds the sets of one size that are listed on a node before the search
// turns to giving back: the sets of up to four out of sixteen are fewer.
const setsListed = 3000

// listedAsOne is how many sets that are only listed count as one that is tried.
const listedAsOne = 64

// exact lists sets of choices on a node from the cheapest on until one leaves room;
// known is false where they are too many.
func (s *Search) exact(node cluster.NodeID, t *Taker, choices []choice, straddle bool) (set *Set, known bool) {
	l := lister{
		search:   s,
		suffices: func(sum *cluster.Amount) bool { return s.suffices(node, t, sum) },
		try:      func(picked []choice) *Set { return s.try(node, t, picked, straddle) },
		tries:    math.MaxInt,
	}
	return l.exact(choices)
}

// exact goes through the bands, the lowest first. Each set has one of the highest band:
// those without were tried before.
func (l *lister) exact(choices []choice) (set *Set, known bool) {
	from := 0
	for from < len(choices) {
		to := from + 1
		for to < len(choices) && choices[to].band == choices[from].band {
			to++
		}
		if set, known := l.inBand(choices[:to], choices[from].band); set != nil || !known {
			return set, known
		}
		from = to
	}
	return nil, true
}

func (l *lister) inBand(choices []choice, band int64) (set *Set, known bool) {
	sum, slots := cluster.Amount{}, 0
	for i := range choices {
		sum = sum.Plus(&choices[i].here)
		if choices[i].slice {
			slots++
		}
	}
	if !l.suffices(&sum) {
		return nil, true
	}
	l.order(choices, band)
	for wholes := range len(choices) - slots + 1 {
		for sliced := range slots + 1 {
			if wholes+sliced == 0 {
				continue
			}
			l.found, l.listed = l.found[:0], 0
			l.list(0, wholes, sliced)
			l.search.left -= int64(l.listed / listedAsOne)
			if l.listed >= setsListed || l.search.GaveUp() {
				return nil, l.search.GaveUp()
			}
			slices.SortFunc(l.found, func(a, b candidate) int { return a.cost.Compare(&b.cost) })
			for i := range l.found {
				if l.tries--; l.tries < 0 {
					return nil, false
				}
				if set := l.try(l.pick(&l.found[i])); set != nil {
					return set, true
				}
			}
		}
	}
	return nil, true
}

// lister lists the sets of so many wholes and slices.
type lister struct {
	search   *Search
	suffices func(sum *cluster.Amount) bool // says whether so much more may be enough
	try      func(picked []choice) *Set
	tries    int // how many more sets may be tried
	band     int64
	choices  []choice // alike ones next to each other, the cheapest first
	picked   []int32
	found    []candidate
	listed   int
}

type candidate struct {
	cost   Cost
	picked []int32
}

func (l *lister) order(choices []choice, band int64) {
	l.band = band
	l.choices = slices.Clone(choices)
	slices.SortStableFunc(l.choices, func(a, b choice) int {
		return cmp.Or(compareBools(a.slice, b.slice), cmp.Compare(a.alike, b.alike), cmp.Compare(a.band, b.band))
	})
}

// list goes through the choices from i on. Of alike ones the cheaper is taken before
// the dearer.
func (l *lister) list(i, wholes, sliced int) {
	if wholes+sliced == 0 {
		l.note()
		return
	}
	if l.listed++; i == len(l.choices) || l.listed >= setsListed {
		return
	}
	c := &l.choices[i]
	if left := &wholes; true {
		if c.slice {
			left = &sliced
		}
		if *left > 0 {
			*left--
			l.picked = append(l.picked, int32(i))
			l.list(i+1, wholes, sliced)
			l.picked = l.picked[:len(l.picked)-1]
			*left++
		}
	}
	next := i + 1
	for c.alike != 0 && next < len(l.choices) && l.choices[next].alike == c.alike && l.choices[next].band == c.band && l.choices[next].slice == c.slice {
		next++
	}
	l.list(next, wholes, sliced)
}

// note keeps a set that is in the band and leaves enough.
func (l *lister) note() {
	sum, cost, tie := cluster.Amount{}, Cost{}, uint64(0)
	for _, i := range l.picked {
		c := &l.choices[i]
		sum = sum.Plus(&c.here)
		cost = cost.with(c)
		tie += chance.Mix(c.key)
	}
	cost.Tie = tie
	if cost.Band == l.band && l.suffices(&sum) {
		l.found = append(l.found, candidate{cost: cost, picked: slices.Clone(l.picked)})
	}
}

func (l *lister) pick(c *candidate) []choice {
	out := make([]choice, len(c.picked))
	for k, i := range c.picked {
		out[k] = l.choices[i]
	}
	return out
}

// try takes a set and looks whether the taker has room then. The transaction is left
// as it was.
func (s *Search) try(node cluster.NodeID, t *Taker, choices []choice, straddle bool) *Set {
	s.left--
	mark := s.txn.Mark()
	defer s.txn.Rollback(mark)
	straddles, allowed := s.take(t, choices)
	if !allowed || straddles && !straddle || !t.Check(node).None() {
		return nil
	}
	set := &Set{Node: node, choices: choices}
	for i := range choices {
		set.Cost = set.Cost.with(&choices[i])
	}
	set.Cost.Straddles, set.Cost.Tie = straddles, t.Tie(node)
	return set
}

// take evicts choices in the transaction: first what the taker's own queue gives, then
// the smaller before the larger; each has to be above its share before it goes, and the
// taker entitled to what is another queue's when its own has given.
func (s *Search) take(t *Taker, choices []choice) (straddles, allowed bool) {
	order := choices
	if len(choices) > 1 {
		order = slices.Clone(choices)
		slices.SortFunc(order, func(a, b choice) int {
			return cmp.Or(compareBools(a.cross, b.cross), cmp.Compare(a.gives.Milli, b.gives.Milli), cmp.Compare(a.key, b.key))
		})
	}
	v := s.txn.View()
	var budgets map[cluster.BudgetID]int32
	scope, asked := share.Scope{}, false
	for i := range order {
		c := &order[i]
		if c.cross {
			if !asked {
				scope, asked = s.standing.ScopeOf(v, t.Queue, &t.Need), true
			}
			above, stays := s.standing.Above(v, t.Queue, c.queue, &t.Need, &c.gives)
			if !above || !scope.Has(c.queue) {
				return straddles, false
			}
			straddles = straddles || !stays
		}
		if c.slice {
			if g := v.Group(s.base.Pod(c.pods[0]).Spec.Group); g.Placed <= g.Minimum {
				return straddles, false
			}
		}
		if c.bound && budgets == nil {
			budgets = make(map[cluster.BudgetID]int32)
		}
		for _, id := range c.pods {
			if v.Pod(id).Phase == cluster.PhaseWaiting {
				continue // taken as a slice already
			}
			if c.bound && !s.bears(s.base.Pod(id), budgets) || s.txn.Evict(id) != nil {
				return straddles, false
			}
		}
	}
	return straddles, true
}

// bears says whether budgets bear one more eviction.
func (s *Search) bears(p *cluster.Pod, budgets map[cluster.BudgetID]int32) bool {
	if b := s.base.BudgetOf(p); b != nil {
		if budgets[p.Budget]++; s.spent[p.Budget]+budgets[p.Budget] > b.Left {
			return false
		}
	}
	return true
}

// greedy takes all that may be taken, and gives back what is not needed, the dearest
// first; then it looks whether one whole can stand for several.
func (s *Search) greedy(node cluster.NodeID, t *Taker, choices []choice, straddle bool) *Set {
	var taken []choice
	for i := range choices {
		more := append(slices.Clip(taken), choices[i])
		if s.allowed(t, more, straddle) {
			taken = more
		}
		if set := s.tryIfEnough(node, t, taken, straddle); set != nil {
			break
		}
	}
	if s.tryIfEnough(node, t, taken, straddle) == nil {
		return nil
	}
	for i := len(taken) - 1; i >= 0; i-- {
		less := slices.Delete(slices.Clone(taken), i, i+1)
		if len(less) > 0 && s.tryIfEnough(node, t, less, straddle) != nil {
			taken = less
		}
	}
	best := s.try(node, t, taken, straddle)
	for i := range choices {
		if best == nil || s.GaveUp() {
			break
		}
		if set := s.tryIfEnough(node, t, choices[i:i+1:i+1], straddle); set != nil && set.Cost.Compare(&best.Cost) < 0 {
			best = set
		}
	}
	return best
}

func (s *Search) allowed(t *Taker, choices []choice, straddle bool) bool {
	mark := s.txn.Mark()
	defer s.txn.Rollback(mark)
	straddles, allowed := s.take(t, choices)
	return allowed && (straddle || !straddles)
}

func (s *Search) tryIfEnough(node cluster.NodeID, t *Taker, choices []choice, straddle bool) *Set {
	if s.GaveUp() || !s.enough(node, t, choices) {
		return nil
	}
	return s.try(node, t, choices, straddle)
}

// Carry evicts a set in the transaction. It says which nodes have changed; ok is
// false, and nothing has changed, where the set is out of date.
func (s *Search) Carry(t *Taker, set *Set) (nodes []cluster.NodeID, ok bool) {
	mark := s.txn.Mark()
	if _, allowed := s.take(t, set.choices); !allowed {
		s.txn.Rollback(mark)
		return nil, false
	}
	for _, id := range set.Victims() {
		p := s.base.Pod(id)
		if p.Budget != cluster.None {
			s.spent[p.Budget]++
		}
		nodes = append(nodes, p.Placement.Node)
	}
	s.stirAll(set.Victims())
	return nodes, true
}

// Restore forgets that pods were to go: they are back in the transaction.
func (s *Search) Restore(pods []cluster.PodID) {
	for _, id := range pods {
		if p := s.base.Pod(id); p.Budget != cluster.None {
			s.spent[p.Budget]--
		}
	}
	s.stirAll(pods)
}

// stirAll stirs the nodes of pods that have left or are back, and of their groups.
func (s *Search) stirAll(pods []cluster.PodID) {
	var trees []cluster.GroupID
	for _, id := range pods {
		p := s.base.Pod(id)
		s.stir(p.Placement.Node)
		if p.Spec.Group == cluster.None {
			continue
		}
		if root := s.txn.View().Root(p.Spec.Group); !slices.Contains(trees, root) {
			trees = append(trees, root)
			s.stirTree(root)
		}
	}
}
