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
	compare  func(a, b cluster.PodID) int
	lanes    []lane
	left     int
	last     int32 // row whose pod had the turn last; -1 before the first
}

// lane is a row of the tree with those that wait in it.
type lane struct {
	pods   []cluster.PodID // of a row without children; the next one first
	sorted bool
	turns  int // pods brought forward one by one
	// below are the children with anybody waiting, as a heap; at is the position in
	// that of the row above, -1 outside.
	below []int32
	at    int32
	rank  rank
}

// rank is what the order of siblings goes by.
type rank struct {
	within      bool
	used, quota int64 // where the use comes closest to the quota
	excess      int64 // of use over quota
	weight      int64
	head        cluster.PodID
}

// Line lists pods that wait, in the order that compare gives within a queue.
func (s *Standing) Line(v *cluster.View, pods []cluster.PodID, compare func(a, b cluster.PodID) int) *Line {
	l := &Line{standing: s, view: v, compare: compare, lanes: make([]lane, len(s.rows)), left: len(pods), last: -1}
	for _, pod := range pods {
		lane := &l.lanes[s.rowOf(v.Pod(pod).Spec.Queue)]
		lane.pods = append(lane.pods, pod)
	}
	l.rebuild(s.root())
	return l
}

// Len is how many pods are still in line.
func (l *Line) Len() int { return l.left }

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
	pod := lane.pods[0]
	lane.pods = lane.pods[1:]
	l.left--
	l.last = at
	return pod, true
}

// Changed says that a queue uses another amount than before.
func (l *Line) Changed(q cluster.QueueID) {
	if at := l.standing.rowOf(q); at != l.last {
		l.refresh(at)
	}
}

// Keep leaves those in line that keep says yes to.
func (l *Line) Keep(keep func(cluster.PodID) bool) {
	l.left = 0
	for i := range l.lanes {
		lane := &l.lanes[i]
		lane.pods = slices.DeleteFunc(lane.pods, func(pod cluster.PodID) bool { return !keep(pod) })
		l.left += len(lane.pods)
	}
	l.last = -1
	l.rebuild(l.standing.root())
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
		lane.rank.head = lane.pods[0]
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
		if lane.rank.excess == 0 {
			lane.rank.excess = max(used-quota, 0)
		}
	}
}

// sortAfter is how many pods are brought forward one by one before the whole lane
// is sorted: most cycles have room for few.
const sortAfter = 16

// bringForward moves the pod whose turn it is to the head of the lane.
func (l *Line) bringForward(lane *lane) {
	switch {
	case lane.sorted:
	case lane.turns >= sortAfter:
		slices.SortFunc(lane.pods, l.compare)
		lane.sorted = true
	default:
		first := 0
		for i := range lane.pods {
			if l.compare(lane.pods[i], lane.pods[first]) < 0 {
				first = i
			}
		}
		lane.pods[0], lane.pods[first] = lane.pods[first], lane.pods[0]
		lane.turns++
	}
}

// order compares two siblings; the lesser has the turn.
func (l *Line) order(a, b int32) int {
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
		return l.compare(x.head, y.head)
	}
	if (x.weight == 0) != (y.weight == 0) {
		return cmp.Compare(y.weight, x.weight)
	}
	if c := quantity.CompareProducts(x.excess, max(y.weight, 1), y.excess, max(x.weight, 1)); c != 0 {
		return c
	}
	return l.compare(x.head, y.head)
}

// siblings is the heap of the children of a row.
type siblings struct {
	line *Line
	of   int32
}

func (h *siblings) lane() *lane { return &h.line.lanes[h.of] }

func (h *siblings) Len() int           { return len(h.lane().below) }
func (h *siblings) Less(i, j int) bool { b := h.lane().below; return h.line.order(b[i], b[j]) < 0 }

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
