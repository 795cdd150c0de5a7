package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// defaultBudget is how many evictions one cycle may try out.
const defaultBudget = 10_000

// repair makes room for waiting pods where the policy names victims: for each pod
// in turn, victims go one by one until the pod fits; those that did not help are
// given back. Nothing is evicted for a pod that then does not fit.
func (r *round) repair() {
	if r.policy.Yields != nil {
		r.makeWay()
		return
	}
	if r.policy.Victims == nil {
		return
	}
	budget := r.cycle.Budget
	if budget <= 0 {
		budget = defaultBudget
	}
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		// Nothing is evicted for a group that has not got its minimum: its binds would
		// have to wait for each other's room.
		if w.Why.Code.Future() != decision.AfterRoom || r.squadOf(w.Pod) != nil || r.workerOf(w.Pod) != nil {
			kept = append(kept, w)
			continue
		}
		fits, tried := r.makeRoom(w.Pod, budget)
		switch budget -= tried; {
		case fits:
		case budget <= 0:
			kept = append(kept, decision.Waiting{Pod: w.Pod, Why: &decision.Reason{Code: decision.GaveUp, Need: tried, Have: tried}})
		default:
			kept = append(kept, w)
		}
	}
	r.waiting = kept
}

// makeRoom evicts for one pod and places it, or leaves everything as it was. It
// says how many evictions it tried.
func (r *round) makeRoom(pod cluster.PodID, budget int64) (fits bool, tried int64) {
	touched, _ := r.txn.TouchedNodes()
	trial := trial{mark: r.txn.Mark(), touched: len(touched)}
	shape := r.txn.View().Pod(pod).Spec.Shape
	full := r.full[shape]
	var gone []cluster.PodID
	for _, victim := range r.policy.Victims(r.txn.View(), r.cycle, pod) {
		if tried >= budget {
			break
		}
		if node := r.evict(victim); node != cluster.None {
			tried++
			gone = append(gone, victim)
			r.full[shape] = nil
			if node := r.choose(pod, shape); node != cluster.None {
				r.takeBack(trial, pod, gone, node)
				if r.take(pod, shape, node, cluster.None) {
					return true, tried
				}
				break
			}
		}
	}
	r.undo(trial)
	r.full[shape] = full
	return false, tried
}

// evict takes a victim's place away and returns the node that it left; None where
// it cannot be evicted.
func (r *round) evict(victim cluster.PodID) cluster.NodeID {
	p := r.txn.View().Pod(victim)
	if p.Spec.Protected || r.spared(p) {
		return cluster.None
	}
	node := p.Placement.Node
	if r.txn.Evict(victim) != nil {
		return cluster.None
	}
	r.memo.touch(node)
	return node
}

// takeBack undoes the evictions that freed nothing on the chosen node, save where
// the pod may be there only because of them.
func (r *round) takeBack(t trial, pod cluster.PodID, gone []cluster.PodID, node cluster.NodeID) {
	r.undo(t)
	for _, victim := range gone {
		if r.txn.View().Pod(victim).Placement.Node == node {
			r.evict(victim)
		}
	}
	if r.welcome(pod, r.txn.View().Pod(pod).Spec.Shape, node) {
		return
	}
	r.undo(t)
	for _, victim := range gone {
		r.evict(victim)
	}
}

// trial is a point to go back to: a mark, and how many nodes were touched before.
type trial struct {
	mark    cluster.Mark
	touched int
	filled  int // shapes that were found full before
}

// undo rolls back, and tells the memo.
func (r *round) undo(t trial) {
	r.bound = nil
	pods := r.txn.TouchedSince(t.mark)
	r.txn.Rollback(t.mark)
	for _, pod := range pods {
		r.used(r.txn.Base().Pod(pod).Spec.Queue)
	}
	touched, complete := r.txn.TouchedNodes()
	if !complete || len(touched) < t.touched {
		r.memo.forgetDirty()
		return
	}
	for _, node := range touched[t.touched:] {
		r.memo.touch(node)
	}
}
