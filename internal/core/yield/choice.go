package yield

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// choice is something that can be taken.
type choice struct {
	pods  []cluster.PodID // all that go with it
	slice bool
	band  int32
	lost  int64
	age   int64
	key   uint64
	alike uint64         // choices of one hash differ in cost alone; 0: unlike any other
	here  cluster.Amount // what it leaves on the node that it was found on
	gives cluster.Amount // in all
	queue cluster.QueueID
	cross bool // of a queue that has to be above its share
}

// compareChoices is from the cheapest to the dearest.
func compareChoices(a, b *choice) int {
	return cmp.Or(cmp.Compare(a.band, b.band), -compareBools(a.slice, b.slice), cmp.Compare(a.lost, b.lost), cmp.Compare(a.age, b.age), cmp.Compare(a.gives.Milli, b.gives.Milli), cmp.Compare(a.key, b.key))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// choicesOn lists what a taker may take on some nodes, cheapest first. Whether budgets
// and queues allow several of them together is asked when they are tried.
func (s *Search) choicesOn(nodes []cluster.NodeID, t *Taker) []choice {
	var out []choice
	var trees []cluster.GroupID
	for _, node := range nodes {
		out, trees = s.choicesAt(node, nodes, t, out, trees)
	}
	slices.SortFunc(out, func(a, b choice) int { return compareChoices(&a, &b) })
	return out
}

// choicesAt adds those of one node; trees are the groups that were looked at.
func (s *Search) choicesAt(node cluster.NodeID, nodes []cluster.NodeID, t *Taker, out []choice, trees []cluster.GroupID) ([]choice, []cluster.GroupID) {
	v := s.txn.View()
	for _, id := range v.Node(node).Pods {
		p := s.base.Pod(id)
		if !p.Phase.Charged() || p.Placement.Node != node {
			continue // placed in this cycle
		}
		if p.Spec.Group == cluster.None {
			if c, ok := s.choiceOf([]cluster.PodID{id}, nodes, t); ok {
				out = append(out, c)
			}
			continue
		}
		if g := v.Group(p.Spec.Group); g.Known && g.Placed > g.Minimum && v.Stands(p.Spec.Group) && !s.grows(p.Spec.Group) {
			if c, ok := s.choiceOf([]cluster.PodID{id}, nodes, t); ok {
				c.slice = true
				out = append(out, c)
			}
		}
		if root := v.Root(p.Spec.Group); !slices.Contains(trees, root) {
			trees = append(trees, root)
			if c, ok := s.choiceOf(s.treeOf(root), nodes, t); ok {
				c.alike = 0
				out = append(out, c)
			}
		}
	}
	return out, trees
}

// grows says whether a group gets more members in this cycle: then it gives none.
func (s *Search) grows(group cluster.GroupID) bool {
	for id := range s.txn.View().Members(group) {
		if s.txn.View().Pod(id).Phase.Charged() && !s.base.Pod(id).Phase.Charged() {
			return true
		}
	}
	return false
}

// treeOf lists the pods of a tree that have a place, in an order that does not depend
// on ids.
func (s *Search) treeOf(root cluster.GroupID) []cluster.PodID {
	v := s.txn.View()
	var out []cluster.PodID
	for id := range v.TreeMembers(root) {
		if v.Pod(id).Phase.Charged() {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b cluster.PodID) int {
		return cmp.Or(cmp.Compare(s.base.Pod(a).Key, s.base.Pod(b).Key), cmp.Compare(a, b))
	})
	return out
}

// choiceOf weighs pods that go together; ok is false where one of them may not be
// evicted for the taker.
func (s *Search) choiceOf(pods []cluster.PodID, nodes []cluster.NodeID, t *Taker) (c choice, ok bool) {
	v := s.txn.View()
	c = choice{pods: pods, queue: s.base.Pod(pods[0]).Spec.Queue}
	top := int32(-1 << 31)
	for _, id := range pods {
		p := s.base.Pod(id)
		if !s.evictable(p) {
			return c, false
		}
		top = max(top, p.Spec.Priority)
		shape := v.Shape(p.Placement.Shape)
		c.gives.Milli += p.Placement.Milli()
		c.gives.Rest = c.gives.Rest.Plus(&shape.Need)
		if slices.Contains(nodes, p.Placement.Node) {
			c.here.Milli += p.Placement.Milli()
			c.here.Rest = c.here.Rest.Plus(&shape.Need)
		}
		if !s.rules.Youngest {
			c.lost += s.lostWith(p)
		}
		c.age = max(c.age, int64(s.cycle.Now.Since(p.Bound)))
		c.key += p.Key
	}
	switch {
	case c.queue == t.Queue || s.rules.PrioritiesAlone:
		if top >= t.Priority {
			return c, false
		}
	case s.court == nil || !s.court.Entitled(v, t.Queue, c.queue, &t.Need):
		return c, false
	default:
		above, _ := s.court.Above(v, t.Queue, c.queue, &t.Need, &c.gives)
		if c.cross = true; !above {
			return c, false
		}
	}
	c.band = s.rules.bandOf(top)
	if len(pods) == 1 {
		c.alike = s.likenessOf(s.base.Pod(pods[0]))
	}
	return c, true
}

// evictable says whether a pod may be evicted for anybody.
func (s *Search) evictable(p *cluster.Pod) bool {
	if p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning || p.Intent != cluster.None || p.Spec.Protected {
		return false
	}
	if b := s.base.BudgetOf(p); b != nil && b.Left <= s.spent[p.Budget] {
		return false
	}
	runs := s.cycle.Now.Since(p.Bound)
	if p.Displaced > 0 && runs < s.rules.MinRun {
		return false
	}
	j := s.base.JobOf(p)
	if j == nil {
		return true
	}
	return j.Preemptible && j.Disruptions != 0 && (j.Displaced == 0 || p.Bound < j.Displaced || runs >= s.rules.MinRun)
}

// lostWith is what is lost when a pod goes: what it has done since its last
// checkpoint, or what it takes to make one, and its restart.
func (s *Search) lostWith(p *cluster.Pod) int64 {
	lost := s.since(p)
	if j := s.base.JobOf(p); j != nil {
		if j.Saves() {
			lost = min(lost, j.Checkpoint.Write)
		}
		lost += j.Checkpoint.Restart
	}
	return quantity.MulDiv(int64(p.Placement.Milli()), int64(lost), int64(moment.Second))
}

// since is how long a pod has worked since its job's last checkpoint, or its start.
func (s *Search) since(p *cluster.Pod) moment.Span {
	if p.Phase != cluster.PhaseRunning {
		return 0
	}
	from := p.Started
	if j := s.base.JobOf(p); j != nil {
		from = max(from, j.Checkpoint.Last)
	}
	return max(s.cycle.Now.Since(from), 0)
}

// SavesFirst says whether a pod is better asked to save its state before it goes, and
// until when it has time for that.
func (s *Search) SavesFirst(id cluster.PodID) (until moment.Instant, saves bool) {
	p := s.base.Pod(id)
	j := s.base.JobOf(p)
	if j == nil || !j.Saves() || s.since(p) <= j.Checkpoint.Write {
		return moment.Never, false
	}
	return s.cycle.Now.Add(j.Checkpoint.Write + s.rules.Grace), true
}

// likenessOf hashes all that matters of what a pod leaves behind. Parts of devices
// are unlike each other: which device they are of may matter.
func (s *Search) likenessOf(p *cluster.Pod) uint64 {
	h := chance.Hash(uint64(p.Placement.Shape), uint64(p.Spec.Queue), uint64(p.Kin), uint64(p.Budget), uint64(p.Spec.Group))
	if j := s.base.JobOf(p); j != nil && j.Disruptions != cluster.None {
		h = chance.Hash(h, j.Key)
	}
	for _, g := range p.Placement.Grants {
		d := s.base.Device(g.Device).Spec
		if g.Milli < quantity.WholeGPU || g.Profile != 0 || d.Island != cluster.None || d.NUMA != cluster.None {
			return 0
		}
		h = chance.Fold(h, uint64(d.Model))
	}
	return h | 1
}
