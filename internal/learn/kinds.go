package learn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// Kinds is what an Arrivals has seen, as values that can be kept and brought back.
type Kinds struct {
	Epoch, Epochs int64
	Of            []KindArrivals // in the order in which they were first seen
}

// KindArrivals is how often work of a kind came, discounted, in millionths.
type KindArrivals struct {
	Kind      cluster.Symbol
	Count     int64
	Artifacts []cluster.ArtifactID
	Shape     cluster.ShapeID
}

// Seen is how many arrivals were taken in by this Arrivals.
func (a *Arrivals) Seen() int64 { return a.seen }

// Kinds returns what was seen, of no more than so many kinds: those that come most often.
func (a *Arrivals) Kinds(most int) Kinds {
	out := Kinds{Epoch: a.epoch, Epochs: a.epochs}
	for _, kind := range a.order {
		k := a.kinds[kind]
		out.Of = append(out.Of, KindArrivals{Kind: kind, Count: k.count, Artifacts: k.artifacts, Shape: k.shape})
	}
	slices.SortStableFunc(out.Of, func(x, y KindArrivals) int { return -cmp.Compare(x.Count, y.Count) })
	out.Of = out.Of[:min(len(out.Of), most)]
	return out
}

// ArrivalsFrom brings arrivals back. It refuses what no Arrivals can have come to.
func ArrivalsFrom(s Kinds) (Arrivals, error) {
	a := Arrivals{epoch: s.Epoch, epochs: s.Epochs, began: s.Epoch > 0 || s.Epochs > 0 || len(s.Of) > 0, kinds: make(map[cluster.Symbol]*arrival)}
	// As many epochs in a row as there may be come to no more than this.
	const mostPast = one * one / (one - arrivalDecay)
	if s.Epoch < 0 || s.Epochs < 0 || s.Epochs > mostPast {
		return Arrivals{}, fmt.Errorf("epoch %d after %d millionths: must not be negative, at most %d before it", s.Epoch, s.Epochs, int64(mostPast))
	}
	if len(s.Of) > kindsKept {
		return Arrivals{}, fmt.Errorf("%d kinds: at most %d", len(s.Of), kindsKept)
	}
	for _, k := range s.Of {
		if k.Kind == 0 || a.kinds[k.Kind] != nil || k.Count < 0 || k.Count > mostPods || len(k.Artifacts) == 0 {
			return Arrivals{}, fmt.Errorf("%d millionths of kind %d with %d artifacts: must be a kind, once, with some, and 0 to %d", k.Count, k.Kind, len(k.Artifacts), int64(mostPods))
		}
		a.kinds[k.Kind] = &arrival{count: k.Count, artifacts: k.Artifacts, shape: k.Shape}
		a.order = append(a.order, k.Kind)
	}
	return a, nil
}
