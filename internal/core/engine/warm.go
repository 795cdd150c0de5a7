package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/warm"
)

// Warming returns the policy with warm starts by rules: nil for none at all.
func (p *Policy) Warming(rules *warm.Rules) *Policy {
	out := *p
	out.Warms = rules
	return &out
}

// warmest returns the node that is best for a pod when it counts what is cached where.
// Given the best without, of which the score is the value, only nodes that hold something
// of what the pod needs can be better.
func (r *round) warmest(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID, value int64) (cluster.NodeID, int64) {
	needs := r.txn.View().Pod(pod).Spec.Artifacts
	if r.policy.Warms == nil || r.policy.Warms.Second == 0 || len(needs) == 0 || node == cluster.None {
		return node, value
	}
	v, rules := r.txn.View(), r.policy.Warms
	wait, known := rank.Fetching(v, needs, node, rules.Beside, r.cycle.Now)
	cold := rank.Cold(v, needs, node, rules.Beside)
	if known && wait == 0 {
		return node, value + r.warmth(cold) // nowhere is less to be fetched
	}
	if !known {
		for _, id := range needs {
			for _, at := range v.Artifact(id).Nodes {
				cold = max(cold, rank.Cold(v, needs, at, rules.Beside))
			}
		}
		wait = cold // as far as anybody knows
	}
	best, score := node, value+r.warmth(cold-wait)
	for i, id := range needs {
		for _, at := range v.Artifact(id).Nodes {
			if at == node || i > 0 && v.Node(at).Cache.Find(needs[0]) >= 0 {
				continue // was looked at
			}
			there := r.memo.value(v, shape, at)
			if there == unfit {
				continue
			}
			wait, _ := rank.Fetching(v, needs, at, rules.Beside, r.cycle.Now)
			if there += r.warmth(cold - wait); there > score || there == score && earlier(r.memo.ties, int32(at), int32(best)) {
				best, score = at, there
			}
		}
	}
	return best, score
}

// warmth is what a part of a start that is saved adds to the score of a node. Beyond an
// hour all is one.
func (r *round) warmth(saved moment.Span) int64 {
	saved = max(min(saved, moment.Hour), -moment.Hour)
	return r.policy.Warmth * r.policy.Warms.Second * int64(saved/moment.Millisecond) / 1000
}

// warming opens the search for what is fetched, once in a cycle.
func (r *round) warming() *warm.Search {
	if r.caches == nil {
		r.memo.expect = warm.Expect(&r.txn.Base().View, r.memo.expect)
		r.caches = warm.Open(r.txn, r.policy.Warms, r.memo.expect, r.cycle.Now)
	}
	return r.caches
}

// errand is a pod that may wait until what it lacks on the node that it would go to has
// been fetched.
type errand struct {
	pod   cluster.PodID
	shape cluster.ShapeID
	node  cluster.NodeID
}

// putOff says whether a pod may wait until what it lacks on a node has been fetched: at the
// end of the cycle fetchFirst sees to that. One that is placed with its group, or that may
// not find the room again, goes at once.
func (r *round) putOff(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) bool {
	rules, v := r.policy.Warms, r.txn.View()
	if rules == nil || !rules.First || !rules.Beside {
		return false
	}
	p := v.Pod(pod)
	if len(p.Spec.Artifacts) == 0 || p.Spec.Group != cluster.None || r.cycle.Now.Since(p.Arrived) >= rules.Patience {
		return false
	}
	wait, known := rank.Fetching(v, p.Spec.Artifacts, node, rules.Beside, r.cycle.Now)
	if !known || wait == 0 || fit.Slots(v, shape, node, cluster.None) < rules.Slots {
		return false
	}
	r.later = append(r.later, errand{pod, shape, node})
	return true
}

// isPutOff says whether the pod whose turn it is was put off.
func (r *round) isPutOff(pod cluster.PodID) bool {
	return len(r.later) > 0 && r.later[len(r.later)-1].pod == pod
}

// fetchFirst has what pods lack that were put off fetched. Where the disk has no room for
// it, the pod goes at once, and the node makes some as for any pull.
func (r *round) fetchFirst() {
	v := r.txn.View()
	var cold []errand
	for _, e := range r.later {
		if r.warming().Serve(v.Pod(e.pod).Spec.Artifacts, e.node) {
			r.waitFetching(e)
		} else {
			cold = append(cold, e)
		}
	}
	for _, e := range cold { // others came since its turn
		switch {
		case r.dropsFor(e):
			r.waitFetching(e)
		case fit.Slots(v, e.shape, e.node, cluster.None) == 0 || !fit.Queue(v, e.pod, e.shape).None() || !r.take(e.pod, e.shape, e.node, cluster.None):
			r.wait(e.pod)
		}
	}
}

// waitFetching lets a pod wait for what is fetched.
func (r *round) waitFetching(e errand) {
	v := r.txn.View()
	wait, _ := rank.Fetching(v, v.Pod(e.pod).Spec.Artifacts, e.node, r.policy.Warms.Beside, r.cycle.Now)
	why := &decision.Reason{Code: decision.Fetching, Domain: cluster.Spot{Set: true, Level: cluster.LevelNode, Node: e.node}, Until: r.cycle.Now.Add(wait)}
	r.waiting = append(r.waiting, decision.Waiting{Pod: e.pod, Why: why})
}

// dropsFor says whether something that a pod needs was dropped in this cycle.
func (r *round) dropsFor(e errand) bool {
	needs := r.txn.View().Pod(e.pod).Spec.Artifacts
	return slices.ContainsFunc(r.txn.Prefetches(), func(f cluster.Prefetch) bool {
		return f.Node == e.node && slices.ContainsFunc(f.Drops, func(id cluster.ArtifactID) bool { return slices.Contains(needs, id) })
	})
}

// warmUp decides what is fetched: for those who got a place now, and in a review for those
// to come.
func (r *round) warmUp(plan *decision.Plan) {
	rules := r.policy.Warms
	if rules == nil || r.txn.View().Artifacts.Len() == 0 {
		return
	}
	v := r.txn.View()
	if rules.Beside {
		for i := range plan.Decisions {
			d := &plan.Decisions[i]
			if d.Action != cluster.ActionBind {
				continue
			}
			needs := v.Pod(d.Pod).Spec.Artifacts
			if wait, known := rank.Fetching(v, needs, d.Place.Node, true, r.cycle.Now); known && wait > 0 {
				r.warming().Serve(needs, d.Place.Node)
			}
		}
	}
	if rules.Ahead && r.cycle.Kind == decision.CycleReview {
		search := r.warming()
		search.Prefers = func(shape cluster.ShapeID, node cluster.NodeID) int64 { return r.memo.value(v, shape, node) }
		search.Ahead()
	}
	plan.Fetch(r.txn, decision.Explanation{Policy: r.policy.Name})
}
