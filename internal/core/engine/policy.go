package engine

import (
	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// Policy is a way to decide: a name, and functions that replace parts of the
// default. All of them must be pure.
//
// Most policies only give a Score: Decide then finds the node with the highest
// one, and keeps the scores of nodes that did not change.
type Policy struct {
	Name string

	// Order sorts waiting pods, first to be tried first, totally. Nil: priority, tier,
	// urgency, arrival.
	Order func(v *cluster.View, c decision.Cycle, pods []cluster.PodID)

	// Shares says that the shares of queues decide whose turn it is, where there is no
	// Order.
	Shares bool

	// Score values a node that fits; higher is better. It may depend only on the
	// shape, the node's State (and Residents, if so declared) and the beliefs.
	Score func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) int64

	// Scarce values nodes in two parts, instead of Score.
	Scarce *Scarce

	// Residents declares that Score also looks at which shapes run on the node.
	Residents bool

	// Grants picks the devices on the chosen node. Nil: fit.Grants.
	Grants func(v *cluster.View, c decision.Cycle, pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool)

	// Affinity is what returning to the node it ran on before is worth to a pod,
	// in the scale of Score.
	Affinity int64

	// Choose picks among all nodes that fit, instead of Score.
	Choose func(v *cluster.View, c decision.Cycle, pod cluster.PodID, feasible []cluster.NodeID) cluster.NodeID

	// Tie ranks nodes of equal score; the lowest wins. Nil: a hash of the cycle's
	// seed and the node's name.
	Tie func(v *cluster.View, node cluster.NodeID) uint64

	// Explain splits the score of a chosen place into its parts. Nil: the total
	// alone.
	Explain func(v *cluster.View, c decision.Cycle, pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) decision.Score

	// Victims lists what may be evicted for a pod that has no room, cheapest first.
	// Nil: nothing is evicted. Protected pods never are.
	Victims func(v *cluster.View, c decision.Cycle, pod cluster.PodID) []cluster.PodID

	// Yields says by which rules others give way to work that has no room: the cheapest
	// set, instead of what Victims lists. Nil: nobody does.
	Yields *yield.Rules

	// Lends says that running pods lend a quarter of their compute for a while before
	// any is evicted.
	Lends bool

	// Tidies says by which rules running pods are moved where that pays. Nil: none are.
	Tidies *tidy.Rules

	// Reserve says for whom room is reserved that cannot start yet.
	Reserve Reserve

	// Foretells says that a plan tells when those who wait are expected to start.
	Foretells bool
	// InReviews says that it tells so in review cycles alone: looking ahead takes longer
	// than an arrival may wait.
	InReviews bool

	// Warms says by which rules pods go where what they need is cached, and what is
	// fetched ahead; nil: nobody looks at caches. Warmth is what a micro-GPU counts in
	// the scale of Score.
	Warms  *warm.Rules
	Warmth int64

	// Sizes says by which numbers the sizes of elastic jobs are chosen. Nil: they are not,
	// and such a job is a group like any other.
	Sizes *Sizes

	// Knots says that groups are looked for that wait for what each other holds: of each
	// knot, the one that has waited longest keeps what it holds.
	Knots bool

	// Round decides a whole cycle instead of all of the above. What it returns is
	// carried out in a transaction; a step that would overdraw is refused. Groups are
	// its own affair: nothing here holds their members together.
	Round func(v *cluster.View, c decision.Cycle) []Step
}

// Scarce is a way to score where some things a node offers are priced by how many
// of them there are: the price may change with every placement, the rest of a
// node's score only with the node. Score = value - prices of what is taken.
type Scarce struct {
	// Weigh returns the part that depends on the node alone, and the set of scarce
	// things that the placement takes from others.
	Weigh func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) (value int64, takes uint64)
	// Offers counts the scarce things a node offers now.
	Offers func(v *cluster.View, node cluster.NodeID) rank.Offers
	// Prices values them, given how many all nodes offer.
	Prices func(v *cluster.View, have *rank.Counts) rank.Prices
}

// Step is one move of a Round: evict the pod, or place it.
type Step struct {
	Pod   cluster.PodID
	Place cluster.Placement // node None: evict
}

// hold is for how long room is held that others were told to leave.
func (p *Policy) hold() moment.Span {
	if p.Yields == nil {
		return yield.Default().Hold
	}
	return p.Yields.Hold
}

// grade is what others of a pod's queue have to be below to give way to it.
func (r *round) grade(pod cluster.PodID) yield.Grade {
	v := r.txn.Base()
	return r.policy.gradeOf(&v.View, v.Pod(pod), r.cycle.Now)
}

func (p *Policy) gradeOf(v *cluster.View, pod *cluster.Pod, now moment.Instant) yield.Grade {
	rules := p.Yields
	if rules == nil {
		rules = &yield.Rules{}
	}
	return rules.GradeOf(v, pod, now)
}

func (p *Policy) tie(v *cluster.View, c decision.Cycle, node cluster.NodeID) uint64 {
	if p.Tie != nil {
		return p.Tie(v, node)
	}
	return chance.Hash(uint64(c.Seed), v.Node(node).Key)
}
