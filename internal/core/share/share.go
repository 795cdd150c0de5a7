// Package share judges whose turn it is, and who has more than its share.
//
//	s := share.Survey(view, cycle)
//	s.Quota(queue)                      what the queue can count on in this epoch
//	s.Fair(queue)                       the same, and its part of what nobody else uses
//	s.Entitled(view, taker, victim, n)  may the taker's queue reclaim so much from the other?
//	s.Line(view, pods, order)           the waiting pods, in the order of their turn
//
// A queue deserves what its tenant bought. Its quota follows what it used in the
// last hour; its fair share adds its part of idle capacity, by weight, and by how
// much it used before. Capacity, demand and use are those of the snapshot, so a
// standing holds for one cycle, and does not change while only placements do.
package share

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Standing is what each queue is entitled to in a cycle.
//
// Rows stand for queues. An inner queue has a second row for pods of its own, below
// the first; and the last row but one is for pods without queue, beside the top
// queues. The last row is the whole cluster.
type Standing struct {
	dims []cluster.Dim // in which anything is deserved; GPU compute first
	rows []row
	own  []int32 // by queue: the row that its own pods are charged to
}

// row is one node of the tree. Amounts are parallel to dims.
type row struct {
	queue    cluster.QueueID // None: pods without queue, or all
	parent   int32           // row; -1 at the top
	children []int32
	own      bool // stands for the pods of an inner queue, not for those below
	key      uint64
	weight   int64 // for idle room, lowered by history
	deserved []int64
	quota    []int64
	demand   []int64
	fair     []int64
}

// defaultWeight is the weight of pods that no queue speaks for.
const defaultWeight = 1000

// Survey computes the standing of all queues; nil where there are none, or none to
// whom anything was promised: neither deserved amounts nor weights.
func Survey(v *cluster.View) *Standing {
	if !promised(v) {
		return nil
	}
	s := &Standing{}
	s.dimensions(v)
	s.plant(v)
	s.ask(v)
	root := &s.rows[s.root()]
	root.deserved, root.quota = s.capacity(v), s.capacity(v)
	s.grant(v, s.root())
	for d := range s.dims {
		root.fair[d] = min(root.demand[d], root.quota[d])
	}
	s.weigh(v, s.root())
	s.pour(s.root())
	return s
}

// promised says whether any queue deserves something, or has a weight.
func promised(v *cluster.View) bool {
	for i := range v.Queues.Len() {
		q := v.Queues.At(int32(i))
		if !q.Gone && (q.Weight > 0 || q.DeservedMilli > 0 || q.Deserved.Positive()) {
			return true
		}
	}
	return false
}

func (s *Standing) root() int32     { return int32(len(s.rows)) - 1 }
func (s *Standing) nobody() int32   { return int32(len(s.rows)) - 2 }
func (s *Standing) zeroes() []int64 { return make([]int64, len(s.dims)) }

// rowOf is the row that pods of a queue are charged to.
func (s *Standing) rowOf(q cluster.QueueID) int32 {
	if q == cluster.None {
		return s.nobody()
	}
	return s.own[q]
}

// dimensions lists those that any queue says it deserves something of.
func (s *Standing) dimensions(v *cluster.View) {
	s.dims = []cluster.Dim{cluster.DimMilli}
	stated := make(map[cluster.Dim]bool)
	for i := range v.Queues.Len() {
		q := v.Queues.At(int32(i))
		for d := range q.Deserved.Dims() {
			if q.Deserved.At(d) > 0 && !q.Gone && !stated[d] {
				stated[d] = true
				s.dims = append(s.dims, d)
			}
		}
	}
	slices.Sort(s.dims)
}

// plant makes the rows of the tree.
func (s *Standing) plant(v *cluster.View) {
	n := int32(v.Queues.Len())
	s.rows = make([]row, n, 2*n+2)
	s.own = make([]int32, n)
	inner := make([]bool, n)
	for i := range n {
		if q := v.Queues.At(i); !q.Gone && q.Parent != cluster.None {
			inner[q.Parent] = true
		}
	}
	for i := range n {
		q := v.Queues.At(i)
		s.own[i] = i
		s.rows[i] = row{queue: cluster.QueueID(i), parent: int32(q.Parent), key: q.Key, weight: int64(q.Weight)}
		if inner[i] {
			s.own[i] = int32(len(s.rows))
			s.rows = append(s.rows, row{queue: cluster.QueueID(i), parent: i, own: true, key: q.Key, weight: defaultWeight})
		}
	}
	s.rows = append(s.rows, row{queue: cluster.None, parent: -1, weight: defaultWeight}, row{queue: cluster.None, parent: -1})
	root := s.root()
	for i := range s.rows {
		r := &s.rows[i]
		r.deserved, r.quota, r.demand, r.fair = s.zeroes(), s.zeroes(), s.zeroes(), s.zeroes()
		if int32(i) == root || r.queue != cluster.None && v.Queue(r.queue).Gone {
			continue
		}
		if r.parent < 0 {
			r.parent = root
		}
		up := &s.rows[r.parent]
		up.children = append(up.children, int32(i))
	}
	for i := range s.rows {
		slices.SortFunc(s.rows[i].children, func(a, b int32) int {
			return cmp.Or(cmp.Compare(s.rows[a].key, s.rows[b].key), cmp.Compare(a, b))
		})
	}
}

// amount is an amount of a vector and compute in one of the dimensions.
func amount(milli quantity.MilliGPU, rest *cluster.Vector, d cluster.Dim) int64 {
	if d == cluster.DimMilli {
		return int64(milli)
	}
	return rest.At(d)
}

// ask adds up what is used and waited for, in all rows.
func (s *Standing) ask(v *cluster.View) {
	for i := range v.Pods.Len() {
		p := v.Pod(cluster.PodID(i))
		var shape cluster.ShapeID
		switch {
		case p.Phase.Charged():
			shape = p.Placement.Shape
		case p.Phase == cluster.PhaseWaiting && !v.AwaitsJobs(p):
			shape = p.Spec.Shape
		default:
			continue
		}
		need := v.Shape(shape)
		milli := need.Milli()
		if p.Phase.Charged() {
			milli = p.Placement.Milli()
		}
		demand := s.rows[s.rowOf(p.Spec.Queue)].demand
		for k, d := range s.dims {
			demand[k] += amount(milli, &need.Need, d)
		}
	}
	s.gather(v, s.root())
}

// gather adds the demand of rows below, each no more than its limit allows. What a
// queue uses above a limit that was lowered is nothing that it can count on.
func (s *Standing) gather(v *cluster.View, at int32) {
	r := &s.rows[at]
	for _, child := range r.children {
		s.gather(v, child)
		for k := range s.dims {
			r.demand[k] += s.rows[child].demand[k]
		}
	}
	if r.queue == cluster.None || r.own {
		return
	}
	q := v.Queue(r.queue)
	for k, d := range s.dims {
		if limit := amount(q.LimitMilli, &q.Limit, d); limit > 0 {
			r.demand[k] = min(r.demand[k], limit)
		}
	}
}

// capacity is what the nodes that take work have in all.
func (s *Standing) capacity(v *cluster.View) []int64 {
	out := s.zeroes()
	for i := range v.Classes.Len() {
		out[0] += int64(v.Classes.At(int32(i)).Totals.Devices) * int64(quantity.WholeGPU)
	}
	if len(s.dims) == 1 {
		return out
	}
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if !n.TakesWork() {
			continue
		}
		for k, d := range s.dims[1:] {
			out[k+1] += n.Spec.Allocatable.At(d)
		}
	}
	return out
}
