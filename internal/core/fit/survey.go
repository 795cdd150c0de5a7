package fit

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

const (
	// closestKept is how many of the closest nodes a survey names: examples, no list.
	closestKept = 3
	// taintsKept is how many taints a survey names.
	taintsKept = 5
)

// Survey is what every node says to a shape, gathered for a reader.
type Survey struct {
	// Reason is what binds where no node fits: the same as Explain returns.
	Reason      decision.Reason
	Nodes, Fits int32
	// Classes are those that have nodes, by id.
	Classes []ClassSurvey
	// Closest are nodes on which Reason binds, those with the most to give first.
	Closest []cluster.NodeID
	// Taints are those that keep the shape off nodes, the most frequent first.
	Taints []TaintCount
}

// ClassSurvey is what the nodes of one class say.
type ClassSurvey struct {
	Class       cluster.ClassID
	Nodes, Fits int32
	// Reasons are what binds, the closest to fitting first; Nodes of a reason says
	// on how many nodes, Have is the most of them.
	Reasons []decision.Reason
}

// TaintCount is a taint with the number of nodes that it closes.
type TaintCount struct {
	cluster.Taint
	Nodes int32
}

// Ask asks every node about a shape. It reads all of them: it is for one question
// of a reader, where the engine's memo knows the answer to what it needs.
func Ask(v *cluster.View, id cluster.ShapeID) Survey {
	return ask(v, id, func(node cluster.NodeID) decision.Reason { return Check(v, id, node) })
}

// AskPod asks every node about a shape of a pod, and about the pods there that the
// pod stands in a relation to.
func AskPod(v *cluster.View, pod cluster.PodID, id cluster.ShapeID) Survey {
	kin := v.Ties(pod)
	if kin == 0 {
		return Ask(v, id)
	}
	bonds := NewBonds(v, kin, id)
	return ask(v, id, func(node cluster.NodeID) decision.Reason {
		return bonds.Beside(v, node, Check(v, id, node))
	})
}

func ask(v *cluster.View, id cluster.ShapeID, check func(cluster.NodeID) decision.Reason) Survey {
	var out Survey
	var tally Tally
	classes := make(map[cluster.ClassID]*ClassSurvey)
	taints := make(map[cluster.Taint]int32)
	reasons := make([]decision.Reason, v.Nodes.Len())
	for i := range v.Nodes.Len() {
		node := cluster.NodeID(i)
		n := v.Node(node)
		if n.Life == cluster.LifeOff {
			continue
		}
		r := check(node)
		reasons[i] = r
		tally.Set(node, r)
		out.Nodes++
		c := classes[n.Spec.Class]
		if c == nil {
			c = &ClassSurvey{Class: n.Spec.Class}
			classes[n.Spec.Class] = c
		}
		c.count(&r)
		if r.None() {
			out.Fits++
		}
		if r.Code == decision.NodeTaint {
			countTaints(v.Shape(id), n.Spec, taints)
		}
	}
	if out.Fits == 0 {
		out.Reason = tally.Reason()
		out.Closest = closest(v, reasons, &out.Reason)
	}
	for _, c := range classes { // order: sorted below
		slices.SortFunc(c.Reasons, func(a, b decision.Reason) int {
			return cmp.Or(-cmp.Compare(a.Code, b.Code), -cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Dim, b.Dim), cmp.Compare(a.Need, b.Need), cmp.Compare(a.About, b.About))
		})
		for i := range c.Reasons {
			c.Reasons[i].Of = c.Nodes
		}
		out.Classes = append(out.Classes, *c)
	}
	slices.SortFunc(out.Classes, func(a, b ClassSurvey) int { return cmp.Compare(a.Class, b.Class) })
	out.Taints = mostFrequent(taints)
	return out
}

// count adds the answer of one node.
func (c *ClassSurvey) count(r *decision.Reason) {
	c.Nodes++
	if r.None() {
		c.Fits++
		return
	}
	for i := range c.Reasons {
		if row := &c.Reasons[i]; row.Code == r.Code && row.Dim == r.Dim && row.Need == r.Need && row.About == r.About {
			row.Nodes++
			row.Have = max(row.Have, r.Have)
			return
		}
	}
	row := *r
	row.Nodes = 1
	c.Reasons = append(c.Reasons, row)
}

// countTaints counts the taints of a node that the shape does not tolerate.
func countTaints(s *cluster.Shape, spec *cluster.NodeSpec, counts map[cluster.Taint]int32) {
	for i := range spec.Taints {
		alone := cluster.NodeSpec{Taints: spec.Taints[i : i+1]}
		if !tolerated(s, &alone) {
			counts[spec.Taints[i]]++
		}
	}
}

func mostFrequent(taints map[cluster.Taint]int32) []TaintCount {
	var out []TaintCount
	for t, n := range taints { // order: sorted below
		out = append(out, TaintCount{Taint: t, Nodes: n})
	}
	slices.SortFunc(out, func(a, b TaintCount) int {
		return cmp.Or(-cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return out[:min(len(out), taintsKept)]
}

// closest returns the nodes on which a reason binds, those with the most first.
func closest(v *cluster.View, reasons []decision.Reason, why *decision.Reason) []cluster.NodeID {
	var out []cluster.NodeID
	for i := range reasons {
		if r := &reasons[i]; v.Node(cluster.NodeID(i)).Life != cluster.LifeOff && r.Code == why.Code && r.Dim == why.Dim {
			out = append(out, cluster.NodeID(i))
		}
	}
	slices.SortFunc(out, func(a, b cluster.NodeID) int {
		return cmp.Or(-cmp.Compare(reasons[a].Have, reasons[b].Have), cmp.Compare(v.Node(a).Spec.Name, v.Node(b).Spec.Name))
	})
	return out[:min(len(out), closestKept)]
}
