package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
)

// squad is what a cycle knows of one group that has not got its minimum.
type squad struct {
	members []cluster.PodID  // of its tree, that wait
	own     []cluster.PodID  // those of them that name the group itself
	why     *decision.Reason // why it does not start in this cycle
	looked  int              // in which look its members were last counted
	ranked  bool             // some of own have ranks
	asked   bool             // for a reservation
	ordered bool             // own is in the order in which they are seated
}

// muster files the waiting members of groups that have not got their minimum.
func (r *round) muster(line []cluster.PodID) {
	v := r.txn.Base()
	if v.Groups.Len() == 0 {
		return
	}
	for _, pod := range line {
		id := v.Pod(pod).Spec.Group
		if id == cluster.None {
			continue
		}
		if v.Unit(id) == cluster.None {
			continue
		}
		if r.squads == nil {
			r.squads = make([]squad, v.Groups.Len())
		}
		r.squads[id].own = append(r.squads[id].own, pod)
		r.squads[id].ranked = r.squads[id].ranked || v.Pod(pod).Spec.Rank != cluster.None
		for g := id; g != cluster.None; g = v.Group(g).Parent {
			r.squads[g].members = append(r.squads[g].members, pod)
		}
	}
}

// squadOf returns the squad of a pod that was not placed by itself before this
// cycle; nil for all other pods.
func (r *round) squadOf(pod cluster.PodID) *squad {
	id := r.txn.View().Pod(pod).Spec.Group
	if r.squads == nil || id == cluster.None {
		return nil
	}
	if unit := r.txn.Base().Unit(id); unit != cluster.None && len(r.squads[unit].members) > 0 {
		return &r.squads[unit]
	}
	return nil
}

// waitingUnit returns the unit without which a pod gets no place; None for a pod
// that is placed by itself.
func (r *round) waitingUnit(pod cluster.PodID) cluster.GroupID {
	if r.squads == nil {
		return cluster.None
	}
	id := r.txn.View().Pod(pod).Spec.Group
	if id == cluster.None {
		return cluster.None
	}
	return r.txn.View().Unit(id)
}

// seated says whether a pod has got a place with its group.
func (r *round) seated(pod cluster.PodID) bool {
	return r.squads != nil && r.txn.View().Pod(pod).Phase != cluster.PhaseWaiting
}

// unseated is those of the pods that have got no place yet.
func (r *round) unseated(pods []cluster.PodID) []cluster.PodID {
	if !slices.ContainsFunc(pods, r.seated) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), r.seated)
}

// mend places what broken groups lack, before anybody else's turn: first of those
// that have run, then of the one whose time runs out first.
func (r *round) mend() {
	r.looks++
	v := r.txn.Base()
	var broken []cluster.GroupID
	for i := range r.squads {
		if id := cluster.GroupID(i); v.Group(id).Broken() && len(r.squads[i].members) > 0 && v.Unit(id) == id {
			broken = append(broken, id)
		}
	}
	slices.SortFunc(broken, func(a, b cluster.GroupID) int {
		x, y := v.Group(a), v.Group(b)
		return cmp.Or(cmp.Compare(x.Deadline, y.Deadline), cmp.Compare(x.Key, y.Key), cmp.Compare(a, b))
	})
	for _, id := range broken {
		if !r.cannotStart(id) {
			r.start(id)
		}
	}
}

// cannotStart says whether it is plain that a unit does not start in this cycle,
// and remembers why: it is not known, too few of it have come, or too many ask for
// what no node has left.
func (r *round) cannotStart(id cluster.GroupID) bool {
	s := &r.squads[id]
	if s.why != nil {
		return true
	}
	if s.why = r.lacking(id); s.why != nil || r.shaped(id) {
		return s.why != nil
	}
	g := r.txn.View().Group(id)
	if s.looked != r.looks {
		hopeful := g.Placed
		for _, pod := range s.members {
			if !r.noRoom(pod) {
				hopeful++
			}
		}
		s.looked = r.looks
		if hopeful < g.Minimum {
			r.start(id) // fails, and says why
		}
	}
	return s.why != nil
}

// lacking says what has not come yet without which a group does not start.
func (r *round) lacking(id cluster.GroupID) *decision.Reason {
	s := gang.Search{View: r.txn.View(), Seats: seats{r}}
	why := s.Lacks(id)
	if why.None() {
		return nil
	}
	if why.Code == decision.GroupMembers {
		if held := r.heldBackIn(why.Group); held != nil {
			return held
		}
	}
	out := why
	return &out
}

// start places as many members as a unit lacks, or none: then it says why. Of
// groups that are alike the first speaks for all, since room only shrinks.
func (r *round) start(id cluster.GroupID) bool {
	s := &r.squads[id]
	likeness := r.likeness(id)
	if s.why = r.turnedAway[likeness]; s.why != nil {
		return false
	}
	if s.why = r.startWithin(id, cluster.Spot{}); s.why == nil {
		return true
	}
	if likeness != 0 {
		if r.turnedAway == nil {
			r.turnedAway = make(map[uint64]*decision.Reason)
		}
		r.turnedAway[likeness] = s.why
	}
	return false
}

// startWithin places as many members as a unit lacks in a domain, or none: then it says
// why. The zero spot is the cluster.
func (r *round) startWithin(id cluster.GroupID, spot cluster.Spot) *decision.Reason {
	switch e := r.elasticOf(id); {
	case e != nil && !r.wishful(id):
		return r.startWorkers(e)
	case r.shaped(id):
		return r.arrange(id, spot)
	}
	return r.startAnywhere(id)
}

// startAnywhere places a group that has no parts and no wishes of topology.
func (r *round) startAnywhere(id cluster.GroupID) *decision.Reason {
	s, g := &r.squads[id], r.txn.View().Group(id)
	missing, seated := g.Minimum-g.Placed, g.Placed
	r.inOrder(s.members)
	members := r.unseated(s.members)
	if seated == 0 && r.onOneNode(members[:missing]) {
		return nil
	}
	reached, binds := r.seatAll(members, missing)
	if binds == nil {
		return nil
	}
	if r.choosy(members) {
		// Those that take only one thing come before those that have a choice.
		again := slices.Clone(members)
		slices.SortStableFunc(again, func(a, b cluster.PodID) int {
			v := r.txn.View()
			return cmp.Compare(min(len(v.Pod(a).Spec.Alternatives), 1), min(len(v.Pod(b).Spec.Alternatives), 1))
		})
		if _, still := r.seatAll(again, missing); still == nil {
			return nil
		}
	}
	why := *binds
	if most, known := r.mostEver(members); known && seated == 0 && most > 0 && most < int64(missing) {
		why = decision.Reason{Code: decision.GroupCapacity, Need: int64(missing), Have: most, Group: id}
		return &why
	}
	why.Group, why.Members, why.Seated = id, g.Minimum, seated+reached
	return &why
}

// seatAll seats so many of the pods, or none: then it says how many found room, and
// what binds the first that did not.
func (r *round) seatAll(pods []cluster.PodID, missing int32) (seated int32, binds *decision.Reason) {
	t := r.try()
	for _, pod := range pods {
		switch {
		case r.seat(pod):
			seated++
		case binds == nil:
			binds = r.binding(pod)
		}
		if seated == missing {
			r.keep(t)
			return seated, nil
		}
	}
	r.regret(t)
	return seated, binds
}

// choosy says whether some of the pods have a second choice and others have none.
func (r *round) choosy(pods []cluster.PodID) bool {
	v, with := r.txn.View(), 0
	for _, pod := range pods {
		with += min(len(v.Pod(pod).Spec.Alternatives), 1)
	}
	return with > 0 && with < len(pods)
}

// mostEver is how many of the pods the cluster would hold if it were empty, where
// all of them ask for the same.
func (r *round) mostEver(pods []cluster.PodID) (most int64, known bool) {
	v := r.txn.View()
	shape := v.Pod(pods[0]).Spec.Shape
	for _, pod := range pods {
		if spec := v.Pod(pod).Spec; spec.Shape != shape || len(spec.Alternatives) > 0 {
			return 0, false
		}
	}
	return r.memo.holds(v, shape), true
}

// mostOnOneNode bounds for how many members one node is looked for: more pods than
// that with a device each are on no machine.
const mostOnOneNode = 64

// onOneNode places pods that ask for the same together on one node, the best of
// those that hold them all: work that talks is best off there. It places none where
// no node does, where the policy picks nodes itself, or where relations have a say.
func (r *round) onOneNode(pods []cluster.PodID) bool {
	v := r.txn.View()
	shape := v.Pod(pods[0]).Spec.Shape
	if r.policy.Choose != nil || len(pods) < 2 || len(pods) > mostOnOneNode || r.isFull(shape) {
		return false
	}
	for _, pod := range pods {
		if v.Pod(pod).Spec.Shape != shape || v.Ties(pod) != 0 {
			return false
		}
	}
	node := r.memo.bestForAll(v, shape, len(pods))
	if node == cluster.None {
		return false
	}
	t := r.try()
	for _, pod := range pods {
		if r.refuserOf(pod) == node || r.memo.value(v, shape, node) == unfit || !fit.Queue(v, pod, shape).None() || !r.take(pod, shape, node, cluster.None) {
			r.regret(t)
			return false
		}
	}
	r.keep(t)
	return true
}

// likeness hashes all that the room for a unit depends on; 0 for one that is like no
// other: part of it has its place, or it is confined by those above it.
func (r *round) likeness(id cluster.GroupID) uint64 {
	v := r.txn.View()
	g := v.Group(id)
	if r.shaped(id) && (g.TreePlaced > 0 || g.Parent != cluster.None) {
		return 0
	}
	h := r.likenessBelow(id)
	if e := r.elasticOf(id); e != nil {
		if h = chance.Fold(h, e.ways); r.moves(e) {
			return 0
		}
	}
	return chance.Hash(h, uint64(g.Placed)) | 1
}

// likenessBelow is that of a group, wherever its members are.
func (r *round) likenessBelow(id cluster.GroupID) uint64 {
	v := r.txn.View()
	sum := uint64(0)
	for c := range v.Children(id) {
		sum += chance.Mix(r.likenessBelow(c))
	}
	for _, pod := range r.squads[id].own {
		spec := v.Pod(pod).Spec
		h := chance.Hash(uint64(spec.Shape), uint64(spec.Queue), uint64(v.Ties(pod)))
		for _, shape := range spec.Alternatives {
			h = chance.Fold(h, uint64(shape))
		}
		if r.ahead != nil {
			h = chance.Fold(h, uint64(r.ends(pod)))
		}
		sum += h
	}
	g := v.Group(id)
	return chance.Hash(sum, uint64(g.Minimum), uint64(g.NeedsGroups()), wishes(g))
}

// wishes hashes where a group would be.
func wishes(g *cluster.Group) uint64 {
	h := uint64(g.Comm)
	for _, wish := range g.Topology {
		h = chance.Fold(h, uint64(wish.Level)<<1)
		if wish.Required {
			h++
		}
	}
	return h
}

// inOrder puts the members that ask for most first, since they are the hardest to
// place; among equals the line's order holds.
func (r *round) inOrder(members []cluster.PodID) {
	v := r.txn.Base()
	if r.policy.Order != nil {
		r.policy.Order(&v.View, r.cycle, members)
	} else {
		slices.SortFunc(members, func(a, b cluster.PodID) int { return r.policy.compare(&v.View, r.cycle, a, b) })
	}
	shape := func(pod cluster.PodID) *cluster.Shape { return v.Shape(v.Pod(pod).Spec.Shape) }
	slices.SortStableFunc(members, func(a, b cluster.PodID) int {
		x, y := shape(a), shape(b)
		return cmp.Or(cmp.Compare(y.Milli(), x.Milli()),
			cmp.Compare(y.Need.At(cluster.DimCPU), x.Need.At(cluster.DimCPU)),
			cmp.Compare(y.Need.At(cluster.DimMemory), x.Need.At(cluster.DimMemory)))
	})
}

// try begins what may be regretted: until keep or regret it is remembered which
// shapes are found to have no room. Tries may lie within each other.
func (r *round) try() trial {
	touched, _ := r.txn.TouchedNodes()
	r.trying++
	return trial{mark: r.txn.Mark(), touched: len(touched), filled: len(r.filled)}
}

func (r *round) keep(trial) {
	if r.trying--; r.trying == 0 {
		r.filled = r.filled[:0]
	}
}

func (r *round) regret(t trial) {
	r.trying--
	for _, shape := range r.filled[t.filled:] {
		r.full[shape] = nil
	}
	r.filled = r.filled[:t.filled]
	r.closed = nil // what was found while room was taken may be otherwise now
	r.undo(t)
}

// attempt does something that leaves everything as it was where it says no.
func (r *round) attempt(do func() bool) bool {
	t := r.try()
	if do() {
		r.keep(t)
		return true
	}
	r.regret(t)
	return false
}

// bundle names what ties a decision to others: the binds of a unit that had not its
// minimum before are carried out together.
func (r *round) bundle(d *decision.Decision) uint64 {
	if d.Action != cluster.ActionBind {
		return 0
	}
	unit := r.txn.Base().Unit(r.txn.View().Pod(d.Pod).Spec.Group)
	if unit == cluster.None || len(r.squads[unit].members) == 0 {
		return 0
	}
	return chance.Hash(r.cycle.Number, r.txn.Base().Group(unit).Key) | 1
}

// spared says whether a pod is not evicted for others because its group would be
// left below its minimum.
func (r *round) spared(p *cluster.Pod) bool {
	if p.Spec.Group == cluster.None {
		return false
	}
	g := r.txn.View().Group(p.Spec.Group)
	return g.Known && g.Placed <= g.Minimum
}
