package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/tidy"
)

// Tidying returns the policy with pods moved where that pays, by some rules; nil: none
// are.
func (p *Policy) Tidying(rules *tidy.Rules) *Policy {
	out := *p
	out.Tidies = rules
	return &out
}

// tidy moves running pods where that makes room which is worth more than the moves.
func (r *round) tidy() {
	r.movers = tidy.New(r.txn, r.cycle, *r.policy.Tidies, movers{r, make([]roominess, r.txn.View().Shapes.Len())})
	if r.movers.Allowed() <= 0 {
		return
	}
	if r.policy.Tidies.For&tidy.Waiting != 0 {
		r.tidyForWaiting()
	}
}

// tidyForWaiting makes room for those who wait, in the order of their turn.
func (r *round) tidyForWaiting() {
	line := make([]cluster.PodID, 0, len(r.waiting))
	for i := range r.waiting {
		if w := &r.waiting[i]; w.Why.Code.LeavingHelps() {
			line = append(line, w.Pod)
		}
	}
	if len(line) == 0 {
		return
	}
	r.lineUp(line)
	served := make(map[cluster.PodID]bool)
	for pod, more := r.next(); more && !r.movers.GaveUp(); pod, more = r.next() {
		if r.placed(pod) || r.waitingUnit(pod) != cluster.None {
			continue
		}
		if r.unlock(pod) {
			served[pod] = true
		}
	}
	r.line = turns{}
	if len(served) == 0 {
		return
	}
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		if !served[w.Pod] {
			kept = append(kept, w)
		}
	}
	r.waiting = kept
}

// unlock makes room for one pod.
func (r *round) unlock(pod cluster.PodID) bool {
	v := r.txn.View()
	if !fit.Queue(v, pod, v.Pod(pod).Spec.Shape).None() {
		return false
	}
	g := tidy.Goal{Pod: pod, Gain: r.movers.GainOf(pod)}
	set := r.movers.Unlock(&g, nil)
	if set == nil || !r.movers.Carry(&g, set) {
		return false
	}
	for i := range set.Moves {
		m := &set.Moves[i]
		r.because[m.Pod] = decision.Explanation{Policy: r.policy.Name}
	}
	return true
}

// movers place pods for the search for moves.
type movers struct {
	*round
	known []roominess // by shape
}

// roominess is whether any node takes a shape, as of a stand of the memo.
type roominess struct {
	stand uint64
	roomy bool
}

func (m movers) tie(pod cluster.PodID) tie {
	return tie{kin: m.txn.View().Ties(pod), shape: m.txn.View().Pod(pod).Spec.Shape}
}

// Binds says what keeps a pod off a node.
func (m movers) Binds(pod cluster.PodID, node cluster.NodeID) decision.Reason {
	return m.check(m.tie(pod), node)
}

// Roomy says whether any node takes the pod's shape.
func (m movers) Roomy(pod cluster.PodID) bool {
	shape, now := m.txn.View().Pod(pod).Spec.Shape, m.memo.stand()
	of := &m.known[shape]
	if of.stand != now {
		_, value := m.memo.best(m.txn.View(), shape)
		*of = roominess{stand: now, roomy: value != unfit}
	}
	return of.roomy
}

// Worth is what a pod would put to use on a node that it fits, less what it would take
// there from those who are expected, in micro-GPU; 0 where nothing is expected.
func (m movers) Worth(pod cluster.PodID, node cluster.NodeID) int64 {
	v := m.txn.View()
	if v.Beliefs == nil || v.Beliefs.Worth == nil || m.policy.Scarce == nil {
		return 0
	}
	shape := v.Pod(pod).Spec.Shape
	m.memo.reprice(v)
	prices := rank.PricesOf(v, &m.memo.counts)
	loss := rank.LossOf(v, shape, node)
	return -loss.Worth - prices.Of(loss.Takes)
}

// Put places a pod on a node.
func (m movers) Put(pod cluster.PodID, node cluster.NodeID) bool {
	return m.take(pod, m.txn.View().Pod(pod).Spec.Shape, node, cluster.None)
}

// Settle places a pod where it is best.
func (m movers) Settle(pod cluster.PodID) (cluster.NodeID, int64) {
	shape := m.txn.View().Pod(pod).Spec.Shape
	m.full[shape] = nil // room has come back
	if m.isFull(shape) || !fit.Queue(m.txn.View(), pod, shape).None() {
		return cluster.None, 0
	}
	node := m.choose(pod, shape)
	if node == cluster.None {
		return cluster.None, 0
	}
	worth := m.Worth(pod, node)
	if !m.take(pod, shape, node, cluster.None) {
		return cluster.None, 0
	}
	return node, worth
}

// Lift takes a running pod off its node.
func (m movers) Lift(pod cluster.PodID) bool {
	node := m.txn.View().Pod(pod).Placement.Node
	if m.txn.Evict(pod) != nil {
		return false
	}
	m.memo.touch(node)
	m.used(m.txn.View().Pod(pod).Spec.Queue)
	return true
}

// Attempt does something that leaves all as it was where it says no.
func (m movers) Attempt(do func() bool) bool { return m.attempt(do) }
