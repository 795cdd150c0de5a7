package engine

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// seats lets package gang place pods in a round: the scores, relations and queues
// are the round's.
type seats struct{ *round }

// shaped says whether a group has more to it than a number of pods: parts, ranks, or
// wishes about where it is, its own or of those around it.
func (r *round) shaped(id cluster.GroupID) bool {
	v := r.txn.View()
	for g := id; g != cluster.None; g = v.Group(g).Parent {
		if row := v.Group(g); len(row.Topology) > 0 || row.Comm != cluster.CommNone || row.Children > 0 || row.Parent != cluster.None {
			return true
		}
	}
	return r.squads != nil && r.squads[id].ranked
}

// search is the search for places of units, on an atlas that is up to date.
func (r *round) search() *gang.Search {
	if r.retries == 0 {
		if r.retries = r.cycle.Budget; r.retries <= 0 {
			r.retries = defaultBudget
		}
		r.retries++ // 0 is for never asked
	}
	v := r.txn.View()
	return &gang.Search{
		View: v, Atlas: r.memo.drawn(v), Seats: seats{r}, Seed: r.cycle.Seed, Left: &r.retries, Gather: r.policy.Choose == nil,
	}
}

// arrange places what a unit lacks in a domain, or nothing: then it says why. The
// zero spot is the cluster, or what those above the unit have to share.
func (r *round) arrange(unit cluster.GroupID, within cluster.Spot) *decision.Reason {
	s := r.search()
	in := s.Region(r.txn.View().Group(unit).Parent)
	if within.Set {
		at := s.Atlas.Find(within)
		switch {
		case at == gang.Nowhere || !s.Atlas.Contains(in, at) && !s.Atlas.Contains(at, in):
			return &decision.Reason{Code: decision.GroupRoom, Group: unit}
		case s.Atlas.Contains(in, at):
			in = at
		}
	}
	done, why := s.Place(unit, in)
	if done {
		return nil
	}
	if why.Code == decision.GaveUp {
		budget := r.cycle.Budget
		if budget <= 0 {
			budget = defaultBudget
		}
		why.Need, why.Have, why.Group = budget, budget, unit
	}
	return why
}

// seatMore seats a pod that is placed by itself: where the group that it belongs to
// is, if that has to stay together.
func (r *round) seatMore(pod cluster.PodID) bool {
	id := r.txn.View().Pod(pod).Spec.Group
	if e := r.elasticOf(id); e != nil {
		return r.seatWorker(e, pod)
	}
	if id == cluster.None || !r.shaped(id) && r.txn.View().Group(id).Wished == 0 {
		return r.seat(pod)
	}
	if r.sated(id) {
		return false
	}
	if !r.wishful(id) {
		return r.seat(pod)
	}
	for _, where := range r.search().Confined(id) {
		if (seats{r}).Seat(pod, where) {
			return true
		}
	}
	return false
}

// sated says whether a group has as many members as it wished for.
func (r *round) sated(id cluster.GroupID) bool {
	g := r.txn.View().Group(id)
	return g.Wished > 0 && g.Placed >= g.Wished
}

// wishful says whether a group, or one above it, has wishes about where it is.
func (r *round) wishful(id cluster.GroupID) bool {
	v := r.txn.View()
	for g := id; g != cluster.None; g = v.Group(g).Parent {
		if len(v.Group(g).Topology) > 0 {
			return true
		}
	}
	return false
}

// confinement is what binds a pod that is placed by itself beside its group; nil
// where the group does not say where it goes.
func (r *round) confinement(pod cluster.PodID) *decision.Reason {
	v := r.txn.View()
	id := v.Pod(pod).Spec.Group
	if id == cluster.None || !v.Stands(id) {
		return nil
	}
	if r.sated(id) {
		return &decision.Reason{Code: decision.GroupWished, Need: int64(v.Group(id).Wished), Group: id}
	}
	if !r.wishful(id) {
		return nil
	}
	all := r.search().Confined(id)
	where := all[len(all)-1]
	if !where.Spot.Set {
		return nil
	}
	why := seats{r}.Binds(pod, where)
	why.Domain = where.Spot
	return &why
}

// Waiting lists the members of a group whose turn it is.
func (s seats) Waiting(id cluster.GroupID) []cluster.PodID {
	if s.squads == nil {
		return nil
	}
	own := &s.squads[id]
	if !own.ordered {
		s.inOrder(own.own)
		own.ordered = true
	}
	return s.unseated(own.own)
}

// Count counts a shape.
func (s seats) Count(shape cluster.ShapeID) *gang.Count { return s.memo.counted(s.txn.View(), shape) }

// Attempt does something that may be regretted.
func (s seats) Attempt(do func() bool) bool { return s.attempt(do) }

// Seat places a pod on the best of some nodes.
func (s seats) Seat(pod cluster.PodID, where gang.Where) bool {
	v := s.txn.View()
	spec := v.Pod(pod).Spec
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more || where.First && i > 0 {
			return false
		}
		if s.isFull(shape) || !fit.Queue(v, pod, shape).None() {
			continue
		}
		node := cluster.NodeID(cluster.None)
		if where.Nodes == nil {
			node = s.choose(pod, shape)
		} else {
			node = s.chooseAmong(pod, shape, where)
		}
		if node != cluster.None && s.take(pod, shape, node, where.Island) {
			return true
		}
	}
}

// chooseAmong is choose for some nodes.
func (r *round) chooseAmong(pod cluster.PodID, shape cluster.ShapeID, where gang.Where) cluster.NodeID {
	v := r.txn.View()
	if refuser := r.refuserOf(pod); refuser != cluster.None && slices.Contains(where.Nodes, refuser) {
		others := where
		others.Nodes = slices.DeleteFunc(slices.Clone(where.Nodes), func(n cluster.NodeID) bool { return n == refuser })
		if node := r.chooseAmong(pod, shape, others); node != cluster.None {
			return node
		}
	}
	pass := func(cluster.NodeID) bool { return true }
	if kin := v.Ties(pod); kin != 0 {
		b := r.memo.tied(v, tie{kin: kin, shape: shape})
		pass = func(node cluster.NodeID) bool { return b.Check(v, node).None() }
	}
	if r.minds(pod) != nil {
		own := pass
		pass = func(node cluster.NodeID) bool {
			if !own(node) {
				return false
			}
			_, ok := r.beside(pod, shape, node, where.Island)
			return ok
		}
	}
	if where.Island != cluster.None {
		own := pass
		pass = func(node cluster.NodeID) bool { return fit.Slots(v, shape, node, where.Island) > 0 && own(node) }
	}
	if r.policy.Choose != nil {
		s := r.memo.refresh(v, shape)
		var feasible []cluster.NodeID
		for _, node := range where.Nodes {
			if s.values[node] != unfit && pass(node) {
				feasible = append(feasible, node)
			}
		}
		if len(feasible) == 0 {
			return cluster.None
		}
		return r.policy.Choose(v, r.cycle, pod, feasible)
	}
	if r.looksAhead() {
		in := make(map[cluster.NodeID]bool, len(where.Nodes))
		for _, node := range where.Nodes {
			in[node] = true
		}
		return r.memo.firstOf(v, shape, func(node cluster.NodeID) bool { return in[node] && pass(node) })
	}
	node, value := r.memo.bestOf(v, shape, where.Nodes, pass)
	if last := v.Pod(pod).LastNode; node != cluster.None && last != cluster.None && r.policy.Affinity > 0 {
		if back, _ := r.memo.bestOf(v, shape, within(where.Nodes, last), pass); back != cluster.None && r.memo.value(v, shape, last)+r.policy.Affinity > value {
			return last
		}
	}
	return node
}

// within is the node alone, if it is among some.
func within(nodes []cluster.NodeID, node cluster.NodeID) []cluster.NodeID {
	for i := range nodes {
		if nodes[i] == node {
			return nodes[i : i+1]
		}
	}
	return nil
}

// bestOf returns the best of some nodes that pass a check, and its score.
func (m *Memo) bestOf(v *cluster.View, id cluster.ShapeID, nodes []cluster.NodeID, pass func(cluster.NodeID) bool) (cluster.NodeID, int64) {
	s := m.refresh(v, id)
	m.reprice(v)
	best, score := int32(cluster.None), int64(unfit)
	for _, node := range nodes {
		value := s.values[node]
		if value == unfit {
			continue
		}
		value -= m.prices.Of(s.takes[node])
		if ahead := best < 0 || value > score || value == score && earlier(m.ties, int32(node), best); ahead && pass(node) {
			best, score = int32(node), value
		}
	}
	return cluster.NodeID(best), score
}

// Binds says what keeps a pod off some nodes: of its shapes, the one that came
// closest speaks for it.
func (s seats) Binds(pod cluster.PodID, where gang.Where) decision.Reason {
	if where.Nodes == nil {
		return *s.bindingOf(pod)
	}
	v := s.txn.View()
	spec := v.Pod(pod).Spec
	var out decision.Reason
	for i := 0; ; i++ {
		shape, more := spec.Asks(i)
		if !more {
			return out
		}
		own := fit.Queue(v, pod, shape)
		if own.None() {
			own = s.among(pod, shape, where)
		}
		if own.Code > out.Code {
			out = own
		}
	}
}

// among is what binds a shape on some nodes.
func (s seats) among(pod cluster.PodID, shape cluster.ShapeID, where gang.Where) decision.Reason {
	v := s.txn.View()
	of := tie{kin: v.Ties(pod), shape: shape}
	var tally fit.Tally
	for _, node := range where.Nodes {
		why := s.check(of, node)
		if why.None() && where.Island != cluster.None {
			why = fit.Linked(v, shape, node, where.Island)
		}
		if !why.None() {
			tally.Set(node, why)
		}
	}
	out := tally.Reason()
	if out.Code == decision.NoNodes {
		return *s.keptOff(pod)
	}
	return out
}

// Queue says whether the queue of a pod has room for so many like it.
func (s seats) Queue(pod cluster.PodID, count int32) decision.Reason {
	v := s.txn.View()
	spec := v.Pod(pod).Spec
	milli, least := v.Shape(spec.Shape).Milli(), int64(math.MaxInt64)
	var why decision.Reason
	for q := spec.Queue; q != cluster.None && milli > 0; q = v.Queues.At(int32(q)).Parent {
		row := v.Queues.At(int32(q))
		if row.LimitMilli == 0 {
			continue
		}
		if room := int64(max(row.LimitMilli-row.UsedMilli, 0) / milli); room < min(least, int64(count)) {
			least = room
			why = decision.Reason{
				Code: decision.QueueLimit, Need: int64(row.UsedMilli + quantity.MilliGPU(room+1)*milli), Have: int64(row.LimitMilli), Queue: q, Seated: int32(room),
			}
		}
	}
	return why
}

// Move gives seated pods other places; what speaks for a place stays with it.
func (s seats) Move(pods []cluster.PodID, places []cluster.Placement) bool {
	v := s.txn.View()
	because := make([]decision.Explanation, len(places))
	for i := range places {
		for _, pod := range pods {
			if own := &v.Pod(pod).Placement; own.Node == places[i].Node && sameGrants(own, &places[i]) {
				because[i] = s.because[pod]
			}
		}
	}
	for _, pod := range pods {
		if s.txn.Evict(pod) != nil {
			return false
		}
	}
	for i, pod := range pods {
		if s.txn.Place(pod, places[i]) != nil {
			return false
		}
		s.because[pod] = because[i]
		s.memo.touch(places[i].Node)
	}
	return true
}

func sameGrants(a, b *cluster.Placement) bool {
	if len(a.Grants) != len(b.Grants) {
		return false
	}
	for i := range a.Grants {
		if a.Grants[i] != b.Grants[i] {
			return false
		}
	}
	return true
}

// roomsKept bounds how many counts of shapes a memo keeps: each has a row per place.
const roomsKept = 256

// rooms is a count in the memo: it follows the nodes that changed.
type rooms struct {
	*gang.Count
	read  int    // how far into dirty
	epoch uint64 // of dirty
}

// drawn returns the atlas, drawn anew where nodes or domains are not what they were.
func (m *Memo) drawn(v *cluster.View) *gang.Atlas {
	if m.atlas != nil && m.atlas.Of(v) && m.atlasEpoch == m.epoch {
		same := true
		for _, node := range m.dirty[m.atlasRead:] {
			same = same && m.atlas.Shows(v, node)
		}
		if m.atlasRead = len(m.dirty); same {
			return m.atlas
		}
	}
	if m.atlas == nil || !m.atlas.Of(v) || !m.shows(v) {
		m.atlas, m.rooms = gang.NewAtlas(v, true), nil
	}
	m.atlasRead, m.atlasEpoch = len(m.dirty), m.epoch
	return m.atlas
}

// shows says whether the atlas has every node as it is.
func (m *Memo) shows(v *cluster.View) bool {
	for i := range v.Nodes.Len() {
		if !m.atlas.Shows(v, cluster.NodeID(i)) {
			return false
		}
	}
	return true
}

// counted returns the count of a shape, brought up to date.
func (m *Memo) counted(v *cluster.View, shape cluster.ShapeID) *gang.Count {
	a := m.drawn(v)
	c := m.rooms[shape]
	switch {
	case c == nil:
		if m.rooms == nil || len(m.rooms) >= roomsKept {
			m.rooms = make(map[cluster.ShapeID]*rooms)
		}
		c = &rooms{Count: gang.NewCount(v, a, shape)}
		m.rooms[shape] = c
	case c.epoch != m.epoch:
		c.FollowAll(v)
	default:
		for _, node := range m.dirty[c.read:] {
			c.Follow(v, node)
		}
	}
	c.read, c.epoch = len(m.dirty), m.epoch
	return c.Count
}

// holds is how many pods of a shape the cluster would hold if it were empty.
func (m *Memo) holds(v *cluster.View, shape cluster.ShapeID) int64 {
	sum := int64(0)
	single := v.Facts.Single(shape, v.Shape(shape))
	known := make([]int64, v.Classes.Len())
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		class := n.Spec.Class
		switch {
		case n.Life == cluster.LifeOff:
		case single || class == cluster.None:
			sum += int64(fit.Capacity(v, shape, cluster.NodeID(i), cluster.None))
		default:
			if known[class] == 0 {
				known[class] = 1 + int64(fit.Capacity(v, shape, cluster.NodeID(i), cluster.None))
			}
			sum += known[class] - 1
		}
	}
	return sum
}
