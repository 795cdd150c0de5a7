package gang_test

import "github.com/headrace-dev/headrace/internal/core/cluster"

// oracle looks for a place for a tree by trying all of them: which sub-groups, which
// node for each pod, which of its islands the cards come from. It is slow and
// obvious, for pods that ask for one or two whole cards.
type oracle struct {
	view *cluster.View
	idle [][2]int32 // by node, idle cards of each island
	// spot of the pods placed so far, by group that must share a level: -1 is none.
	shared map[wish]int32
	tries  int
}

type wish struct {
	group cluster.GroupID
	level cluster.Level
}

// most tries before the oracle does not know.
const most = 2_000_000

func newOracle(v *cluster.View) *oracle {
	o := &oracle{view: v, shared: make(map[wish]int32), idle: make([][2]int32, v.Nodes.Len())}
	for i := range o.idle {
		n := v.Node(cluster.NodeID(i))
		for k := range n.Spec.DeviceCount {
			if d := v.DeviceOf(n, k); d.Idle() {
				o.idle[i][d.Spec.Island]++
			}
		}
	}
	return o
}

// emptied is the same with all cards idle.
func (o *oracle) emptied() *oracle {
	for i := range o.idle {
		o.idle[i] = [2]int32{2, 2}
	}
	return o
}

// fits says whether there is a place for what a tree needs; known is false where
// trying took too long.
func (o *oracle) fits(root cluster.GroupID) (fits, known bool) {
	for _, pods := range o.choices(root) {
		if o.place(pods, 0, 0) {
			return true, true
		}
	}
	return false, o.tries < most
}

// job is a pod that is needed.
type job struct {
	group cluster.GroupID
	cards int32
}

// choices lists the sets of pods that would be enough for a group.
func (o *oracle) choices(id cluster.GroupID) [][]job {
	g := o.view.Group(id)
	var own []job
	for pod := range o.view.Members(id) {
		if int32(len(own)) < g.Minimum {
			own = append(own, job{id, o.view.Shape(o.view.Pod(pod).Spec.Shape).DeviceCount()})
		}
	}
	if int32(len(own)) < g.Minimum {
		return nil
	}
	var below [][][]job
	for c := range o.view.Children(id) {
		below = append(below, o.choices(c))
	}
	var out [][]job
	for set := range 1 << len(below) {
		all := [][]job{own}
		count := int32(0)
		for i, options := range below {
			if set>>i&1 == 0 {
				continue
			}
			count++
			var next [][]job
			for _, before := range all {
				for _, more := range options {
					next = append(next, append(append([]job(nil), before...), more...))
				}
			}
			all = next
		}
		if count == g.NeedsGroups() {
			out = append(out, all...)
		}
	}
	return out
}

// place tries all places for the pods from i on; those of one group that ask for the
// same go to places in order.
func (o *oracle) place(pods []job, i, from int) bool {
	if i == len(pods) {
		return true
	}
	if i > 0 && pods[i] != pods[i-1] {
		from = 0
	}
	for at := from; at < 3*len(o.idle); at++ {
		if o.tries++; o.tries > most {
			return false
		}
		node, way := at/3, at%3
		var takes [2]int32
		switch {
		case way < 2:
			takes[way] = pods[i].cards
		case pods[i].cards == 2:
			takes = [2]int32{1, 1}
		default:
			continue
		}
		if o.idle[node][0] < takes[0] || o.idle[node][1] < takes[1] {
			continue
		}
		island := int32(way)
		if way == 2 {
			island = -2
		}
		changed, ok := o.join(pods[i].group, cluster.NodeID(node), island)
		if ok {
			o.idle[node][0] -= takes[0]
			o.idle[node][1] -= takes[1]
			ok = o.place(pods, i+1, at)
			o.idle[node][0] += takes[0]
			o.idle[node][1] += takes[1]
		}
		for _, w := range changed {
			delete(o.shared, w)
		}
		if ok {
			return true
		}
	}
	return false
}

// join says whether a pod of a group may be in a place, given where others are, and
// remembers it.
func (o *oracle) join(group cluster.GroupID, node cluster.NodeID, island int32) (changed []wish, ok bool) {
	for id := group; id != cluster.None; id = o.view.Group(id).Parent {
		for _, t := range o.view.Group(id).Topology {
			if !t.Required {
				continue
			}
			at := o.domain(t.Level, node, island)
			w := wish{id, t.Level}
			before, seen := o.shared[w]
			if at < 0 || seen && before != at {
				return changed, false
			}
			if !seen {
				o.shared[w] = at
				changed = append(changed, w)
			}
		}
	}
	return changed, true
}

func (o *oracle) domain(level cluster.Level, node cluster.NodeID, island int32) int32 {
	switch level {
	case cluster.LevelNode:
		return int32(node)
	case cluster.LevelIsland:
		if island < 0 {
			return -1
		}
		return 2*int32(node) + island
	}
	for id := o.view.Node(node).Spec.Domain; id != cluster.None; id = o.view.Domains.At(int32(id)).Parent {
		if o.view.Domains.At(int32(id)).Level == level {
			return int32(id)
		}
	}
	return -1
}
