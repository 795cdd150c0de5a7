package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// What follows is how running work gives way in a play: to what has run for less in its
// queue, and to queues below their shares. Most waits for a first start end so.

// loosen puts on the agenda when a run may have to give way next: when it comes to a
// higher tier, or is protected no longer.
func (p *playing) loosen(id cluster.PodID, of run, now moment.Instant) {
	rules := p.policy.Yields
	row := p.base.Pod(id)
	if rules == nil || row.Spec.Protected {
		return
	}
	next := moment.Instant(moment.Never)
	if free := of.bound.Add(rules.MinRun); of.moved && free > now {
		next = free
	}
	if j := p.base.JobOf(row); j != nil && j.Resumes() && !rules.PrioritiesAlone {
		ran := of.ran + now.Since(of.began)
		for _, end := range rules.Tiers {
			if end > ran {
				next = min(next, now.Add(end-ran))
				break
			}
		}
	}
	if next < of.ends {
		p.ends.add(id, next, true)
	}
}

// tierOf is the tier of a run at an instant.
func (p *playing) tierOf(id cluster.PodID, of run, at moment.Instant) int32 {
	rules := p.policy.Yields
	if j := p.base.JobOf(p.base.Pod(id)); j == nil || !j.Resumes() || rules.PrioritiesAlone {
		return 0
	}
	return rules.Tiers.After(of.ran + at.Since(of.began))
}

// press lets those start to whom runs that have just come loose give way.
func (p *playing) press(at moment.Instant) {
	if len(p.loose) == 0 || p.policy.Yields == nil {
		return
	}
	for _, head := range p.heads() {
		if p.tries <= 0 {
			return
		}
		if slices.ContainsFunc(p.loose, func(id cluster.PodID) bool { return p.yieldsTo(id, head, at) }) {
			p.tries--
			p.makeWayFor(head, at)
		}
	}
}

// sortQueues lists those in line by queue.
func (o *outlook) sortQueues() {
	at := make(map[cluster.QueueID]int)
	for _, pod := range o.line {
		queue := o.base.Pod(pod).Spec.Queue
		i, known := at[queue]
		if !known {
			i = len(o.queues)
			at[queue], o.queues = i, append(o.queues, nil)
		}
		o.queues[i] = append(o.queues[i], pod)
	}
	for _, pods := range o.queues {
		slices.SortFunc(pods, o.compare)
	}
	slices.SortFunc(o.queues, func(a, b []cluster.PodID) int { return o.compare(a[0], b[0]) })
}

// heads lists the first of each queue that waits.
func (p *playing) heads() []cluster.PodID {
	out := make([]cluster.PodID, 0, len(p.queues))
	for i, pods := range p.queues {
		for p.first[i] < len(pods) && p.starts[p.index[pods[p.first[i]]]] != moment.Never {
			p.first[i]++
		}
		if p.first[i] < len(pods) && !p.placed(pods[p.first[i]]) {
			out = append(out, pods[p.first[i]])
		}
	}
	return out
}

// yieldsTo says whether a run gives way to one that waits.
func (p *playing) yieldsTo(id, head cluster.PodID, at moment.Instant) bool {
	of, runs := p.runs[id]
	row := p.txn.View().Pod(id)
	if !runs || of.away || !row.Phase.Charged() || row.Spec.Protected || p.spared(row) || of.moved && at < of.bound.Add(p.policy.Yields.MinRun) {
		return false
	}
	taker := p.base.Pod(head)
	if row.Spec.Queue == taker.Spec.Queue {
		if row.Spec.Priority != taker.Spec.Priority {
			return row.Spec.Priority < taker.Spec.Priority
		}
		return p.tierOf(id, of, at) > p.policy.Yields.Tiers.After(taker.Ran)
	}
	if p.standing == nil {
		return false
	}
	v := p.txn.View()
	need := v.Shape(taker.Spec.Shape).Ask()
	return p.standing.Over(v, row.Spec.Queue, &need) && p.standing.Entitled(v, taker.Spec.Queue, row.Spec.Queue, &need)
}

// makeWayFor starts one that waits, or its group, where those were that give way to it;
// or nobody.
func (p *playing) makeWayFor(head cluster.PodID, at moment.Instant) {
	type seat struct {
		pod   cluster.PodID
		place cluster.Placement
	}
	p.attempt(func() bool {
		var gone []seat
		v := p.txn.View()
		for i := range v.Nodes.Len() {
			for _, id := range slices.Clone(v.Node(cluster.NodeID(i)).Pods) {
				if place := v.Pod(id).Placement; p.yieldsTo(id, head, at) && p.txn.Evict(id) == nil {
					gone = append(gone, seat{id, place})
					p.memo.touch(place.Node)
				}
			}
		}
		mark := p.txn.Mark()
		if len(gone) == 0 || !p.startAnew(head) {
			return false
		}
		var nodes []cluster.NodeID
		for _, id := range p.txn.TouchedSince(mark) {
			nodes = append(nodes, p.txn.View().Pod(id).Placement.Node)
		}
		for _, s := range gone {
			if slices.Contains(nodes, s.place.Node) || p.txn.Place(s.pod, s.place) != nil {
				of := p.runs[s.pod]
				away := run{ran: of.ran + at.Since(of.began), away: true}
				if of.ends != moment.Never {
					away.left = of.ends.Since(at)
				}
				p.runs[s.pod] = away
				p.back = append(p.back, s.pod)
			} else {
				p.memo.touch(s.place.Node)
			}
			p.used(p.base.Pod(s.pod).Spec.Queue)
		}
		p.used(p.base.Pod(head).Spec.Queue)
		return true
	})
}
