package engine

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// tie names the pods that ask for the same and stand to others in the same way.
type tie struct {
	kin   cluster.KinID
	shape cluster.ShapeID
}

// bonds are kept in the memo like scores: they follow the nodes that changed.
type bonds struct {
	*fit.Bonds
	read  int            // how far into dirty
	epoch uint64         // of dirty
	used  uint64         // clock of the last use
	asIf  cluster.NodeID // was followed last while something was tried out there; None: no node
}

// tiesKept bounds how many bonds a memo keeps: each has a row per node.
const tiesKept = 256

// tied returns the bonds of a tie, brought up to date.
func (m *Memo) tied(v *cluster.View, of tie) *fit.Bonds {
	m.clock++
	b := m.bonds[of]
	switch {
	case b == nil:
		m.dropBonds()
		b = &bonds{Bonds: fit.NewBonds(v, of.kin, of.shape)}
		if m.bonds == nil {
			m.bonds = make(map[tie]*bonds)
		}
		m.bonds[of] = b
	case b.epoch != m.epoch:
		b.FollowAll(v)
	default:
		if b.asIf != cluster.None { // what was only tried out may be over
			b.Follow(v, b.asIf)
		}
		for _, node := range m.dirty[b.read:] {
			b.Follow(v, node)
		}
	}
	b.read, b.epoch, b.used, b.asIf = len(m.dirty), m.epoch, m.clock, cluster.None
	return b.Bonds
}

// tiedAsIf is tied where evictions from a node are only tried out: those are not on the
// memo's list of changes.
func (m *Memo) tiedAsIf(v *cluster.View, of tie, node cluster.NodeID) *fit.Bonds {
	b := m.tied(v, of)
	b.Follow(v, node)
	m.bonds[of].asIf = node
	return b
}

// dropBonds makes room for one more.
func (m *Memo) dropBonds() {
	if len(m.bonds) < tiesKept {
		return
	}
	var oldest tie
	at := uint64(math.MaxUint64)
	// order: clocks are unique, so the minimum does not depend on the order.
	for of, b := range m.bonds {
		if b.used < at {
			oldest, at = of, b.used
		}
	}
	delete(m.bonds, oldest)
}

// bestAmong is best over the nodes that pass a check.
func (m *Memo) bestAmong(v *cluster.View, id cluster.ShapeID, pass func(cluster.NodeID) bool) (cluster.NodeID, int64) {
	node, score := m.best(v, id)
	if node == cluster.None || pass(node) {
		return node, score
	}
	s := m.refresh(v, id)
	best, score := int32(cluster.None), int64(unfit)
	for i, value := range s.values {
		if value == unfit {
			continue
		}
		value -= m.prices.Of(s.takes[i])
		// Few nodes are better than all before them, so few are checked.
		if ahead := best < 0 || value > score || value == score && earlier(m.ties, int32(i), best); ahead && pass(cluster.NodeID(i)) {
			best, score = int32(i), value
		}
	}
	return cluster.NodeID(best), score
}

// welcome says whether relations to other pods allow a pod on a node.
func (r *round) welcome(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) bool {
	v := r.txn.View()
	kin := v.Ties(pod)
	return kin == 0 || r.memo.tied(v, tie{kin: kin, shape: shape}).Check(v, node).None()
}

// closed says that relations left a tie no node. It stands until a node counts
// otherwise for it, or room comes back.
type closed struct {
	version uint64
	freed   int
	why     *decision.Reason // nil: not asked for yet
}

// isClosed says whether relations leave a tie no node, as far as is known.
func (r *round) isClosed(of tie, b *fit.Bonds) bool {
	c, known := r.closed[of]
	return known && c.version == b.Version() && c.freed == r.txn.Freed()
}

func (r *round) close(of tie, b *fit.Bonds, why *decision.Reason) {
	if r.closed == nil {
		r.closed = make(map[tie]closed)
	}
	r.closed[of] = closed{version: b.Version(), freed: r.txn.Freed(), why: why}
}

// chooseTied is choose for a pod whose place depends on other pods.
func (r *round) chooseTied(pod cluster.PodID, of tie) cluster.NodeID {
	v := r.txn.View()
	b := r.memo.tied(v, of)
	if r.isClosed(of, b) {
		return cluster.None
	}
	pass := func(node cluster.NodeID) bool { return b.Check(v, node).None() }
	if r.policy.Choose != nil {
		var feasible []cluster.NodeID
		for _, node := range r.memo.feasible(v, of.shape) {
			if pass(node) {
				feasible = append(feasible, node)
			}
		}
		if len(feasible) == 0 {
			r.close(of, b, nil)
			return cluster.None
		}
		return r.policy.Choose(v, r.cycle, pod, feasible)
	}
	node, value := r.memo.bestAmong(v, of.shape, pass)
	if node == cluster.None {
		r.close(of, b, nil)
		return cluster.None
	}
	if last := v.Pod(pod).LastNode; last != cluster.None && r.policy.Affinity > 0 {
		if back := r.memo.value(v, of.shape, last); back != unfit && back+r.policy.Affinity > value && pass(last) {
			return last
		}
	}
	return node
}

// whyTied is what binds a tie: of the nodes that came closest, what they lacked,
// in themselves or beside the pods that are there.
func (r *round) whyTied(of tie) *decision.Reason {
	v := r.txn.View()
	b := r.memo.tied(v, of)
	if r.isClosed(of, b) && r.closed[of].why != nil {
		return r.closed[of].why
	}
	tally := &r.memo.refresh(v, of.shape).tally
	why := b.Explain(v, tally.Of)
	if why.None() {
		return nil
	}
	r.close(of, b, &why)
	return &why
}

// secondTries bounds how often pods are tried again that wait for others to be
// placed: a chain of affinities is resolved this far in one cycle.
const secondTries = 8

// placeTied tries pods again that relations kept from every node, where what was
// placed since has changed how they stand.
func (r *round) placeTied() {
	for range secondTries {
		again := r.reopened()
		if len(again) == 0 {
			return
		}
		for _, pod := range again {
			if !r.seated(pod) {
				r.place(pod)
			}
		}
	}
}

// reopened takes the pods out of those that wait whose reason is out of date.
func (r *round) reopened() []cluster.PodID {
	v := r.txn.View()
	var out []cluster.PodID
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		if kin := v.Ties(w.Pod); kin != 0 && w.Why.Code < decision.QueueLimit && r.isOpen(w.Pod, kin) {
			out = append(out, w.Pod)
			continue
		}
		kept = append(kept, w)
	}
	r.waiting = kept
	return out
}

// isOpen says whether some shape of the pod is not known to have no node.
func (r *round) isOpen(pod cluster.PodID, kin cluster.KinID) bool {
	v := r.txn.View()
	spec := v.Pod(pod).Spec
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			return false
		}
		of := tie{kin: kin, shape: shape}
		if !r.isFull(shape) && !r.isClosed(of, r.memo.tied(v, of)) {
			return true
		}
	}
}

// check says why a pod of a tie cannot be on a node now: the node, or who is where.
func (r *round) check(of tie, node cluster.NodeID) decision.Reason {
	v := r.txn.View()
	own := fit.Check(v, of.shape, node)
	if of.kin == 0 {
		return own
	}
	return r.memo.tiedAsIf(v, of, node).Beside(v, node, own)
}
