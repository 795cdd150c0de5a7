package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// defaultHold is how long a group that lost members before any of it ran keeps the
// room of the others: long enough for a node to come back from a restart.
const defaultHold = 5 * moment.Minute

// GroupAdded makes known a set of pods that start all or none. Pods name it, before
// it comes or after.
type GroupAdded struct {
	Name string
	// Minimum is how many members start together; further ones as there is room.
	Minimum int32
	// Queue is the queue of members that name none; empty: none.
	Queue string
	// Job is the job of members that come after the group and name none.
	Job string `json:",omitempty"`
	// Hold is how long a group of which nothing has run yet may keep the room of its
	// placed members while others have lost theirs. 0: five minutes.
	Hold moment.Span
}

func (e GroupAdded) apply(w *World) error {
	if id, named := w.groups[e.Name]; e.Name == "" || named && w.ledger.Group(id).Known {
		return fmt.Errorf("group: name %q: must be new and not empty", e.Name)
	}
	if err := validGroup(e.Name, e.Minimum, e.Hold); err != nil {
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
	g := w.ledger.EditGroup(id)
	g.Known, g.Minimum, g.Hold, g.Queue = true, e.Minimum, holdOf(e.Hold), queue
	g.Job = w.jobNamed(e.Job)
	if queue != cluster.None && g.Members > 0 {
		w.enqueue(id, queue)
	}
	return nil
}

func validGroup(name string, minimum int32, hold moment.Span) error {
	switch {
	case minimum < 1:
		return fmt.Errorf("group %s: minimum %d: must be at least 1", name, minimum)
	case hold < 0:
		return fmt.Errorf("group %s: hold %v: must not be negative", name, hold)
	}
	return nil
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

// GroupChanged gives a group another minimum, or another time to hold.
type GroupChanged struct {
	Name    string
	Minimum int32
	Hold    moment.Span // 0: five minutes
}

func (e GroupChanged) apply(w *World) error {
	id, known := w.groups[e.Name]
	if !known || !w.ledger.Group(id).Known {
		return fmt.Errorf("group %q: no such group", e.Name)
	}
	if err := validGroup(e.Name, e.Minimum, e.Hold); err != nil {
		return err
	}
	g := w.ledger.EditGroup(id)
	g.Minimum, g.Hold = e.Minimum, holdOf(e.Hold)
	return nil
}

// GroupRemoved takes a group away. Members that have a place keep it; those that
// wait go on waiting until there is a group of that name again.
type GroupRemoved struct{ Name string }

func (e GroupRemoved) apply(w *World) error {
	id, known := w.groups[e.Name]
	if !known || !w.ledger.Group(id).Known {
		return fmt.Errorf("group %q: no such group", e.Name)
	}
	g := w.ledger.EditGroup(id)
	job := g.Job
	g.Known, g.Minimum, g.Hold, g.Queue, g.Job = false, 0, 0, cluster.None, cluster.None
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

// dropGroup frees the row of a group that is gone and that no pod names.
func (w *World) dropGroup(id cluster.GroupID) {
	if id == cluster.None {
		return
	}
	if g := w.ledger.Group(id); !g.Known && g.Members == 0 {
		delete(w.groups, g.Name)
		w.freeGroups = append(w.freeGroups, id)
	}
}

// timeGroups starts the clock of groups that have come to hold room without their
// minimum, and stops it for those that are whole again, run or hold nothing.
func (w *World) timeGroups() {
	for _, id := range w.ledger.TakeRegrouped() {
		g := w.ledger.Group(id)
		if g.Placed == 0 && g.Ran {
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

// starts says whether the groups of accepted binds have their minimum with them.
func (w *World) starts(decisions []decision.Decision) error {
	for i := range decisions {
		id := w.ledger.Pod(decisions[i].Pod).Spec.Group
		if id == cluster.None {
			continue
		}
		if g := w.ledger.Group(id); !g.Whole() {
			return fmt.Errorf("group %s would have %d of at least %d members", g.Name, g.Placed, g.Minimum)
		}
	}
	return nil
}
