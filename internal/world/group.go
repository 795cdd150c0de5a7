package world

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// defaultHold is how long a group that lost members before any of it ran keeps the
// room of the others: long enough for a node to come back from a restart.
const defaultHold = 5 * moment.Minute

// GroupAdded makes known a set of pods that start all or none. Pods and sub-groups
// name it, before it comes or after.
type GroupAdded struct {
	Name string
	// Minimum is how many members start together; further ones as there is room. It
	// may be 0 for a group of groups.
	Minimum int32
	// Queue is the queue of members that name none; empty: none.
	Queue string
	// Job is the job of members that come after the group and name none.
	Job string `json:",omitempty"`
	// Hold is how long a group of which nothing has run yet may keep the room of its
	// placed members while others have lost theirs. 0: five minutes.
	Hold moment.Span
	// Parent is the group that it is a part of; it may come later.
	Parent string `json:",omitempty"`
	// Wished is up to how many members are placed; 0: all there are.
	Wished int32 `json:",omitempty"`
	// Groups is how many of its sub-groups start with it; 0: all that have come, -1:
	// all and at least one.
	Groups   int32                  `json:",omitempty"`
	Topology []cluster.TopologyWish `json:",omitempty"`
	Comm     cluster.Pattern        `json:",omitempty"`
}

// GroupChanged says what a group is from now on, all but its queue.
type GroupChanged struct {
	Name     string
	Minimum  int32
	Hold     moment.Span            // 0: five minutes
	Parent   string                 `json:",omitempty"`
	Wished   int32                  `json:",omitempty"`
	Groups   int32                  `json:",omitempty"`
	Topology []cluster.TopologyWish `json:",omitempty"`
	Comm     cluster.Pattern        `json:",omitempty"`
}

// Terms are what both say.
func (e GroupAdded) Terms() GroupChanged {
	return GroupChanged{
		Name: e.Name, Minimum: e.Minimum, Hold: e.Hold, Parent: e.Parent, Wished: e.Wished,
		Groups: e.Groups, Topology: e.Topology, Comm: e.Comm,
	}
}

func (e GroupAdded) apply(w *World) error {
	if id, named := w.groups[e.Name]; e.Name == "" || named && w.ledger.Group(id).Known {
		return fmt.Errorf("group: name %q: must be new and not empty", e.Name)
	}
	terms := e.Terms()
	if err := terms.validate(w); err != nil {
		return err
	}
	queue := cluster.QueueID(cluster.None)
	if e.Queue != "" {
		known := false
		if queue, known = w.queues[e.Queue]; !known {
			return fmt.Errorf("group %s: queue %q: no such queue", e.Name, e.Queue)
		}
	}
	id := w.groupNamed(e.Name)
	w.ledger.EditGroup(id).Queue = queue
	w.ledger.EditGroup(id).Job = w.jobNamed(e.Job)
	terms.agree(w, id)
	if queue != cluster.None && w.ledger.Group(id).Members > 0 {
		w.enqueue(id, queue)
	}
	return nil
}

func (e GroupChanged) apply(w *World) error {
	id, known := w.groups[e.Name]
	if !known || !w.ledger.Group(id).Known {
		return fmt.Errorf("group %q: no such group", e.Name)
	}
	if err := e.validate(w); err != nil {
		return err
	}
	e.agree(w, id)
	w.ledger.SetGaveBack(id, cluster.Returns{})
	return nil
}

// agree makes the terms those of a group.
func (e *GroupChanged) agree(w *World, id cluster.GroupID) {
	wishes := slices.Clone(e.Topology)
	slices.SortFunc(wishes, func(a, b cluster.TopologyWish) int { return cmp.Compare(a.Level, b.Level) })
	w.ledger.ReviseGroup(id, func(g *cluster.Group) {
		g.Known, g.Minimum, g.Hold = true, e.Minimum, holdOf(e.Hold)
		g.Wished, g.Groups, g.Topology, g.Comm = e.Wished, e.Groups, wishes, e.Comm
	})
	old, parent := w.ledger.Group(id).Parent, cluster.GroupID(cluster.None)
	if e.Parent != "" {
		parent = w.groupNamed(e.Parent)
	}
	w.ledger.SetParent(id, parent)
	w.dropGroup(old)
}

// maxGroupDepth bounds how many groups may be above each other: racks of nodes of
// islands need four.
const maxGroupDepth = 8

func (e *GroupChanged) validate(w *World) error {
	switch {
	case e.Minimum < 0 || e.Minimum == 0 && e.Groups == 0:
		return fmt.Errorf("group %s: minimum %d: must be at least 1", e.Name, e.Minimum)
	case e.Hold < 0:
		return fmt.Errorf("group %s: hold %v: must not be negative", e.Name, e.Hold)
	case e.Wished != 0 && e.Wished < e.Minimum:
		return fmt.Errorf("group %s: wished %d: must be 0 (all there are) or at least the minimum %d", e.Name, e.Wished, e.Minimum)
	case e.Groups < cluster.AllGroups:
		return fmt.Errorf("group %s: groups %d: must be -1 (all), 0 or more", e.Name, e.Groups)
	case e.Comm > cluster.CommTree:
		return fmt.Errorf("group %s: pattern %d: must be none, ring or tree", e.Name, uint8(e.Comm))
	}
	for i, wish := range e.Topology {
		again := slices.ContainsFunc(e.Topology[:i], func(t cluster.TopologyWish) bool { return t.Level == wish.Level })
		if wish.Level > cluster.LevelCloud || again {
			return fmt.Errorf("group %s: topology level %d: must be island, node, rack, zone, region or cloud, each once", e.Name, uint8(wish.Level))
		}
	}
	return e.validateParent(w)
}

// validateParent refuses a group above itself, and towers.
func (e *GroupChanged) validateParent(w *World) error {
	if e.Parent == "" {
		return nil
	}
	id, named := w.groups[e.Name]
	if e.Parent == e.Name {
		return fmt.Errorf("group %s: parent %q: a group cannot be above itself", e.Name, e.Parent)
	}
	depth, v := 1, &w.ledger.View
	if parent, known := w.groups[e.Parent]; known {
		path := e.Name
		for g := parent; g != cluster.None; g = v.Group(g).Parent {
			depth++
			path += " below " + v.Group(g).Name
			if named && g == id {
				return fmt.Errorf("group %s: parent %q: a group cannot be above itself, as in %s", e.Name, e.Parent, path)
			}
		}
	} else {
		depth++
	}
	if named {
		depth += heightBelow(v, id)
	}
	if depth > maxGroupDepth {
		return fmt.Errorf("group %s: parent %q: %d groups would be above each other, at most %d", e.Name, e.Parent, depth, maxGroupDepth)
	}
	return nil
}

// heightBelow is how many groups are above each other below one.
func heightBelow(v *cluster.View, id cluster.GroupID) int {
	most := 0
	for c := range v.Children(id) {
		most = max(most, 1+heightBelow(v, c))
	}
	return most
}

func holdOf(hold moment.Span) moment.Span {
	if hold == 0 {
		return defaultHold
	}
	return hold
}

// enqueue moves the members that name no queue and hold nothing to the queue of
// their group, which came after them.
func (w *World) enqueue(id cluster.GroupID, queue cluster.QueueID) {
	v := &w.ledger.View
	for i := range v.Pods.Len() {
		p := v.Pod(cluster.PodID(i))
		if p.Phase == cluster.PhaseGone || p.Phase.Charged() || p.Spec.Group != id || p.Spec.Queue != cluster.None {
			continue
		}
		spec := *p.Spec
		spec.Queue = queue
		w.ledger.Respecify(cluster.PodID(i), &spec)
	}
}

// GroupRemoved takes a group away, out of its parent, too. Members that have a place
// keep it; those that wait, and its sub-groups, go on waiting until there is a group
// of that name again.
type GroupRemoved struct{ Name string }

func (e GroupRemoved) apply(w *World) error {
	id, known := w.groups[e.Name]
	if !known || !w.ledger.Group(id).Known {
		return fmt.Errorf("group %q: no such group", e.Name)
	}
	job := w.ledger.Group(id).Job
	w.ledger.SetGaveBack(id, cluster.Returns{})
	w.ledger.ReviseGroup(id, func(g *cluster.Group) {
		g.Known, g.Minimum, g.Hold, g.Queue, g.Job = false, 0, 0, cluster.None, cluster.None
		g.Wished, g.Groups, g.Topology, g.Comm = 0, 0, nil, cluster.CommNone
	})
	parent := w.ledger.Group(id).Parent
	w.ledger.SetParent(id, cluster.None)
	w.dropGroup(parent)
	w.dropGroup(id)
	w.dropJob(job)
	return nil
}

// groupNamed returns the row of a group, making one for a name that is new.
func (w *World) groupNamed(name string) cluster.GroupID {
	if id, known := w.groups[name]; known {
		return id
	}
	reuse := cluster.GroupID(cluster.None)
	if n := len(w.freeGroups); n > 0 {
		reuse = w.freeGroups[n-1]
		w.freeGroups = w.freeGroups[:n-1]
	}
	id := w.ledger.AddGroup(cluster.Group{
		Name: name, Key: chance.HashString(name), Parent: cluster.None, Job: cluster.None, Queue: cluster.None,
	}, reuse)
	w.groups[name] = id
	return id
}

// dropGroup frees the row of a group that is gone and that nobody names.
func (w *World) dropGroup(id cluster.GroupID) {
	if id == cluster.None {
		return
	}
	if g := w.ledger.Group(id); !g.Known && g.Members == 0 && g.Children == 0 {
		delete(w.groups, g.Name)
		w.freeGroups = append(w.freeGroups, id)
	}
}

// timeGroups starts the clock of groups that have come to hold room without their
// minimum, and stops it for those that are whole again, run or hold nothing.
func (w *World) timeGroups() {
	regrouped := w.ledger.TakeRegrouped()
	w.countReturns(regrouped)
	for _, id := range regrouped {
		g := w.ledger.Group(id)
		if g.TreePlaced == 0 && g.Ran {
			w.ledger.EditGroup(id).Ran = false
		}
		switch g = w.ledger.Group(id); {
		case g.Stuck() && g.Deadline == 0:
			w.ledger.EditGroup(id).Deadline = max(w.now.Add(g.Hold), 1)
		case !g.Stuck() && g.Deadline != 0:
			w.ledger.EditGroup(id).Deadline = 0
		}
	}
	w.ledger.TakeRegrouped()
}

// returnsAhead makes a group back off, from the first time on, as a pod does whose bind
// was refused so many times before: for half a minute and more, since it takes as long
// until its room is left and another can have it.
const returnsAhead = 5

// countReturns finds those of the groups that have given back all that they held when
// their time was over. They back off, each whole: a part goes by what it is a part of,
// where that gives its room back, too.
func (w *World) countReturns(regrouped []cluster.GroupID) {
	late := func(id cluster.GroupID) bool {
		g := w.ledger.Group(id)
		return g.Deadline != 0 && g.Deadline <= w.now && !g.Ran
	}
	var back []cluster.GroupID
	for _, id := range regrouped {
		g := w.ledger.Group(id)
		if g.Known && g.TreePlaced == 0 && late(id) && (g.Parent == cluster.None || !late(g.Parent)) && !slices.Contains(back, id) {
			back = append(back, id)
		}
	}
	for _, id := range back {
		g := w.ledger.Group(id)
		count := g.GaveBack.Count + 1
		w.ledger.SetGaveBack(id, cluster.Returns{Count: count, Until: w.now.Add(backOff(g.Key, returnsAhead+count))})
	}
}

// Group returns the id of a group by name, known or only named by pods.
func (w *World) Group(name string) (cluster.GroupID, bool) {
	id, ok := w.groups[name]
	return id, ok
}

// AcceptedTogether commits to binds that are carried out all or none: those of a
// group. If one of them is refused, or if they would leave a group below its
// minimum, none is accepted.
//
// Where they come after evictions that are still under way, all of them are held: each
// is charged at its place, which others are still to leave.
type AcceptedTogether struct{ Decisions []decision.Decision }

// Acceptance is the event that accepts one bundle of a plan.
func Acceptance(bundle []decision.Decision) Event {
	if bundle[0].Together == 0 {
		return Accepted{Decision: bundle[0]}
	}
	return AcceptedTogether{Decisions: bundle}
}

func (e AcceptedTogether) apply(w *World) error {
	if err := w.acceptBinds(e.Decisions); err != nil {
		return fmt.Errorf("accept %d binds together: %w", len(e.Decisions), err)
	}
	return nil
}

// starts says whether the groups of binds that are accepted together, and those
// above them, have their minimum with them.
func (w *World) starts(decisions []decision.Decision) error {
	for i := range decisions {
		unit := w.ledger.Unit(w.ledger.Pod(decisions[i].Pod).Spec.Group)
		if unit == cluster.None || decisions[i].Together == 0 {
			continue
		}
		if g := w.ledger.Group(unit); g.Placed >= g.Minimum && g.Known {
			return fmt.Errorf("group %s would have %d of at least %d sub-groups", g.Name, g.WholeGroups, g.NeedsGroups())
		}
		g := w.ledger.Group(unit)
		return fmt.Errorf("group %s would have %d of at least %d members", g.Name, g.Placed, g.Minimum)
	}
	return nil
}
