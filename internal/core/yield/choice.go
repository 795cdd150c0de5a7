package yield

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/share"
)

// choice is something that can be taken.
type choice struct {
	pods  []cluster.PodID // all that go with it
	slice bool
	band  int64 // Rules.levelOf
	lost  int64
	age   int64
	key   uint64
	alike uint64         // choices of one hash differ in cost alone; 0: unlike any other
	here  cluster.Amount // what it leaves on the node that it was found on
	gives cluster.Amount // in all
	queue cluster.QueueID
	grade Grade // the highest among them
	bound bool  // a disruption budget has a say
	cross bool  // of a queue that has to be above its share
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

// stock is what can be taken on a node, whoever takes it, the cheapest first.
type stock struct {
	choices []choice
	guarded bool // somebody there is kept by a budget, or protected
	known   bool
}

// stockOf returns what can be taken on one node.
func (s *Search) stockOf(node cluster.NodeID) *stock {
	if s.stocks == nil {
		s.stocks = make([]stock, s.base.Nodes.Len())
	}
	k := &s.stocks[node]
	if k.known {
		return k
	}
	*k = stock{known: true}
	s.trees = s.trees[:0]
	k.choices, k.guarded = s.choicesAt(node, []cluster.NodeID{node}, nil)
	sortChoices(k.choices)
	return k
}

func sortChoices(c []choice) {
	slices.SortFunc(c, func(a, b choice) int { return compareChoices(&a, &b) })
}

// choicesOn lists what a taker may take on some nodes, which are in order, cheapest
// first. Whether budgets and queues allow several of them together is asked when they
// are tried.
func (s *Search) choicesOn(nodes []cluster.NodeID, t *Taker) []choice {
	if len(nodes) == 1 {
		return s.offered(s.stockOf(nodes[0]).choices, t)
	}
	var out []choice
	var trees []cluster.GroupID
	for _, node := range nodes {
		stock := s.stockOf(node).choices
		for i := range stock {
			c := stock[i]
			group := s.base.Pod(c.pods[0]).Spec.Group
			if group == cluster.None || c.slice {
				if c.alike != 0 { // on another node it is not
					c.alike = chance.Fold(c.alike, s.base.Node(node).Key) | 1
				}
				out = append(out, c)
				continue
			}
			root := s.txn.View().Root(group)
			if slices.Contains(trees, root) {
				continue
			}
			trees = append(trees, root)
			if all, ok := s.weigh(s.treeOf(root), nodes); ok {
				all.alike = 0
				out = append(out, all)
			}
		}
	}
	sortChoices(out)
	return s.offered(out, t)
}

// choicesAt adds what can be taken on one node of some.
func (s *Search) choicesAt(node cluster.NodeID, nodes []cluster.NodeID, out []choice) (all []choice, guarded bool) {
	v := s.txn.View()
	pods := s.base.Node(node).Pods // none that is placed in this cycle
	for i, id := range pods {
		if p := s.base.Pod(id); !p.Phase.Charged() || p.Placement.Node != node || !v.Pod(id).Phase.Charged() {
			continue
		}
		group := s.base.Pod(id).Spec.Group
		if group == cluster.None {
			c, ok := s.weigh(pods[i:i+1:i+1], nodes)
			if guarded = guarded || !ok || c.bound; ok {
				out = append(out, c)
			}
			continue
		}
		if g := v.Group(group); g.Known && g.Placed > g.Minimum && v.Stands(group) {
			c, ok := s.weigh(pods[i:i+1:i+1], nodes)
			if guarded = guarded || !ok || c.bound; ok {
				c.slice = true
				out = append(out, c)
			}
		}
		if root := v.Root(group); !slices.Contains(s.trees, root) {
			s.trees = append(s.trees, root)
			c, ok := s.weigh(s.treeOf(root), nodes)
			if guarded = guarded || !ok || c.bound; ok {
				c.alike = 0
				out = append(out, c)
			}
		}
	}
	return out, guarded
}

// offered is what a taker may take of some choices.
func (s *Search) offered(choices []choice, t *Taker) []choice {
	v := s.txn.View()
	out := make([]choice, 0, len(choices))
	spare, across := cluster.Amount{}, false
	for i := range choices {
		c := &choices[i]
		if !s.ours(c, t) {
			across = across || s.standing != nil
			continue
		}
		if c.grade < t.Grade && s.borne(c) {
			spare = spare.Plus(&c.gives)
		}
	}
	scope, wider := share.Scope{}, share.Scope{}
	if across {
		scope = s.standing.ScopeOf(v, t.Queue, &t.Need)
		if wider = scope; spare.Milli > 0 || spare.Rest.Positive() {
			less := cluster.Amount{Milli: max(t.Need.Milli-spare.Milli, 1), Rest: t.Need.Rest.Minus(&spare.Rest)}
			wider = s.standing.ScopeOf(v, t.Queue, &less)
		}
	}
	for i := range choices {
		c := &choices[i]
		if c.slice && s.grows(s.base.Pod(c.pods[0]).Spec.Group) || !s.borne(c) || s.kindred(c, t) {
			continue
		}
		cross := false
		switch {
		case s.ours(c, t):
			if c.grade >= t.Grade {
				continue
			}
		case !scope.Has(c.queue) && !wider.Has(c.queue):
			continue
		default:
			cross = true
			if above, _ := s.standing.Above(v, t.Queue, c.queue, &t.Need, &c.gives); !above {
				continue
			}
		}
		out = append(out, *c)
		out[len(out)-1].cross = cross
	}
	return out
}

// kindred says whether a choice is of the taker's own groups.
func (s *Search) kindred(c *choice, t *Taker) bool {
	group := s.base.Pod(c.pods[0]).Spec.Group
	return t.Own != cluster.None && group != cluster.None && s.txn.View().Root(group) == t.Own
}

// ours says whether priorities decide between a taker and a choice, not shares.
func (s *Search) ours(c *choice, t *Taker) bool {
	return c.queue == t.Queue || s.rules.PrioritiesAlone
}

// borne says whether budgets bear a choice alone.
func (s *Search) borne(c *choice) bool {
	if !c.bound {
		return true
	}
	counted := make(map[cluster.BudgetID]int32)
	for _, id := range c.pods {
		if !s.bears(s.base.Pod(id), counted) {
			return false
		}
	}
	return true
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

// weigh weighs pods that go together; ok is false where one of them may not be evicted
// for anybody.
func (s *Search) weigh(pods []cluster.PodID, nodes []cluster.NodeID) (c choice, ok bool) {
	v := s.txn.View()
	c = choice{pods: pods, queue: s.base.Pod(pods[0]).Spec.Queue, grade: -1 << 63}
	c.band = -1 << 63
	for _, id := range pods {
		p := s.base.Pod(id)
		if !s.evictable(p) {
			return c, false
		}
		c.bound = c.bound || s.base.BudgetOf(p) != nil
		c.band = max(c.band, s.rules.levelOf(s.rules.bandOf(p.Spec.Priority), p.Spec.Gives))
		c.grade = max(c.grade, s.rules.GradeOf(&s.base.View, p, s.cycle.Now))
		shape := v.Shape(p.Placement.Shape)
		gives := cluster.Amount{Milli: p.Placement.Milli(), Rest: shape.Need}
		c.gives = c.gives.Plus(&gives)
		if _, here := slices.BinarySearch(nodes, p.Placement.Node); here {
			c.here = c.here.Plus(&gives)
		}
		if !s.rules.Youngest {
			c.lost += s.base.LostWith(p, s.cycle.Now)
		}
		c.age = max(c.age, int64(s.cycle.Now.Since(p.Bound)))
		c.key += p.Key
	}
	if len(pods) == 1 {
		c.alike = s.likenessOf(s.base.Pod(pods[0]))
	}
	return c, true
}

// evictable says whether a pod may be evicted for anybody, if its budget bears it.
func (s *Search) evictable(p *cluster.Pod) bool {
	if p.Phase != cluster.PhaseBound && p.Phase != cluster.PhaseRunning || p.Intent != cluster.None || p.Spec.Protected || p.Kept.Until > s.cycle.Now {
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

// SavesFirst says whether a pod is better asked to save its state before it goes, and
// until when it has time for that.
func (s *Search) SavesFirst(id cluster.PodID) (until moment.Instant, saves bool) {
	return s.base.SavesFirst(s.base.Pod(id), s.cycle.Now, s.rules.Grace)
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
