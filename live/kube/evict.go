package kube

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// A pod that others give way to passes through these stages. What is charged in
// between keeps everybody else off the room.
//
//	waiting ─▶ holding: its node is written on it ─▶ evictions ─▶ those have left ─▶ placing
//	   ▲          │                                     │
//	   └──────────┴── an eviction refused, the node gone ┘
//
// The node on the pod (status.nominatedNodeName) is what a new instance goes by.

// Ref names one pod and no other of the same name.
type Ref struct{ Key, UID string }

// Eviction is to be carried out: the node is written on the holders, then the
// victims are evicted in turn. Without victims only the node is written; empty, it
// is taken back.
type Eviction struct {
	Node             string
	Holders, Victims []Ref
	// Grace is, by key, how many seconds a victim has to save its state first.
	Grace map[string]int64
	gives bool // a group gives its room back, or a node is left: nobody has to be waiting for it
	// Keep is what is kept for heirs, to be written first; nil: nobody moves.
	Keep  *Kept
	moves bool // somebody is to be followed by an heir
}

// EvictOutcome is what became of one eviction.
type EvictOutcome struct {
	Victim Ref
	Err    error // nil: the pod was told to go
}

// eviction is how a pod stands with evictions.
type eviction struct {
	evicting bool   // it is to be evicted by us, and that was not refused
	leaving  bool   // the world knows that it is on its way out
	guard    string // the disruption budget that the world counts its eviction against
	bundle   uint64 // those that it holds room together with; 0: it is alone
}

// evictions is the part of the books that is about pods that give way.
type evictions struct {
	holds    map[string]map[string]*pod // pods that hold room, by node and key
	promises map[string]bool            // pods that came with a node written on them
	budgets  map[string]map[string]facts.Budget
	known    map[string]int32     // what the world knows of budgets
	due      []Eviction           // not handed out yet
	way      map[string]*Eviction // of the present cycle, by node
	going    map[uint64]bool      // its decisions to evict
	yields   map[string]bool      // nodes that a whole unit leaves, for a holder elsewhere perhaps
	bundles  bundles
}

func newEvictions() evictions {
	return evictions{
		holds: make(map[string]map[string]*pod), promises: make(map[string]bool),
		budgets: make(map[string]map[string]facts.Budget), known: make(map[string]int32), way: make(map[string]*Eviction), going: make(map[uint64]bool),
		yields: make(map[string]bool), bundles: bundles{size: make(map[uint64]int)},
	}
}

// giveWay takes in a decision to evict.
func (b *books) giveWay(s *cluster.Snapshot, d *decision.Decision) {
	key, node := s.Pod(d.Pod).Spec.Name, s.Node(d.Place.Node).Spec.Name
	if err := b.apply(world.Accepted{Decision: *d}); err != nil {
		b.log.Warn("a decision is not accepted", "because", err)
		return
	}
	p := b.pods[key]
	p.evicting, p.leaving = true, true
	w := b.wayOn(node)
	w.Victims = append(w.Victims, Ref{Key: key, UID: p.seen.UID})
	if d.Save {
		if w.Grace == nil {
			w.Grace = make(map[string]int64)
		}
		w.Grace[key] = int64((d.Deadline.Since(b.instant()) + moment.Second - 1) / moment.Second)
	}
	// What is left of its budget, told next, has the eviction in it.
	delete(b.known, p.guard)
	for group := s.Pod(d.Pod).Spec.Group; group != cluster.None; group = s.Group(group).Parent {
		w.gives = w.gives || s.Group(group).Stuck()
	}
	if d.Target != nil {
		w.moves, w.gives = true, w.gives || !d.Yields
		b.uids[key] = p.seen.UID
		b.tellMove(&s.View, key, d)
	}
	if d.Yields {
		b.yields[node] = true
	}
	b.going[d.ID] = true
}

// holdFor takes in decisions to bind pods together when others have left.
func (b *books) holdFor(v *cluster.View, decisions []decision.Decision) {
	after := afterOf(decisions)
	if !slices.ContainsFunc(after, func(id uint64) bool { return b.going[id] }) {
		return // nobody goes after all
	}
	bundle := uint64(0)
	if len(decisions) > 1 {
		b.bundles.last++
		bundle = b.bundles.last
		b.bundles.size[bundle] = len(decisions)
	}
	for i := range decisions {
		key, node := v.Pod(decisions[i].Pod).Spec.Name, v.Node(decisions[i].Place.Node).Spec.Name
		p := b.pods[key]
		b.hold(key, p, node)
		p.bundle = bundle
		w := b.wayOn(node)
		w.Holders = append(w.Holders, Ref{Key: key, UID: p.seen.UID})
	}
}

func (b *books) wayOn(node string) *Eviction {
	if b.way[node] == nil {
		b.way[node] = &Eviction{Node: node}
	}
	return b.way[node]
}

// hold charges a waiting pod to the node that others are to leave.
func (b *books) hold(key string, p *pod, node string) {
	b.must(world.Reserved{Name: key, Node: node})
	p.footing, p.node = holding, node
	if b.holds[node] == nil {
		b.holds[node] = make(map[string]*pod)
	}
	b.holds[node][key] = p
}

// unhold forgets that a pod holds room; what the world knows is for the caller.
func (b *books) unhold(key string, p *pod) {
	if p.footing != holding {
		return
	}
	delete(b.holds[p.node], key)
	if len(b.holds[p.node]) == 0 {
		delete(b.holds, p.node)
	}
	p.bundle = 0
	b.stirred = true
}

// nominate hands out what has gathered in a cycle.
func (b *books) nominate() {
	held := slices.ContainsFunc(slices.Collect(maps.Values(b.way)), func(w *Eviction) bool { return len(w.Holders) > 0 })
	for _, node := range slices.Sorted(maps.Keys(b.way)) {
		w := b.way[node]
		if len(w.Holders) == 0 && !w.gives && !(held && b.yields[node]) { // nobody would have the room
			for _, victim := range w.Victims {
				b.stay(victim.Key, b.pods[victim.Key], true)
			}
			continue
		}
		if w.moves {
			w.Keep = b.keeping()
		}
		b.due = append(b.due, *w)
	}
	clear(b.way)
	clear(b.going)
	clear(b.yields)
}

// evicted takes in what became of an eviction. One that was carried out ends when
// the pod is gone.
func (b *books) evicted(o *EvictOutcome) {
	p := b.pods[o.Victim.Key]
	if o.Err == nil || p == nil || p.seen.UID != o.Victim.UID || !p.evicting {
		return
	}
	b.stay(o.Victim.Key, p, false)
	for _, other := range b.holds[p.node] { // order: each has a field of its own
		other.refusal = o.Err.Error()
	}
}

// stay books that a pod is not evicted after all: that was refused, or withdrawn before
// it was tried.
func (b *books) stay(key string, p *pod, withdrawn bool) {
	p.evicting = false
	b.stirred = true
	if p.seen.Leaving || !p.leaving {
		return
	}
	b.must(world.EvictRefused{Name: key, Withdrawn: withdrawn})
	p.leaving = false
	b.settle(key, p)
}

// depart tells the world what it has to know of a bound pod for evictions: that it
// leaves, and which budget guards it.
func (b *books) depart(key string, p *pod) {
	if (p.seen.Leaving || p.evicting) && !p.leaving {
		b.must(world.Leaving{Name: key})
		p.leaving = true
	}
	if guard := b.guardOf(p); guard != p.guard {
		b.must(world.Guarded{Name: key, Budget: guard})
		p.guard = guard
	}
}

// emptying says whether a pod is on its way out of the node.
func (b *books) emptying(node string) bool {
	for key, p := range b.at[node] { // order: one is enough
		if p.seen.Leaving || p.evicting || b.surges[key] != nil && b.surges[key].Step != surgeUndo {
			return true
		}
	}
	return false
}

// release returns the binds of pods whose room has been left. Where nobody leaves
// any more and there is no room, the hold has come to nothing.
func (b *books) release() []Bind {
	b.breakUp()
	var binds []Bind
	tried := make(map[uint64]bool)
	for _, node := range slices.Sorted(maps.Keys(b.holds)) {
		id, _ := b.world.Node(node)
		overdrawn := b.world.View().Node(id).Overdrawn
		if overdrawn && b.emptying(node) {
			continue
		}
		keys := b.byRank(slices.Collect(maps.Keys(b.holds[node])))
		if len(keys) == 0 {
			continue // bound together with others
		}
		if overdrawn {
			// The least important goes first; the others may have room without it.
			last := keys[len(keys)-1]
			p := b.pods[last]
			b.forsake(last, p, cmp.Or(p.refusal, "those who were to leave "+node+" did not leave enough"))
			b.breakUp()
			continue
		}
		for _, key := range keys {
			p := b.pods[key]
			if p.bundle != 0 {
				if !tried[p.bundle] {
					tried[p.bundle] = true
					binds = append(binds, b.bindBundle(p.bundle)...)
				}
				continue
			}
			if p.footing != holding {
				continue // bound together with others
			}
			// What is charged has room; whether the pod may still go there is asked
			// without it.
			b.letGo(key, p)
			bind, err := b.bindHeld(key, p, node)
			if err != nil && b.emptying(node) {
				b.hold(key, p, node) // it is not room that it waits for
				continue
			}
			if err != nil {
				b.log.Warn("room that was made is not used", "pod", key, "node", node, "because", err)
				b.withdraw(key, p)
				continue
			}
			binds = append(binds, bind)
		}
	}
	return binds
}

// bindHeld places a waiting pod on a node, if it fits there, and returns its bind.
func (b *books) bindHeld(key string, p *pod, node string) (Bind, error) {
	v := b.world.View()
	if why := b.check(key, node); !why.None() {
		return Bind{}, errors.New(why.Describe(v))
	}
	id, _ := b.world.Pod(key)
	host, _ := b.world.Node(node)
	row, n := v.Pod(id), v.Node(host)
	grants, _ := fit.Grants(v, v.Shape(row.Spec.Shape), n)
	d := decision.Decision{
		ID: chance.Hash(row.Key, uint64(row.Attempt), uint64(cluster.ActionBind)) | 1, Action: cluster.ActionBind,
		Pod: id, Subject: row.Key, Row: cluster.Ref{ID: int32(id), Generation: row.Generation},
		Place: cluster.Placement{Node: host, Shape: row.Spec.Shape, Grants: grants},
		Host:  cluster.Ref{ID: int32(host), Generation: n.Generation}, Deadline: moment.Never,
	}
	if n.Spec.Authority == cluster.AuthorityPlugin && len(grants) > 0 {
		d.Place.Identity = cluster.IdentityPresumed
	}
	draws, err := b.drawn(v, key, &d)
	if err == nil {
		err = b.apply(world.Accepted{Decision: d})
	}
	if err != nil {
		return Bind{}, err
	}
	p.story.placed(b.now, b.cycle, v, &d)
	return b.dispatch(key, p, node, draws), nil
}

// dispatch returns the bind of a pod that is charged to a node.
func (b *books) dispatch(key string, p *pod, node string, draws []Draw) Bind {
	b.serial++
	p.footing, p.node, p.serial = placing, node, b.serial
	b.takeOff(key, p, draws)
	return Bind{Key: key, UID: p.seen.UID, Node: node, Since: p.first, serial: b.serial, Draws: draws}
}

// check says why a waiting pod does not fit a node.
func (b *books) check(key, node string) decision.Reason {
	v := b.world.View()
	id, _ := b.world.Pod(key)
	host, _ := b.world.Node(node)
	return fit.CheckPod(v, id, v.Pod(id).Spec.Shape, host)
}

// forsake ends a hold that came to nothing.
func (b *books) forsake(key string, p *pod, because string) {
	b.log.Warn("room that was to be made was not", "pod", key, "node", p.node, "because", because)
	b.withdraw(key, p)
	b.setBack(key, p, because)
}

// withdraw takes the node that was written on a pod back.
func (b *books) withdraw(key string, p *pod) {
	b.due = append(b.due, Eviction{Holders: []Ref{{Key: key, UID: p.seen.UID}}})
}

// byRank sorts pods by priority, then by name.
func (b *books) byRank(keys []string) []string {
	slices.SortFunc(keys, func(x, y string) int {
		return cmp.Or(-cmp.Compare(b.pods[x].seen.Added.Priority, b.pods[y].seen.Added.Priority), cmp.Compare(x, y))
	})
	return keys
}

// promised remembers a pod that comes with a node written on it: an instance
// before this one was making room for it there.
func (b *books) promised(key string, seen *facts.Pod) {
	if seen.Standing == facts.Waiting && seen.Nominated != "" {
		b.promises[key] = true
		b.stirred = true
	}
}

// keepPromises goes on where an instance before this one stopped: a pod that was
// promised room of a node gets it, now or when those on their way out have left.
func (b *books) keepPromises() []Bind {
	var binds []Bind
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(b.promises)), func(key string) bool { return b.pods[key] == nil })
	clear(b.promises)
	for _, key := range b.byRank(keys) {
		p := b.pods[key]
		node := p.seen.Nominated
		if p.footing != waiting || b.nodes[node] == nil || b.grouped(key) {
			continue
		}
		if bind, err := b.bindHeld(key, p, node); err == nil {
			binds = append(binds, bind)
			continue
		}
		if why := b.check(key, node); why.Code.Future() == decision.AfterRoom && b.emptying(node) && !b.fitsSomewhere(key) {
			b.hold(key, p, node)
		}
	}
	return binds
}

// fitsSomewhere says whether a waiting pod has room on any node now.
func (b *books) fitsSomewhere(key string) bool {
	for name := range b.nodes { // order: one is enough
		if b.check(key, name).None() {
			return true
		}
	}
	return false
}

// grouped says whether a pod is placed with others or not at all.
func (b *books) grouped(key string) bool {
	id, _ := b.world.Pod(key)
	return b.world.View().Pod(id).Spec.Group != cluster.None
}

// several stands for the budgets of a pod that more than one covers: the eviction
// API does not evict such a pod.
const several = "more than one"

// guardOf returns the budget that guards a bound pod. The eviction API does not
// ask for one that has not started.
func (b *books) guardOf(p *pod) string {
	guard := ""
	if !p.seen.Running {
		return guard
	}
	for key, budget := range b.budgets[p.seen.Namespace()] { // order: one is the answer, two are several
		if !budget.Covers(&p.seen) {
			continue
		}
		if guard != "" {
			b.tellBudget(several, 0)
			return several
		}
		guard = key
	}
	return guard
}

func (b *books) tellBudget(name string, left int32) {
	if known, told := b.known[name]; told && known == left {
		return
	}
	b.must(world.BudgetKnown{Name: name, Left: left})
	b.known[name] = left
	b.stirred = true
}

// budgetSeen takes in what the API server tells of a disruption budget.
func (b *books) budgetSeen(seen facts.Budget) {
	b.tellBudget(seen.Key, seen.Left)
	space := b.budgets[seen.Namespace]
	if space == nil {
		space = make(map[string]facts.Budget)
		b.budgets[seen.Namespace] = space
	}
	before, known := space[seen.Key]
	space[seen.Key] = seen
	if !known || before.Selects() != seen.Selects() {
		b.guardAnew(seen.Namespace)
	}
}

// budgetGone takes in that a disruption budget is deleted.
func (b *books) budgetGone(namespace, key string) {
	delete(b.budgets[namespace], key)
	b.guardAnew(namespace)
}

// guardAnew looks again at who guards the pods of a namespace.
func (b *books) guardAnew(namespace string) {
	for _, key := range slices.Sorted(maps.Keys(b.pods)) {
		if p := b.pods[key]; p.footing == charged && p.seen.Namespace() == namespace {
			b.depart(key, p)
		}
	}
	b.stirred = true
}

// takeEvictions returns what is to be carried out and was not handed out yet.
func (b *books) takeEvictions() []Eviction {
	due := b.due
	b.due = nil
	return due
}
