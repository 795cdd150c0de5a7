package fit

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// codes is one more than the highest code.
const codes = int(decision.GaveUp) + 1

// Tally gathers the reasons of many nodes. The zero value is ready.
type Tally struct {
	nodes  int32
	counts [codes]int32
	best   [codes]decision.Reason
	dims   [codes][8]int32 // how often each of the first dimensions bound
}

// Add counts the reason of one node.
func (t *Tally) Add(r decision.Reason) { t.AddMany(r, 1) }

// AddMany counts the same reason for n nodes.
func (t *Tally) AddMany(r decision.Reason, n int32) {
	t.nodes += n
	c := r.Code
	if int(r.Dim) < len(t.dims[c]) {
		t.dims[c][r.Dim] += n
	}
	seen, b := t.counts[c], &t.best[c]
	t.counts[c] += n
	switch {
	case seen == 0:
		*b = r
	case r.Dim == b.Dim:
		b.Need, b.Have = max(b.Need, r.Need), max(b.Have, r.Have)
	case t.dimCount(c, r.Dim) > t.dimCount(c, b.Dim) || t.dimCount(c, r.Dim) == t.dimCount(c, b.Dim) && r.Dim < b.Dim:
		*b = r
	}
}

func (t *Tally) dimCount(c decision.Code, d cluster.Dim) int32 {
	if int(d) < len(t.dims[c]) {
		return t.dims[c][d]
	}
	return 0
}

// Reason returns the constraint that binds: of the nodes that came closest to
// fitting, what they lacked.
func (t *Tally) Reason() decision.Reason {
	if t.nodes == 0 {
		return decision.Reason{Code: decision.NoNodes}
	}
	for c := codes - 1; c > int(decision.Fits); c-- {
		if t.counts[c] > 0 {
			r := t.best[c]
			r.Nodes, r.Of = t.counts[c], t.nodes
			return r
		}
	}
	return decision.Reason{}
}

// Explain returns why no node of the view takes the shape; a zero Reason where
// one does.
func Explain(v *cluster.View, id cluster.ShapeID) decision.Reason {
	return ExplainWith(v, func(node cluster.NodeID) decision.Reason { return Check(v, id, node) })
}

// ExplainWith is Explain for a caller that keeps the answers of nodes.
func ExplainWith(v *cluster.View, check func(cluster.NodeID) decision.Reason) decision.Reason {
	var t Tally
	for i := range v.Nodes.Len() {
		if v.Node(cluster.NodeID(i)).Life == cluster.LifeOff {
			continue
		}
		r := check(cluster.NodeID(i))
		if r.None() {
			return r
		}
		t.Add(r)
	}
	return t.Reason()
}

// Queue says whether the pod's queue, and each above it, allows the shape.
func Queue(v *cluster.View, pod cluster.PodID, id cluster.ShapeID) decision.Reason {
	milli := v.Shape(id).Milli()
	for q := v.Pod(pod).Spec.Queue; q != cluster.None; q = v.Queues.At(int32(q)).Parent {
		row := v.Queues.At(int32(q))
		if row.LimitMilli > 0 && row.UsedMilli+milli > row.LimitMilli {
			return decision.Reason{Code: decision.QueueLimit, Need: int64(row.UsedMilli + milli), Have: int64(row.LimitMilli), Queue: q}
		}
	}
	return decision.Reason{}
}
