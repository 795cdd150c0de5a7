package engine

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
)

// Memo keeps scores between cycles. It is a cache: its owner may drop it at any
// time, hand in a stale one, or one from another world; the plan is the same.
// The zero value is ready. A Memo serves one Decide at a time.
//
// Per shape it keeps the score of each node beside the State that the node had
// when it was scored, and a tournament over them. A node is looked at again only
// when it is on the change log and its State differs, so that a warm decision
// costs the changed nodes times the depth of the tournament.
type Memo struct {
	policy   *Policy
	world    cluster.View // only its lineage is looked at
	facts    *cluster.Facts
	beliefs  *cluster.Beliefs
	seed     int64
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
	clock   uint64
}

// answer is one line of a direct-mapped cache over (shape, node state): nodes
// that are alike share one answer.
type answer struct {
	key   uint64
	value int64
	why   decision.Reason // of an unfit node
}

const (
	answerLines = 1 << 15
	// dirtyKept bounds the list of changed nodes; a shape not seen for longer
	// compares all nodes.
	dirtyKept = 1 << 16
	// rowsKept bounds the memory of a memo: about 32 bytes a row.
	rowsKept = 16 << 20
)

// unfit is the value of a node that the shape does not fit on.
const unfit = math.MinInt64

// scores is what is kept per shape.
type scores struct {
	read   int    // how far into dirty
	epoch  uint64 // of dirty
	used   uint64 // clock of the last use
	states []uint64
	values []int64
	// winners is a heap-shaped tournament: winners[1] is the best node,
	// winners[leaves+i] is node i.
	winners []int32
	leaves  int
	// tally holds the nodes' reasons.
	tally fit.Tally
}

// sync brings the memo to the snapshot; what no longer holds is dropped.
func (m *Memo) sync(v *cluster.View, c decision.Cycle, p *Policy) {
	same := m.policy == p && m.world.SameWorld(v) && m.seed == c.Seed && m.facts == v.Facts && m.beliefs == v.Beliefs
	if m.shapes == nil || !same {
		answers := m.answers
		*m = Memo{policy: p, facts: v.Facts, beliefs: v.Beliefs, seed: c.Seed, shapes: make(map[cluster.ShapeID]*scores)}
		m.world = cluster.View{}
		m.world.Adopt(v)
		if answers == nil {
			answers = make([]answer, answerLines)
		}
		clear(answers)
		m.answers = answers
	}
	changed, complete := v.ChangesSince(m.position)
	if !complete || m.position > v.Position() || len(m.dirty)+len(changed) > dirtyKept {
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
}

// welcome drops what is kept when a row has become another node's: ties and
// labels may differ where the State is the same.
func (m *Memo) welcome(v *cluster.View, c decision.Cycle, node cluster.NodeID) {
	if n := v.Node(node); m.hosts[node] != n.Generation {
		m.hosts[node], m.ties[node] = n.Generation, m.policy.tie(v, c, node)
		clear(m.shapes)
		m.held = 0
	}
}

func (m *Memo) forgetDirty() {
	m.dirty = m.dirty[:0]
	m.epoch++
}

// touch tells that a node of the transaction changed.
func (m *Memo) touch(node cluster.NodeID) { m.dirty = append(m.dirty, node) }

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
	if s.leaves == 0 {
		return cluster.None, unfit
	}
	winner := s.winners[1]
	if winner < 0 || s.values[winner] == unfit {
		return cluster.None, unfit
	}
	return cluster.NodeID(winner), s.values[winner]
}

// value returns the score of one node, unfit where the shape does not fit.
func (m *Memo) value(v *cluster.View, id cluster.ShapeID, node cluster.NodeID) int64 {
	return m.refresh(v, id).values[node]
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
	case s.epoch != m.epoch:
		m.scanAll(v, id, s)
	default:
		for _, node := range m.dirty[s.read:] {
			if int(node) < n && s.states[node] != m.stateKey(v, node) {
				m.rescore(v, id, s, node)
				s.replay(m.ties, int32(node))
			}
		}
	}
	s.epoch, s.read = m.epoch, len(m.dirty)
	return s
}

func newScores(n int) *scores {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	if n == 0 {
		leaves = 0
	}
	return &scores{states: make([]uint64, n), values: make([]int64, n), winners: make([]int32, 2*leaves), leaves: leaves}
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

// scanAll compares every node and rebuilds the tournament.
func (m *Memo) scanAll(v *cluster.View, id cluster.ShapeID, s *scores) {
	for i := range s.states {
		if node := cluster.NodeID(i); s.states[i] != m.stateKey(v, node) {
			m.rescore(v, id, s, node)
		}
	}
	for i := range s.leaves {
		s.winners[s.leaves+i] = -1
		if i < len(s.states) {
			s.winners[s.leaves+i] = int32(i)
		}
	}
	for i := s.leaves - 1; i >= 1; i-- {
		s.winners[i] = s.better(m.ties, s.winners[2*i], s.winners[2*i+1])
	}
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
	s.values[node] = a.value
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
	shared := v.Facts == nil && len(shape.Selector) == 0
	if shared && line.key == key {
		return *line
	}
	a := answer{key: key, value: unfit, why: fit.Check(v, id, node)}
	if a.why.None() {
		if a.value = 0; m.policy.Score != nil {
			a.value = max(m.policy.Score(v, id, node), unfit+1)
		}
	}
	if shared {
		*line = a
	}
	return a
}

// better is the winner of two nodes: the higher score, the lower tie, the lower
// id.
func (s *scores) better(ties []uint64, a, b int32) int32 {
	switch {
	case b < 0:
		return a
	case a < 0:
		return b
	case s.values[a] != s.values[b]:
		if s.values[a] > s.values[b] {
			return a
		}
		return b
	case ties[a] < ties[b] || ties[a] == ties[b] && a < b:
		return a
	}
	return b
}

// replay plays the matches of one node again.
func (s *scores) replay(ties []uint64, node int32) {
	for i := (s.leaves + int(node)) / 2; i >= 1; i /= 2 {
		s.winners[i] = s.better(ties, s.winners[2*i], s.winners[2*i+1])
	}
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
