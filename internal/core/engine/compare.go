package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// compareWith adds to an explanation how many nodes could have been chosen, and
// the next best of them, as far as the cycle asks for these.
func (r *round) compareWith(because *decision.Explanation, pod cluster.PodID, shape cluster.ShapeID, chosen cluster.NodeID) {
	if r.cycle.RunnersUp <= 0 {
		return
	}
	v := r.txn.View()
	others := func(node cluster.NodeID) bool { return node != chosen }
	if kin := v.Ties(pod); kin == 0 {
		because.Feasible = r.memo.fitting(v, shape)
	} else {
		bonds := r.memo.tied(v, tie{kin: kin, shape: shape})
		for _, node := range r.memo.feasible(v, shape) {
			if bonds.Check(v, node).None() {
				because.Feasible++
			}
		}
		others = func(node cluster.NodeID) bool { return node != chosen && bonds.Check(v, node).None() }
	}
	if r.policy.Choose != nil {
		return // it gives no scores
	}
	for _, node := range r.memo.runnersUp(v, shape, others, int(r.cycle.RunnersUp)) {
		up := decision.RunnerUp{Node: node}
		if r.policy.Explain != nil {
			up.Score = r.policy.Explain(v, r.cycle, pod, shape, node)
		} else {
			up.Score.Total = r.memo.value(v, shape, node)
		}
		because.RunnersUp = append(because.RunnersUp, up)
	}
}

// fitting counts the nodes that the shape fits on.
func (m *Memo) fitting(v *cluster.View, id cluster.ShapeID) int32 {
	n := 0
	for _, l := range m.refresh(v, id).lanes {
		n += l.valid
	}
	return int32(n)
}

// runnersUp returns the n best nodes for the shape among the others, best first.
// The heaps are looked into and stay as they are.
func (m *Memo) runnersUp(v *cluster.View, id cluster.ShapeID, others func(cluster.NodeID) bool, n int) []cluster.NodeID {
	s := m.refresh(v, id)
	m.reprice(v)
	var best []claim
	for i := range s.lanes {
		price := m.prices.Of(s.lanes[i].takes)
		for _, c := range s.leaders(&s.lanes[i], m.ties, others, n) {
			best = insert(best, claim{value: c.value - price, node: c.node}, m.ties, n)
		}
	}
	out := make([]cluster.NodeID, 0, n)
	for _, c := range best {
		out = append(out, cluster.NodeID(c.node))
	}
	return out
}

// leaders returns the n best claims of a lane that are up to date and among the
// others, best first, each node once.
func (s *scores) leaders(l *lane, ties []uint64, others func(cluster.NodeID) bool, n int) []claim {
	var out []claim
	// The edge holds places in the heap whose parents were all looked at: the next
	// best claim is among them.
	edge := make([]int, 0, 2*n+2)
	reach := func(i int) {
		if i < len(l.claims) {
			edge = append(edge, i)
		}
	}
	for reach(0); len(edge) > 0 && len(out) < n; {
		best := 0
		for k := range edge {
			if before(l.claims[edge[k]], l.claims[edge[best]], ties) {
				best = k
			}
		}
		i := edge[best]
		edge[best] = edge[len(edge)-1]
		edge = edge[:len(edge)-1]
		reach(2*i + 1)
		reach(2*i + 2)
		c := l.claims[i]
		again := len(out) > 0 && out[len(out)-1] == c // equal claims come one after the other
		if s.holds(l, c) && !again && others(cluster.NodeID(c.node)) {
			out = append(out, c)
		}
	}
	return out
}

// insert puts a claim into a list of the n best.
func insert(best []claim, c claim, ties []uint64, n int) []claim {
	i := len(best)
	for i > 0 && before(c, best[i-1], ties) {
		i--
	}
	if i == n {
		return best
	}
	best = append(best[:i], append([]claim{c}, best[i:]...)...)
	return best[:min(len(best), n)]
}
