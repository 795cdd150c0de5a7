package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
)

// Some pods wait until what they need has been fetched, and hold no GPU meanwhile
// (docs/adr/0014).

const (
	// disksTried is to how many nodes a pod may have fetched what it needs, where disks are
	// full; fetchesTried bounds those of one cycle.
	disksTried, fetchesTried = 8, 256
)

// errand is a pod that may wait until what it lacks on the node that it would go to has
// been fetched.
type errand struct {
	pod   cluster.PodID
	shape cluster.ShapeID
	node  cluster.NodeID
}

// mayWait says whether a pod is one of those that wait for what is fetched. One that is
// placed with its group goes at once, since it keeps the others from working.
func (r *round) mayWait(pod cluster.PodID) bool {
	rules, p := r.policy.Warms, r.txn.View().Pod(pod)
	return rules != nil && rules.First && rules.Beside && len(p.Spec.Artifacts) > 0 && p.Spec.Group == cluster.None &&
		r.cycle.Now.Since(p.Arrived) < rules.Patience
}

// putOff says whether a pod waits until what it lacks on a node has been fetched: at the end
// of the cycle fetchFirst sees to that.
func (r *round) putOff(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) bool {
	if !r.mayWait(pod) {
		return false
	}
	e := errand{pod, shape, node}
	if r.lacks(e) == 0 {
		return false
	}
	r.later = append(r.later, e)
	return true
}

// isPutOff says whether the pod whose turn it is was put off.
func (r *round) isPutOff(pod cluster.PodID) bool {
	return len(r.later) > 0 && r.later[len(r.later)-1].pod == pod
}

// fetchFirst has what pods lack that were put off fetched. Where no disk has room for it,
// the pod goes at once, and the node makes some as for any pull; so it does where all is
// there.
func (r *round) fetchFirst() {
	v := r.txn.View()
	var ready []errand
	for _, e := range r.later {
		if coming := r.sendFor(&e); coming && r.lacks(e) > 0 {
			r.waitFetching(e)
		} else {
			ready = append(ready, e)
		}
	}
	for _, e := range ready { // others came since its turn
		switch {
		case r.dropsFor(e):
			r.waitFetching(e)
		case fit.Slots(v, e.shape, e.node, cluster.None) == 0 || !fit.Queue(v, e.pod, e.shape).None() || !r.take(e.pod, e.shape, e.node, cluster.None):
			r.wait(e.pod)
		}
	}
}

// lacks is how long a pod would still wait for what is fetched to its node.
func (r *round) lacks(e errand) moment.Span {
	v := r.txn.View()
	wait, _ := rank.Fetching(v, v.Pod(e.pod).Spec.Artifacts, e.node, true, r.cycle.Now)
	return wait
}

// sendFor has what a pod lacks fetched to the best node whose disk has room for it.
func (r *round) sendFor(e *errand) bool {
	v := r.txn.View()
	needs := v.Pod(e.pod).Spec.Artifacts
	if r.warming().Send(needs, e.node) {
		return true
	}
	tried := []cluster.NodeID{e.node}
	for len(tried) < disksTried && r.sent < fetchesTried {
		r.sent++
		node, _ := r.memo.bestAmong(v, e.shape, func(n cluster.NodeID) bool { return !slices.Contains(tried, n) && r.welcome(e.pod, e.shape, n) })
		if node == cluster.None {
			return false
		}
		if r.warming().Send(needs, node) {
			e.node = node
			return true
		}
		tried = append(tried, node)
	}
	return false
}

// waitFetching lets a pod wait for what is fetched.
func (r *round) waitFetching(e errand) {
	why := &decision.Reason{Code: decision.Fetching, Domain: cluster.Spot{Set: true, Level: cluster.LevelNode, Node: e.node}, Until: r.cycle.Now.Add(r.lacks(e))}
	r.waiting = append(r.waiting, decision.Waiting{Pod: e.pod, Why: why})
}

// dropsFor says whether something that a pod needs was dropped in this cycle.
func (r *round) dropsFor(e errand) bool {
	needs := r.txn.View().Pod(e.pod).Spec.Artifacts
	return slices.ContainsFunc(r.txn.Prefetches(), func(f cluster.Prefetch) bool {
		return f.Node == e.node && slices.ContainsFunc(f.Drops, func(id cluster.ArtifactID) bool { return slices.Contains(needs, id) })
	})
}
