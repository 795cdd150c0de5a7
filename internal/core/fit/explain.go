package fit

import (
	"cmp"
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// Tally keeps the reasons of many nodes, one for each, and says what they come
// to; in which order they are set makes no difference. The zero value is ready.
// All reasons in it must be about one shape.
type Tally struct {
	counted  int32
	renewals int32
	rows     []row
	nodes    []told
}

// told is what a node's reason is: the row it counts in, one more than the index,
// and how much it has. Row 0 is no reason.
type told struct {
	row     int32
	renewal int32 // in which its claim was kept last
	have    int64
}

// row counts one constraint in one dimension, for one amount needed: Nodes say on
// how many nodes it binds. The claims form a max-heap by have; some are out of date.
type row struct {
	decision.Reason
	claims []claim
}

type claim struct {
	have int64
	node cluster.NodeID
}

// Set makes r the reason of a node.
func (t *Tally) Set(node cluster.NodeID, r decision.Reason) {
	t.Clear(node)
	i := t.rowOf(&r)
	t.nodes[node] = told{row: int32(i) + 1, have: r.Have}
	t.counted++
	own := &t.rows[i]
	own.Nodes++
	if r.None() {
		return
	}
	if len(own.claims) > 2*int(own.Nodes)+claimSlack {
		t.renew(i)
	}
	own.push(claim{r.Have, node})
}

// claimSlack is how many claims may be out of date before they are renewed,
// beyond as many as are valid.
const claimSlack = 16

// Clear takes a node's reason away.
func (t *Tally) Clear(node cluster.NodeID) {
	for len(t.nodes) <= int(node) {
		t.nodes = append(t.nodes, told{})
	}
	if old := t.nodes[node]; old.row > 0 {
		t.rows[old.row-1].Nodes--
		t.counted--
		t.nodes[node] = told{}
	}
}

// Of returns the reason of one node; a zero Reason where it has none.
func (t *Tally) Of(node cluster.NodeID) decision.Reason {
	if int(node) >= len(t.nodes) || t.nodes[node].row == 0 {
		return decision.Reason{}
	}
	r := t.rows[t.nodes[node].row-1].Reason
	r.Have, r.Nodes = t.nodes[node].have, 0
	return r
}

func (t *Tally) rowOf(r *decision.Reason) int {
	for i := range t.rows {
		if own := &t.rows[i]; own.Code == r.Code && own.Dim == r.Dim && own.Need == r.Need && own.About == r.About {
			return i
		}
	}
	t.rows = append(t.rows, row{Reason: decision.Reason{Code: r.Code, Dim: r.Dim, Need: r.Need, About: r.About}})
	return len(t.rows) - 1
}

// renew drops the claims that are out of date or there twice.
func (t *Tally) renew(i int) {
	t.renewals++
	own := &t.rows[i]
	all := own.claims
	own.claims = own.claims[:0]
	for _, c := range all {
		if node := &t.nodes[c.node]; t.holds(i, c) && node.renewal != t.renewals {
			node.renewal = t.renewals
			own.push(c)
		}
	}
}

func (t *Tally) holds(i int, c claim) bool {
	node := &t.nodes[c.node]
	return node.row == int32(i)+1 && node.have == c.have
}

func (w *row) push(c claim) {
	w.claims = append(w.claims, c)
	for i := len(w.claims) - 1; i > 0 && w.claims[(i-1)/2].have < w.claims[i].have; i = (i - 1) / 2 {
		w.claims[(i-1)/2], w.claims[i] = w.claims[i], w.claims[(i-1)/2]
	}
}

func (w *row) pop() {
	last := len(w.claims) - 1
	w.claims[0] = w.claims[last]
	w.claims = w.claims[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && w.claims[child+1].have > w.claims[child].have {
			child++
		}
		if child >= last || w.claims[child].have <= w.claims[i].have {
			return
		}
		w.claims[i], w.claims[child] = w.claims[child], w.claims[i]
		i = child
	}
}

// Reason returns the constraint that binds: of the nodes that came closest to
// fitting, what most of them lacked. A zero Reason means that all fit.
func (t *Tally) Reason() decision.Reason {
	if t.counted == 0 {
		return decision.Reason{Code: decision.NoNodes}
	}
	best := decision.Reason{}
	for i := range t.rows {
		if r := t.merged(i); cmp.Or(cmp.Compare(r.Code, best.Code), cmp.Compare(r.Nodes, best.Nodes), -cmp.Compare(r.Dim, best.Dim), -cmp.Compare(r.Need, best.Need), -cmp.Compare(r.About, best.About)) > 0 {
			best = r
		}
	}
	if best.None() {
		return decision.Reason{}
	}
	best.Of = t.counted
	return best
}

// merged returns the reasons of row i and of all rows that differ from it in
// nothing but what is needed: the most needed, the most there is.
func (t *Tally) merged(i int) decision.Reason {
	if t.rows[i].Nodes == 0 || t.rows[i].None() {
		return decision.Reason{}
	}
	out := decision.Reason{Code: t.rows[i].Code, Dim: t.rows[i].Dim, About: t.rows[i].About, Have: math.MinInt64}
	for k := range t.rows {
		r := &t.rows[k]
		if r.Nodes == 0 || r.Code != out.Code || r.Dim != out.Dim || r.About != out.About {
			continue
		}
		for !t.holds(k, r.claims[0]) {
			r.pop()
		}
		out.Nodes += r.Nodes
		out.Need, out.Have = max(out.Need, r.Need), max(out.Have, r.claims[0].have)
	}
	return out
}

// Explain returns why no node of the view takes the shape; a zero Reason where
// one does.
func Explain(v *cluster.View, id cluster.ShapeID) decision.Reason {
	var t Tally
	for i := range v.Nodes.Len() {
		node := cluster.NodeID(i)
		if v.Node(node).Life == cluster.LifeOff {
			continue
		}
		r := Check(v, id, node)
		if r.None() {
			return r
		}
		t.Set(node, r)
	}
	return t.Reason()
}

// Queue says whether the pod's queue, and each above it, allows the shape.
func Queue(v *cluster.View, pod cluster.PodID, id cluster.ShapeID) decision.Reason {
	if v.Pod(pod).Spec.Queue == cluster.None {
		return decision.Reason{}
	}
	ask := v.Shape(id).Ask()
	for q := v.Pod(pod).Spec.Queue; q != cluster.None; q = v.Queue(q).Parent {
		row := v.Queue(q)
		d, over := row.Exceeds(&ask)
		switch {
		case over && d == cluster.DimMilli:
			return decision.Reason{Code: decision.QueueLimit, Dim: d, Need: int64(row.UsedMilli + ask.Milli), Have: int64(row.LimitMilli), Queue: q}
		case over:
			return decision.Reason{Code: decision.QueueLimit, Dim: d, Need: row.Used.At(d) + ask.Rest.At(d), Have: row.Limit.At(d), Queue: q}
		}
	}
	return decision.Reason{}
}
