package cluster

import "github.com/headrace-dev/headrace/internal/core/moment"

// Group is a set of pods that start all or none. A group of groups has
// children; each must reach its own minimum.
type Group struct {
	Name       string
	Key        uint64
	Generation uint32
	// Known says that the group itself was told of. Pods may name a group before
	// it comes, and after it is gone.
	Known    bool
	Parent   GroupID // None at the top
	Job      JobID
	Queue    QueueID // of the members that name none
	Minimum  int32   // as many start together or none does
	Wished   int32
	Topology []TopologyWish
	// Hold is how long a group that lost members before any of it ran may keep the
	// room of the others, while no place is found for those lost.
	Hold moment.Span
	// Deadline is when that time is over; 0 for a group that is whole, holds nothing
	// or has run.
	Deadline moment.Instant
	// Ran says that a member has run since the group held nothing last.
	Ran bool
	// Members counts the pods that name the group, Placed those of them that are
	// being placed, bound or running.
	Members, Placed int32
}

// Whole says whether the group may run as it is: it has its minimum.
func (g *Group) Whole() bool { return g.Known && g.Placed >= g.Minimum }

// Broken says whether the group has fewer members in their places than it needs,
// and more than none: what is missing comes before everything else.
func (g *Group) Broken() bool { return g.Known && g.Placed > 0 && g.Placed < g.Minimum }

// Stuck says whether the group holds room that is of no use to anybody yet.
func (g *Group) Stuck() bool { return g.Broken() && !g.Ran }

// Group returns a group for reading.
func (v *View) Group(id GroupID) *Group { return v.Groups.At(int32(id)) }

// AddGroup adds a group without members, under a fresh id or one that no pod
// names any more.
func (l *Ledger) AddGroup(g Group, reuse GroupID) GroupID {
	if reuse == None {
		return GroupID(l.Groups.grow(l.owner, g))
	}
	g.Generation = l.Group(reuse).Generation + 1
	*l.group(reuse) = g
	return reuse
}

// EditGroup returns a group for changing what no account depends on. Members and
// Placed follow the pods.
func (l *Ledger) EditGroup(id GroupID) *Group {
	l.regrouped = append(l.regrouped, id)
	return l.group(id)
}

func (l *Ledger) group(id GroupID) *Group { return l.Groups.own(int32(id), l.owner, l.recording) }

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

// countMember keeps the counts of a group when a member moves between phases.
func (l *Ledger) countMember(id GroupID, from, to Phase) {
	if (from == PhaseGone) == (to == PhaseGone) && from.inPlace() == to.inPlace() {
		return
	}
	count := func(n *int32, before, after bool) {
		switch {
		case before && !after:
			*n--
		case after && !before:
			*n++
		}
	}
	g := l.EditGroup(id)
	count(&g.Members, from != PhaseGone, to != PhaseGone)
	count(&g.Placed, from.inPlace(), to.inPlace())
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
