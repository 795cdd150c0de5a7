package warm

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Search is one cycle's look at caches.
type Search struct {
	txn    *cluster.Txn
	rules  *Rules
	now    moment.Instant
	expect *Expectations
	ring   []cluster.NodeID // nodes with caches, by key
	queues map[cluster.NodeID]*queue
	// Prefers, where set, is how good a node is for a shape now, whatever is cached there.
	Prefers func(shape cluster.ShapeID, node cluster.NodeID) int64
	counts  []int // copies, by row of expect, plus one; 0: not counted
}

// Open begins a look, with what Expect has made of the beliefs.
func Open(t *cluster.Txn, rules *Rules, expect *Expectations, now moment.Instant) *Search {
	return &Search{
		txn: t, rules: rules, now: now, expect: expect,
		queues: make(map[cluster.NodeID]*queue), counts: make([]int, len(expect.rows)),
	}
}

func (s *Search) view() *cluster.View { return s.txn.View() }

// Serve fetches what a pod lacks on the node that it has got, as far as the disk has room.
func (s *Search) Serve(needs []cluster.ArtifactID, node cluster.NodeID) {
	v := s.view()
	for _, id := range needs {
		c := v.Node(node).Cache
		if c == nil || c.Find(id) >= 0 || c.Awaits(id) >= 0 {
			continue
		}
		drops, _, ok := s.room(node, v.Artifact(id).Size, needs)
		if !ok {
			continue // the node makes room as for any pull
		}
		s.fetch(cluster.Prefetch{Node: node, Artifact: id, Drops: drops, Urgent: true, Saves: int64(c.Takes(v.Artifact(id)) / moment.Millisecond)})
	}
}

// Send fetches all that a pod lacks on the node that it is to get, or nothing where that
// cannot be: only pods fetch some of it, or the disk has no room for all. It says whether
// all is there or on its way.
func (s *Search) Send(needs []cluster.ArtifactID, node cluster.NodeID) bool {
	v := s.view()
	c, need := v.Node(node).Cache, quantity.Bytes(0)
	if c == nil {
		return false
	}
	for _, id := range needs {
		a := v.Artifact(id)
		switch {
		case c.Find(id) >= 0 || c.Awaits(id) >= 0:
		case a.ByPods:
			return false
		default:
			need += a.Size
		}
	}
	if need == 0 {
		return true
	}
	if _, _, ok := s.room(node, need, needs); !ok {
		return false
	}
	s.Serve(needs, node)
	return true
}

func (s *Search) fetch(f cluster.Prefetch) bool {
	if err := s.txn.Prefetch(f); err != nil {
		return false
	}
	clear(s.queues) // copies have come and gone
	clear(s.counts)
	return true
}

// queue is what may go from a node, what is worth the least per byte first, as far as
// anybody has asked.
type queue struct {
	gaps
	may    []cluster.Held // not in line yet
	losses []int64        // of gaps.gone, one by one
}

// queueOf lists what may go from a node but for what is kept.
func (s *Search) queueOf(node cluster.NodeID, kept []cluster.ArtifactID) *queue {
	v, base := s.view(), s.txn.Base()
	q := &queue{gaps: gaps{cache: v.Node(node).Cache}}
	for _, h := range q.cache.Held {
		if !v.Artifact(h.Artifact).Pinned && !slices.Contains(kept, h.Artifact) && !v.Uses(node, h.Artifact) && !base.Uses(node, h.Artifact) {
			q.may = append(q.may, h)
		}
	}
	return q
}

// extend puts the next in line; it says no where nothing is left.
func (s *Search) extend(q *queue) bool {
	best, lost, density := -1, int64(0), int64(0)
	for i, h := range q.may {
		own := s.loss(&q.gaps, h.Artifact)
		each := quantity.MulDiv(own, 1<<20, int64(s.view().Artifact(h.Artifact).Size))
		if best < 0 || each < density || each == density && s.sooner(h, q.may[best]) {
			best, lost, density = i, own, each
		}
	}
	if best < 0 {
		return false
	}
	q.gone, q.losses = append(q.gone, q.may[best].Artifact), append(q.losses, lost)
	q.may = slices.Delete(q.may, best, best+1)
	return true
}

// room says what goes from a node for so many bytes more, and what is lost with it. What
// is kept stays.
func (s *Search) room(node cluster.NodeID, need quantity.Bytes, kept []cluster.ArtifactID) (drops []cluster.ArtifactID, loss int64, ok bool) {
	c := s.view().Node(node).Cache
	free := c.Disk - c.Taken
	if free >= need {
		return nil, 0, true
	}
	if !s.rules.Drops {
		return nil, 0, false
	}
	q := s.queues[node]
	if q == nil {
		q = s.queueOf(node, nil)
		s.queues[node] = q
	}
	for i := 0; free < need; i++ {
		if i == len(q.gone) && !s.extend(q) {
			return nil, 0, false
		}
		if slices.Contains(kept, q.gone[i]) {
			q, i, free, loss = s.queueOf(node, kept), -1, c.Disk-c.Taken, 0 // one of its own
			continue
		}
		loss += q.losses[i]
		free += s.view().Artifact(q.gone[i]).Size
		drops = q.gone[:i+1]
	}
	return s.needed(slices.Clone(drops), free-need), loss, true
}

// needed leaves out what need not go after all, the most worthy first.
func (s *Search) needed(gone []cluster.ArtifactID, spare quantity.Bytes) []cluster.ArtifactID {
	for i := len(gone) - 1; i >= 0; i-- {
		if size := s.view().Artifact(gone[i]).Size; size <= spare {
			spare -= size
			gone = slices.Delete(gone, i, i+1)
		}
	}
	return gone
}

// sooner says which of two that are worth as much goes first: what was used longest ago.
func (s *Search) sooner(a, b cluster.Held) bool {
	return cmp.Or(cmp.Compare(a.Used, b.Used), cmp.Compare(s.view().Artifact(a.Artifact).Key, s.view().Artifact(b.Artifact).Key)) < 0
}

// wish is a kind of work, with what one more copy of what it needs would save at most.
type wish struct {
	row   int32
	saves int64
}

// Ahead fetches copies of what is expected to be needed, as long as they are worth more
// than what goes for them.
func (s *Search) Ahead() {
	if !s.rules.Ahead || len(s.expect.rows) == 0 {
		return
	}
	s.survey()
	if len(s.ring) == 0 {
		return
	}
	for _, w := range s.wishes() {
		s.grant(&s.expect.rows[w.row])
	}
}

// survey lists the nodes with caches by the hash of their names.
func (s *Search) survey() {
	v := s.view()
	for i := range v.Nodes.Len() {
		if n := v.Node(cluster.NodeID(i)); n.Cache != nil && n.TakesWork() {
			s.ring = append(s.ring, cluster.NodeID(i))
		}
	}
	slices.SortFunc(s.ring, func(a, b cluster.NodeID) int {
		return cmp.Or(cmp.Compare(v.Node(a).Key, v.Node(b).Key), cmp.Compare(a, b))
	})
}

// wishes lists the kinds of which one more copy would save the most.
func (s *Search) wishes() []wish {
	any := gaps{cache: s.view().Node(s.ring[0]).Cache}
	var out []wish
	for i := range s.expect.rows {
		row := &s.expect.rows[i]
		full := gaps{cache: any.cache, come: row.Artifacts}
		none := gaps{cache: any.cache, gone: row.Artifacts}
		if saves := s.worth(row, s.copies(row.Artifacts), &none, &full); saves >= int64(s.rules.Least) {
			out = append(out, wish{int32(i), saves})
		}
	}
	slices.SortFunc(out, func(a, b wish) int { return cmp.Or(-cmp.Compare(a.saves, b.saves), cmp.Compare(a.row, b.row)) })
	return out[:min(len(out), s.rules.Kinds)]
}

// plan is a way to grant a wish.
type plan struct {
	node  cluster.NodeID
	net   int64
	good  int64 // how good the node is
	lacks []cluster.ArtifactID
}

// grant fetches what a kind needs to the node where that saves the most, if it does.
func (s *Search) grant(row *cluster.Arrival) {
	v := s.view()
	others := s.copies(row.Artifacts)
	start := int(chance.HashString(v.Symbols.Text(row.Kind)) % uint64(len(s.ring)))
	best := plan{node: cluster.None}
	for i := range min(len(s.ring), s.rules.Nodes) {
		node := s.ring[(start+i)%len(s.ring)]
		p, ok := s.weigh(row, node, others)
		if !ok {
			continue
		}
		if s.Prefers != nil {
			p.good = s.Prefers(row.Shape, node)
		}
		if best.node == cluster.None || p.good > best.good || p.good == best.good && p.net > best.net {
			best = p
		}
	}
	if best.node == cluster.None {
		return
	}
	for _, id := range best.lacks {
		drops, _, ok := s.room(best.node, v.Artifact(id).Size, row.Artifacts)
		if !ok || !s.fetch(cluster.Prefetch{Node: best.node, Artifact: id, Drops: drops, Saves: best.net / 1000}) {
			return
		}
	}
}

// weigh says what it saves to have what a kind needs on a node, too.
func (s *Search) weigh(row *cluster.Arrival, node cluster.NodeID, others int) (plan, bool) {
	v := s.view()
	c := v.Node(node).Cache
	before := gaps{cache: c}
	p, need := plan{node: node}, quantity.Bytes(0)
	for _, id := range row.Artifacts {
		if before.lacks(id) {
			if v.Artifact(id).ByPods {
				return p, false
			}
			p.lacks = append(p.lacks, id)
			need += v.Artifact(id).Size
		}
	}
	if len(p.lacks) == 0 || need > c.Disk || s.busy(c, p.lacks) {
		return p, false
	}
	after := gaps{cache: c, come: p.lacks}
	gain := s.worth(row, others, &before, &after)
	if gain < int64(s.rules.Least) || fit.Capacity(v, row.Shape, node, cluster.None) < 1 {
		return p, false
	}
	_, loss, ok := s.room(node, need, row.Artifacts)
	if !ok {
		return p, false
	}
	p.net = gain - quantity.MulDiv(loss, int64(quantity.One+s.rules.Margin), int64(quantity.One))
	return p, p.net > 0
}

// busy says whether something of a sort is on its way to the node already: fetches ahead
// come one after the other, and none beside what a pod waits for.
func (s *Search) busy(c *cluster.Cache, wanted []cluster.ArtifactID) bool {
	for i := range c.Coming {
		for _, id := range wanted {
			if s.view().Artifact(c.Coming[i].Artifact).Sort == s.view().Artifact(id).Sort {
				return true
			}
		}
	}
	return false
}
