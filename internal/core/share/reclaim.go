package share

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Quota is what a queue can count on in this epoch.
func (s *Standing) Quota(q cluster.QueueID) cluster.Amount { return s.told(s.entry(q).quota) }

// Fair is what a queue can reclaim up to: its quota as far as it wants it, and its
// part of what nobody else does.
func (s *Standing) Fair(q cluster.QueueID) cluster.Amount { return s.told(s.entry(q).fair) }

// Deserved is what a queue was bought, scaled to what its parent has.
func (s *Standing) Deserved(q cluster.QueueID) cluster.Amount { return s.told(s.entry(q).deserved) }

// Demand is what a queue uses and waits for, those below it included.
func (s *Standing) Demand(q cluster.QueueID) cluster.Amount { return s.told(s.entry(q).demand) }

// entry is the row that speaks for a queue and all below it.
func (s *Standing) entry(q cluster.QueueID) *row {
	if q == cluster.None {
		return &s.rows[s.nobody()]
	}
	return &s.rows[q]
}

func (s *Standing) told(amounts []int64) cluster.Amount {
	out := cluster.Amount{Milli: quantity.MilliGPU(amounts[0])}
	for k, d := range s.dims[1:] {
		out.Rest = out.Rest.With(d, amounts[k+1])
	}
	return out
}

// Entitled says whether pods of one queue may take so much back from another: with
// it, the queue and those above it stay within their fair shares, up to where the
// two have a queue in common. Within one queue there is nothing to take back.
func (s *Standing) Entitled(v *cluster.View, taker, victim cluster.QueueID, need *cluster.Amount) bool {
	return s.ScopeOf(v, taker, need).Has(victim)
}

// Scope is from whom a queue may take something back: the queues below a row, its own
// excepted. The zero value is nobody.
type Scope struct {
	standing *Standing
	from, at int32
}

// ScopeOf is from whom pods of a queue may take so much back.
func (s *Standing) ScopeOf(v *cluster.View, taker cluster.QueueID, need *cluster.Amount) Scope {
	from := s.rowOf(taker)
	at := from
	for s.rows[at].parent >= 0 && s.stays(v, at, need) {
		at = s.rows[at].parent
	}
	if at == from {
		return Scope{}
	}
	return Scope{standing: s, from: from, at: at}
}

// stays says whether a row stays within its fair share with more.
func (s *Standing) stays(v *cluster.View, at int32, need *cluster.Amount) bool {
	for k, d := range s.dims {
		if more := amount(need.Milli, &need.Rest, d); more > 0 && s.used(v, at, d)+more > s.rows[at].fair[k] {
			return false
		}
	}
	return true
}

// Nobody says whether there is nobody in it.
func (c Scope) Nobody() bool { return c.standing == nil }

// Has says whether something may be taken from a queue, if it has more than its share.
func (c Scope) Has(q cluster.QueueID) bool {
	if c.standing == nil {
		return false
	}
	to := c.standing.rowOf(q)
	return to != c.from && c.standing.above(to, c.at)
}

// Row tells scopes apart.
func (c Scope) Row() int32 {
	if c.standing == nil {
		return -1
	}
	return c.at
}

// Alone says whether the queue that takes has nothing more in common with any other.
func (c Scope) Alone() bool { return c.standing == nil || c.standing.rows[c.from].parent == c.at }

// Near says whether a queue and the one that takes have more in common than the
// scope: fewer of those above it have a say then.
func (c Scope) Near(q cluster.QueueID) bool {
	if c.Alone() {
		return false
	}
	below := c.from
	for c.standing.rows[below].parent != c.at {
		below = c.standing.rows[below].parent
	}
	return c.standing.above(c.standing.rowOf(q), below)
}

// Over says whether a queue itself has more than its fair share of something that is
// needed, whatever those above it have.
func (s *Standing) Over(v *cluster.View, q cluster.QueueID, need *cluster.Amount) bool {
	at := s.rowOf(q)
	for k, d := range s.dims {
		if amount(need.Milli, &need.Rest, d) > 0 && s.used(v, at, d) > s.rows[at].fair[k] {
			return true
		}
	}
	return false
}

// Above says whether another queue, and those above it, up to where it has one in
// common with the taker, have more than their fair shares of something that the
// taker needs and the victim holds; and whether they would still have as much as
// their shares when the victim has given that up.
func (s *Standing) Above(v *cluster.View, taker, victim cluster.QueueID, need, gives *cluster.Amount) (above, stays bool) {
	from, to := s.rowOf(taker), s.rowOf(victim)
	stays = true
	for k, d := range s.dims {
		given := amount(gives.Milli, &gives.Rest, d)
		if given <= 0 {
			continue
		}
		over := true
		for at := to; !s.above(from, at); at = s.rows[at].parent {
			used := s.used(v, at, d)
			over = over && used > s.rows[at].fair[k]
			stays = stays && used-given >= s.rows[at].fair[k]
		}
		above = above || over && amount(need.Milli, &need.Rest, d) > 0
	}
	return above && from != to, stays
}

// Reclaims says whether pods of a queue may take so much back from any other at all:
// some queue is above its fair share of what they need, and they are entitled to take
// from it.
func (s *Standing) Reclaims(v *cluster.View, taker cluster.QueueID, need *cluster.Amount) bool {
	scope := s.ScopeOf(v, taker, need)
	if scope.Nobody() {
		return false
	}
	for i := range s.rows {
		r := &s.rows[i]
		if len(r.children) > 0 || r.parent < 0 || !s.Over(v, r.queue, need) || !scope.Has(r.queue) {
			continue
		}
		if above, _ := s.Above(v, taker, r.queue, need, need); above {
			return true
		}
	}
	return false
}

// above says whether row at is on the path from a row to the top.
func (s *Standing) above(from, at int32) bool {
	for ; from >= 0; from = s.rows[from].parent {
		if from == at {
			return true
		}
	}
	return false
}

// used is what a row uses now.
func (s *Standing) used(v *cluster.View, at int32, d cluster.Dim) int64 {
	r := &s.rows[at]
	if r.queue == cluster.None {
		return amount(v.Loose.Milli, &v.Loose.Rest, d)
	}
	q := v.Queue(r.queue)
	sum := amount(q.UsedMilli, &q.Used, d)
	if r.own {
		for _, sibling := range s.rows[r.parent].children {
			if c := &s.rows[sibling]; !c.own {
				below := v.Queue(c.queue)
				sum -= amount(below.UsedMilli, &below.Used, d)
			}
		}
	}
	return sum
}

// Potential is by how much queues use more compute than their fair shares. Each
// reclaim lowers it: the taker's queue stays within its share, and the victim's had
// more than its own. It is never below nothing, so reclaiming comes to an end.
func (s *Standing) Potential(v *cluster.View) int64 {
	sum := int64(0)
	for i := range s.rows {
		if r := &s.rows[i]; len(r.children) == 0 && r.parent >= 0 {
			sum += s.excessOf(v, int32(i))
		}
	}
	return sum
}

// Excess is what one queue adds to the potential.
func (s *Standing) Excess(v *cluster.View, q cluster.QueueID) int64 { return s.excessOf(v, s.rowOf(q)) }

func (s *Standing) excessOf(v *cluster.View, at int32) int64 {
	return max(s.used(v, at, cluster.DimMilli)-s.rows[at].fair[0], 0)
}
