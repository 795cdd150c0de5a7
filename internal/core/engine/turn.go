package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/share"
)

// turns is the line of one cycle. Without queues it is flat; with queues, their
// shares decide whose turn it is, unless the policy has an order of its own.
type turns struct {
	pods   []cluster.PodID
	shares *share.Line
	// forward counts pods brought forward; sorted says that pods is in order.
	forward int
	sorted  bool
}

// lineUp orders the pods that may have room.
func (r *round) lineUp(pods []cluster.PodID) {
	r.line = turns{pods: pods}
	if !r.policy.Shares || len(pods) == 0 {
		return
	}
	if r.survey(); r.standing != nil {
		r.line.shares = r.standing.Line(r.txn.View(), pods, orderOf(&r.txn.Base().View, r.cycle, r.policy))
	}
}

// orderOf is the default order within a queue.
func orderOf(v *cluster.View, c decision.Cycle, p *Policy) share.Order {
	return share.Order{
		Compare: func(a, b cluster.PodID) int { return p.compare(v, c, a, b) },
		Numbers: func(pod cluster.PodID) (first, then int64) {
			row := v.Pod(pod)
			first, then = -int64(p.gradeOf(v, row, c.Now)), int64(row.Arrived)
			if row.Spec.SLATotal > 0 || row.Spec.Deadline != 0 {
				then = share.Unclear // it may be urgent
			}
			return first, then
		},
	}
}

// survey computes the standing of the queues, once in a cycle: it goes by the world as
// the cycle found it.
func (r *round) survey() {
	if r.policy.Shares && !r.surveyed {
		r.standing, r.surveyed = share.Survey(&r.txn.Base().View), true
	}
}

// next takes the pod whose turn it is out of the line.
func (r *round) next() (cluster.PodID, bool) {
	if r.line.shares != nil {
		return r.line.shares.Next()
	}
	if len(r.line.pods) == 0 {
		return cluster.None, false
	}
	r.bringForward(r.line.pods)
	pod := r.line.pods[0]
	r.line.pods = r.line.pods[1:]
	return pod, true
}

// prune leaves those in line for whom there may be room; the others wait, with what
// binds.
func (r *round) prune() {
	if r.line.shares != nil {
		r.looks++
		r.line.shares.Keep(func(shape cluster.ShapeID) bool { return !r.isFull(shape) }, r.mayHope)
		return
	}
	r.line.pods = r.hopeful(r.line.pods)
}

// used tells the line that a pod of a queue has got its place, or lost it again.
func (r *round) used(q cluster.QueueID) {
	if r.excess != nil {
		r.stale = append(r.stale, q)
	}
	if r.line.shares != nil {
		r.line.shares.Changed(q)
	}
}

// drop takes all of a queue out of the line, where shares order it: then those who come
// after one in its queue have no higher priority.
func (r *round) drop(q cluster.QueueID) {
	if r.line.shares != nil {
		r.line.shares.Drop(q)
	}
}

// inLine lists the waiting pods whose turn the cycle is, by id. Those that
// are held back have none.
func inLine(v *cluster.View, c decision.Cycle) []cluster.PodID {
	all := v.AppendWaiting(make([]cluster.PodID, 0, v.Pods.Len()))
	if c.Profile == 0 && !v.AnyHeldBack() {
		return all
	}
	return slices.DeleteFunc(all, func(id cluster.PodID) bool {
		p := v.Pod(id)
		return v.HeldBack(p, c.Now) || c.Profile != 0 && p.Spec.Policy != c.Profile
	})
}

// Line lists the waiting pods of a cycle in the order of their turn, whether there
// is room for them or not.
func Line(v *cluster.View, c decision.Cycle, p *Policy) []cluster.PodID {
	line := inLine(v, c)
	if p.Order != nil {
		p.Order(v, c, line)
		return line
	}
	order := func(a, b cluster.PodID) int { return p.compare(v, c, a, b) }
	standing := (*share.Standing)(nil)
	if p.Shares {
		standing = share.Survey(v)
	}
	if standing == nil {
		slices.SortFunc(line, order)
		return line
	}
	turns := standing.Line(v, line, orderOf(v, c, p))
	out := make([]cluster.PodID, 0, len(line))
	for pod, more := turns.Next(); more; pod, more = turns.Next() {
		out = append(out, pod)
	}
	return out
}

// sortAfter is how many pods are brought forward one by one before the whole line
// is sorted: most cycles have room for few.
const sortAfter = 16

// bringForward moves the pod whose turn it is to the head of the line.
func (r *round) bringForward(line []cluster.PodID) {
	v := r.txn.Base()
	switch {
	case r.line.sorted:
	case r.policy.Order != nil:
		r.policy.Order(&v.View, r.cycle, line)
		r.line.sorted = true
	case r.line.forward >= sortAfter:
		slices.SortFunc(line, func(a, b cluster.PodID) int { return r.policy.compare(&v.View, r.cycle, a, b) })
		r.line.sorted = true
	default:
		first := 0
		for i := range line {
			if r.policy.compare(&v.View, r.cycle, line[i], line[first]) < 0 {
				first = i
			}
		}
		line[0], line[first] = line[first], line[0]
		r.line.forward++
	}
}
