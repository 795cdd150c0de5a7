// Package warm decides what is fetched to which node before a pod needs it, and what
// goes for it.
//
//	s := warm.Open(txn, rules, warm.Expect(view, nil), now)
//	s.Serve(artifacts, node)   // for a pod that has its place: beside what it pulls itself
//	s.Ahead()                  // for pods to come: in review cycles
//
// What is decided is in the transaction: Txn.Prefetches lists it. The worth of a copy is
// how much it is expected to save: how often work comes that needs it, times the seconds
// that the start is shorter, times how likely it is to land there (docs/adr/0014). A copy
// goes where what goes for it is worth less; without expectations the one that was used
// longest ago goes. What is pinned or in use stays.
//
// It leaves the choice of a pod's node to the engine, and fetching to the world.
package warm

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Rules say how much warm starts count.
type Rules struct {
	// Second is what a second of start that is saved is worth when a node is chosen, in
	// micro-GPU: millionths of one GPU put to use.
	Second int64
	// Beside says that what a pod lacks on its node is fetched beside what it pulls
	// itself, as soon as it has its place.
	Beside bool
	// First says, with Beside, that pods wait without a place while what they lack is
	// fetched to the node that they would go to, so that no GPU is idle for them meanwhile:
	// until they have waited for as long as Patience since they came.
	First    bool
	Patience moment.Span
	// Ahead says that copies are fetched before anything needs them.
	Ahead bool
	// Drops says that what is there may go for what is fetched. Without it only free room
	// is used: where somebody else, as the kubelet, decides what goes from a node.
	Drops bool
	// Reach is how many of the starts of a kind, in thousandths, can go to a node that
	// holds what it needs, if one node does. With two, as many of the rest can go to the
	// second, and so on.
	Reach quantity.Milli
	// Margin is how much more a copy has to be worth than all that goes for it, in
	// thousandths of that: what was fetched is not dropped for the next best.
	Margin quantity.Milli
	// Least is how much a copy has to save in an hour to be fetched ahead.
	Least moment.Span
	// Kinds is how many kinds of work are looked at in one cycle, those first that would
	// save the most; Nodes how many nodes for each.
	Kinds, Nodes int
}

// Default returns the rules of our policy.
func Default() Rules {
	return Rules{
		Second: 100_000, Beside: true, First: true, Patience: 10 * moment.Minute, Ahead: true, Drops: true,
		Reach: 800, Margin: 500, Least: 10 * moment.Second,
		Kinds: 32, Nodes: 32,
	}
}

// Dense returns rules by which pods go to cards that are in use rather than to those where
// they start at once.
func Dense() Rules {
	rules := Default()
	rules.Second = 10_000
	return rules
}
