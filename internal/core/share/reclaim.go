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
	from, to := s.rowOf(taker), s.rowOf(victim)
	if from == to {
		return false
	}
	for at := from; !s.above(to, at); at = s.rows[at].parent {
		for k, d := range s.dims {
			if more := amount(need.Milli, &need.Rest, d); more > 0 && s.used(v, at, d)+more > s.rows[at].fair[k] {
				return false
			}
		}
	}
	return true
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
	for i := range s.rows {
		r := &s.rows[i]
		if len(r.children) > 0 || r.parent < 0 {
			continue
		}
		if above, _ := s.Above(v, taker, r.queue, need, need); above && s.Entitled(v, taker, r.queue, need) {
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
			sum += max(s.used(v, int32(i), cluster.DimMilli)-r.fair[0], 0)
		}
	}
	return sum
}
