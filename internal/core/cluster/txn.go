package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Txn is a scratch copy of a Snapshot in which placements are tried out. It
// never touches the snapshot. Use: Begin, then Place and Evict as wanted, with
// Mark and Rollback around what may be regretted, then Changes.
type Txn struct {
	ledger  Ledger
	base    *Snapshot
	touched []PodID // in order of touch, repeats included
	fetches []Prefetch
	freed   int            // how often room may have come back
	now     moment.Instant // Never where nobody said
}

// Begin opens a transaction on a snapshot.
func Begin(s *Snapshot) *Txn {
	t := &Txn{base: s, now: moment.Never}
	t.ledger = Ledger{View: s.View, owner: new(owner), recording: true}
	// The log of the world is not ours to extend; touched nodes are kept apart.
	t.ledger.changes = nil
	t.ledger.changesBase = s.Position()
	return t
}

// At says what time it is: what was refused is not tried again before its time. Without
// it nothing is held back.
func (t *Txn) At(now moment.Instant) { t.now = now }

// waits says whether something that was refused is not to be tried again yet.
func (t *Txn) waits(r *Refusals) bool { return r.Until > t.now }

// View shows the state as the transaction would leave it.
func (t *Txn) View() *View { return &t.ledger.View }

// Base is the snapshot underneath.
func (t *Txn) Base() *Snapshot { return t.base }

// Mark is a point that Rollback can return to.
type Mark struct {
	ledger  ledgerMark
	touched int
	fetches int
}

// Mark remembers the present state.
func (t *Txn) Mark() Mark {
	return Mark{ledger: t.ledger.mark(), touched: len(t.touched), fetches: len(t.fetches)}
}

// Rollback returns to a mark taken earlier in this transaction. Marks taken
// after that one are void.
func (t *Txn) Rollback(m Mark) {
	t.ledger.rollback(m.ledger)
	t.touched = t.touched[:m.touched]
	t.fetches = t.fetches[:m.fetches]
	t.freed++
}

// TouchedSince lists the pods placed or evicted since a mark, repeats included. The
// list is void after the next step.
func (t *Txn) TouchedSince(m Mark) []PodID { return t.touched[m.touched:] }

// TouchedNodes lists the nodes whose rows were written since the transaction
// began, rolled back or not, repeats included; complete is false when there
// were too many to keep. Caches of node scores need it.
func (t *Txn) TouchedNodes() (nodes []NodeID, complete bool) {
	return t.ledger.changes, t.ledger.changesBase == t.base.Position()
}

// Place gives a waiting pod a place. It refuses, changing nothing, what would
// overdraw the node or a device.
func (t *Txn) Place(pod PodID, place Placement) error {
	if err := t.mayPlace(pod); err != nil {
		return err
	}
	if err := t.ledger.Admit(pod, &place); err != nil {
		return err
	}
	t.ledger.Charge(pod, place, PhasePlacing)
	t.touched = append(t.touched, pod)
	return nil
}

// mayPlace refuses a pod that does not wait, or has no turn yet.
func (t *Txn) mayPlace(pod PodID) error {
	if p := t.ledger.Pod(pod); p.Phase != PhaseWaiting {
		return fmt.Errorf("place %s: it is %v, not waiting", p.Spec.Name, p.Phase)
	}
	if r := &t.ledger.Pod(pod).Refused; t.waits(r) {
		return fmt.Errorf("place %s: it backs off until %v after refused binds", t.ledger.Pod(pod).Spec.Name, r.Until)
	}
	if g := t.ledger.BacksOffIn(t.ledger.Pod(pod).Spec.Group, t.now); g != None {
		return fmt.Errorf("place %s: group %s has given its room back, and is not tried before %v", t.ledger.Pod(pod).Spec.Name, t.ledger.Group(g).Name, t.ledger.Group(g).GaveBack.Until)
	}
	if t.ledger.AwaitsJobs(t.ledger.Pod(pod)) {
		return fmt.Errorf("place %s: its job waits for others", t.ledger.Pod(pod).Spec.Name)
	}
	return nil
}

// Evict takes a pod's place away; it waits again. It refuses a pod that an
// accepted decision is under way for: the world would.
func (t *Txn) Evict(pod PodID) error {
	switch p := t.ledger.Pod(pod); {
	case !p.Phase.Charged():
		return fmt.Errorf("evict %s: it is %v and holds nothing", p.Spec.Name, p.Phase)
	case p.Intent != None || p.Phase == PhaseTerminating:
		return fmt.Errorf("evict %s: it is %v already", p.Spec.Name, p.Phase)
	case t.waits(&p.Kept):
		return fmt.Errorf("evict %s: that was refused, and is not tried again before %v", p.Spec.Name, p.Kept.Until)
	}
	t.ledger.Discharge(pod, PhaseWaiting)
	t.touched = append(t.touched, pod)
	t.freed++
	return nil
}

// Finish lets a pod end: it is gone, whatever was under way for it. So a transaction
// looks at what will be.
func (t *Txn) Finish(pod PodID) bool {
	if !t.ledger.Pod(pod).Phase.Charged() {
		return false
	}
	t.ledger.Discharge(pod, PhaseGone)
	t.touched = append(t.touched, pod)
	t.freed++
	return true
}

// Admits says whether a pod would get a placement.
func (t *Txn) Admits(pod PodID, place *Placement) bool { return t.ledger.Admit(pod, place) == nil }

// Freed counts evictions, resizes and rollbacks: while it stands still, room only
// shrank.
func (t *Txn) Freed() int { return t.freed }

// Resize gives a placed pod another of its shapes, or other grants, on the same
// node. It refuses, changing nothing, what would overdraw.
func (t *Txn) Resize(pod PodID, shape ShapeID, grants []Grant) error {
	p := *t.ledger.Pod(pod)
	if !p.Phase.Charged() {
		return fmt.Errorf("resize %s: it is %v and holds nothing", p.Spec.Name, p.Phase)
	}
	if p.Intent != None || p.Phase == PhaseTerminating {
		return fmt.Errorf("resize %s: it is %v already", p.Spec.Name, p.Phase)
	}
	mark := t.Mark()
	t.ledger.Discharge(pod, PhaseWaiting)
	place := Placement{Node: p.Placement.Node, Shape: shape, Grants: grants, Identity: p.Placement.Identity}
	if err := t.ledger.Admit(pod, &place); err != nil {
		t.Rollback(mark)
		return err
	}
	t.ledger.Charge(pod, place, p.Phase)
	row := t.ledger.pod(pod)
	row.LastNode = p.LastNode
	t.freed++
	t.touched = append(t.touched, pod)
	return nil
}

// same says whether two placements are one to whoever carries them out: where the
// kubelet picks the devices, which ones we presume makes no difference.
func (p *Placement) same(q *Placement) bool {
	presumed := p.Identity == IdentityPresumed && q.Identity == IdentityPresumed
	return p.Node == q.Node && p.Shape == q.Shape && p.Lease.same(q.Lease) && (presumed || slices.Equal(p.Grants, q.Grants))
}

// Change is the net difference for one pod.
type Change struct {
	Pod      PodID
	From, To Placement
}

// Changes returns what differs from the snapshot, in order of first touch. A
// pod that was evicted and put back as it was is not among them.
func (t *Txn) Changes() []Change {
	var out []Change
	seen := make(map[PodID]bool, len(t.touched))
	for _, id := range t.touched {
		if seen[id] {
			continue
		}
		seen[id] = true
		from, to := t.base.Pod(id).Placement, t.ledger.Pod(id).Placement
		if from.same(&to) {
			continue
		}
		out = append(out, Change{Pod: id, From: from, To: to})
	}
	return out
}
