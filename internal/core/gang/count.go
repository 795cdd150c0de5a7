package gang

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// Count is how many pods of one shape each place of an atlas takes, at most. It
// follows nodes as they change.
type Count struct {
	shape  cluster.ShapeID
	atlas  *Atlas
	slots  []int32  // by place
	states []uint64 // by node, when it was counted
	most   [cluster.LevelCloud + 1]int32
}

// NewCount counts all nodes.
func NewCount(v *cluster.View, a *Atlas, shape cluster.ShapeID) *Count {
	c := &Count{shape: shape, atlas: a, slots: make([]int32, len(a.places)), states: make([]uint64, len(a.ofNode))}
	c.FollowAll(v)
	return c
}

// At is how many pods a place takes.
func (c *Count) At(p Place) int32 { return c.slots[p] }

// FollowAll counts every node that is not what it was.
func (c *Count) FollowAll(v *cluster.View) {
	for _, node := range c.atlas.nodes {
		c.Follow(v, node)
	}
}

// Follow counts a node anew if it is not what it was.
func (c *Count) Follow(v *cluster.View, node cluster.NodeID) {
	p := c.atlas.ofNode[node]
	if p == Nowhere {
		return
	}
	// Never zero, so that a fresh row always differs.
	state := v.Node(node).State | 1
	if c.states[node] == state {
		return
	}
	c.states[node] = state
	for i, island := range c.atlas.places[p].islands {
		own := fit.Slots(v, c.shape, node, island)
		c.slots[p+1+Place(i)] = own
		c.most[cluster.LevelIsland] = max(c.most[cluster.LevelIsland], own)
	}
	more := fit.Slots(v, c.shape, node, cluster.None) - c.slots[p]
	if more == 0 {
		return
	}
	for ; p != Nowhere; p = c.atlas.places[p].parent {
		c.slots[p] += more
		if s := &c.atlas.places[p].spot; s.Set {
			c.most[s.Level] = max(c.most[s.Level], c.slots[p])
		}
	}
}

// capacities counts how many pods of a shape each place would take if it were empty.
func capacities(v *cluster.View, a *Atlas, shape cluster.ShapeID) []int32 {
	out := make([]int32, len(a.places))
	// Nodes of a class are alike when empty, unless facts tell devices apart.
	single := v.Facts.Single(shape, v.Shape(shape))
	known := make([]int32, v.Classes.Len())
	for _, node := range a.nodes {
		p := a.ofNode[node]
		for i, island := range a.places[p].islands {
			out[p+1+Place(i)] = fit.Capacity(v, shape, node, island)
		}
		class, n := v.Node(node).Spec.Class, int32(0)
		switch {
		case single || class == cluster.None:
			n = fit.Capacity(v, shape, node, cluster.None)
		case known[class] == 0:
			n = fit.Capacity(v, shape, node, cluster.None)
			known[class] = n + 1
		default:
			n = known[class] - 1
		}
		for ; p != Nowhere; p = a.places[p].parent {
			out[p] += n
		}
	}
	return out
}
