package world

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A restart builds the world anew out of three parts: the facts, which the cluster tells
// again; what was decided and promised, which was written down before it was acted on;
// and what is believed, as a checkpoint kept it. Commitments and Beliefs are the events
// that bring the last two back, told after the facts. They go by names and positions:
// ids are given out anew.

// Place is a placement by names and positions.
type Place struct {
	Node     string
	Choice   int32 // which of the shapes that the pod would take; 0 is its first
	Grants   []Held
	Identity cluster.Identity
	Lease    *cluster.Lease `json:",omitempty"`
}

// Setback is cluster.Refusals by the name of the node.
type Setback struct {
	Count int32
	Node  string
	Until moment.Instant
}

// PodRecalled is what was written down of a pod beside what it asks for: where it
// stands, what it holds there, and what happened to it.
type PodRecalled struct {
	Name            string
	Phase           cluster.Phase
	Queue           string // that it is charged to; empty: none
	Place           *Place `json:",omitempty"` // nil: it waits
	Share           *Share `json:",omitempty"` // of its one device; nil: what it asks for
	Reserved        bool
	Attempt         int32
	LastNode        string
	Arrived, Bound  moment.Instant
	Started, Repaid moment.Instant
	Displaced       moment.Instant
	Rests           moment.Instant `json:",omitzero"`
	Evictions       int32
	Ran             moment.Span
	Refused, Kept   Setback
	GoneBy          moment.Instant `json:",omitempty"`
	Busy            cluster.Gauge  `json:",omitzero"`
}

// IntentRecalled is a decision that is under way.
type IntentRecalled struct {
	ID                 uint64
	Action             cluster.Action
	Pod                string
	Place              Place
	Before             *Place `json:",omitempty"` // of a resize that gives back
	Accepted, Deadline moment.Instant
	After              []uint64
	Together           uint64
	Yields             bool
	Budget             string
	// Outstanding says that what is left of the budget does not count it yet.
	Outstanding bool
	// Target is where the pod is to be next, with the decision that takes it there.
	Target *Place         `json:",omitempty"`
	Bind   uint64         `json:",omitempty"`
	Until  moment.Instant `json:",omitempty"`
}

// GroupRecalled is what was written down of a group: whether it has run, until when it
// may hold room as it is, and how often it has given it back.
type GroupRecalled struct {
	Name     string
	Ran      bool
	Deadline moment.Instant
	GaveBack cluster.Returns `json:",omitzero"`
}

// JobRecalled is when a job was evicted last, how often, for how long pods of it ran
// that are gone, and when it began and ended: others come after it. The job itself may be
// gone.
type JobRecalled struct {
	Name         string
	Displaced    moment.Instant
	Evictions    int32
	Ran          moment.Span
	Began, Ended moment.Instant `json:",omitzero"`
	Failed       bool           `json:",omitzero"`
	Sizing       *Sizing        `json:",omitempty"` // nil: nothing was decided or measured
}

// Excused says which nodes and queues facts have overdrawn.
type Excused struct{ Nodes, Queues []string }

// Commitments are the events that bring back what was decided and promised, by name.
func (w *World) Commitments() []Event {
	v := w.View()
	var out []Event
	for _, name := range sortedKeys(w.jobs) {
		if j := v.Job(w.jobs[name]); j.Known && (j.Evictions > 0 || j.Ran > 0 || j.Progress > 0 || j.Sizing != (cluster.Sizing{})) || j.Began != 0 || j.Ended != 0 {
			out = append(out, JobRecalled{
				Name: name, Displaced: j.Displaced, Evictions: j.Evictions, Ran: j.Ran,
				Began: j.Began, Ended: j.Ended, Failed: j.State == cluster.JobFailed, Sizing: w.sizingRecalled(j),
			})
		}
	}
	for _, name := range sortedKeys(w.pods) {
		out = append(out, w.recalled(w.pods[name]))
	}
	var intents []IntentRecalled
	for i := range v.Intents.Len() {
		if in := v.Intents.At(int32(i)); in.ID != 0 {
			intents = append(intents, w.intentRecalled(in))
		}
	}
	slices.SortFunc(intents, func(a, b IntentRecalled) int { return cmp.Compare(a.Pod, b.Pod) })
	for _, e := range intents {
		out = append(out, e)
	}
	for _, e := range w.Legacies() {
		out = append(out, e)
	}
	for _, name := range sortedKeys(w.groups) {
		if g := v.Group(w.groups[name]); g.Ran || g.Deadline != 0 || g.GaveBack.Count > 0 {
			out = append(out, GroupRecalled{Name: name, Ran: g.Ran, Deadline: g.Deadline, GaveBack: g.GaveBack})
		}
	}
	var excused Excused
	for _, name := range sortedKeys(w.nodes) {
		if v.Node(w.nodes[name]).Overdrawn {
			excused.Nodes = append(excused.Nodes, name)
		}
	}
	for _, name := range sortedKeys(w.queues) {
		if v.Queue(w.queues[name]).Overdrawn {
			excused.Queues = append(excused.Queues, name)
		}
	}
	if moves := v.Moves(); len(moves) > 0 {
		out = append(out, MovesRecalled{At: slices.Clone(moves)})
	}
	return append(out, excused)
}

// Beliefs are the events that bring back what is believed of the use of queues, as of an
// instant that is not before the last event.
func (w *World) Beliefs(at moment.Instant) []Event {
	v := w.View()
	var out []Event
	for _, name := range sortedKeys(w.queues) {
		id := w.queues[name]
		out = append(out, QueueUsage{Name: name, Usage: v.Queue(id).Usage, Spent: v.Spent(id, at)})
	}
	return out
}

func (w *World) recalled(id cluster.PodID) PodRecalled {
	v := w.View()
	p := v.Pod(id)
	e := PodRecalled{
		Name: p.Spec.Name, Phase: p.Phase, Place: w.placeOf(p.Spec, &p.Placement), Share: w.shareOf(p), Reserved: p.Reserved, Attempt: p.Attempt,
		Arrived: p.Arrived, Bound: p.Bound, Started: p.Started, Repaid: p.Repaid, Displaced: p.Displaced, Rests: p.Rests, Evictions: p.Evictions, Ran: p.Ran,
		Refused: w.setback(&p.Refused), Kept: w.setback(&p.Kept), GoneBy: p.GoneBy, Busy: p.Busy,
	}
	if p.Spec.Queue != cluster.None {
		e.Queue = v.Queue(p.Spec.Queue).Name
	}
	if p.LastNode != cluster.None {
		e.LastNode = v.Node(p.LastNode).Spec.Name
	}
	return e
}

func (w *World) setback(r *cluster.Refusals) Setback {
	out := Setback{Count: r.Count, Until: r.Until}
	if r.Count > 0 && r.Node != cluster.None {
		out.Node = w.ledger.Node(r.Node).Spec.Name
	}
	return out
}

// placeOf is a placement of a pod by names; nil for none.
func (w *World) placeOf(spec *cluster.PodSpec, p *cluster.Placement) *Place {
	if !p.Placed() {
		return nil
	}
	n := w.ledger.Node(p.Node)
	out := Place{Node: n.Spec.Name, Choice: cluster.None, Identity: p.Identity, Lease: p.Lease}
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			break
		}
		if shape == p.Shape {
			out.Choice = int32(i)
			break
		}
	}
	for _, g := range p.Grants {
		out.Grants = append(out.Grants, Held{
			Device: int32(g.Device - n.Spec.FirstDevice), Milli: g.Milli, Memory: g.Memory, Profile: w.interner.Symbols().Text(g.Profile),
		})
	}
	return &out
}

func (w *World) intentRecalled(in *cluster.Intent) IntentRecalled {
	v := w.View()
	spec := v.Pod(in.Pod).Spec
	e := IntentRecalled{
		ID: in.ID, Action: in.Action, Pod: spec.Name, Before: w.placeOf(spec, &in.Before), Accepted: in.Accepted, Deadline: in.Deadline,
		After: slices.Clone(in.After), Together: in.Together, Yields: in.Yields,
	}
	if place := w.placeOf(spec, &in.Place); place != nil {
		e.Place = *place
	}
	if t := in.Target; t != nil {
		e.Target, e.Bind, e.Until = w.placeOf(spec, &t.Place), t.Bind, t.Until
	}
	if in.Budget != cluster.None {
		b := v.Budgets.At(int32(in.Budget))
		e.Budget, e.Outstanding = b.Name, in.Told == b.Told
	}
	return e
}

// placement is a place of a pod by ids.
func (w *World) placement(spec *cluster.PodSpec, p *Place) (cluster.Placement, error) {
	node, err := w.nodeNamed(p.Node)
	if err != nil {
		return cluster.Nowhere(), err
	}
	shape, known := spec.Asks(int(max(p.Choice, 0)))
	if !known || p.Choice < 0 {
		return cluster.Nowhere(), fmt.Errorf("choice %d: it would take %d", p.Choice, 1+len(spec.Alternatives))
	}
	out := cluster.Placement{Node: node, Shape: shape, Identity: p.Identity, Lease: p.Lease}
	n := w.ledger.Node(node)
	for _, h := range p.Grants {
		switch {
		case h.Device < 0 || h.Device >= n.Spec.DeviceCount:
			return out, fmt.Errorf("device %d: node %s has %d", h.Device, p.Node, n.Spec.DeviceCount)
		case h.Milli < 0 || h.Milli > quantity.WholeGPU || h.Memory < 0:
			return out, fmt.Errorf("device %d: %d milli-GPU, memory %d: must be 0 to 1000, memory not negative", h.Device, h.Milli, h.Memory)
		}
		g := cluster.Grant{Device: n.Spec.FirstDevice + cluster.DeviceID(h.Device), Milli: h.Milli, Memory: h.Memory, Profile: w.Symbol(h.Profile)}
		if g.Profile != 0 && w.ledger.Device(g.Device).Spec.Profile(g.Profile) == nil {
			return out, fmt.Errorf("device %d: it has no profile %s", h.Device, h.Profile)
		}
		out.Grants = append(out.Grants, g)
	}
	if p.Lease != nil && len(p.Lease.Lent) != len(out.Grants) {
		return out, fmt.Errorf("lease: it lends of %d devices, and holds %d", len(p.Lease.Lent), len(out.Grants))
	}
	return out, nil
}

func (e PodRecalled) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	charged := e.Phase.Charged()
	if e.Phase == cluster.PhaseGone || e.Phase > cluster.PhaseTerminating || charged != (e.Place != nil) {
		return fmt.Errorf("pod %s: phase %d, with a place: %v: one that waits has none, one that does not has one", e.Name, uint8(e.Phase), e.Place != nil)
	}
	if w.ledger.Pod(id).Intent != cluster.None {
		return fmt.Errorf("pod %s: a decision is under way for it", e.Name)
	}
	spec := *w.ledger.Pod(id).Spec
	spec.Queue = cluster.None
	if e.Queue != "" {
		known := false
		if spec.Queue, known = w.queues[e.Queue]; !known {
			return fmt.Errorf("pod %s: queue %q: no such queue", e.Name, e.Queue)
		}
	}
	place := cluster.Nowhere()
	if charged {
		if spec.Shape, err = w.charged(spec.Asked, e.Share); err != nil {
			return fmt.Errorf("pod %s: %w", e.Name, err)
		}
		if place, err = w.placement(&spec, e.Place); err != nil {
			return fmt.Errorf("pod %s: %w", e.Name, err)
		}
	}
	if w.ledger.Pod(id).Phase.Charged() {
		w.ledger.Unseat(id)
	}
	w.ledger.Respecify(id, &spec)
	if charged {
		w.ledger.SetReserved(id, e.Reserved)
		w.ledger.Charge(id, place, e.Phase)
	} else {
		w.ledger.SetPhase(id, e.Phase)
	}
	w.ledger.SetRefused(id, w.refusals(&e.Refused))
	row := w.ledger.EditPod(id)
	row.Attempt, row.Arrived, row.Bound, row.Started, row.Repaid = e.Attempt, e.Arrived, e.Bound, e.Started, e.Repaid
	row.Rests = e.Rests
	row.Displaced, row.Evictions, row.Ran, row.Kept = e.Displaced, e.Evictions, e.Ran, w.refusals(&e.Kept)
	row.LastNode = cluster.None
	if charged {
		row.GoneBy, row.Busy = e.GoneBy, e.Busy
	}
	if node, known := w.nodes[e.LastNode]; known {
		row.LastNode = node
	}
	return nil
}

func (w *World) refusals(s *Setback) cluster.Refusals {
	if s.Count == 0 {
		return cluster.Refusals{}
	}
	out := cluster.Refusals{Count: s.Count, Node: cluster.None, Until: s.Until}
	if node, known := w.nodes[s.Node]; known {
		out.Node = node
	}
	return out
}

func (e IntentRecalled) apply(w *World) error {
	id, err := w.podNamed(e.Pod)
	if err != nil {
		return err
	}
	p := w.ledger.Pod(id)
	if p.Intent != cluster.None || e.ID == 0 {
		return fmt.Errorf("pod %s: decision %d: it is under way with %d already, or has no id", e.Pod, e.ID, p.Intent)
	}
	in := cluster.Intent{
		ID: e.ID, Action: e.Action, Pod: id, Before: cluster.Nowhere(), Accepted: e.Accepted, Deadline: e.Deadline,
		After: slices.Clone(e.After), Together: e.Together, Yields: e.Yields, Budget: cluster.None,
	}
	if in.Place, err = w.placement(p.Spec, &e.Place); err != nil {
		return fmt.Errorf("pod %s: %v: %w", e.Pod, e.Action, err)
	}
	if e.Before != nil {
		if in.Before, err = w.placement(p.Spec, e.Before); err != nil {
			return fmt.Errorf("pod %s: %v: %w", e.Pod, e.Action, err)
		}
	}
	if e.Budget != "" {
		budget, known := w.budgets[e.Budget]
		if !known {
			return fmt.Errorf("pod %s: budget %q: no such budget", e.Pod, e.Budget)
		}
		in.Budget, in.Told = budget, w.ledger.Budgets.At(int32(budget)).Told
		if !e.Outstanding {
			in.Told--
		}
	}
	var target *cluster.Target
	if e.Target != nil {
		target = &cluster.Target{Bind: e.Bind, Until: e.Until}
		if target.Place, err = w.placement(p.Spec, e.Target); err != nil || e.Action != cluster.ActionEvict {
			return fmt.Errorf("pod %s: %v: target on %s: only of an eviction, and a place that is there: %w", e.Pod, e.Action, e.Target.Node, err)
		}
	}
	reuse := cluster.IntentID(cluster.None)
	if n := len(w.freeIntents); n > 0 {
		reuse = w.freeIntents[n-1]
		w.freeIntents = w.freeIntents[:n-1]
	}
	row := w.ledger.AddIntent(in, reuse)
	w.ledger.EditPod(id).Intent = row
	if target != nil {
		w.ledger.Keep(row, target)
	}
	if e.Action != cluster.ActionHold {
		w.underWay[e.ID] = row
	}
	return nil
}

func (e GroupRecalled) apply(w *World) error {
	id, known := w.groups[e.Name]
	if !known {
		return fmt.Errorf("group %q: no such group", e.Name)
	}
	if r := e.GaveBack; r.Count < 0 || (r.Count == 0) != (r.Until == 0) || r.Until < 0 || r.Count > 0 && !w.ledger.Group(id).Known {
		return fmt.Errorf("group %s: gave its room back %d times, until %v: it must be there, both 0 or more than that", e.Name, r.Count, r.Until)
	}
	g := w.ledger.EditGroup(id)
	g.Ran, g.Deadline = e.Ran, e.Deadline
	w.ledger.SetGaveBack(id, e.GaveBack)
	return nil
}

func (e JobRecalled) apply(w *World) error {
	id, known := w.jobs[e.Name]
	switch {
	case !known && e.Ended == 0 || e.Name == "":
		return fmt.Errorf("job %q: no such job", e.Name)
	// A pod may have started after its job was said to be over.
	case e.Began < 0 || e.Ended < 0 || max(e.Began, e.Ended) > max(w.now, 1) || e.Failed && e.Ended == 0:
		return fmt.Errorf("job %s: began at %v, ended at %v, failed: %v: must not be after now, %v, and fail only by ending", e.Name, e.Began, e.Ended, e.Failed, w.now)
	case !known:
		id = w.jobNamed(e.Name)
	}
	if err := e.Sizing.valid(w.ledger.Job(id)); err != nil {
		return err
	}
	j := w.ledger.EditJob(id)
	w.recallSizing(j, e.Sizing)
	j.Displaced, j.Evictions, j.Ran, j.Began, j.Ended = e.Displaced, e.Evictions, e.Ran, e.Began, e.Ended
	j.State = stateOf(e.Began, e.Ended, e.Failed)
	w.fileEnded(id)
	return nil
}

func (e Excused) apply(w *World) error {
	for _, name := range e.Nodes {
		if _, known := w.nodes[name]; !known {
			return fmt.Errorf("node %q: no such node", name)
		}
	}
	for _, name := range e.Queues {
		if _, known := w.queues[name]; !known {
			return fmt.Errorf("queue %q: no such queue", name)
		}
	}
	for _, name := range e.Nodes {
		w.ledger.ExcuseNode(w.nodes[name])
	}
	for _, name := range e.Queues {
		w.ledger.ExcuseQueue(w.queues[name])
	}
	return nil
}
