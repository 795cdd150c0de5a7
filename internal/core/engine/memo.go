package engine

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/warm"
)

// Memo keeps scores between cycles. It is a cache: its owner may drop it at any
// time, hand in a stale one, or one from another world; the plan is the same.
// The zero value is ready. A Memo serves one Decide at a time.
//
// Per shape it keeps the score of each node beside the State that the node had
// when it was scored, and heaps over them. A node is looked at again only when it
// is on the change log and its State differs, so that a warm decision costs the
// changed nodes times the depth of a heap.
type Memo struct {
	policy   *Policy
	world    cluster.View // only its lineage is looked at
	facts    *cluster.Facts
	beliefs  *cluster.Beliefs
	seed     int64
	revision uint64 // rises when the beliefs change
	position uint64 // of the world's change log, up to which dirty is complete

	// dirty lists nodes that may have changed, in order; each shape has read it
	// up to a point. epoch rises when the list is cut: then all nodes may have
	// changed.
	dirty []cluster.NodeID
	epoch uint64

	ties    []uint64 // per node
	hosts   []uint32 // per node: its generation when the tie was taken
	shapes  map[cluster.ShapeID]*scores
	answers []answer
	held    int // rows over all shapes
	bonds   map[tie]*bonds
	clock   uint64

	// Where nodes are, and how many pods of each shape there is room for where.
	atlas      *gang.Atlas
	rooms      map[cluster.ShapeID]*rooms
	atlasRead  int    // how far into dirty
	atlasEpoch uint64 // of dirty

	expect *warm.Expectations // nil: nobody has asked

	// What nodes offer of scarce things, where the policy prices them.
	offers []rank.Offers // per node
	counts rank.Counts
	prices rank.Prices
	priced bool
	read   int    // how far offers have followed dirty
	seen   uint64 // the epoch they are of
}

// answer is one line of a direct-mapped cache over (shape, node state): nodes
// that are alike share one answer.
type answer struct {
	key      uint64
	revision uint64 // of the beliefs that the value rests on
	value    int64
	takes    uint64
	why      decision.Reason // of an unfit node
}

const (
	answerLines = 1 << 15
	// dirtyKept bounds the list of changed nodes; a shape not seen for longer
	// compares all nodes.
	dirtyKept = 1 << 16
	// rowsKept bounds the memory of a memo: about 48 bytes a row.
	rowsKept = 16 << 20
)

// unfit is the value of a node that the shape does not fit on.
const unfit = math.MinInt64

// sync brings the memo to the snapshot; what no longer holds is dropped.
func (m *Memo) sync(v *cluster.View, c decision.Cycle, p *Policy) {
	same := m.policy == p && m.world.SameWorld(v) && m.seed == c.Seed
	if m.shapes == nil || !same {
		answers := m.answers
		*m = Memo{policy: p, facts: v.Facts, beliefs: v.Beliefs, seed: c.Seed, shapes: make(map[cluster.ShapeID]*scores)}
		m.world.Adopt(v)
		if answers == nil {
			answers = make([]answer, answerLines)
		}
		clear(answers)
		m.answers = answers
	}
	m.learn(v)
	if !v.Beliefs.ScoresAs(m.beliefs) {
		// What fits still fits; only what it is worth has changed.
		m.offers = nil
		m.revision++
	}
	m.beliefs = v.Beliefs
	changed, complete := v.ChangesSince(m.position)
	if !complete || len(m.dirty)+len(changed) > dirtyKept {
		m.forgetDirty()
	} else {
		m.dirty = append(m.dirty, changed...)
	}
	m.position = v.Position()
	for i := len(m.ties); i < v.Nodes.Len(); i++ {
		m.ties = append(m.ties, p.tie(v, c, cluster.NodeID(i)))
		m.hosts = append(m.hosts, v.Node(cluster.NodeID(i)).Generation)
	}
	if !complete {
		for i := range v.Nodes.Len() {
			m.welcome(v, c, cluster.NodeID(i))
		}
	}
	for _, node := range changed {
		m.welcome(v, c, node)
	}
	m.priced = false
}

// learn drops the scores of the shapes about which other facts are known now.
// Answers are never shared where there are facts.
func (m *Memo) learn(v *cluster.View) {
	if m.facts == v.Facts {
		return
	}
	// order: each shape is looked at alone.
	for id, s := range m.shapes {
		other := !slices.Equal(m.facts.Of(id), v.Facts.Of(id))
		for _, r := range v.Shape(id).Devices {
			other = other || !slices.Equal(m.facts.Meeting(r.Selector), v.Facts.Meeting(r.Selector)) ||
				!slices.Equal(m.facts.PartsMeeting(r.Selector), v.Facts.PartsMeeting(r.Selector))
		}
		if other {
			m.held -= len(s.states)
			delete(m.shapes, id)
		}
	}
	m.facts, m.rooms = v.Facts, nil
}

// welcome drops what is kept when a row has become another node's: ties and
// labels may differ where the State is the same.
func (m *Memo) welcome(v *cluster.View, c decision.Cycle, node cluster.NodeID) {
	if n := v.Node(node); m.hosts[node] != n.Generation {
		m.hosts[node], m.ties[node] = n.Generation, m.policy.tie(v, c, node)
		clear(m.shapes)
		m.held, m.atlas = 0, nil
	}
}

func (m *Memo) forgetDirty() {
	m.dirty = m.dirty[:0]
	m.epoch++
}

// touch tells that a node of the transaction changed.
func (m *Memo) touch(node cluster.NodeID) { m.dirty = append(m.dirty, node) }

// stand changes whenever a node may have; it is never zero.
func (m *Memo) stand() uint64 { return (m.epoch+1)<<32 | uint64(len(m.dirty)) }

// close ends a cycle: what the transaction touched may be otherwise in the next
// snapshot.
func (m *Memo) close(t *cluster.Txn) {
	touched, complete := t.TouchedNodes()
	if !complete || len(m.dirty)+len(touched) > dirtyKept {
		m.forgetDirty()
		return
	}
	m.dirty = append(m.dirty, touched...)
}

// best returns the node with the highest score for the shape, and that score.
func (m *Memo) best(v *cluster.View, id cluster.ShapeID) (cluster.NodeID, int64) {
	s := m.refresh(v, id)
	m.reprice(v)
	best, score := int32(cluster.None), int64(unfit)
	for i := range s.lanes {
		l := &s.lanes[i]
		node := s.top(l, m.ties)
		if node < 0 {
			continue
		}
		if value := s.values[node] - m.prices.Of(l.takes); best < 0 || value > score || value == score && earlier(m.ties, node, best) {
			best, score = node, value
		}
	}
	return cluster.NodeID(best), score
}

// bestForAll returns the best node for one pod of the shape among those whose free
// amounts and idle devices are enough for so many of them.
func (m *Memo) bestForAll(v *cluster.View, id cluster.ShapeID, pods int) cluster.NodeID {
	s, shape := m.refresh(v, id), v.Shape(id)
	m.reprice(v)
	need, idle := shape.Need, int32(0)
	for range pods - 1 {
		need = need.Plus(&shape.Need)
	}
	for i := range shape.Devices {
		if d := &shape.Devices[i]; d.Whole() {
			idle += d.Count * int32(pods)
		}
	}
	best, score := int32(cluster.None), int64(unfit)
	for i, value := range s.values {
		if value == unfit {
			continue
		}
		node := int32(i)
		if value -= m.prices.Of(s.takes[i]); best >= 0 && (value < score || value == score && !earlier(m.ties, node, best)) {
			continue
		}
		n := v.Node(cluster.NodeID(node))
		if _, short := n.Free.ShortOf(&need); !short && n.IdleDevices >= idle {
			best, score = node, value
		}
	}
	return cluster.NodeID(best)
}

// reprice brings offers, counts and prices up to date.
func (m *Memo) reprice(v *cluster.View) {
	scarce := m.policy.Scarce
	if scarce == nil || m.priced && m.read == len(m.dirty) && m.seen == m.epoch {
		return
	}
	if m.offers == nil || m.seen != m.epoch || len(m.offers) != v.Nodes.Len() {
		m.offers, m.counts, m.seen = make([]rank.Offers, v.Nodes.Len()), rank.Counts{}, m.epoch
		for i := range m.offers {
			m.recount(v, cluster.NodeID(i))
		}
	} else {
		for _, node := range m.dirty[m.read:] {
			m.recount(v, node)
		}
	}
	m.read, m.priced = len(m.dirty), true
	m.prices = scarce.Prices(v, &m.counts)
}

func (m *Memo) recount(v *cluster.View, node cluster.NodeID) {
	if int(node) >= len(m.offers) {
		return
	}
	now, before := m.policy.Scarce.Offers(v, node), &m.offers[node]
	m.counts.Replace(before, &now)
	*before = now
}

// value returns the score of one node, unfit where the shape does not fit.
func (m *Memo) value(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) int64 {
	s := m.refresh(v, id)
	m.reprice(v)
	if s.values[node] == unfit {
		return unfit
	}
	return s.values[node] - m.prices.Of(s.takes[node])
}

// refresh brings the scores of a shape up to date.
func (m *Memo) refresh(v *cluster.View, id cluster.ShapeID) *scores {
	m.clock++
	s := m.shapes[id]
	n := v.Nodes.Len()
	if s == nil || len(s.states) != n {
		if s != nil {
			m.held -= len(s.states)
		}
		m.makeRoom(n)
		s = newScores(n)
		m.shapes[id] = s
		m.held += n
		s.epoch, s.read = m.epoch, len(m.dirty)
		m.scanAll(v, id, s)
	}
	s.used = m.clock
	switch {
	case s.epoch != m.epoch || s.revision != m.revision:
		m.scanAll(v, id, s)
	default:
		for _, node := range m.dirty[s.read:] {
			if int(node) < n && s.states[node] != m.stateKey(v, node) {
				m.rescore(v, id, s, node)
			}
		}
	}
	s.epoch, s.read = m.epoch, len(m.dirty)
	return s
}

// makeRoom drops the shapes unused for longest until n more rows are allowed.
func (m *Memo) makeRoom(n int) {
	for m.held+n > rowsKept && len(m.shapes) > 0 {
		oldest, at := cluster.ShapeID(cluster.None), uint64(math.MaxUint64)
		// order: clocks are unique, so the minimum does not depend on the order.
		for id, s := range m.shapes {
			if s.used < at {
				oldest, at = id, s.used
			}
		}
		m.held -= len(m.shapes[oldest].states)
		delete(m.shapes, oldest)
	}
}

// scanAll compares every node; under new beliefs those that fit are scored anew.
func (m *Memo) scanAll(v *cluster.View, id cluster.ShapeID, s *scores) {
	for i := range s.states {
		node := cluster.NodeID(i)
		if s.states[i] != m.stateKey(v, node) || s.revision != m.revision && s.values[i] != unfit {
			m.rescore(v, id, s, node)
		}
	}
	s.revision = m.revision
}

// stateKey is never zero, so that a fresh row always differs.
func (m *Memo) stateKey(v *cluster.View, node cluster.NodeID) uint64 {
	n := v.Node(node)
	if m.policy.Residents {
		return chance.Fold(n.State, n.Residents) | 1
	}
	return n.State | 1
}

func (m *Memo) rescore(v *cluster.View, id cluster.ShapeID, s *scores, node cluster.NodeID) {
	a := m.answer(v, id, node)
	s.states[node] = m.stateKey(v, node)
	s.set(node, a.value, a.takes, m.ties)
	if v.Node(node).Life == cluster.LifeOff {
		s.tally.Clear(node)
	} else {
		s.tally.Set(node, a.why)
	}
}

// answer judges and scores one node, or remembers an alike one.
func (m *Memo) answer(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) answer {
	shape := v.Shape(id)
	key := chance.Fold(shape.Key, m.stateKey(v, node))
	line := &m.answers[key%answerLines]
	// Facts and selectors may single out a node by name: no sharing then.
	shared := !v.Facts.Single(id, shape) && len(shape.Selector) == 0
	known := shared && line.key == key
	if known && (line.revision == m.revision || line.value == unfit) {
		return *line
	}
	a := answer{key: key, revision: m.revision, value: unfit}
	if !known {
		a.why = fit.Check(v, id, node)
	}
	if a.why.None() {
		switch a.value = 0; {
		case m.policy.Scarce != nil:
			a.value, a.takes = m.policy.Scarce.Weigh(v, id, node)
		case m.policy.Score != nil:
			a.value = m.policy.Score(v, id, node)
		}
		a.value = max(a.value, unfit+1)
	}
	if shared {
		*line = a
	}
	return a
}

// reason returns why the shape fits nowhere.
func (m *Memo) reason(v *cluster.View, id cluster.ShapeID) decision.Reason {
	return m.refresh(v, id).tally.Reason()
}

// feasible lists the nodes that the shape fits on, by id.
func (m *Memo) feasible(v *cluster.View, id cluster.ShapeID) []cluster.NodeID {
	s := m.refresh(v, id)
	var out []cluster.NodeID
	for i, value := range s.values {
		if value != unfit {
			out = append(out, cluster.NodeID(i))
		}
	}
	return out
}
