package learn

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Arrivals follows how often work of each kind comes, the more recent counting more. The
// zero value has seen nothing.
type Arrivals struct {
	kinds  map[cluster.Symbol]*arrival
	order  []cluster.Symbol // as first seen
	epoch  int64            // the present one
	epochs int64            // that have passed since the first arrival, discounted, in millionths
	began  bool
	seen   int64
}

type arrival struct {
	count     int64 // discounted, in millionths
	artifacts []cluster.ArtifactID
	shape     cluster.ShapeID
}

const (
	// arrivalEpoch is how long a table stands.
	arrivalEpoch = 15 * moment.Minute
	// arrivalDecay is what an arrival counts for one epoch later, in millionths: half in
	// six hours, so that the rates of the day are not those of the night before.
	arrivalDecay = 971_532
	one          = 1_000_000
	// mostEpochs without an arrival leave nothing of those before.
	mostEpochs = 1000
	// kindsKept bounds the table; the rarest go.
	kindsKept = 4096
)

// Observe takes in an arrival, and says whether an epoch has ended with it.
func (a *Arrivals) Observe(at moment.Instant, kind cluster.Symbol, artifacts []cluster.ArtifactID, shape cluster.ShapeID) bool {
	now := int64(at) / int64(arrivalEpoch)
	if !a.began {
		a.began, a.epoch, a.kinds = true, now, make(map[cluster.Symbol]*arrival)
	}
	ended := now > a.epoch
	if ended {
		a.pass(min(now-a.epoch, mostEpochs))
		a.epoch = now
	}
	if kind == 0 || len(artifacts) == 0 {
		return ended
	}
	k := a.kinds[kind]
	if k == nil {
		k = &arrival{}
		a.kinds[kind] = k
		a.order = append(a.order, kind)
	}
	k.count += one
	a.seen++
	k.artifacts, k.shape = artifacts, shape
	return ended
}

// pass lets epochs go by.
func (a *Arrivals) pass(epochs int64) {
	for range epochs {
		a.epochs = (a.epochs + one) * arrivalDecay / one
		for _, kind := range a.order {
			a.kinds[kind].count = a.kinds[kind].count * arrivalDecay / one
		}
	}
	if len(a.order) > kindsKept {
		slices.SortStableFunc(a.order, func(x, y cluster.Symbol) int { return -cmp.Compare(a.kinds[x].count, a.kinds[y].count) })
		for _, kind := range a.order[kindsKept:] {
			delete(a.kinds, kind)
		}
		a.order = a.order[:kindsKept]
	}
}

// Table returns how often each kind comes, as of the end of the last epoch.
func (a *Arrivals) Table() *cluster.Arrivals {
	out := &cluster.Arrivals{}
	if a.epochs == 0 {
		return out
	}
	perHour := int64(moment.Hour / arrivalEpoch)
	for _, kind := range a.order {
		k := a.kinds[kind]
		if rate := quantity.MulDiv(k.count, 1000*perHour, a.epochs); rate > 0 {
			out.Rows = append(out.Rows, cluster.Arrival{Kind: kind, Artifacts: k.artifacts, Shape: k.shape, PerHour: quantity.Milli(rate)})
		}
	}
	slices.SortStableFunc(out.Rows, func(x, y cluster.Arrival) int {
		return cmp.Or(-cmp.Compare(x.PerHour, y.PerHour), cmp.Compare(x.Kind, y.Kind))
	})
	return out
}
