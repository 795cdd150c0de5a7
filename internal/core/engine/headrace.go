package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// Headrace is our policy: each pod goes where it takes the least worth from those
// who still come (docs/adr/0005).
func Headrace() *Policy { return HeadraceWith(rank.DefaultWeights()) }

// HeadraceWith is our policy with other weights.
func HeadraceWith(w rank.Weights) *Policy {
	rules, warms := yield.Default(), warm.Default()
	return &Policy{
		Name:   "headrace",
		Shares: true,
		Lends:  true,
		Knots:  true,
		Yields: &rules,
		Scarce: &Scarce{
			Weigh: func(v *cluster.View, shape cluster.ShapeID, node cluster.NodeID) (int64, uint64) {
				value, loss := w.Value(v, shape, node)
				return value, loss.Takes
			},
			Offers: rank.OffersOf,
			Prices: func(v *cluster.View, have *rank.Counts) rank.Prices {
				prices := rank.PricesOf(v, have)
				for i := range prices {
					prices[i] *= w.PriceScale()
				}
				return prices
			},
		},
		Grants:   headraceGrants,
		Affinity: w.Return(),
		Explain:  w.Explain,
		Warms:    &warms,
		Warmth:   w.PriceScale(),
	}
}

// headraceGrants gives a share from the device that loses the least by it, and
// everything else as fit does.
func headraceGrants(v *cluster.View, _ decision.Cycle, _ cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) ([]cluster.Grant, bool) {
	s, n := v.Shape(shape), v.Node(node)
	l := rank.LossOf(v, shape, node)
	if l.Device == cluster.None {
		return fit.Grants(v, s, n)
	}
	id := n.Spec.FirstDevice + cluster.DeviceID(l.Device)
	return []cluster.Grant{fit.GrantOf(v, v.Device(id), id, &s.Devices[0])}, true
}
