package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Leaving says that a bound pod was told to go, by whomever: it holds what it
// holds until it is gone, and nobody needs to evict it.
type Leaving struct{ Name string }

func (e Leaving) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	switch p := w.ledger.Pod(id); p.Phase {
	case cluster.PhaseTerminating:
	case cluster.PhaseBound, cluster.PhaseRunning:
		w.withdrawResize(id)
		w.leavesUnasked(id)
		w.heirFails(id)
		w.ledger.SetPhase(id, cluster.PhaseTerminating)
	default:
		return fmt.Errorf("pod %s: it is %v and holds nothing to leave", e.Name, p.Phase)
	}
	return nil
}

// Reserved gives a waiting pod the room that others are about to leave on a node:
// it is charged there from now on, and the node is overdrawn until they have left.
// Then it can be bound; or the bind is refused, which ends a reservation, too.
type Reserved struct{ Name, Node string }

func (e Reserved) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhaseWaiting)
	if err != nil {
		return err
	}
	node, err := w.nodeNamed(e.Node)
	if err != nil {
		return fmt.Errorf("pod %s: %w", e.Name, err)
	}
	if spec := *w.ledger.Pod(id).Spec; spec.Shape != spec.Asked { // who keeps the room keeps all that it asks for
		spec.Shape = spec.Asked
		w.ledger.Respecify(id, &spec)
	}
	p := w.ledger.Pod(id)
	shape, n := w.ledger.Shape(p.Spec.Shape), w.ledger.Node(node)
	place := cluster.Placement{Node: node, Shape: p.Spec.Shape, Grants: fit.Presume(&w.ledger.View, shape, n)}
	if n.Spec.Authority == cluster.AuthorityPlugin {
		place.Identity = cluster.IdentityPresumed
	}
	w.ledger.SetReserved(id, true)
	w.ledger.ChargeFound(id, place, cluster.PhasePlacing)
	w.addIntent(&decision.Decision{
		ID: chance.Hash(p.Key, uint64(p.Attempt), uint64(cluster.ActionHold)) | 1, Action: cluster.ActionHold,
		Pod: id, Place: place, Deadline: moment.Never,
	})
	return nil
}

// BudgetKnown says how many of the pods that count against a disruption budget may
// be evicted now. A name stays known when nothing counts against it any more.
type BudgetKnown struct {
	Name string
	Left int32
}

func (e BudgetKnown) apply(w *World) error {
	if e.Name == "" || e.Left < 0 {
		return fmt.Errorf("budget %q: %d left: a name is needed, and not less than 0", e.Name, e.Left)
	}
	if id, known := w.budgets[e.Name]; known {
		w.ledger.SetBudget(id, e.Left)
		return nil
	}
	w.budgets[e.Name] = w.ledger.AddBudget(cluster.Budget{Name: e.Name, Key: chance.HashString(e.Name), Left: e.Left})
	return nil
}

// Guarded says which disruption budget the eviction of a pod counts against;
// empty for none.
type Guarded struct{ Name, Budget string }

func (e Guarded) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	budget := cluster.BudgetID(cluster.None)
	if e.Budget != "" {
		known := false
		if budget, known = w.budgets[e.Budget]; !known {
			return fmt.Errorf("pod %s: budget %q: no such budget", e.Name, e.Budget)
		}
	}
	w.ledger.EditPod(id).Budget = budget
	return nil
}
