package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
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
