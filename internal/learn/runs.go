package learn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Runs is what a Durations has seen, as values that can be kept and brought back.
type Runs struct {
	Kinds  []KindRuns
	Owners []OwnerRuns
}

// KindRuns are the last runs of a kind.
type KindRuns struct {
	Kind cluster.Symbol
	Last []Run // oldest first
}

// OwnerRuns are the last runs of an owner, in thousandths of what was declared.
type OwnerRuns struct {
	Owner uint64
	Took  []quantity.Milli // oldest first
}

// inTime is the ring of a key in the order in which it was filled.
func (r *recent[K, T]) inTime(key K) []T {
	ring, size := r.last[key], cmp.Or(r.size, window)
	if len(ring) < size {
		return slices.Clone(ring)
	}
	at := r.seen[key] % size
	return slices.Concat(ring[at:], ring[:at])
}

// Seen is how many runs a Durations has seen, those declared counted twice.
func (d *Durations) Seen() (sum int64) {
	for _, n := range d.runs.seen { // order: a sum
		sum += int64(n)
	}
	for _, n := range d.kept.seen { // order: a sum
		sum += int64(n)
	}
	return sum
}

// Runs returns what was seen last: no more than so many kinds, those with most runs first,
// and no more than so many runs of each.
func (d *Durations) Runs(most, each int) Runs {
	var out Runs
	for kind := range d.runs.last { // order: sorted below
		last := d.runs.inTime(kind)
		out.Kinds = append(out.Kinds, KindRuns{Kind: kind, Last: last[max(len(last)-each, 0):]})
	}
	slices.SortFunc(out.Kinds, func(a, b KindRuns) int {
		return cmp.Or(-cmp.Compare(len(a.Last), len(b.Last)), cmp.Compare(a.Kind, b.Kind))
	})
	out.Kinds = out.Kinds[:min(len(out.Kinds), most)]
	for owner := range d.kept.last { // order: sorted below
		out.Owners = append(out.Owners, OwnerRuns{Owner: owner, Took: d.kept.inTime(owner)})
	}
	slices.SortFunc(out.Owners, func(a, b OwnerRuns) int { return cmp.Compare(a.Owner, b.Owner) })
	return out
}

// DurationsFrom brings back what was seen. It refuses what no Durations can have come to.
func DurationsFrom(r Runs) (Durations, error) {
	var d Durations
	for _, k := range r.Kinds {
		for _, run := range k.Last {
			if run.Took <= 0 || k.Kind == 0 {
				return Durations{}, fmt.Errorf("a run of %v: must be above 0, and of a kind", run.Took)
			}
			d.runs.size = runWindow
			d.runs.add(k.Kind, run)
		}
	}
	for _, o := range r.Owners {
		for _, took := range o.Took {
			if took < 0 || took > mostMilli {
				return Durations{}, fmt.Errorf("a run of %d thousandths of what was declared: must be 0 to %d", took, mostMilli)
			}
			d.kept.add(o.Owner, took)
		}
	}
	return d, nil
}
