package gang

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// tree is the search for one unit.
type tree struct {
	*Search
	in      Place
	classes []class
	parts   []part // parents before children
	choices bool   // some pod has a second choice
	first   bool   // and only first choices count now

	planned map[Place][]int32 // by class, what the first half has given away
	gaveUp  bool
	failed  failure
	blocked blockage
	seatErr int // how often seating failed
}

// class is pods that ask for the same, with the same alternatives.
type class struct {
	asks   []cluster.ShapeID
	counts []*Count
	milli  quantity.MilliGPU // of the first choice
	cpu    int64
}

// part is a group of the tree that lacks something.
type part struct {
	id       cluster.GroupID
	parent   int // index; -1 at the top
	below    int // the first part behind it that is not below it
	needs    int32
	lacks    int32           // pods of its own
	members  []cluster.PodID // that wait, in the order of being seated
	kinds    []int           // their classes
	own      []int32         // by class, how many of its own pods at least
	all      []int32         // the same for all below it that it needs
	options  []option        // levels, the closest first; empty: where its parent is
	requires []cluster.Level
	pinned   bool          // members have their places
	close    bool          // the nearer its pods are the better
	taken    int32         // parts below it that have a place in the first half
	waiting  int32         // parts below it that have not been looked at
	at       Place         // in the first half; Nowhere: left out
	level    cluster.Level // of the closest option
	minimum  int32         // pods that start together, placed ones included
	seated   int32         // of them, in their places before
}

// mostGathered bounds for how many pods one node is looked for: more with a device
// each are on no machine.
const mostGathered = 64

func (s *Search) plan(unit cluster.GroupID, in Place) *tree {
	t := &tree{Search: s, in: in}
	t.add(unit, -1)
	for i := range t.parts {
		t.demand(i)
	}
	for i := len(t.parts) - 1; i >= 0; i-- {
		t.sum(i)
	}
	return t
}

// add appends a group and what is below it.
func (t *tree) add(id cluster.GroupID, parent int) {
	g := t.View.Group(id)
	i := len(t.parts)
	t.parts = append(t.parts, part{
		id: id, parent: parent, options: options(g), pinned: g.TreePlaced > 0, needs: g.NeedsGroups() - g.WholeGroups,
		lacks: max(g.Minimum-g.Placed, 0), minimum: t.View.TreeMinimum(id), seated: g.TreePlaced, at: Nowhere,
	})
	p := &t.parts[i]
	for _, wish := range g.Topology {
		if wish.Required {
			p.requires = append(p.requires, wish.Level)
		}
	}
	p.members = slices.Clone(t.Seats.Waiting(id))
	// Those that take only one thing come before those that have a choice.
	slices.SortStableFunc(p.members, func(a, b cluster.PodID) int {
		return cmp.Compare(min(len(t.View.Pod(a).Spec.Alternatives), 1), min(len(t.View.Pod(b).Spec.Alternatives), 1))
	})
	ranked := false
	for _, pod := range p.members {
		spec := t.View.Pod(pod).Spec
		p.kinds = append(p.kinds, t.classOf(spec))
		ranked = ranked || spec.Rank != cluster.None
		t.choices = t.choices || len(spec.Alternatives) > 0
	}
	p.close = g.Comm != cluster.CommNone || ranked || slices.ContainsFunc(p.options, func(o option) bool { return !o.required })
	if t.gathers(p, g) {
		p.options = slices.Insert(p.options, 0, option{level: cluster.LevelNode, unasked: true})
	}
	var below []cluster.GroupID
	for c := range t.View.Children(id) {
		if !t.View.Group(c).Whole() && t.Startable(c) {
			below = append(below, c)
		}
	}
	weight := func(c cluster.GroupID) quantity.MilliGPU {
		sum := quantity.MilliGPU(0)
		for g := range t.View.Tree(c) {
			for _, pod := range t.Seats.Waiting(g) {
				sum += t.View.Shape(t.View.Pod(pod).Spec.Shape).Milli()
			}
		}
		return sum
	}
	slices.SortFunc(below, func(a, b cluster.GroupID) int {
		x, y := t.View.Group(a), t.View.Group(b)
		return cmp.Or(-cmp.Compare(min(x.TreePlaced, 1), min(y.TreePlaced, 1)), cmp.Compare(closest(x), closest(y)),
			-cmp.Compare(weight(a), weight(b)), cmp.Compare(x.Key, y.Key), cmp.Compare(a, b))
	})
	if p.needs > 0 {
		for _, c := range below {
			t.add(c, i)
		}
	}
	t.parts[i].below = len(t.parts)
}

// closest is the closest level that a group requires.
func closest(g *cluster.Group) cluster.Level {
	if level, required := g.Required(); required {
		return level
	}
	return cluster.LevelCloud + 1
}

// gathers says whether the pods of a part should share a node though nobody said so.
func (t *tree) gathers(p *part, g *cluster.Group) bool {
	if !t.Gather || p.pinned || g.Children > 0 || p.lacks < 2 || p.lacks > mostGathered || len(p.options) > 0 && p.options[0].level <= cluster.LevelNode {
		return false
	}
	for k, pod := range p.members {
		if p.kinds[k] != p.kinds[0] || t.View.Ties(pod) != 0 {
			return false
		}
	}
	return true
}

// Startable says whether enough of a group has come for it to start.
func (s *Search) Startable(id cluster.GroupID) bool { return s.Lacks(id).None() }

// Lacks says what has not come yet without which a group does not start: who has got
// a place counts, and who waits for one.
func (s *Search) Lacks(id cluster.GroupID) decision.Reason {
	g := s.View.Group(id)
	arrived := g.Placed + int32(len(s.Seats.Waiting(id)))
	switch {
	case !g.Known && g.Children > 0:
		return decision.Reason{Code: decision.GroupParent, Group: id}
	case !g.Known:
		return decision.Reason{Code: decision.GroupUnknown, Group: id}
	case arrived < g.Minimum:
		return decision.Reason{Code: decision.GroupMembers, Need: int64(g.Minimum), Have: int64(arrived), Group: id}
	case g.Children < g.NeedsGroups():
		return decision.Reason{Code: decision.GroupParts, Need: int64(g.NeedsGroups()), Have: int64(g.Children), Group: id}
	}
	ready, first := int32(0), decision.Reason{}
	for c := range s.View.Children(id) {
		why := decision.Reason{}
		if !s.View.Group(c).Whole() {
			why = s.Lacks(c)
		}
		switch {
		case why.None():
			ready++
		case first.None() || s.View.Group(why.Group).Key < s.View.Group(first.Group).Key:
			first = why
		}
	}
	if ready < g.NeedsGroups() {
		return first
	}
	return decision.Reason{}
}

func (t *tree) classOf(spec *cluster.PodSpec) int {
	for i := range t.classes {
		if c := &t.classes[i]; c.asks[0] == spec.Shape && slices.Equal(c.asks[1:], spec.Alternatives) {
			return i
		}
	}
	shape := t.View.Shape(spec.Shape)
	t.classes = append(t.classes, class{
		asks: append([]cluster.ShapeID{spec.Shape}, spec.Alternatives...), milli: shape.Milli(), cpu: shape.Need.At(cluster.DimCPU),
	})
	return len(t.classes) - 1
}

// demand is how many pods of each class a part needs at least: as many as pods of
// the others leave to be found.
func (t *tree) demand(i int) {
	p := &t.parts[i]
	p.own, p.all = make([]int32, len(t.classes)), make([]int32, len(t.classes))
	of := make([]int32, len(t.classes))
	for _, k := range p.kinds {
		of[k]++
	}
	for k := range p.own {
		p.own[k] = max(p.lacks-(int32(len(p.kinds))-of[k]), 0)
	}
}

// sum adds up what a part and those below it need at least: where it needs fewer
// than there are, the least of them in each class.
func (t *tree) sum(i int) {
	p := &t.parts[i]
	copy(p.all, p.own)
	p.waiting = 0
	for c := i + 1; c < p.below; c = t.parts[c].below {
		p.waiting++
	}
	for k := range p.all {
		var below []int32
		for c := i + 1; c < p.below; c = t.parts[c].below {
			below = append(below, t.parts[c].all[k])
		}
		slices.Sort(below)
		for _, n := range below[:min(int(max(p.needs, 0)), len(below))] {
			p.all[k] += n
		}
	}
	p.level = cluster.LevelCloud + 1
	for _, o := range p.options {
		p.level = min(p.level, o.level)
	}
}

// queues says whether the queue of the pods has room for all that are needed, where
// that is known: pods that ask for the same, in one queue, and have no choice.
func (t *tree) queues() decision.Reason {
	if len(t.classes) != 1 || t.choices {
		return decision.Reason{}
	}
	lead := cluster.PodID(cluster.None)
	for i := range t.parts {
		for _, pod := range t.parts[i].members {
			if lead != cluster.None && t.View.Pod(pod).Spec.Queue != t.View.Pod(lead).Spec.Queue {
				return decision.Reason{}
			}
			lead = pod
		}
	}
	need := t.parts[0].all[0]
	if need == 0 {
		return decision.Reason{}
	}
	why := t.Seats.Queue(lead, need)
	if !why.None() {
		why.Group, why.Members, why.Seated = t.parts[0].id, t.parts[0].minimum, t.parts[0].seated+why.Seated
	}
	return why
}
