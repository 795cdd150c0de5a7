package cluster

import "github.com/headrace-dev/headrace/internal/core/moment"

// Group is a set of pods that start all or none. A group of groups has
// children; as many of them as it needs start with it, each with its own minimum:
// the whole tree below a root starts or none of it does.
type Group struct {
	Name       string
	Key        uint64
	Generation uint32
	// Known says that the group itself was told of. Pods and sub-groups may name a
	// group before it comes, and after it is gone.
	Known  bool
	Parent GroupID // None at the top; the row may be of a group that is not known yet
	Job    JobID
	Queue  QueueID // of the members that name none
	// Minimum of its own pods start together, or none does. It may be 0 for a group
	// of groups.
	Minimum int32
	// Wished is up to how many of its own pods are placed; 0: all there are.
	Wished int32
	// Groups is how many of its sub-groups start with it: 0 is all that have come,
	// AllGroups all and at least one.
	Groups int32
	// Topology wishes that the tree of the group shares domains, each level once,
	// the closest level first.
	Topology []TopologyWish
	Comm     Pattern
	// Hold is how long a group that lost members before any of it ran may keep the
	// room of the others, while no place is found for those lost.
	Hold moment.Span
	// Deadline is when that time is over; 0 for a group that is whole, holds nothing
	// or has run.
	Deadline moment.Instant
	// Ran says that a pod of its tree has run since that held nothing last.
	Ran bool
	// GaveBack is how often in a row it has given its room back without its minimum, and
	// until when it is not tried again. A run ends the row.
	GaveBack Returns
	// Members counts the pods that name the group, Placed those of them that are
	// being placed, bound or running; TreePlaced counts these in all its tree.
	Members, Placed, TreePlaced int32
	// Children counts the groups that name it as their parent, WholeGroups those of
	// them that have their minimum.
	Children, WholeGroups int32

	// Lists of its children and pods, through their rows.
	firstChild, nextChild GroupID
	firstMember           PodID
}

// AllGroups asks for all sub-groups of a group of groups.
const AllGroups = -1

// Pattern is how the members of a group talk to each other.
type Pattern uint8

const (
	CommNone Pattern = iota // nothing is known
	CommRing                // each rank with the next, the last with the first
	CommTree                // along a binary tree over the ranks
)

var patternNames = [...]string{"none", "ring", "tree"} // const: names of the patterns

func (p Pattern) String() string { return patternNames[p] }

// Required returns the closest level at which the group's tree must share a domain;
// ok is false where there is none.
func (g *Group) Required() (Level, bool) {
	for _, wish := range g.Topology {
		if wish.Required {
			return wish.Level, true
		}
	}
	return 0, false
}

// NeedsGroups is how many of its sub-groups start with the group.
func (g *Group) NeedsGroups() int32 {
	switch {
	case g.Groups > 0:
		return g.Groups
	case g.Groups == AllGroups:
		return max(g.Children, 1)
	}
	return g.Children
}

// Whole says whether the group may run as it is: it has its minimum, of pods and of
// groups. Whether those above it may is another question: Stands asks it.
func (g *Group) Whole() bool {
	return g.Known && g.Placed >= g.Minimum && g.WholeGroups >= g.NeedsGroups()
}

// Broken says whether the group has fewer members in their places than it needs,
// and more than none: what is missing comes before everything else.
func (g *Group) Broken() bool { return g.Known && g.TreePlaced > 0 && !g.Whole() }

// Stuck says whether the group holds room that is of no use to anybody yet.
func (g *Group) Stuck() bool { return g.Broken() && !g.Ran }

// Group returns a group for reading.
func (v *View) Group(id GroupID) *Group { return v.Groups.At(int32(id)) }

// AddGroup adds a group without members, parent or children, under a fresh id or
// one that nobody names any more.
func (l *Ledger) AddGroup(g Group, reuse GroupID) GroupID {
	g.Parent, g.firstChild, g.nextChild, g.firstMember = None, None, None, None
	if reuse == None {
		return GroupID(l.Groups.grow(l.owner, g))
	}
	g.Generation = l.Group(reuse).Generation + 1
	*l.group(reuse) = g
	return reuse
}

// EditGroup returns a group for changing what no account depends on: its wishes,
// times, names. ReviseGroup changes what makes it whole.
func (l *Ledger) EditGroup(id GroupID) *Group {
	l.regrouped = append(l.regrouped, id)
	return l.group(id)
}

func (l *Ledger) group(id GroupID) *Group { return l.Groups.own(int32(id), l.owner, l.recording) }

// ReviseGroup changes a group, and what those above it count of it.
func (l *Ledger) ReviseGroup(id GroupID, change func(*Group)) {
	g := l.EditGroup(id)
	whole, placed := g.Whole(), g.TreePlaced
	change(g)
	if g.Parent == None || whole == g.Whole() && placed == g.TreePlaced {
		return
	}
	gained, more := int32(0), g.TreePlaced-placed
	if g.Whole() != whole {
		if gained = 1; whole {
			gained = -1
		}
	}
	l.ReviseGroup(g.Parent, func(above *Group) {
		above.WholeGroups += gained
		above.TreePlaced += more
	})
}

// SetParent puts a group below another, or at the top. The caller has made sure
// that no group comes to be above itself.
func (l *Ledger) SetParent(id, parent GroupID) {
	g := l.Group(id)
	if g.Parent == parent {
		return
	}
	if old := g.Parent; old != None {
		l.cutOff(id, old)
	}
	row := l.EditGroup(id)
	row.Parent, row.nextChild = parent, None
	if parent == None {
		return
	}
	row.nextChild = l.Group(parent).firstChild
	whole, placed := row.Whole(), row.TreePlaced
	l.ReviseGroup(parent, func(above *Group) {
		above.firstChild = id
		above.Children++
		above.TreePlaced += placed
		if whole {
			above.WholeGroups++
		}
	})
}

// cutOff takes a group out of the list and the counts of its parent.
func (l *Ledger) cutOff(id, parent GroupID) {
	g := *l.Group(id)
	if l.Group(parent).firstChild != id {
		before := l.Group(parent).firstChild
		for l.Group(before).nextChild != id {
			before = l.Group(before).nextChild
		}
		l.group(before).nextChild = g.nextChild
	}
	l.ReviseGroup(parent, func(above *Group) {
		if above.firstChild == id {
			above.firstChild = g.nextChild
		}
		above.Children--
		above.TreePlaced -= g.TreePlaced
		if g.Whole() {
			above.WholeGroups--
		}
	})
}

// TakeRegrouped returns the groups that have changed since it was asked last,
// repeats included.
func (l *Ledger) TakeRegrouped() []GroupID {
	out := l.regrouped
	l.regrouped = nil
	return out
}

// inPlace says whether a pod in this phase counts for its group's minimum. One
// that was told to go does not.
func (p Phase) inPlace() bool { return p.Charged() && p != PhaseTerminating }

// countMember keeps the counts of a group when a member moves between phases, and
// its list when one comes or goes.
func (l *Ledger) countMember(id PodID, group GroupID, from, to Phase) {
	if (from == PhaseGone) == (to == PhaseGone) && from.inPlace() == to.inPlace() {
		return
	}
	count := func(before, after bool) int32 {
		switch {
		case before && !after:
			return -1
		case after && !before:
			return 1
		}
		return 0
	}
	members, placed := count(from != PhaseGone, to != PhaseGone), count(from.inPlace(), to.inPlace())
	if members > 0 {
		l.enlist(id, group)
	} else if members < 0 {
		l.delist(id, group)
	}
	l.ReviseGroup(group, func(g *Group) {
		g.Members += members
		g.Placed += placed
		g.TreePlaced += placed
	})
}

// enlist puts a pod at the head of the list of its group's members.
func (l *Ledger) enlist(id PodID, group GroupID) {
	next := l.Group(group).firstMember
	l.group(group).firstMember = id
	p := l.pod(id)
	p.nextMember, p.lastMember = next, None
	if next != None {
		l.pod(next).lastMember = id
	}
}

// delist takes a pod off that list.
func (l *Ledger) delist(id PodID, group GroupID) {
	next, last := l.Pod(id).nextMember, l.Pod(id).lastMember
	if last == None {
		l.group(group).firstMember = next
	} else {
		l.pod(last).nextMember = next
	}
	if next != None {
		l.pod(next).lastMember = last
	}
}

// Attempt makes changes that may be regretted: where do fails, all is as it was.
func (l *Ledger) Attempt(do func() error) error {
	start, changes, base := l.mark(), l.changes, l.changesBase
	l.recording = true
	err := do()
	l.recording = false
	if err != nil {
		l.rollback(start)
		l.changes, l.changesBase = changes, base
	}
	l.forgetUndo()
	return err
}
