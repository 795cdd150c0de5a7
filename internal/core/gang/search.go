package gang

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// Where is a choice of nodes: all of them, those of a domain, or one island.
type Where struct {
	Spot   cluster.Spot
	Nodes  []cluster.NodeID // nil: all
	Island int32            // None: all devices of the nodes
	// First says that pods get their first choice or nothing.
	First bool
}

// Seats places pods one by one; it knows scores and relations, and is the one who
// writes the transaction.
type Seats interface {
	// Waiting lists the pods of a group whose turn it is, in the order of their turn.
	Waiting(cluster.GroupID) []cluster.PodID
	// Count counts a shape, as things stand in the transaction.
	Count(cluster.ShapeID) *Count
	// Seat places a pod on the best of the nodes, or nowhere.
	Seat(cluster.PodID, Where) bool
	// Binds says why Seat did not.
	Binds(cluster.PodID, Where) decision.Reason
	// Queue says whether the queue of a pod has room for so many of them.
	Queue(pod cluster.PodID, count int32) decision.Reason
	// Move gives seated pods other places, the i-th the i-th.
	Move([]cluster.PodID, []cluster.Placement) bool
	// Attempt does something that leaves everything as it was where it says no.
	Attempt(func() bool) bool
}

// Search places units in a transaction.
type Search struct {
	View  *cluster.View // of the transaction
	Atlas *Atlas
	Seats Seats
	Seed  int64
	// Left is how many more hypotheses may fail before the search gives up.
	Left *int64
	// Gather says that pods which ask for the same are best off on one node, wished or
	// not.
	Gather bool
}

// Place places as many pods of a unit's tree as it lacks, in one place, or none. It
// says why not: what binds the part of the tree that came closest.
func (s *Search) Place(unit cluster.GroupID, in Place) (bool, *decision.Reason) {
	if why := s.Lacks(unit); !why.None() {
		return false, &why
	}
	t := s.plan(unit, in)
	if why := t.queues(); !why.None() {
		return false, &why
	}
	for _, first := range [...]bool{true, false} {
		if !first && !t.choices {
			break
		}
		t.first = first && t.choices
		t.begin()
		if t.choose(0) {
			return true, nil
		}
		if t.gaveUp {
			break
		}
	}
	why := t.why()
	return false, &why
}

// Confined lists where more pods of a group may go while it stands, the place they
// would like best first: its members share domains.
func (s *Search) Confined(group cluster.GroupID) []Where {
	in := s.Region(s.View.Group(group).Parent)
	g := s.View.Group(group)
	var out []Where
	for _, o := range options(g) {
		if p := s.pin(group, o.level); p != Nowhere && s.Atlas.Contains(in, p) {
			out = append(out, s.where(p))
			if o.required {
				return out
			}
		}
	}
	return append(out, s.where(in))
}

// Region is the place that the groups from one upwards have to share.
func (s *Search) Region(group cluster.GroupID) Place {
	if group == cluster.None {
		return s.Atlas.Top()
	}
	in := s.Region(s.View.Group(group).Parent)
	if level, required := s.View.Group(group).Required(); required {
		if p := s.pin(group, level); p != Nowhere {
			return p
		}
	}
	return in
}

// option is a level at which a group may be placed.
type option struct {
	level    cluster.Level
	required bool
	unasked  bool // nobody wished for it
}

// options lists the levels of a group's wishes, the closest first; wider ones than
// the closest required do not matter.
func options(g *cluster.Group) []option {
	var out []option
	for _, wish := range g.Topology {
		out = append(out, option{level: wish.Level, required: wish.Required})
		if wish.Required {
			break
		}
	}
	return out
}

// pin is where most of the pods of a tree are that have a place; Nowhere without
// such.
func (s *Search) pin(group cluster.GroupID, level cluster.Level) Place {
	if s.View.Group(group).TreePlaced == 0 {
		return Nowhere
	}
	count := make(map[Place]int32)
	best := Nowhere
	for pod := range s.View.TreeMembers(group) {
		p := s.View.Pod(pod)
		if !p.Placement.Placed() || p.Phase == cluster.PhaseTerminating {
			continue
		}
		at := s.Atlas.At(level, p.Placement.Node, s.island(&p.Placement))
		if at == Nowhere {
			continue
		}
		count[at]++
		if best == Nowhere || count[at] > count[best] || count[at] == count[best] && at < best {
			best = at
		}
	}
	return best
}

// island is where the devices of a placement are.
func (s *Search) island(p *cluster.Placement) int32 {
	if len(p.Grants) == 0 {
		return cluster.None
	}
	return s.View.Device(p.Grants[0].Device).Spec.Island
}

func (s *Search) where(p Place) Where {
	w := Where{Island: cluster.None}
	if p == s.Atlas.Top() {
		return w
	}
	w.Spot, w.Nodes = s.Atlas.Spot(p), s.Atlas.Nodes(p)
	if w.Spot.Level == cluster.LevelIsland {
		w.Island = w.Spot.Island
	}
	return w
}
