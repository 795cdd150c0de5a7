package gang

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// along puts places in the order of ranks: neighbours of the atlas side by side, or
// domains that take more ranks before those that take fewer, whichever sends less
// across wide domains. Both keep the ranks of one domain together.
func (t *tree) along(places []cluster.Placement, comm cluster.Pattern) {
	slices.SortFunc(places, func(a, b cluster.Placement) int {
		return cmp.Or(cmp.Compare(t.spotOf(&a), t.spotOf(&b)), cmp.Compare(device(&a), device(&b)))
	})
	if comm == cluster.CommNone {
		return
	}
	other := slices.Clone(places)
	size := make(map[Place]int) // by rack, or what is around the nodes
	for i := range other {
		size[t.around(&other[i])]++
	}
	slices.SortStableFunc(other, func(a, b cluster.Placement) int {
		x, y := t.around(&a), t.around(&b)
		return cmp.Or(-cmp.Compare(size[x], size[y]), cmp.Compare(x, y))
	})
	if a, b := t.crossings(other, comm), t.crossings(places, comm); slices.Compare(a[:], b[:]) < 0 {
		copy(places, other)
	}
}

// spotOf is the closest place of a placement.
func (t *tree) spotOf(p *cluster.Placement) Place {
	if at := t.Atlas.At(cluster.LevelIsland, p.Node, t.island(p)); at != Nowhere {
		return at
	}
	return t.Atlas.ofNode[p.Node]
}

// around is the domain that the node of a placement is in.
func (t *tree) around(p *cluster.Placement) Place {
	return t.Atlas.places[t.Atlas.ofNode[p.Node]].parent
}

func device(p *cluster.Placement) cluster.DeviceID {
	if len(p.Grants) == 0 {
		return cluster.None
	}
	return p.Grants[0].Device
}

// crossings counts, widest level first, the pairs of ranks that talk and have only a
// place of that level in common.
func (t *tree) crossings(places []cluster.Placement, comm cluster.Pattern) (out [cluster.LevelCloud + 2]int32) {
	for rank := range places {
		peer := peerOf(rank, len(places), comm)
		if peer < 0 {
			continue
		}
		level := cluster.LevelCloud + 1
		p := t.spotOf(&places[rank])
		for ; p != Nowhere && !t.Atlas.Contains(p, t.spotOf(&places[peer])); p = t.Atlas.places[p].parent {
		}
		if s := t.Atlas.Spot(max(p, 0)); s.Set {
			level = s.Level
		}
		out[cluster.LevelCloud+1-level]++
	}
	return out
}

// peerOf is the rank that one sends to: the next in a ring; in a tree its parent, as
// NCCL builds one (graph/trees.cc, ncclGetBtree). -1: none.
func peerOf(rank, ranks int, comm cluster.Pattern) int {
	if comm == cluster.CommRing {
		return (rank + 1) % ranks
	}
	if rank == 0 {
		return -1
	}
	bit := rank & -rank
	if up := rank ^ bit | bit<<1; up < ranks {
		return up
	}
	return rank ^ bit
}
