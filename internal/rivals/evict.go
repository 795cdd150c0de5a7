package rivals

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// findRunning lists the jobs that may be evicted: all of their pods have a place,
// none is protected, and nothing is under way for any.
func (l *line) findRunning() {
	v := l.txn.View()
	l.crewOf = make(map[cluster.PodID]int32)
	groups := make(map[cluster.GroupID][]cluster.PodID)
	var order []cluster.GroupID
	for i := range v.Nodes.Len() {
		for _, id := range v.Node(cluster.NodeID(i)).Pods {
			p := v.Pod(id)
			runs := p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning
			if !runs || p.Intent != cluster.None || p.Spec.Protected {
				continue
			}
			if g := p.Spec.Group; g != cluster.None {
				if groups[g] == nil {
					order = append(order, g)
				}
				groups[g] = append(groups[g], id)
				continue
			}
			l.hire([]cluster.PodID{id})
		}
	}
	for _, g := range order {
		if int32(len(groups[g])) == v.Group(g).Members {
			l.hire(groups[g])
		}
	}
}

func (l *line) hire(pods []cluster.PodID) {
	for _, pod := range pods {
		l.crewOf[pod] = int32(len(l.running))
	}
	l.running = append(l.running, l.crew(pods))
}

// worst is the last of the running jobs in the line; nil without any.
func (l *line) worst() *crew {
	var worst *crew
	for i := range l.running {
		if r := &l.running[i]; worst == nil || worst.before(r) {
			worst = r
		}
	}
	return worst
}

// seatInsteadOf places a pod where running jobs that come later in the line than its
// own hold the room: on the node where the first of those who have to go is the last
// in the line.
func (l *line) seatInsteadOf(pod cluster.PodID, c *crew, evicted *[]int32) bool {
	v := l.txn.View()
	shape := v.Pod(pod).Spec.Shape
	if !fit.Queue(v, pod, shape).None() {
		return false
	}
	type offer struct {
		node    cluster.NodeID
		victims []int32 // the last in the line first
	}
	var offers []offer
	for i := range v.Nodes.Len() {
		if id := cluster.NodeID(i); !l.awaited[id] {
			if victims := l.victims(id, shape, c); victims != nil {
				offers = append(offers, offer{id, victims})
			}
		}
	}
	first := func(o *offer) *crew { return &l.running[o.victims[len(o.victims)-1]] }
	slices.SortStableFunc(offers, func(a, b offer) int {
		switch x, y := first(&a), first(&b); {
		case y.before(x):
			return -1
		case x.before(y):
			return 1
		}
		return len(a.victims) - len(b.victims)
	})
	for i := range offers {
		if l.carry(pod, shape, offers[i].node, offers[i].victims) {
			*evicted = append(*evicted, offers[i].victims...)
			return true
		}
	}
	return false
}

// victims lists the jobs of a node that come later in the line than c, the last
// first, until they hold enough for the shape; nil where they do not.
func (l *line) victims(node cluster.NodeID, shape cluster.ShapeID, c *crew) []int32 {
	v := l.txn.View()
	n, want := v.Node(node), v.Shape(shape)
	if !n.TakesWork() || n.Overdrawn || want.DeviceCount() > n.Spec.DeviceCount {
		return nil
	}
	var later []int32
	for _, pod := range n.Pods {
		if i, may := l.crewOf[pod]; may && !l.running[i].out && c.before(&l.running[i]) && !slices.Contains(later, i) {
			later = append(later, i)
		}
	}
	slices.SortFunc(later, func(a, b int32) int {
		if l.running[b].before(&l.running[a]) {
			return -1
		}
		return 1
	})
	free, milli := n.Free, n.FreeMilli
	for k, i := range later {
		for _, pod := range l.running[i].pods {
			if place := &v.Pod(pod).Placement; place.Node == node {
				free, milli = free.Plus(&v.Shape(place.Shape).Need), milli+place.Milli()
			}
		}
		if _, short := free.ShortOf(&want.Need); !short && milli >= want.Milli() {
			return later[:k+1]
		}
	}
	return nil
}

// carry evicts whole jobs and places the pod on the node; or it does nothing.
func (l *line) carry(pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID, victims []int32) bool {
	mark, steps := l.txn.Mark(), len(l.steps)
	ok := true
	for _, i := range victims {
		for _, victim := range l.running[i].pods {
			ok = ok && l.txn.Evict(victim) == nil
			l.steps = append(l.steps, engine.Step{Pod: victim, Place: cluster.Nowhere()})
		}
	}
	if ok = ok && l.fits(pod, shape, node) && l.take(pod, shape, node); !ok {
		l.txn.Rollback(mark)
		l.steps = l.steps[:steps]
		return false
	}
	for _, i := range victims {
		l.running[i].out = true
	}
	return true
}
