package share

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Line gives waiting pods their turns. From the top of the tree down the turn goes
// to the queue that would stay within its quota, and of such to the one that has
// used the least part of it; then to the one that borrows least for its weight.
// Within a queue the order of pods decides.
//
// A line reads the use of queues from the view that it was made for: when that has
// changed, say so with Changed.
type Line struct {
	standing *Standing
	view     *cluster.View
	order    Order
	lanes    []lane
	left     int
	last     int32 // row whose pod had the turn last; -1 before the first
	sifting  bool  // Keep is under way, and orders all anew at its end
}

// lane is a row of the tree with those that wait in it.
type lane struct {
	pods   []waiter // of a row without children; a heap, once heaped
	ahead  bool     // the next one is the first
	heaped bool     // but for the first, where it is not ahead
	// below are the children with anybody waiting, as a heap; at is the position in
	// that of the row above, -1 outside.
	below []int32
	at    int32
	rank  rank
}

// waiter is a pod in line, with the one shape that it asks for; None where there is
// more to it. Looking at a pod is slow where very many wait.
type waiter struct {
	pod         cluster.PodID
	shape       cluster.ShapeID
	first, then int64
}

// Order says whose turn comes first within a queue.
type Order struct {
	// Compare orders pods, totally.
	Compare func(a, b cluster.PodID) int
	// Numbers says at a glance what Compare does: the lower first goes first; of equal
	// ones the lower then, where neither is Unclear and they differ. Nil: nothing is said.
	Numbers func(pod cluster.PodID) (first, then int64)
}

// Unclear is the second number of a pod of which only Compare can tell.
const Unclear = -1 << 63

// before says whether a has its turn before b.
func (l *Line) before(a, b *waiter) bool {
	switch {
	case a.first != b.first:
		return a.first < b.first
	case a.then != b.then && a.then != Unclear && b.then != Unclear:
		return a.then < b.then
	}
	return l.order.Compare(a.pod, b.pod) < 0
}

// rank is what the order of siblings goes by.
type rank struct {
	within      bool
	used, quota int64 // where the use comes closest to the quota
	excess      int64 // of use over quota, where it is most
	weight      int64
	head        cluster.PodID
}

// Line lists pods that wait, in an order within each queue.
func (s *Standing) Line(v *cluster.View, pods []cluster.PodID, order Order) *Line {
	l := &Line{standing: s, view: v, order: order, lanes: make([]lane, len(s.rows)), left: len(pods), last: -1}
	for _, pod := range pods {
		lane := &l.lanes[s.rowOf(v.Pod(pod).Spec.Queue)]
		lane.pods = append(lane.pods, l.waiter(pod))
	}
	l.rebuild(s.root())
	return l
}

func (l *Line) waiter(pod cluster.PodID) waiter {
	spec := l.view.Pod(pod).Spec
	w := waiter{pod: pod, shape: spec.Shape, then: Unclear}
	if spec.Group != cluster.None || len(spec.Alternatives) > 0 {
		w.shape = cluster.None
	}
	if l.order.Numbers != nil {
		w.first, w.then = l.order.Numbers(pod)
	}
	return w
}

// Next takes the pod whose turn it is out of the line.
func (l *Line) Next() (cluster.PodID, bool) {
	if l.last >= 0 {
		l.refresh(l.last)
		l.last = -1
	}
	if l.left == 0 {
		return cluster.None, false
	}
	at := l.standing.root()
	for len(l.lanes[at].below) > 0 {
		at = l.lanes[at].below[0]
	}
	lane := &l.lanes[at]
	pod, last := lane.pods[0].pod, len(lane.pods)-1
	lane.pods[0] = lane.pods[last]
	lane.pods, lane.ahead = lane.pods[:last], false
	l.left--
	l.last = at
	return pod, true
}

// Return puts pods back in line that had their turn in vain.
func (l *Line) Return(pods []cluster.PodID) {
	if l.last >= 0 {
		l.refresh(l.last)
		l.last = -1
	}
	for _, pod := range pods {
		at := l.standing.rowOf(l.view.Pod(pod).Spec.Queue)
		lane := &l.lanes[at]
		if len(lane.pods) > 0 {
			l.bringForward(lane)
		}
		lane.pods = append(lane.pods, l.waiter(pod))
		lane.ahead, lane.heaped = true, true
		for i := len(lane.pods) - 1; i > 0 && l.before(&lane.pods[i], &lane.pods[(i-1)/2]); i = (i - 1) / 2 {
			lane.pods[i], lane.pods[(i-1)/2] = lane.pods[(i-1)/2], lane.pods[i]
		}
		l.left++
		for x := at; l.standing.rows[x].parent >= 0 && l.lanes[x].at < 0; x = l.standing.rows[x].parent {
			up := &l.lanes[l.standing.rows[x].parent]
			l.lanes[x].at = int32(len(up.below))
			up.below = append(up.below, x)
		}
		l.refresh(at)
	}
}

// Changed says that a queue uses another amount than before.
func (l *Line) Changed(q cluster.QueueID) {
	if at := l.standing.rowOf(q); at != l.last && !l.sifting {
		l.refresh(at)
	}
}

// Keep leaves those in line that keep says yes to, which may change what queues use.
// Pods that ask for no more than a shape are kept unasked while hope says yes to that.
func (l *Line) Keep(hope func(cluster.ShapeID) bool, keep func(cluster.PodID) bool) {
	l.left, l.sifting = 0, true
	for i := range l.lanes {
		lane := &l.lanes[i]
		if len(lane.pods) == 0 {
			continue
		}
		first, before := lane.pods[0].pod, len(lane.pods)
		lane.pods = slices.DeleteFunc(lane.pods, func(w waiter) bool {
			return (w.shape == cluster.None || !hope(w.shape)) && !keep(w.pod)
		})
		lane.ahead = lane.ahead && len(lane.pods) > 0 && lane.pods[0].pod == first
		lane.heaped = lane.heaped && len(lane.pods) == before
		l.left += len(lane.pods)
	}
	l.last, l.sifting = -1, false
	l.rebuild(l.standing.root())
}

// Drop takes all pods of a queue out of the line.
func (l *Line) Drop(q cluster.QueueID) {
	at := l.standing.rowOf(q)
	lane := &l.lanes[at]
	l.left -= len(lane.pods)
	lane.pods, lane.ahead = nil, false
	if l.last == at {
		l.last = -1
	}
	l.refresh(at)
}

// rebuild orders a row and all below it.
func (l *Line) rebuild(at int32) {
	lane := &l.lanes[at]
	lane.at, lane.below = -1, lane.below[:0]
	for _, child := range l.standing.rows[at].children {
		if l.rebuild(child); l.waits(child) {
			l.lanes[child].at = int32(len(lane.below))
			lane.below = append(lane.below, child)
		}
	}
	heap.Init(&siblings{l, at})
	l.reckon(at)
}

func (l *Line) waits(at int32) bool { return len(l.lanes[at].pods)+len(l.lanes[at].below) > 0 }

// refresh puts a row, and those above it, where they belong among their siblings.
func (l *Line) refresh(at int32) {
	for {
		l.reckon(at)
		up := l.standing.rows[at].parent
		if up < 0 {
			return
		}
		h, position := &siblings{l, up}, l.lanes[at].at
		switch {
		case position >= 0 && l.waits(at):
			heap.Fix(h, int(position))
		case position >= 0:
			heap.Remove(h, int(position))
		}
		at = up
	}
}

// reckon computes the rank of a row anew.
func (l *Line) reckon(at int32) {
	lane, r := &l.lanes[at], &l.standing.rows[at]
	switch {
	case len(lane.below) > 0:
		lane.rank.head = l.lanes[lane.below[0]].rank.head
	case len(lane.pods) > 0:
		l.bringForward(lane)
		lane.rank.head = lane.pods[0].pod
	default:
		return
	}
	need := l.view.Shape(l.view.Pod(lane.rank.head).Spec.Shape)
	milli := need.Milli()
	lane.rank = rank{within: true, quota: 1, weight: r.weight, head: lane.rank.head}
	for k, d := range l.standing.dims {
		more := amount(milli, &need.Need, d)
		if more == 0 {
			continue
		}
		used, quota := l.standing.used(l.view, at, d), r.quota[k]
		lane.rank.within = lane.rank.within && used+more <= quota
		if quantity.CompareProducts(used, lane.rank.quota, lane.rank.used, max(quota, 1)) > 0 {
			lane.rank.used, lane.rank.quota = used, max(quota, 1)
		}
		if used > quota {
			lane.rank.excess = max(lane.rank.excess, l.standing.excess(k, used-quota))
		}
	}
}

// excess makes what one queue borrows of GPUs comparable to what another does of
// memory: as parts of all there is. Where only GPUs count it is exact.
func (s *Standing) excess(k int, over int64) int64 {
	if len(s.dims) == 1 {
		return over
	}
	const whole = 1 << 40
	return quantity.MulDiv(over, whole, max(s.rows[s.root()].quota[k], 1))
}

// bringForward moves the pod whose turn it is to the head of the lane. Most cycles have
// room for few of very many: a heap orders no more of them than that.
func (l *Line) bringForward(lane *lane) {
	switch {
	case lane.ahead:
		return
	case lane.heaped:
		l.sink(lane.pods, 0)
	default:
		for i := len(lane.pods)/2 - 1; i >= 0; i-- {
			l.sink(lane.pods, i)
		}
		lane.heaped = true
	}
	lane.ahead = true
}

// sink puts a pod below those of its part of the heap that come before it.
func (l *Line) sink(pods []waiter, at int) {
	for {
		next := 2*at + 1
		if next >= len(pods) {
			return
		}
		if next+1 < len(pods) && l.before(&pods[next+1], &pods[next]) {
			next++
		}
		if l.before(&pods[at], &pods[next]) {
			return
		}
		pods[at], pods[next] = pods[next], pods[at]
		at = next
	}
}

// compareRows compares two rows of one parent; the lesser has the turn.
func (l *Line) compareRows(a, b int32) int {
	x, y := &l.lanes[a].rank, &l.lanes[b].rank
	if x.within != y.within {
		if x.within {
			return -1
		}
		return 1
	}
	if x.within {
		if c := quantity.CompareProducts(x.used, y.quota, y.used, x.quota); c != 0 {
			return c
		}
		return l.order.Compare(x.head, y.head)
	}
	if (x.weight == 0) != (y.weight == 0) {
		return cmp.Compare(y.weight, x.weight)
	}
	// Of those who borrow equally much the one with more weight goes first: so the
	// heavy user of yesterday waits even where nobody uses anything yet.
	return cmp.Or(
		quantity.CompareProducts(x.excess, max(y.weight, 1), y.excess, max(x.weight, 1)),
		cmp.Compare(y.weight, x.weight),
		l.order.Compare(x.head, y.head))
}

// siblings is the heap of the children of a row.
type siblings struct {
	line *Line
	of   int32
}

func (h *siblings) lane() *lane { return &h.line.lanes[h.of] }

func (h *siblings) Len() int { return len(h.lane().below) }
func (h *siblings) Less(i, j int) bool {
	b := h.lane().below
	return h.line.compareRows(b[i], b[j]) < 0
}

func (h *siblings) Swap(i, j int) {
	below := h.lane().below
	below[i], below[j] = below[j], below[i]
	h.line.lanes[below[i]].at, h.line.lanes[below[j]].at = int32(i), int32(j)
}

// Push completes heap.Interface; rows only leave.
func (h *siblings) Push(any) {}

func (h *siblings) Pop() any {
	below := h.lane().below
	last := below[len(below)-1]
	h.line.lanes[last].at = -1
	h.lane().below = below[:len(below)-1]
	return last
}
