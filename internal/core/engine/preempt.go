package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// Preempting returns the policy with others giving way: by its own rules, else by the
// default ones without tiers: lower priorities in the same queue, queues above their
// share.
func (p *Policy) Preempting() *Policy {
	out := *p
	if out.Yields == nil {
		rules := yield.Default()
		rules.Tiers = nil
		out.Yields = &rules
	}
	return &out
}

// Staying returns the policy with nobody giving way to others, or lending to them.
func (p *Policy) Staying() *Policy {
	out := *p
	out.Yields, out.Lends = nil, false
	return &out
}

// makeWay makes room for those who wait, in the order of their turn, where others
// have to give way to them. Nothing is evicted for work that then does not start.
func (r *round) makeWay() {
	line := r.takers()
	if len(line) == 0 {
		return
	}
	r.survey()
	if r.ways == nil { // sizes ask it, too
		r.ways = yield.New(r.txn, r.cycle, *r.policy.Yields, r.standing)
	}
	s, mark := newSweep(r, line), r.txn.Mark()
	// While nothing is freed, those to whom nobody may give way are passed over.
	bars := bars{round: r}
	hopes := bars.open(line)
	if hopes > 0 {
		r.lineUp(line)
	}
	for hopes > 0 || s.freed {
		pod, more := r.next()
		if !more || !s.affords() {
			break
		}
		if !s.freed {
			if bars.barred(pod) {
				continue
			}
			hopes--
		}
		if r.orphaned(pod) || !s.lucky(pod) {
			continue
		}
		if unit := r.waitingUnit(pod); unit != cluster.None {
			s.serveUnit(unit)
			continue
		}
		if !r.seated(pod) && !s.placed(pod) {
			s.serve(pod)
		}
	}
	r.line = turns{}
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		if s.placed(w.Pod) {
			continue
		}
		if w.Why.Members > 0 && r.waitingUnit(w.Pod) == cluster.None || r.sufficed(w.Pod) {
			w.Why = r.binding(w.Pod) // its group has started without it, or has enough
		}
		if r.mayTake(&w) && (s.freed || !bars.barred(w.Pod)) {
			w.Why = s.tell(w.Pod, w.Why)
		}
		kept = append(kept, w)
	}
	r.waiting = kept
	if !s.freed && len(r.txn.TouchedSince(mark)) > 0 {
		r.placeTied() // a group started by itself: others may be kept from every node no more
	}
}

// orphaned says whether the group of a pod stood, and has given way in this cycle.
func (r *round) orphaned(pod cluster.PodID) bool {
	id := r.txn.Base().Pod(pod).Spec.Group
	return id != cluster.None && r.txn.Base().Stands(id) && !r.txn.View().Stands(id)
}

// takers lists the waiting pods to which somebody could have to give way; one for
// each group that has not got its minimum.
func (r *round) takers() []cluster.PodID {
	var out []cluster.PodID
	var groups map[cluster.GroupID]bool
	for i := range r.waiting {
		w := &r.waiting[i]
		if !r.mayTake(w) {
			continue
		}
		if unit := r.waitingUnit(w.Pod); unit != cluster.None {
			if groups[unit] {
				continue
			}
			if groups == nil {
				groups = make(map[cluster.GroupID]bool)
			}
			groups[unit] = true
		}
		out = append(out, w.Pod)
	}
	return out
}

// mayTake says whether somebody could have to give way to a waiting pod.
func (r *round) mayTake(w *decision.Waiting) bool {
	v := r.txn.Base()
	spec := v.Pod(w.Pod).Spec
	return (v.Queues.Len() > 0 || spec.Priority > v.LowestPriority || len(r.policy.Yields.Tiers) > 0) && !spec.PreemptNever && yield.Helps(w.Why.Code)
}

func (r *round) placed(pod cluster.PodID) bool {
	return r.txn.View().Pod(pod).Phase != cluster.PhaseWaiting
}

// serve finds room for one pod.
func (s *sweep) serve(pod cluster.PodID) {
	v := s.txn.View()
	spec := v.Pod(pod).Spec
	if !fit.Queue(v, pod, spec.Shape).None() || s.sufficed(pod) {
		return
	}
	of := s.claimantOf(pod)
	if no, known := s.hopeless[of]; known && s.grade(pod) <= no.grade {
		return
	}
	if s.freed && s.fill(pod) {
		s.moves++
		return
	}
	t := s.taker(pod)
	end := s.seek()
	if set := s.ways.Best(t); set != nil && s.carry(t, set) {
		s.moves++
		end(true)
		return
	}
	end(false)
	if s.workerOf(pod) != nil {
		return // others like it may go elsewhere
	}
	no := refusal{grade: t.Grade, gaveUp: s.ways.GaveUp()}
	if !no.gaveUp {
		no.guarded = s.ways.Guarded(t)
	}
	s.refuse(pod, of, no)
}

// fill places a pod on room that is free now.
func (s *sweep) fill(pod cluster.PodID) bool {
	if e := s.workerOf(pod); e != nil {
		full := slices.Clone(s.full)
		clear(s.full)
		defer copy(s.full, full)
		if !s.seatWorker(e, pod) {
			return false
		}
		s.ways.Moved(pod, s.txn.View().Pod(pod).Placement.Node)
		return true
	}
	shape := s.txn.View().Pod(pod).Spec.Shape
	full := s.full[shape]
	s.full[shape] = nil
	if node := s.choose(pod, shape); node != cluster.None && s.take(pod, shape, node, cluster.None) {
		s.ways.Moved(pod, node)
		return true
	}
	s.full[shape] = full
	return false
}

// taker describes a pod to the search.
func (r *round) taker(pod cluster.PodID) *yield.Taker {
	v := r.txn.View()
	spec := v.Pod(pod).Spec
	shape := v.Shape(spec.Shape)
	of := tie{kin: v.Ties(pod), shape: spec.Shape}
	class, own := chance.Hash(uint64(of.kin), uint64(of.shape)), cluster.GroupID(cluster.None)
	if spec.Group != cluster.None {
		if root := v.Root(spec.Group); r.txn.Base().Group(root).TreePlaced > 0 {
			own, class = root, chance.Hash(class, v.Group(root).Key)
		}
	}
	homes := r.homesFor(pod)
	return &yield.Taker{
		Pod: pod, Queue: spec.Queue, Priority: spec.Priority, Grade: r.grade(pod), Need: shape.Ask(), Own: own, Class: class,
		Check: func(node cluster.NodeID) decision.Reason {
			if !homes.admits(node) {
				return decision.Reason{Code: decision.DeviceModel}
			}
			return r.check(of, node)
		},
		Tie: func(node cluster.NodeID) uint64 { return r.policy.tie(v, r.cycle, node) },
	}
}

// carry evicts a set and places the taker where it was.
func (s *sweep) carry(t *yield.Taker, set *yield.Set) bool {
	touched, _ := s.txn.TouchedNodes()
	before := trial{mark: s.txn.Mark(), touched: len(touched)}
	worth := s.potential()
	nodes, ok := s.ways.Carry(t, set)
	if !ok {
		return false
	}
	for _, node := range nodes {
		s.memo.touch(node)
	}
	for _, victim := range set.Victims() {
		s.used(s.txn.Base().Pod(victim).Spec.Queue)
	}
	shape := s.txn.View().Pod(t.Pod).Spec.Shape
	full := s.full[shape]
	s.full[shape] = nil
	if !s.take(t.Pod, shape, set.Node, cluster.None) {
		s.undo(before)
		s.ways.Restore(set.Victims())
		s.full[shape] = full
		return false
	}
	s.full[shape] = full
	s.ways.Moved(t.Pod, set.Node)
	s.freed = true
	s.explain(t.Pod, set, worth)
	return true
}

// explain remembers for whom victims go.
func (s *sweep) explain(taker cluster.PodID, set *yield.Set, before int64) {
	v, victims := s.txn.Base(), set.Victims()
	for _, id := range victims {
		s.because[id] = decision.Explanation{Policy: s.policy.Name, Yield: &decision.Yield{
			To: taker, Lost: set.Cost.Lost, Wholes: set.Cost.Wholes, Slices: set.Cost.Slices, Across: v.Pod(id).Spec.Queue != v.Pod(taker).Spec.Queue,
			Straddle: set.Cost.Straddles, Before: before, After: s.potential(),
		}}
	}
}

// timeHolds says until when freed room is held, and who saves its work first.
func (r *round) timeHolds(decisions []decision.Decision) {
	if r.ways == nil && !r.ahead.calledAny() && r.movers == nil {
		return
	}
	ends := make(map[uint64]moment.Instant)
	counted := make(map[uint64]bool)
	for i := range decisions {
		d := &decisions[i]
		if d.Action != cluster.ActionEvict && d.Action != cluster.ActionReplace {
			for _, id := range d.After {
				counted[id] = true
			}
			continue
		}
		ends[d.ID] = r.cycle.Now
		if r.ahead.calledOut(d.Pod) {
			d.Yields = true
			continue
		}
		if d.Because.Move != nil {
			ends[d.ID] = r.timeMove(d)
			continue
		}
		if d.Because.Yield == nil {
			continue
		}
		d.Yields = true
		if until, saves := r.ways.SavesFirst(d.Pod); saves {
			d.Save, d.Deadline = true, until
			ends[d.ID] = until
		}
	}
	for i := range decisions {
		d := &decisions[i]
		if d.Action != cluster.ActionBind || len(d.After) == 0 {
			continue
		}
		last := r.cycle.Now
		for _, id := range d.After {
			last = max(last, ends[id])
		}
		d.Deadline = last.Add(r.policy.hold())
	}
}

// serveUnit serves a group, unless one that is alike was refused and nothing has
// changed since.
func (s *sweep) serveUnit(unit cluster.GroupID) {
	alike := s.likeness(unit)
	if alike != 0 {
		for _, pod := range s.squads[unit].members {
			alike += chance.Mix(uint64(s.grade(pod)))
		}
		if at, known := s.refused[alike]; known && at == s.moves {
			return
		}
	}
	before := s.txn.View().Group(unit).TreePlaced
	end := s.seek()
	s.serveGroup(unit)
	s.asked[unit] = s.ways.GaveUp()
	end(s.txn.View().Group(unit).TreePlaced != before)
	switch {
	case s.txn.View().Group(unit).TreePlaced != before:
		s.moves++
	case alike != 0:
		if s.refused == nil {
			s.refused = make(map[uint64]int)
		}
		s.refused[alike] = s.moves
	}
}

// serveGroup finds room for what a unit lacks of its minimum, or leaves everything as
// it was.
func (s *sweep) serveGroup(unit cluster.GroupID) {
	r := s.round
	own := &r.squads[unit]
	own.why = nil
	if r.lacking(unit) != nil || len(r.unseated(own.members)) == 0 {
		return
	}
	mark := s.txn.Mark()
	startNow := func() bool { return s.startIn(unit, cluster.Spot{}) }
	if s.freed && s.attempt(startNow) {
		s.unveil(mark)
		return
	}
	best, spot := s.waysFor(unit)
	if best == nil {
		return
	}
	// The search for places is no proof: what was not found before may be by now.
	if !s.freed && s.attempt(startNow) {
		s.unveil(mark)
		return
	}
	before := s.potential()
	if !s.attempt(func() bool {
		nodes, ok := s.ways.Carry(s.takerOf(unit), best)
		return ok && s.startAfter(unit, spot, nodes)
	}) {
		s.ways.Restore(best.Victims())
		return
	}
	for _, victim := range best.Victims() {
		s.used(s.txn.Base().Pod(victim).Spec.Queue)
	}
	s.freed = true
	s.unveil(mark)
	s.explain(own.members[0], best, before)
}

// waysFor finds who gives way to a unit, in the best of its domains.
func (s *sweep) waysFor(unit cluster.GroupID) (best *yield.Set, spot cluster.Spot) {
	domains := s.domainsOf(unit)
	for i := 0; i < len(domains) && !s.ways.GaveUp(); i++ {
		d := &domains[i]
		among := d.nodes
		if !d.spot.Set {
			among = nil // any
		}
		guess := func() []*yield.Set { return s.guess(unit, among) }
		set := s.ways.Way(s.takerOf(unit), d.nodes, guess, func(evict func() ([]cluster.NodeID, bool)) bool {
			return s.trial(unit, d.spot, evict)
		})
		if set != nil && (best == nil || set.Cost.Compare(&best.Cost) < 0) {
			best, spot = set, d.spot
		}
	}
	return best, spot
}

// trial evicts, looks whether a unit starts, and takes all of it back.
func (s *sweep) trial(unit cluster.GroupID, spot cluster.Spot, evict func() ([]cluster.NodeID, bool)) (starts bool) {
	s.attempt(func() bool {
		nodes, ok := evict()
		starts = ok && s.startAfter(unit, spot, nodes)
		return false
	})
	return starts
}

// startAfter starts a unit when nodes have been left.
func (s *sweep) startAfter(unit cluster.GroupID, spot cluster.Spot, nodes []cluster.NodeID) bool {
	for _, node := range nodes {
		s.memo.touch(node)
	}
	return s.startIn(unit, spot)
}

// startIn starts a unit in a domain; what was found to be full may not be any more.
func (s *sweep) startIn(unit cluster.GroupID, spot cluster.Spot) bool {
	full := slices.Clone(s.full)
	for i := range s.full {
		s.full[i] = nil
	}
	defer copy(s.full, full)
	return s.startWithin(unit, spot) == nil
}

// spread is a domain with its nodes.
type spread struct {
	spot  cluster.Spot
	nodes []cluster.NodeID
}

// domainsOf lists the domains in which a unit may be, by the closest level that it
// requires: the cluster, if it requires none.
func (s *sweep) domainsOf(unit cluster.GroupID) []spread {
	v := s.txn.View()
	level, required := v.Group(unit).Required()
	all := spread{}
	var out []spread
	index := make(map[cluster.DomainID]int)
	for i := range v.Nodes.Len() {
		id := cluster.NodeID(i)
		if n := v.Node(id); n.TakesWork() {
			all.nodes = append(all.nodes, id)
			if level <= cluster.LevelNode {
				out = append(out, spread{spot: cluster.Spot{Set: true, Level: cluster.LevelNode, Node: id, Domain: cluster.None, Island: cluster.None}, nodes: []cluster.NodeID{id}})
				continue
			}
			for d := n.Spec.Domain; d != cluster.None; d = v.Domains.At(int32(d)).Parent {
				if v.Domains.At(int32(d)).Level != level {
					continue
				}
				at, known := index[d]
				if !known {
					at = len(out)
					index[d] = at
					out = append(out, spread{spot: cluster.Spot{Set: true, Level: level, Domain: d, Node: cluster.None, Island: cluster.None}})
				}
				out[at].nodes = append(out[at].nodes, id)
			}
		}
	}
	if !required {
		return []spread{all}
	}
	slices.SortFunc(out, func(a, b spread) int { return cmp.Compare(a.spot.Key(v), b.spot.Key(v)) })
	return out
}

// takerOf describes what a unit lacks to the search.
func (s *sweep) takerOf(unit cluster.GroupID) *yield.Taker {
	v := s.txn.View()
	members := slices.Clone(s.unseated(s.squads[unit].members))
	slices.SortFunc(members, func(a, b cluster.PodID) int {
		return cmp.Or(cmp.Compare(v.Shape(v.Pod(a).Spec.Shape).Milli(), v.Shape(v.Pod(b).Spec.Shape).Milli()), cmp.Compare(v.Pod(a).Key, v.Pod(b).Key))
	})
	t := s.taker(members[0])
	t.Need = cluster.Amount{}
	for _, pod := range members[:min(max(int(v.TreeMinimum(unit)-v.Group(unit).TreePlaced), 1), len(members))] {
		shape := v.Shape(v.Pod(pod).Spec.Shape)
		ask := shape.Ask()
		t.Need = t.Need.Plus(&ask)
		t.Priority, t.Grade = max(t.Priority, v.Pod(pod).Spec.Priority), max(t.Grade, s.grade(pod))
	}
	return t
}

// guess is who gives way in some nodes where members find room one by one. Everything
// is as before afterwards.
func (s *sweep) guess(unit cluster.GroupID, nodes []cluster.NodeID) []*yield.Set {
	t := s.try()
	freed := s.freed
	sets, all := s.seatMembers(unit, nodes)
	s.freed = freed
	s.forget(t, sets)
	if !all {
		return nil
	}
	return sets
}

// forget undoes what was tried, and tells the search.
func (s *sweep) forget(t trial, sets []*yield.Set) {
	stirred := s.stirred(t.mark)
	s.regret(t)
	for _, set := range sets {
		s.ways.Restore(set.Victims())
	}
	s.stir(stirred)
}

// seatMembers places as many members as a unit lacks where there is room, or the least
// has to go, one by one, on some nodes; nil: on any.
func (s *sweep) seatMembers(unit cluster.GroupID, nodes []cluster.NodeID) (sets []*yield.Set, all bool) {
	v := s.txn.View()
	missing := int(v.TreeMinimum(unit) - v.Group(unit).TreePlaced)
	members := slices.Clone(s.unseated(s.squads[unit].members))
	s.inOrder(members)
	for i, pod := range members {
		if missing == 0 {
			break
		}
		if len(members)-i < missing {
			return sets, false
		}
		shape := v.Pod(pod).Spec.Shape
		if !fit.Queue(v, pod, shape).None() {
			continue
		}
		if nodes == nil && s.fill(pod) || nodes != nil && s.fillAmong(pod, shape, nodes) {
			missing--
			continue
		}
		taker := s.taker(pod)
		var set *yield.Set
		if nodes == nil {
			set = s.ways.Best(taker)
		} else {
			set = s.ways.BestOn(taker, nodes)
		}
		if set == nil || !s.carry(taker, set) {
			continue
		}
		sets = append(sets, set)
		missing--
	}
	return sets, missing <= 0
}

// fillAmong places a pod on room that is free now on some nodes.
func (s *sweep) fillAmong(pod cluster.PodID, shape cluster.ShapeID, nodes []cluster.NodeID) bool {
	node := s.chooseAmong(pod, shape, gang.Where{Nodes: nodes, Island: cluster.None})
	if node == cluster.None || !s.take(pod, shape, node, cluster.None) {
		return false
	}
	s.ways.Moved(pod, node)
	return true
}

// potential is how far queues are above their shares in all.
func (s *sweep) potential() int64 {
	if s.standing == nil {
		return 0
	}
	v := s.txn.View()
	if s.excess == nil {
		s.excess, s.worth = make(map[cluster.QueueID]int64), s.standing.Potential(v)
		base := &s.txn.Base().View
		s.excess[cluster.None] = s.standing.Excess(v, cluster.None)
		for i := range base.Queues.Len() {
			q := cluster.QueueID(i)
			s.excess[q] = s.standing.Excess(v, q)
		}
	}
	for _, q := range s.stale {
		now := s.standing.Excess(v, q)
		s.worth += now - s.excess[q]
		s.excess[q] = now
	}
	s.stale = s.stale[:0]
	return s.worth
}
