package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// squad is what a cycle knows of one group that has not got its minimum.
type squad struct {
	members []cluster.PodID // that wait
	// started says that the group has its minimum in this plan: members that are
	// left over are placed like other pods.
	started bool
	why     *decision.Reason // why it does not start in this cycle
	looked  int              // in which look its members were last counted
}

// muster files the waiting members of groups that have not got their minimum.
func (r *round) muster(line []cluster.PodID) {
	v := r.txn.Base()
	if v.Groups.Len() == 0 {
		return
	}
	for _, pod := range line {
		id := v.Pod(pod).Spec.Group
		if id == cluster.None || v.Group(id).Whole() {
			continue
		}
		if r.squads == nil {
			r.squads = make([]squad, v.Groups.Len())
		}
		r.squads[id].members = append(r.squads[id].members, pod)
	}
}

// squadOf returns the squad of a pod whose group had not got its minimum before
// this cycle; nil for all other pods.
func (r *round) squadOf(pod cluster.PodID) *squad {
	if r.squads == nil {
		return nil
	}
	id := r.txn.View().Pod(pod).Spec.Group
	if id == cluster.None || len(r.squads[id].members) == 0 {
		return nil
	}
	return &r.squads[id]
}

// waitingSquad returns the squad without which a pod gets no place; nil for a pod
// that is placed by itself.
func (r *round) waitingSquad(pod cluster.PodID) *squad {
	if s := r.squadOf(pod); s != nil && !s.started {
		return s
	}
	return nil
}

// seated says whether a pod has got a place with its group.
func (r *round) seated(pod cluster.PodID) bool {
	return r.squads != nil && r.txn.View().Pod(pod).Phase != cluster.PhaseWaiting
}

// mend places what broken groups lack, before anybody else's turn: first of those
// that have run, then of the one whose time runs out first.
func (r *round) mend() {
	r.looks++
	v := r.txn.Base()
	var broken []cluster.GroupID
	for i := range r.squads {
		if v.Group(cluster.GroupID(i)).Broken() && len(r.squads[i].members) > 0 {
			broken = append(broken, cluster.GroupID(i))
		}
	}
	slices.SortFunc(broken, func(a, b cluster.GroupID) int {
		x, y := v.Group(a), v.Group(b)
		return cmp.Or(cmp.Compare(x.Deadline, y.Deadline), cmp.Compare(x.Key, y.Key), cmp.Compare(a, b))
	})
	for _, id := range broken {
		if s := &r.squads[id]; !r.cannotStart(id, s) {
			r.start(id, s)
		}
	}
}

// cannotStart says whether it is plain that a group does not start in this cycle,
// and remembers why: it is not known, too few of it have come, or too many ask for
// what no node has left.
func (r *round) cannotStart(id cluster.GroupID, s *squad) bool {
	g := r.txn.View().Group(id)
	arrived := g.Placed + int32(len(s.members))
	switch {
	case s.why != nil:
	case !g.Known:
		s.why = &decision.Reason{Code: decision.GroupUnknown, Group: id}
	case arrived < g.Minimum:
		s.why = &decision.Reason{Code: decision.GroupMembers, Need: int64(g.Minimum), Have: int64(arrived)}
	case s.looked != r.looks:
		hopeful := g.Placed
		for _, pod := range s.members {
			if !r.noRoom(pod) {
				hopeful++
			}
		}
		s.looked = r.looks
		if hopeful < g.Minimum {
			r.start(id, s) // fails, and says why
		}
	}
	return s.why != nil
}

// start places as many members as the group lacks, or none: then it says why. Of
// groups that are alike the first speaks for all, since room only shrinks.
func (r *round) start(id cluster.GroupID, s *squad) bool {
	g := r.txn.View().Group(id)
	missing, seated, minimum := g.Minimum-g.Placed, g.Placed, g.Minimum
	likeness := r.likeness(g, s)
	if s.why = r.turnedAway[likeness]; s.why != nil {
		return false
	}
	r.inOrder(s.members)
	if seated == 0 && r.onOneNode(s.members[:missing]) {
		s.started = true
		return true
	}
	t := r.try()
	var binds *decision.Reason
	for _, pod := range s.members {
		switch {
		case r.seat(pod):
			seated, missing = seated+1, missing-1
		case binds == nil:
			binds = r.binding(pod)
		}
		if missing == 0 {
			r.keep()
			s.started = true
			return true
		}
	}
	r.regret(t)
	why := *binds
	why.Members, why.Seated = minimum, seated
	s.why = &why
	if r.turnedAway == nil {
		r.turnedAway = make(map[uint64]*decision.Reason)
	}
	r.turnedAway[likeness] = s.why
	return false
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
		if r.memo.value(v, shape, node) == unfit || !fit.Queue(v, pod, shape).None() || !r.take(pod, shape, node) {
			r.regret(t)
			return false
		}
	}
	r.keep()
	return true
}

// likeness hashes all that the room for a group depends on.
func (r *round) likeness(g *cluster.Group, s *squad) uint64 {
	v, sum := r.txn.View(), uint64(0)
	for _, pod := range s.members {
		spec := v.Pod(pod).Spec
		h := chance.Hash(uint64(spec.Shape), uint64(spec.Queue), uint64(v.Ties(pod)))
		for _, shape := range spec.Alternatives {
			h = chance.Fold(h, uint64(shape))
		}
		sum += h
	}
	return chance.Hash(sum, uint64(g.Minimum), uint64(g.Placed))
}

// inOrder puts the members that ask for most first, since they are the hardest to
// place; among equals the line's order holds.
func (r *round) inOrder(members []cluster.PodID) {
	v := r.txn.Base()
	if r.policy.Order != nil {
		r.policy.Order(&v.View, r.cycle, members)
	} else {
		slices.SortFunc(members, func(a, b cluster.PodID) int { return compare(&v.View, r.cycle, a, b) })
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
// shapes are found to have no room.
func (r *round) try() trial {
	touched, _ := r.txn.TouchedNodes()
	r.trying, r.filled = true, r.filled[:0]
	return trial{mark: r.txn.Mark(), touched: len(touched)}
}

func (r *round) keep() { r.trying = false }

func (r *round) regret(t trial) {
	r.trying = false
	for _, shape := range r.filled {
		r.full[shape] = nil
	}
	r.closed = nil // what was found while room was taken may be otherwise now
	r.undo(t)
}

// giveBack evicts what a broken group holds when its time is over and nothing of
// it has run yet: others can use the room. It is the last step of a cycle, so that
// no group counts on that room before it is free.
func (r *round) giveBack() {
	v := r.txn.Base()
	var late []bool // by group
	for i := range v.Groups.Len() {
		g := v.Group(cluster.GroupID(i))
		if g.Deadline > 0 && g.Deadline <= r.cycle.Now && r.txn.View().Group(cluster.GroupID(i)).Stuck() {
			if late == nil {
				late = make([]bool, v.Groups.Len())
			}
			late[i] = true
		}
	}
	if late == nil {
		return
	}
	var holders []cluster.PodID
	for i := range v.Pods.Len() {
		p := v.Pod(cluster.PodID(i))
		if p.Phase == cluster.PhaseGone || p.Spec.Group == cluster.None || !late[p.Spec.Group] {
			continue
		}
		switch p.Phase {
		case cluster.PhaseBound:
			holders = append(holders, cluster.PodID(i))
		case cluster.PhasePlacing:
			late[p.Spec.Group] = false
		}
	}
	slices.SortFunc(holders, func(a, b cluster.PodID) int {
		return cmp.Or(cmp.Compare(v.Pod(a).Key, v.Pod(b).Key), cmp.Compare(a, b))
	})
	for _, pod := range holders {
		if late[v.Pod(pod).Spec.Group] && r.txn.Evict(pod) == nil {
			r.memo.touch(v.Pod(pod).Placement.Node)
		}
	}
}

// bundle names what ties a decision to others: the binds of a group that had not
// its minimum before are carried out together.
func (r *round) bundle(d *decision.Decision) uint64 {
	if s := r.squadOf(d.Pod); s == nil || d.Action != cluster.ActionBind {
		return 0
	}
	g := r.txn.Base().Group(r.txn.View().Pod(d.Pod).Spec.Group)
	return chance.Hash(r.cycle.Number, g.Key) | 1
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
