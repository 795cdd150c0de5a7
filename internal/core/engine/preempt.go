package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// mostCandidates bounds the nodes on which evictions are tried out for one pod, as
// kube-scheduler does on clusters up to a thousand nodes.
const mostCandidates = 100

// Preempting returns the policy with preemption by priority: the rule that
// kube-scheduler has, except that disruption budgets are never passed over, and
// that members of groups stay.
func (p *Policy) Preempting() *Policy {
	out := *p
	out.Preempts = true
	return &out
}

// preempt makes room for waiting pods, the most important first, where pods of
// strictly lower priority hold it. Nothing is evicted for a pod that then does not
// fit.
func (r *round) preempt() {
	s := sweep{round: r, spent: make(map[cluster.BudgetID]int32), hopeless: make(map[tie]*cost), left: r.cycle.Budget}
	if s.left <= 0 {
		s.left = defaultBudget
	}
	v := r.txn.Base()
	var line []int
	for i := range r.waiting {
		w := &r.waiting[i]
		spec := v.Pod(w.Pod).Spec
		if spec.Priority > v.LowestPriority && !spec.PreemptNever && spec.Group == cluster.None && evictionHelps(w.Why.Code) {
			line = append(line, i)
		}
	}
	if len(line) == 0 {
		return
	}
	slices.SortFunc(line, func(a, b int) int { return compare(&v.View, r.cycle, r.waiting[a].Pod, r.waiting[b].Pod) })
	placed := make(map[cluster.PodID]bool)
	for _, i := range line {
		w := &r.waiting[i]
		fits, guarded := s.serve(w.Pod)
		switch {
		case fits:
			placed[w.Pod] = true
		case s.left <= 0:
			w.Why = &decision.Reason{Code: decision.GaveUp, Need: defaultBudget, Have: defaultBudget}
		case guarded > 0:
			why := *w.Why
			why.Guarded = guarded
			w.Why = &why
		}
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(w decision.Waiting) bool { return placed[w.Pod] })
}

// evictionHelps says whether what binds is room that others hold.
func evictionHelps(c decision.Code) bool {
	switch c {
	case decision.QueueLimit, decision.PolicyWaits, decision.GaveUp:
		return false
	}
	return c.Future() == decision.AfterRoom
}

// sweep is one cycle's preemption in progress.
type sweep struct {
	*round
	left  int64                      // evictions that may still be tried
	spent map[cluster.BudgetID]int32 // evictions decided, by disruption budget
	freed bool                       // something was evicted, which may make room for more pods
	// hopeless holds, by kin and shape, the priority at which nothing could be done. With
	// a lower one, less can.
	hopeless map[tie]*cost
}

// cost is what an eviction costs, compared field by field: the smaller the
// cheaper.
type cost struct {
	top     int32 // highest priority among the victims
	sum     int64 // of priorities, counted from the lowest there is
	count   int
	started int64  // of the victims at the top, the earliest bind: the later the cheaper
	tie     uint64 // of the node
	guarded int32  // only of hopeless: nodes that budgets keep
}

func (c *cost) cheaper(d *cost) bool {
	return cmp.Or(cmp.Compare(c.top, d.top), cmp.Compare(c.sum, d.sum), cmp.Compare(c.count, d.count),
		-cmp.Compare(c.started, d.started), cmp.Compare(c.tie, d.tie)) < 0
}

// serve finds room for one pod. It says on how many nodes budgets keep those who
// would have to go.
func (s *sweep) serve(pod cluster.PodID) (fits bool, guarded int32) {
	spec := s.txn.View().Pod(pod).Spec
	of := tie{kin: s.txn.View().Ties(pod), shape: spec.Shape}
	if known := s.hopeless[of]; known != nil && spec.Priority <= known.top {
		return false, known.guarded
	}
	if !fit.Queue(s.txn.View(), pod, spec.Shape).None() {
		return false, 0
	}
	full := s.full[spec.Shape]
	s.full[spec.Shape] = nil
	if s.freed {
		if node := s.choose(pod, spec.Shape); node != cluster.None && s.take(pod, spec.Shape, node, cluster.None) {
			return true, 0
		}
	}
	candidates, guarded := s.candidates(spec, of)
	var best *cost
	var victims []cluster.PodID
	host := cluster.NodeID(cluster.None)
	feasible := 0
	for _, c := range candidates {
		if feasible == mostCandidates || s.left <= 0 {
			break
		}
		set, price := s.try(spec, of, c.node)
		if price == nil {
			continue
		}
		feasible++
		if best == nil || price.cheaper(best) {
			best, victims, host = price, set, c.node
		}
	}
	if best != nil && s.carry(pod, spec.Shape, host, victims) {
		return true, 0
	}
	s.full[spec.Shape] = full
	s.hopeless[of] = &cost{top: spec.Priority, guarded: guarded}
	return false, guarded
}

// carry evicts the victims and places the pod on their node.
func (s *sweep) carry(pod cluster.PodID, shape cluster.ShapeID, host cluster.NodeID, victims []cluster.PodID) bool {
	touched, _ := s.txn.TouchedNodes()
	before := trial{mark: s.txn.Mark(), touched: len(touched)}
	for _, victim := range victims {
		if s.evict(victim) == cluster.None {
			s.undo(before)
			return false
		}
	}
	if !s.take(pod, shape, host, cluster.None) {
		s.undo(before)
		return false
	}
	for _, victim := range victims {
		s.spent[s.txn.Base().Pod(victim).Budget]++
	}
	s.freed = true
	return true
}

// candidate is a node where evictions may help, and the least that they may cost.
type candidate struct {
	node cluster.NodeID
	cost
}

// candidates lists the nodes whose lesser pods hold enough, the most promising
// first. It looks at amounts alone; trying shows the rest.
func (s *sweep) candidates(spec *cluster.PodSpec, of tie) (out []candidate, guarded int32) {
	v := s.txn.View()
	for i := range v.Nodes.Len() {
		id := cluster.NodeID(i)
		n := v.Node(id)
		if !n.TakesWork() || n.Overdrawn || len(n.Pods) == 0 || !evictionHelps(s.check(of, id).Code) {
			continue
		}
		lesser := s.lesser(id, spec.Priority, true)
		if price, enough := s.estimate(n, spec.Shape, lesser); enough {
			price.tie = s.policy.tie(v, s.cycle, id)
			out = append(out, candidate{node: id, cost: price})
		} else if _, enough := s.estimate(n, spec.Shape, s.lesser(id, spec.Priority, false)); enough {
			guarded++
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.top, b.top), cmp.Compare(a.count, b.count), cmp.Compare(a.tie, b.tie))
	})
	return out, guarded
}

// lesser lists the pods of a node that may be evicted for a priority, the least
// important first, as many as budgets allow where they are asked.
func (s *sweep) lesser(node cluster.NodeID, priority int32, budgets bool) []cluster.PodID {
	v, base := s.txn.View(), s.txn.Base()
	var out []cluster.PodID
	for _, id := range v.Node(node).Pods {
		p := base.Pod(id)
		runs := p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning
		if runs && p.Placement.Node == node && p.Intent == cluster.None && !p.Spec.Protected && p.Spec.Group == cluster.None && p.Spec.Priority < priority {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b cluster.PodID) int { return compareWorth(&base.View, a, b) })
	if !budgets {
		return out
	}
	taken := make(map[cluster.BudgetID]int32)
	return slices.DeleteFunc(out, func(id cluster.PodID) bool {
		p := base.Pod(id)
		b := base.BudgetOf(p)
		if b == nil {
			return false
		}
		taken[p.Budget]++
		return s.spent[p.Budget]+taken[p.Budget] > b.Left
	})
}

// compareWorth orders pods by what their eviction costs: priority, then age.
func compareWorth(v *cluster.View, a, b cluster.PodID) int {
	x, y := v.Pod(a), v.Pod(b)
	return cmp.Or(cmp.Compare(x.Spec.Priority, y.Spec.Priority), -cmp.Compare(x.Bound, y.Bound), cmp.Compare(x.Key, y.Key), cmp.Compare(a, b))
}

// estimate adds up what pods hold until it is enough for the shape.
func (s *sweep) estimate(n *cluster.Node, shape cluster.ShapeID, lesser []cluster.PodID) (cost, bool) {
	v := s.txn.View()
	want, free, milli := v.Shape(shape), n.Free, n.FreeMilli
	for i, id := range lesser {
		place := &v.Pod(id).Placement
		free = free.Plus(&v.Shape(place.Shape).Need)
		milli += place.Milli()
		if _, short := free.ShortOf(&want.Need); !short && milli >= want.LeastMilli() {
			return cost{top: v.Pod(id).Spec.Priority, count: i + 1}, true
		}
	}
	return cost{}, false
}

// try finds the cheapest set on one node: all lesser pods go, and those without
// whom there is room all the same come back, the most important first. Everything
// is as before afterwards.
func (s *sweep) try(spec *cluster.PodSpec, of tie, node cluster.NodeID) (victims []cluster.PodID, price *cost) {
	touched, _ := s.txn.TouchedNodes()
	before := trial{mark: s.txn.Mark(), touched: len(touched)}
	defer s.undo(before)
	lesser := s.lesser(node, spec.Priority, true)
	for _, id := range lesser {
		if s.txn.Evict(id) != nil {
			return nil, nil
		}
	}
	s.left -= int64(len(lesser))
	if !s.check(of, node).None() {
		return nil, nil
	}
	base := s.txn.Base()
	for _, id := range slices.Backward(lesser) {
		if s.txn.Place(id, base.Pod(id).Placement) != nil {
			return nil, nil
		}
		if s.check(of, node).None() {
			continue
		}
		if s.txn.Evict(id) != nil {
			return nil, nil
		}
		victims = append(victims, id)
	}
	if len(victims) == 0 {
		return nil, nil
	}
	return victims, s.price(victims, node)
}

// price is what the eviction of a set costs; the most important comes first.
func (s *sweep) price(victims []cluster.PodID, node cluster.NodeID) *cost {
	base := s.txn.Base()
	out := &cost{top: base.Pod(victims[0]).Spec.Priority, count: len(victims), tie: s.policy.tie(s.txn.View(), s.cycle, node)}
	out.started = int64(base.Pod(victims[0]).Bound)
	for _, id := range victims {
		out.sum += int64(base.Pod(id).Spec.Priority) - int64(lowest)
		if p := base.Pod(id); p.Spec.Priority == out.top {
			out.started = min(out.started, int64(p.Bound))
		}
	}
	return out
}

// lowest is the least priority that there can be.
const lowest = -1 << 31
