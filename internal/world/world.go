package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// World is the mutable truth.
type World struct {
	ledger   *cluster.Ledger
	interner cluster.Interner
	now      moment.Instant

	nodes     map[string]cluster.NodeID
	pods      map[string]cluster.PodID
	domains   map[string]cluster.DomainID
	queues    map[string]cluster.QueueID
	groups    map[string]cluster.GroupID
	jobs      map[string]cluster.JobID
	budgets   map[string]cluster.BudgetID
	classes   map[uint64]cluster.ClassID
	shapes    map[uint64]cluster.ShapeID
	claims    map[string]int32
	artifacts map[string]cluster.ArtifactID
	// profiles holds, per partition name, the most of a device that one takes on
	// any device seen: what a request for it counts against a queue beforehand.
	profiles map[cluster.Symbol]quantity.MilliGPU

	freePods    []cluster.PodID
	freeNodes   map[int32][]cluster.NodeID // by number of devices
	freeIntents []cluster.IntentID
	underWay    map[uint64]cluster.IntentID // decisions that are, holds apart
	freeGroups  []cluster.GroupID
	freeJobs    []cluster.JobID
	ended       []cluster.JobID // remembered by name alone, the one that ended first first
	freeClaims  []int32
	freeQueues  []cluster.QueueID
	society     society
	extended    map[string]cluster.Dim
	dimNames    []cluster.Symbol
}

// New returns an empty world.
func New() *World {
	ledger := cluster.NewLedger()
	ledger.SetSLAs(cluster.DefaultSLAs())
	return &World{
		ledger:    ledger,
		nodes:     make(map[string]cluster.NodeID),
		pods:      make(map[string]cluster.PodID),
		domains:   make(map[string]cluster.DomainID),
		queues:    make(map[string]cluster.QueueID),
		groups:    make(map[string]cluster.GroupID),
		jobs:      make(map[string]cluster.JobID),
		budgets:   make(map[string]cluster.BudgetID),
		classes:   make(map[uint64]cluster.ClassID),
		shapes:    make(map[uint64]cluster.ShapeID),
		claims:    make(map[string]int32),
		artifacts: make(map[string]cluster.ArtifactID),
		profiles:  make(map[cluster.Symbol]quantity.MilliGPU),
		freeNodes: make(map[int32][]cluster.NodeID),
		underWay:  make(map[uint64]cluster.IntentID),
		society:   newSociety(),
		extended: map[string]cluster.Dim{ // those that have a unit
			"ephemeral-storage": cluster.DimEphemeral, "hugepages-2Mi": cluster.DimHuge2Mi, "hugepages-1Gi": cluster.DimHuge1Gi,
		},
	}
}

// Event is something that happened, or was learned, or was committed to.
type Event interface {
	apply(w *World) error
}

// Apply takes one event in. Time never runs backwards.
func (w *World) Apply(at moment.Instant, e Event) error {
	if at < w.now {
		return fmt.Errorf("apply %T at %v: the world is already at %v", e, at, w.now)
	}
	before := w.now
	w.now = at
	w.ledger.SetNow(at)
	if err := e.apply(w); err != nil {
		w.now = before
		w.ledger.TakeRegrouped()
		return err
	}
	w.timeGroups()
	w.forgetEnded()
	return nil
}

// Snapshot returns the present state, which never changes again.
func (w *World) Snapshot() *cluster.Snapshot {
	w.ledger.SetSymbols(w.interner.Symbols())
	w.ledger.SetExtended(w.dimNames)
	return w.ledger.Freeze()
}

// View shows the present state; it changes with the next event.
func (w *World) View() *cluster.View {
	w.ledger.SetSymbols(w.interner.Symbols())
	w.ledger.SetExtended(w.dimNames)
	return &w.ledger.View
}

// Now is the instant of the last event.
func (w *World) Now() moment.Instant { return w.now }

// Pod returns the id of a pod by name.
func (w *World) Pod(name string) (cluster.PodID, bool) {
	id, ok := w.pods[name]
	return id, ok
}

// Node returns the id of a node by name.
func (w *World) Node(name string) (cluster.NodeID, bool) {
	id, ok := w.nodes[name]
	return id, ok
}

// Symbol returns the symbol of a name. A name that no event has brought gets one
// here; where runs are recorded, say Interned first.
func (w *World) Symbol(text string) cluster.Symbol { return w.interner.Intern(text) }

// Interned makes a name known before something that has it.
type Interned struct{ Text string }

func (e Interned) apply(w *World) error {
	w.interner.Intern(e.Text)
	return nil
}
