package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/rank"
)

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

// Binds says what keeps a pod off a node.
func (m *movers) Binds(pod cluster.PodID, node cluster.NodeID) decision.Reason {
	v := m.txn.View()
	return m.check(tie{kin: v.Ties(pod), shape: v.Pod(pod).Spec.Shape}, node)
}

// Roomy says whether any node takes the pod's shape.
func (m *movers) Roomy(pod cluster.PodID) bool {
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
func (m *movers) Worth(pod cluster.PodID, node cluster.NodeID) int64 {
	v := m.txn.View()
	if v.Beliefs == nil || v.Beliefs.Worth == nil || m.policy.Scarce == nil {
		return 0
	}
	m.memo.reprice(v)
	prices := rank.PricesOf(v, &m.memo.counts)
	loss := rank.LossOf(v, v.Pod(pod).Spec.Shape, node)
	return -loss.Worth - prices.Of(loss.Takes)
}

// Put places a pod on a node.
func (m *movers) Put(pod cluster.PodID, node cluster.NodeID) bool {
	return m.take(pod, m.txn.View().Pod(pod).Spec.Shape, node, cluster.None)
}

// Settle places a pod where it is best of the nodes that pass.
func (m *movers) Settle(pod cluster.PodID, pass func(cluster.NodeID) bool) (cluster.NodeID, int64) {
	v := m.txn.View()
	shape := v.Pod(pod).Spec.Shape
	m.full[shape] = nil // room has come back
	if m.isFull(shape) || !fit.Queue(v, pod, shape).None() {
		return cluster.None, 0
	}
	node := m.choose(pod, shape)
	if node != cluster.None && !pass(node) {
		node = cluster.None
		if v.Ties(pod) == 0 && m.minds(pod) == nil {
			node, _ = m.memo.bestAmong(v, shape, pass)
		}
	}
	if node == cluster.None {
		return cluster.None, 0
	}
	worth := m.Worth(pod, node)
	if !m.take(pod, shape, node, cluster.None) {
		return cluster.None, 0
	}
	return node, worth
}

// Beside says whether relations let another pod like one that runs in on a node, while
// that is where it is.
func (m *movers) Beside(pod cluster.PodID, node cluster.NodeID) bool {
	v := &m.txn.Base().View
	return fit.MayJoin(v, pod, &cluster.Placement{Node: node, Shape: v.Pod(pod).Spec.Shape})
}

// Still says whether nobody leaves a node: all who were there at the beginning are, and
// hold what they held, and nobody is on his way.
func (m *movers) Still(node cluster.NodeID) bool {
	base, v := m.txn.Base(), m.txn.View()
	for _, g := range base.Legacies() {
		if g.Place.Node == node {
			return false
		}
	}
	for _, id := range base.Node(node).Pods {
		was, is := base.Pod(id), v.Pod(id)
		if was.Phase == cluster.PhaseTerminating || was.Reserved || base.Replaced(was) || is.Placement.Node != node || is.Placement.Milli() != was.Placement.Milli() {
			return false
		}
	}
	return true
}

// Lift takes a running pod off its node; no worker of a job whose size is chosen: all of it
// would start again.
func (m *movers) Lift(pod cluster.PodID) bool {
	if m.elasticOf(m.txn.View().Pod(pod).Spec.Group) != nil {
		return false
	}
	node := m.txn.View().Pod(pod).Placement.Node
	if m.txn.Evict(pod) != nil {
		return false
	}
	m.memo.touch(node)
	m.used(m.txn.View().Pod(pod).Spec.Queue)
	return true
}

// Attempt does something that leaves all as it was where it says no.
func (m *movers) Attempt(do func() bool) bool { return m.attempt(do) }
