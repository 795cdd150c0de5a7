package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Score is the value of a place with its parts, each 0 to ScoreOne. Cost is in
// the policy's own scale and only compared within one policy.
type Score struct {
	Total    int64
	Fit      int64
	Urgency  int64
	Affinity int64
}

// ScoreOne is the written scale of a score: one million is one.
const ScoreOne = 1_000_000

// Explanation says why a decision was made.
type Explanation struct {
	Score    Score
	Feasible int32  // nodes that could have taken it; 0 when not counted
	Policy   string // the policy that chose
	Why      Reason // for decisions that come from a lack of room
	// For names the pod that a resize, or an eviction at the end of a lease or of the time
	// in reserved room, is for.
	For string `json:",omitempty"`
	// LeaseEnds, of a bind, is when others get back what they lent of its devices; it
	// may have to leave then. 0: nobody has lent any.
	LeaseEnds moment.Instant `json:",omitempty"`
	// Deadline, of a bind, is the one that it cannot meet, and End the earliest end; 0
	// where it can, or there is none.
	Deadline moment.Instant `json:",omitempty"`
	End      moment.Instant `json:",omitempty"`
	// RunnersUp are the next best nodes, best first: as many as the cycle asked for,
	// where the policy gives scores.
	RunnersUp []RunnerUp `json:",omitempty"`
	// Yield says of an eviction for whom it is and what it costs.
	Yield *Yield `json:",omitempty"`
	// Move says of an eviction and the bind after it why the pod moves.
	Move *Move `json:",omitempty"`
	// InPlaceOf names, of a bind, the pod whose heir this one is, and Inherits what was
	// decided then; ReplacedBy names, of an eviction, the heir that runs.
	InPlaceOf  string `json:",omitempty"`
	Inherits   uint64 `json:",omitempty"`
	ReplacedBy string `json:",omitempty"`
}

// Move is why a pod that runs goes elsewhere.
type Move struct {
	// For names the pod, or group, that gets the room; empty where it is for nobody yet:
	// for those who are expected.
	For string `json:",omitempty"`
	// Node is what is free as a whole by it; empty where that is not what it is for.
	Node string `json:",omitempty"`
	// Gain is what all moves that are made for one thing put to use together, Price what
	// they cost, in milli-GPU-seconds.
	Gain, Price int64
	Moves       int32 // how many there are
	// Surge says that the pod goes when another runs in its place; Set ties those who go
	// for one thing.
	Surge bool   `json:",omitempty"`
	Set   uint64 `json:",omitempty"`
}

// Describe says why.
func (m *Move) Describe() string {
	what := "to make room for " + m.For
	switch {
	case m.For == "" && m.Node == "":
		what = "to leave better room for those who are expected"
	case m.Node != "":
		what = "to leave node " + m.Node + " empty"
	}
	text := fmt.Sprintf("moves %s: gain %d milli-GPU-seconds, price %d, %d in all", what, m.Gain, m.Price, m.Moves)
	if m.Surge {
		text += "; it goes when another runs in its place"
	}
	return text
}

// Yield is why a pod gives way.
type Yield struct {
	To       cluster.PodID // gets the room
	Lost     int64         // by all who give way to it, in milli-GPU-seconds
	Wholes   int32         // how many units go whole
	Slices   int32         // and how many surplus pods
	Across   bool          // from a queue above its share, to one within its own
	Straddle bool          // a queue falls below its share by it
	// Before and After are how far queues are above their shares in all, with and
	// without those who give way: it falls with each such set.
	Before, After int64
}

// RunnerUp is a node that could have been chosen, with the score it had then.
type RunnerUp struct {
	Node  cluster.NodeID
	Score Score
}

// Decision is one step of a plan.
type Decision struct {
	ID      uint64 // hash of the cycle, the subject and the action
	Action  cluster.Action
	Pod     cluster.PodID
	Subject uint64 // the subject's key: its name, hashed
	Row     cluster.Ref
	Place   cluster.Placement
	Host    cluster.Ref // the node of Place
	RelyOn  uint64      // State of the node in the snapshot
	After   []uint64
	// Together, when set, ties decisions with the same value: all of them are
	// carried out, or none.
	Together uint64
	// Deadline is, of a bind that comes after evictions, until when the room is held
	// for it; of an eviction that saves first, when the pod goes, saved or not.
	Deadline moment.Instant
	// Yields says of an eviction that the room is for binds of the same plan: when
	// these come to nothing before it has begun, it is not carried out.
	Yields bool `json:",omitempty"`
	// Target is, of an eviction, where the pod is to be next: room that is kept for it from
	// the moment this is accepted.
	Target *cluster.Target `json:",omitempty"`
	// Inherits is, of a bind, the decision that has kept the room for an heir. 0: none has.
	Inherits uint64 `json:",omitempty"`
	// GoneBy is, of a bind in room that is reserved for others, from when on it is.
	GoneBy moment.Instant `json:",omitempty"`
	// Save asks, with an eviction, to save the state of the work first: the pod goes
	// when that is done, or at the Deadline. In Kubernetes that is the signal to
	// terminate with so much grace.
	Save bool `json:",omitempty"`
	// Prefetch is what is fetched to where, of a decision that is about no pod.
	Prefetch *cluster.Prefetch `json:",omitempty"`
	Because  Explanation
	// Scale is what a decision about a job comes to, whose Pod is None and whose Row is
	// the job's; nil for all others.
	Scale *Scale `json:",omitempty"`
}

// Waiting is a pod that stays without a place, and what binds it. Pods of one
// shape share the reason. A pod that holds room which others are still to leave waits,
// too.
type Waiting struct {
	Pod cluster.PodID
	Why *Reason
	// Reserved is the room that it, or its group, is expected to start in; nil: none.
	Reserved *Reserved `json:",omitempty"`
	// Starts is when it is expected to start; nil where nobody has looked.
	Starts *Window `json:",omitempty"`
	// Played is that as it would be if earlier starts had taught nothing; it goes with
	// Starts.
	Played *Window `json:",omitempty"`
}

// Window is an instant with how far off it may be: eight of ten are meant to fall in it.
// Never: not as far as has been looked.
type Window struct{ Low, Likely, High moment.Instant }

// Describe says when, with the error.
func (w *Window) Describe(clock func(moment.Instant) string) string {
	switch {
	case w.Likely == moment.Never && w.Low == moment.Never:
		return "nobody knows when it starts"
	case w.Likely == moment.Never:
		return fmt.Sprintf("starts at %s at the earliest", clock(w.Low))
	case w.High == moment.Never:
		return fmt.Sprintf("starts about %s (%s at the earliest)", clock(w.Likely), clock(w.Low))
	case w.Low == w.High:
		return "starts at " + clock(w.Likely)
	}
	return fmt.Sprintf("starts about %s (%s to %s)", clock(w.Likely), clock(w.Low), clock(w.High))
}

// Reserved is room that nobody who has his turn later may take at an instant.
type Reserved struct {
	At    moment.Instant
	Nodes []cluster.NodeID // by name, each once
}

// Describe says where and when.
func (r *Reserved) Describe(v *cluster.View, clock func(moment.Instant) string) string {
	names := make([]string, 0, 4)
	for i, id := range r.Nodes {
		if i == cap(names)-1 && len(r.Nodes) > cap(names) {
			names = append(names, fmt.Sprintf("%d more", len(r.Nodes)-i))
			break
		}
		names = append(names, v.Node(id).Spec.Name)
	}
	return fmt.Sprintf("reserved on %s at %s", strings.Join(names, ", "), clock(r.At))
}

// Cycle is what comes with a call to think: when, why, with which seed and how
// much effort.
type Cycle struct {
	Number uint64
	Now    moment.Instant
	Kind   CycleKind
	Seed   int64
	// Budget is the most hypotheses a search may try; 0 is the default.
	Budget int64
	// Profile, where set, names whose turn it is: pods of another policy are not in
	// the line.
	Profile cluster.Symbol `json:",omitempty"`
	// RunnersUp is how many of the next best nodes an explanation lists. It changes
	// no decision.
	RunnersUp int32 `json:",omitempty"`
}

// CycleKind is one of the two rhythms.
type CycleKind uint8

const (
	CycleArrival CycleKind = iota // a batch of arrivals has come in
	CycleReview                   // look again at what already runs
)

// Plan is the outcome of one cycle.
type Plan struct {
	Cycle     Cycle
	Decisions []Decision
	Waiting   []Waiting
}

// Bundles cuts the decisions, in order, into what is accepted together: single
// decisions, and those of one group.
func (p *Plan) Bundles() [][]Decision {
	out := make([][]Decision, 0, len(p.Decisions))
	for rest := p.Decisions; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[0].Together != 0 && rest[n].Together == rest[0].Together {
			n++
		}
		out = append(out, rest[:n:n])
		rest = rest[n:]
	}
	return out
}

// Tie makes decisions of one bundle out of those that tie gives the same value,
// and puts them next to each other.
func (p *Plan) Tie(tie func(*Decision) uint64) {
	first := make(map[uint64]int)
	order := make([]int, len(p.Decisions))
	for i := range p.Decisions {
		d := &p.Decisions[i]
		order[i] = i
		if d.Together = tie(d); d.Together == 0 {
			continue
		}
		if at, seen := first[d.Together]; seen {
			order[i] = at
		} else {
			first[d.Together] = i
		}
	}
	if len(first) == 0 {
		return
	}
	index := make([]int, len(order))
	for i := range index {
		index[i] = i
	}
	slices.SortFunc(index, func(a, b int) int { return cmp.Or(cmp.Compare(order[a], order[b]), cmp.Compare(a, b)) })
	sorted := make([]Decision, len(index))
	for i, from := range index {
		sorted[i] = p.Decisions[from]
	}
	p.Decisions = sorted
}

// NewPlan turns the net difference of a transaction into decisions. Binds come
// after the evictions that were decided before them from the same node, and after
// those elsewhere that a relation to the evicted pod may depend on. A bind that was
// decided first has its room already.
func NewPlan(cycle Cycle, t *cluster.Txn, explain func(cluster.PodID) Explanation) Plan {
	plan := Plan{Cycle: cycle}
	changes := t.Changes()
	var evictions []eviction
	var binds []Decision
	leaving := make(map[cluster.NodeID][]uint64)
	for _, c := range changes {
		if c.From.Resizes(&c.To) {
			continue
		}
		if c.From.Placed() {
			d := newDecision(cycle, t, c.Pod, cluster.ActionEvict, c.From, explain)
			if move := d.Because.Move; c.To.Placed() && move != nil {
				d.Target = &cluster.Target{Place: c.To, Bind: idOf(cycle, t, c.Pod, cluster.ActionBind), Until: moment.Never, Set: move.Set}
				if t.Base().Pod(c.Pod).Spec.Owner != 0 {
					d.Target.Bind, c.To = 0, cluster.Nowhere() // another comes there
				}
				if move.Surge {
					d.ID, d.Action = idOf(cycle, t, c.Pod, cluster.ActionReplace), cluster.ActionReplace
				}
			}
			leaving[c.From.Node] = append(leaving[c.From.Node], d.ID)
			evictions = append(evictions, eviction{d.ID, c.Pod, c.From.Node})
			plan.Decisions = append(plan.Decisions, d)
		}
		if c.To.Placed() {
			d := newDecision(cycle, t, c.Pod, cluster.ActionBind, c.To, explain)
			d.After = slices.Clip(leaving[c.To.Node])
			if kin := t.View().Ties(c.Pod); kin != 0 {
				d.After = minded(t.View(), kin, evictions, c.To.Node)
			}
			d.After = limited(t.View(), c.Pod, evictions, d.After)
			if d.Inherits = d.Because.Inherits; d.Inherits != 0 {
				d.After = nil // its room was kept
			}
			if d.Because.Move != nil {
				d.After = []uint64{idOf(cycle, t, c.Pod, cluster.ActionEvict)} // its room is free, and it is within its limits
			}
			binds = append(binds, d)
		}
	}
	lent := plan.resize(cycle, t, changes, leaving, explain)
	for i := range binds {
		d := &binds[i]
		if room := lent[d.Place.Node]; len(room) > 0 && d.Inherits == 0 {
			d.After = append(slices.Clip(d.After), room...)
		}
	}
	plan.Decisions = append(plan.Decisions, binds...)
	return plan
}

// resize adds what changes about pods that stay. Those that lend leave room, as
// evictions do, and are returned by node; those that get back what they lent come
// after both.
func (p *Plan) resize(cycle Cycle, t *cluster.Txn, changes []cluster.Change, leaving map[cluster.NodeID][]uint64, explain func(cluster.PodID) Explanation) map[cluster.NodeID][]uint64 {
	lent := make(map[cluster.NodeID][]uint64)
	for _, c := range changes {
		if c.From.Resizes(&c.To) && c.To.Lease != nil {
			d := newDecision(cycle, t, c.Pod, cluster.ActionResize, c.To, explain)
			lent[c.To.Node] = append(lent[c.To.Node], d.ID)
			p.Decisions = append(p.Decisions, d)
		}
	}
	for _, c := range changes {
		if c.From.Resizes(&c.To) && c.To.Lease == nil {
			d := newDecision(cycle, t, c.Pod, cluster.ActionResize, c.To, explain)
			d.After = slices.Concat(leaving[c.To.Node], lent[c.To.Node])
			p.Decisions = append(p.Decisions, d)
		}
	}
	return lent
}

// eviction is one of a plan.
type eviction struct {
	id   uint64
	pod  cluster.PodID
	node cluster.NodeID
}

// limited adds to what a bind comes after the evictions from queues that share a
// limit with its own: it may be within the limit only when they have left.
func limited(v *cluster.View, pod cluster.PodID, evictions []eviction, after []uint64) []uint64 {
	for q := v.Pod(pod).Spec.Queue; q != cluster.None && len(evictions) > 0; q = v.Queue(q).Parent {
		if !v.Queue(q).Limited() {
			continue
		}
		for _, e := range evictions {
			if v.Within(v.Pod(e.pod).Spec.Queue, q) && !slices.Contains(after, e.id) {
				after = append(after, e.id)
			}
		}
	}
	return after
}

// minded returns the evictions that a bind on a node comes after.
func minded(v *cluster.View, kin cluster.KinID, evictions []eviction, node cluster.NodeID) []uint64 {
	var out []uint64
	for _, e := range evictions {
		if other := v.Pod(e.pod).Kin; e.node == node || other != 0 && v.Kin(kin).Minds(v.Kin(other)) {
			out = append(out, e.id)
		}
	}
	return out
}

// idOf is the id of a decision about a pod.
func idOf(cycle Cycle, t *cluster.Txn, id cluster.PodID, action cluster.Action) uint64 {
	p := t.Base().Pod(id)
	return chance.Hash(cycle.Number, p.Key, uint64(p.Attempt), uint64(action))
}

func newDecision(cycle Cycle, t *cluster.Txn, id cluster.PodID, action cluster.Action, place cluster.Placement, explain func(cluster.PodID) Explanation) Decision {
	base := t.Base()
	p := base.Pod(id)
	return Decision{
		ID:       idOf(cycle, t, id, action),
		Action:   action,
		Pod:      id,
		Subject:  p.Key,
		Row:      cluster.Ref{ID: int32(id), Generation: p.Generation},
		Place:    place,
		Host:     cluster.Ref{ID: int32(place.Node), Generation: base.Node(place.Node).Generation},
		RelyOn:   base.Node(place.Node).State,
		Deadline: moment.Never,
		Because:  explain(id),
	}
}

// Digest hashes what the plan does and which pods wait for which constraint.
// Names and positions count, dense ids do not.
func (p *Plan) Digest(v *cluster.View) uint64 {
	h := chance.Hash(p.Cycle.Number, uint64(p.Cycle.Now), uint64(p.Cycle.Kind))
	for i := range p.Decisions {
		d := &p.Decisions[i]
		h = chance.Fold(h, d.ID)
		h = chance.Fold(h, v.PlacementDigest(&d.Place))
		if d.Prefetch != nil {
			h = chance.Fold(h, prefetchDigest(v, d.Prefetch))
		}
		if d.Together != 0 {
			h = chance.Fold(h, d.Together)
		}
		if d.Target != nil && d.Target.Bind == 0 {
			h = chance.Hash(h, v.PlacementDigest(&d.Target.Place), d.Target.Set)
		}
		if d.Inherits != 0 {
			h = chance.Fold(h, d.Inherits)
		}
		if d.Scale != nil {
			h = d.Scale.digest(h, v)
		}
	}
	waiting := uint64(0)
	for i := range p.Waiting {
		w := &p.Waiting[i]
		own := chance.Hash(v.Pod(w.Pod).Key, uint64(w.Why.Code), uint64(w.Why.Need), uint64(w.Why.Have))
		if w.Why.Members > 0 {
			own = chance.Hash(own, uint64(w.Why.Members), uint64(w.Why.Seated))
		}
		if w.Why.Until != 0 {
			own = chance.Hash(own, uint64(w.Why.Until))
		}
		if w.Why.Domain.Set {
			own = chance.Hash(own, uint64(w.Why.Domain.Level), w.Why.Domain.Key(v))
		}
		if w.Reserved != nil {
			own = chance.Hash(own, 1, uint64(w.Reserved.At))
			for _, id := range w.Reserved.Nodes {
				own = chance.Fold(own, v.Node(id).Key)
			}
		}
		if w.Starts != nil {
			own = chance.Hash(own, 2, uint64(w.Starts.Low), uint64(w.Starts.Likely), uint64(w.Starts.High))
		}
		waiting += own
	}
	return chance.Fold(h, waiting)
}

// Line returns one decision as a scenario file prints it.
func (d *Decision) Line(v *cluster.View) string {
	if d.Prefetch != nil {
		return prefetchLine(v, d.Prefetch)
	}
	if d.Scale != nil {
		return d.Scale.line(v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", d.Action, v.Pod(d.Pod).Spec.Name)
	if d.Place.Placed() {
		b.WriteString(" on ")
		b.WriteString(PlaceLine(v, &d.Place))
	}
	switch by := &d.Because; {
	case d.Target != nil && d.Target.Bind == 0:
		b.WriteString(", its heir goes to " + PlaceLine(v, &d.Target.Place))
	case by.ReplacedBy != "" && d.Action == cluster.ActionEvict:
		b.WriteString(", replaced by " + by.ReplacedBy)
	case d.Inherits != 0:
		b.WriteString(", in place of " + by.InPlaceOf)
	}
	if d.Save {
		fmt.Fprintf(&b, ", after saving, by %v", d.Deadline)
	}
	return b.String()
}

// PlaceLine returns a placement as "node gpu0 gpu1:460".
func PlaceLine(v *cluster.View, place *cluster.Placement) string {
	n := v.Node(place.Node)
	var b strings.Builder
	b.WriteString(n.Spec.Name)
	for i := range place.Grants {
		g := &place.Grants[i]
		fmt.Fprintf(&b, " gpu%d", g.Device-n.Spec.FirstDevice)
		switch {
		case g.Profile != 0:
			b.WriteString(":" + v.Symbols.Text(g.Profile))
		case g.Milli < 1000:
			fmt.Fprintf(&b, ":%d", g.Milli)
		}
	}
	if place.Lease != nil {
		fmt.Fprintf(&b, " until %v", place.Lease.Until)
	}
	if len(place.Grants) > 0 && place.Identity == cluster.IdentityPresumed {
		b.WriteString(" (card picked by the kubelet)")
	}
	return b.String()
}
