package tidy

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Hands place pods in the transaction, as the policy would.
type Hands interface {
	// Binds says what keeps a waiting pod off a node now.
	Binds(pod cluster.PodID, node cluster.NodeID) decision.Reason
	// Roomy says whether any node takes a pod's shape now.
	Roomy(pod cluster.PodID) bool
	// Worth is what a waiting pod would put to use on a node that takes it, less what it
	// would take there from those who are expected, in micro-GPU; 0 where nobody is.
	Worth(pod cluster.PodID, node cluster.NodeID) int64
	// Put places a waiting pod on a node, or says that it cannot.
	Put(pod cluster.PodID, node cluster.NodeID) bool
	// Settle places a waiting pod where it is best of the nodes that pass, and says how good
	// that is; None where nothing takes it.
	Settle(pod cluster.PodID, pass func(cluster.NodeID) bool) (node cluster.NodeID, worth int64)
	// Still says whether nobody leaves a node, in this plan or by an earlier one: what is
	// free there is free now.
	Still(node cluster.NodeID) bool
	// Beside says whether another pod like one that runs may be on a node, too.
	Beside(pod cluster.PodID, node cluster.NodeID) bool
	// Lift takes a running pod off its node, or says that it cannot.
	Lift(pod cluster.PodID) bool
	// Attempt does something that leaves all as it was where it says no.
	Attempt(do func() bool) bool
}

// Goal is a waiting pod that room is looked for.
type Goal struct {
	Pod  cluster.PodID
	Gain int64 // in milli-GPU-seconds
}

// Move is one pod that goes elsewhere.
type Move struct {
	Pod      cluster.PodID
	From, To cluster.NodeID
	Price    int64 // in milli-GPU-seconds
}

// Set is what is done for one gain: the moves, in an order in which each finds its place
// free, and where the goal is then.
type Set struct {
	Node        cluster.NodeID
	Moves       []Move
	Gain, Price int64
	Worth       int64 // how much better it is for the rest, in the scale of the policy
	tie         uint64
}

// compare is from the better to the worse: the cheaper; then what leaves more worth.
func (s *Set) compare(t *Set) int {
	return cmp.Or(cmp.Compare(s.Price, t.Price), -cmp.Compare(s.Worth, t.Worth), cmp.Compare(s.tie, t.tie), cmp.Compare(s.Node, t.Node))
}

// Search is one cycle's search for moves.
type Search struct {
	txn   *cluster.Txn
	base  *cluster.Snapshot
	cycle decision.Cycle
	rules Rules
	hands Hands

	budget, left int64
	allowed      int32 // how many more moves the hour has
	spent        map[cluster.BudgetID]int32
	moved        map[cluster.PodID]bool
	order        []cluster.NodeID // all nodes
}

// New begins a search in a transaction.
func New(t *cluster.Txn, c decision.Cycle, r Rules, h Hands) *Search {
	s := &Search{
		txn: t, base: t.Base(), cycle: c, rules: r, hands: h, budget: r.Hypotheses,
		spent: t.Base().Outstanding(), moved: make(map[cluster.PodID]bool),
	}
	if c.Budget > 0 {
		s.budget = c.Budget
	}
	s.left = s.budget
	if r.PerHour > 0 {
		s.allowed = max(r.PerHour-t.Base().MovedSince(c.Now, moment.Hour), 0)
	} else {
		s.allowed = 1<<31 - 1
	}
	return s
}

// Allowed is how many more moves this hour may have.
func (s *Search) Allowed() int32 { return s.allowed }

// GaveUp says whether the search ended because it may try no more sets.
func (s *Search) GaveUp() bool { return s.left <= 0 }

// GainOf is what it is worth that a waiting pod starts: its compute, for as long as it is
// expected to run, or as far as anybody looks.
func (s *Search) GainOf(pod cluster.PodID) int64 {
	p := s.base.Pod(pod)
	lasts := s.rules.Horizon
	if left, known := s.base.Leftover(p, s.cycle.Now); known {
		lasts = min(lasts, left)
	}
	return quantity.MulDiv(int64(s.base.Shape(p.Spec.Shape).Milli()), int64(lasts), int64(moment.Second))
}

// PriceOf is what it costs to move a pod; ok is false where it stays where it is.
func (s *Search) PriceOf(pod cluster.PodID) (price int64, ok bool) {
	p := s.base.Pod(pod)
	if s.moved[pod] || !s.movable(p) {
		return 0, false
	}
	now := s.cycle.Now
	if s.Surges(p) {
		return s.overlap(p) + s.rules.Price, true
	}
	lost := s.base.LostFor(p, now)
	if lost > 0 {
		left, known := s.base.Leftover(p, now)
		if !known || quantity.MulDiv(int64(left), int64(s.rules.MostLoss), int64(quantity.One)) < int64(lost) {
			return 0, false
		}
	}
	return s.base.LostWith(p, now) + s.rules.Price, true
}

// movable says whether a pod may be moved at all: it runs, nothing is under way for it,
// it is not protected, a budget bears it, it has not been disturbed lately. Members of
// groups stay: where they are to each other is not ours to change.
func (s *Search) movable(p *cluster.Pod) bool {
	now := s.cycle.Now
	switch {
	case p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning,
		p.Intent != cluster.None, p.Spec.Protected, p.Kept.Until > now, p.Spec.Group != cluster.None, p.GoneBy != 0,
		p.Placement.Lease != nil, p.Displaced > 0 && now.Since(p.Displaced) < s.rules.Rest,
		p.Rests > 0 && now.Since(p.Rests) < s.rules.Rest, s.rules.Owned && p.Spec.Owner == 0:
		return false
	}
	if s.Surges(p) {
		return s.roomForTwo(p)
	}
	if b := s.base.BudgetOf(p); b != nil && s.spent[p.Budget] >= b.Left {
		return false
	}
	j := s.base.JobOf(p)
	return j == nil || j.Preemptible && j.Disruptions != 0 && (j.Displaced == 0 || now.Since(j.Displaced) >= s.rules.Rest)
}

// Unlock finds the best set of moves after which a goal has a place on one of some nodes;
// nil: on any. It returns nil where there is none whose price is below the gain, and
// leaves the transaction as it was.
func (s *Search) Unlock(g *Goal, nodes []cluster.NodeID) *Set {
	fields := s.fields(g, nodes)
	most := min(s.rules.AtOnce, s.allowed)
	for size := int32(1); size <= most && int64(size)*s.rules.Price <= g.Gain && !s.GaveUp(); size++ {
		l := lister{search: s, goal: g}
		for i := range fields {
			l.field = &fields[i]
			l.list(0, int(size), room{})
		}
		if l.best != nil {
			return l.best
		}
	}
	return nil
}

// fields lists the nodes on which somebody's leaving may make room.
func (s *Search) fields(g *Goal, nodes []cluster.NodeID) []field {
	v := s.txn.View()
	shape := v.Shape(v.Pod(g.Pod).Spec.Shape)
	var out []field
	look := func(id cluster.NodeID) {
		if n := v.Node(id); !n.TakesWork() || len(n.Pods) == 0 || !s.hands.Still(id) {
			return
		}
		f := s.fieldOf(id, shape)
		if f.enough() && s.hands.Binds(g.Pod, id).Code.LeavingHelps() {
			out = append(out, f)
		}
	}
	for _, id := range s.inOrder(nodes) {
		look(id)
	}
	return out
}

// inOrder lists nodes, or all where nil, in an order that does not depend on ids: which
// sets are tried before the budget is used up must not.
func (s *Search) inOrder(nodes []cluster.NodeID) []cluster.NodeID {
	if nodes == nil && s.order != nil {
		return s.order
	}
	out := slices.Clone(nodes)
	if nodes == nil {
		for i := range s.base.Nodes.Len() {
			out = append(out, cluster.NodeID(i))
		}
	}
	seed := uint64(s.cycle.Seed)
	slices.SortFunc(out, func(a, b cluster.NodeID) int {
		return cmp.Or(cmp.Compare(chance.Fold(s.base.Node(a).Key, seed), chance.Fold(s.base.Node(b).Key, seed)), cmp.Compare(a, b))
	})
	if nodes == nil {
		s.order = out
	}
	return out
}

// lister goes through the sets of one size.
type lister struct {
	search *Search
	goal   *Goal
	field  *field
	picked []*offer
	best   *Set
}

func (l *lister) list(from, more int, left room) {
	if l.search.GaveUp() {
		return
	}
	if more == 0 {
		if l.field.holds(&left) {
			l.try()
		}
		return
	}
	for i := from; i+more <= len(l.field.offers); i++ {
		o := &l.field.offers[i]
		l.picked = append(l.picked, o)
		l.list(i+1, more-1, left.plus(&o.leaves))
		l.picked = l.picked[:len(l.picked)-1]
	}
}

// try keeps the set that is picked if it is the best so far.
func (l *lister) try() {
	s := l.search
	price := int64(0)
	for _, o := range l.picked {
		price += o.price
	}
	if price > l.goal.Gain || l.best != nil && price > l.best.Price {
		return
	}
	s.left--
	set := &Set{Node: l.field.node, Gain: l.goal.Gain, Price: price}
	for _, o := range l.picked {
		set.Moves = append(set.Moves, Move{Pod: o.pod, From: l.field.node, Price: o.price})
		set.tie += chance.Mix(chance.Fold(s.base.Pod(o.pod).Key, uint64(s.cycle.Seed)))
	}
	if !s.bears(set.Moves) {
		return
	}
	s.hands.Attempt(func() bool {
		if s.perform(l.goal, set) && (l.best == nil || set.compare(l.best) < 0) {
			l.best = set
		}
		return false
	})
}

// perform does what a set says, and writes down where the pods went and what it is
// worth.
func (s *Search) perform(g *Goal, set *Set) bool {
	set.Worth = 0
	for i := range set.Moves {
		m := &set.Moves[i]
		if !s.hands.Lift(m.Pod) {
			return false
		}
		set.Worth -= s.hands.Worth(m.Pod, m.From)
	}
	if !s.hands.Binds(g.Pod, set.Node).None() {
		return false
	}
	set.Worth += s.hands.Worth(g.Pod, set.Node)
	if !s.hands.Put(g.Pod, set.Node) {
		return false
	}
	return s.settle(set, anywhere)
}

// Carry makes the moves of a set and places its goal; or, where the set is out of date,
// nothing changes.
func (s *Search) Carry(g *Goal, set *Set) bool {
	if !s.hands.Attempt(func() bool { return s.perform(g, set) }) {
		return false
	}
	s.note(set)
	return true
}

// Move lifts who moves, lets room be taken, and settles them elsewhere; or nothing
// changes.
func (s *Search) Move(set *Set, take func() bool) bool {
	done := s.hands.Attempt(func() bool {
		return s.lift(set) && take() && s.settle(set, anywhere)
	})
	if done {
		s.note(set)
	}
	return done
}

// stood says whether a pod was on a node when the cycle began.
func (s *Search) stood(pod cluster.PodID, node cluster.NodeID) bool {
	p := s.base.Pod(pod)
	return p.Placement.Node == node && p.Phase.Charged()
}

// lift takes all who move off their nodes, or says that it cannot.
func (s *Search) lift(set *Set) bool {
	for i := range set.Moves {
		if !s.hands.Lift(set.Moves[i].Pod) {
			return false
		}
	}
	return true
}

func anywhere(cluster.NodeID) bool { return true }

// settle places those who were lifted on nodes that pass, the largest first, and writes
// down where.
func (s *Search) settle(set *Set, pass func(cluster.NodeID) bool) bool {
	s.largestFirst(set.Moves)
	for i := range set.Moves {
		m := &set.Moves[i]
		to, worth := s.hands.Settle(m.Pod, func(node cluster.NodeID) bool {
			return node != m.From && pass(node) && s.hands.Still(node) && (!s.Surges(s.base.Pod(m.Pod)) || s.hands.Beside(m.Pod, node))
		})
		if to == cluster.None {
			return false
		}
		m.To = to
		set.Worth += worth
	}
	return true
}

// note counts the moves that are made.
func (s *Search) note(set *Set) {
	for i := range set.Moves {
		m := &set.Moves[i]
		s.moved[m.Pod] = true
		s.allowed--
		if p := s.base.Pod(m.Pod); p.Budget != cluster.None && !s.Surges(p) {
			s.spent[p.Budget]++
		}
	}
}

// Forget forgets moves that were carried out: they are undone in the transaction.
func (s *Search) Forget(set *Set) {
	for i := range set.Moves {
		m := &set.Moves[i]
		delete(s.moved, m.Pod)
		s.allowed++
		if p := s.base.Pod(m.Pod); p.Budget != cluster.None && !s.Surges(p) {
			s.spent[p.Budget]--
		}
	}
}

// SavesFirst says whether a pod that moves is better asked to save its state before it
// goes, and until when it has time for that.
func (s *Search) SavesFirst(id cluster.PodID) (until moment.Instant, saves bool) {
	return s.base.SavesFirst(s.base.Pod(id), s.cycle.Now, s.rules.Grace)
}
