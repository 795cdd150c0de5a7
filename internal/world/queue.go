package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// QueueAdded makes a tenant's line known. Its parent comes first.
type QueueAdded struct {
	Name   string
	Parent string
	// Weight is the queue's part of idle room, among its siblings; 0 borrows only what
	// nobody else would.
	Weight quantity.Milli
	// DeservedMilli is what the tenant bought of GPU compute, Deserved of anything else
	// by name ("cpu" in milli-CPU, "memory" in bytes).
	DeservedMilli quantity.MilliGPU
	Deserved      map[string]int64 `json:",omitempty"`
	// LimitMilli and Limit are never exceeded; what is not named has no limit.
	LimitMilli quantity.MilliGPU
	Limit      map[string]int64 `json:",omitempty"`
}

func (e QueueAdded) apply(w *World) error {
	if _, dup := w.queues[e.Name]; dup || e.Name == "" {
		return fmt.Errorf("queue: name %q: must be new and not empty", e.Name)
	}
	parent, err := e.place(w, cluster.None)
	if err != nil {
		return err
	}
	row := cluster.Queue{Name: e.Name, Key: chance.HashString(e.Name), Parent: parent}
	e.write(w, &row)
	reuse := cluster.QueueID(cluster.None)
	if n := len(w.freeQueues); n > 0 {
		reuse = w.freeQueues[n-1]
		w.freeQueues = w.freeQueues[:n-1]
	}
	w.queues[e.Name] = w.ledger.AddQueue(row, reuse)
	return nil
}

// write states the terms of a queue in its row.
func (e *QueueAdded) write(w *World, row *cluster.Queue) {
	row.Weight, row.DeservedMilli, row.LimitMilli = e.Weight, e.DeservedMilli, e.LimitMilli
	row.Deserved, row.Limit = w.amounts(e.Deserved), w.amounts(e.Limit)
}

// amounts is a vector of amounts by name.
func (w *World) amounts(by map[string]int64) cluster.Vector {
	rest := make(map[string]int64, len(by))
	for name, amount := range by { // order: into another map
		if name != "cpu" && name != "memory" && name != "pods" {
			rest[name] = amount
		}
	}
	return w.vector(by["cpu"], by["memory"], by["pods"], rest)
}

// place checks the terms of a queue and returns its parent. A queue that is there
// already does not come below itself.
func (e *QueueAdded) place(w *World, self cluster.QueueID) (cluster.QueueID, error) {
	if e.Weight < 0 || e.DeservedMilli < 0 || e.LimitMilli < 0 {
		return cluster.None, fmt.Errorf("queue %s: weight %d, deserved %d, limit %d: must not be negative", e.Name, e.Weight, e.DeservedMilli, e.LimitMilli)
	}
	for _, amounts := range []map[string]int64{e.Deserved, e.Limit} {
		if name, found := negative(amounts); found {
			return cluster.None, fmt.Errorf("queue %s: %s %d: must not be negative", e.Name, name, amounts[name])
		}
	}
	if e.Parent == "" {
		return cluster.None, nil
	}
	parent, known := w.queues[e.Parent]
	if !known {
		return cluster.None, fmt.Errorf("queue %s: parent %q: no such queue", e.Name, e.Parent)
	}
	path := []string{e.Name}
	for q := parent; q != cluster.None; q = w.ledger.Queue(q).Parent {
		if path = append(path, w.ledger.Queue(q).Name); q == self {
			return cluster.None, fmt.Errorf("queue %s: parent %q: a queue cannot be below itself (%s)", e.Name, e.Parent, strings.Join(path, " below "))
		}
	}
	return parent, nil
}

// QueueChanged gives a queue other terms, or another parent. Nothing is evicted
// because a limit has become lower than the use: nothing more is placed until the
// use is below it.
type QueueChanged struct{ QueueAdded }

func (e QueueChanged) apply(w *World) error {
	id, known := w.queues[e.Name]
	if !known {
		return fmt.Errorf("queue %q: no such queue", e.Name)
	}
	parent, err := e.place(w, id)
	if err != nil {
		return err
	}
	e.write(w, w.ledger.EditQueue(id))
	if parent != w.ledger.Queue(id).Parent {
		w.ledger.MoveQueue(id, parent)
	}
	for q := id; q != cluster.None; q = w.ledger.Queue(q).Parent {
		w.ledger.ExcuseQueue(q)
	}
	return nil
}

// QueueRemoved takes a queue away that no pod, group, job or other queue names.
type QueueRemoved struct{ Name string }

func (e QueueRemoved) apply(w *World) error {
	id, known := w.queues[e.Name]
	if !known {
		return fmt.Errorf("queue %q: no such queue", e.Name)
	}
	if user := w.userOf(id); user != "" {
		return fmt.Errorf("queue %s: %s is still in it", e.Name, user)
	}
	delete(w.queues, e.Name)
	row := w.ledger.EditQueue(id)
	row.Gone, row.Parent = true, cluster.None
	w.freeQueues = append(w.freeQueues, id)
	return nil
}

// userOf names something that names the queue; empty where nothing does.
func (w *World) userOf(id cluster.QueueID) string {
	v := &w.ledger.View
	var found []string
	for i := range v.Queues.Len() {
		if q := v.Queues.At(int32(i)); !q.Gone && q.Parent == id {
			found = append(found, "queue "+q.Name)
		}
	}
	for i := range v.Pods.Len() {
		if p := v.Pod(cluster.PodID(i)); p.Phase != cluster.PhaseGone && (p.Spec.Queue == id || p.Spec.Own.Queue == id) {
			found = append(found, "pod "+p.Spec.Name)
		}
	}
	for i := range v.Groups.Len() {
		if g := v.Groups.At(int32(i)); g.Known && g.Queue == id {
			found = append(found, "group "+g.Name)
		}
	}
	for i := range v.Jobs.Len() {
		if j := v.Jobs.At(int32(i)); j.Queue == id {
			found = append(found, "job "+j.Name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// defaultHalfLife is in which time the memory of what a queue used fades by half.
const defaultHalfLife = 7 * moment.Day

// EpochBegan closes a quota epoch: what the queues used in it counts from now on.
// Whoever drives the clock says so every cluster.QuotaEpoch.
type EpochBegan struct {
	HalfLife moment.Span // of the history; 0: seven days
}

func (e EpochBegan) apply(w *World) error {
	if e.HalfLife < 0 {
		return fmt.Errorf("epoch: half-life %v: must not be negative", e.HalfLife)
	}
	if e.HalfLife == 0 {
		e.HalfLife = defaultHalfLife
	}
	w.ledger.BeginEpoch(e.HalfLife)
	return nil
}

// QueueUsage sets what is believed of a queue's use, as a checkpoint kept it.
type QueueUsage struct {
	Name  string
	Usage cluster.Usage
	// Spent is its use since the epoch began, in milli-GPU seconds.
	Spent int64 `json:",omitempty"`
}

func (e QueueUsage) apply(w *World) error {
	id, known := w.queues[e.Name]
	if !known {
		return fmt.Errorf("queue %q: no such queue", e.Name)
	}
	if e.Spent < 0 || e.Usage.History < 0 || slices.Min(e.Usage.Hour[:]) < 0 {
		return fmt.Errorf("queue %s: usage %v: must not be negative", e.Name, e.Usage)
	}
	w.ledger.SetUsage(id, e.Usage, e.Spent)
	return nil
}

// Queue returns the id of a queue by name.
func (w *World) Queue(name string) (cluster.QueueID, bool) {
	id, ok := w.queues[name]
	return id, ok
}
