package sim

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/learn"
)

// Ours in other forms, for comparison.
const (
	Youngest    = "headrace-youngest"
	ReserveHead = "headrace-reserve-head"
	ReserveAll  = "headrace-reserve-all"
	Dense       = "headrace-dense"
)

// isOurs says whether a name is of our policy, in any form.
func isOurs(name string) bool {
	return slices.Contains([]string{Ours, Youngest, ReserveHead, ReserveAll, Dense}, name)
}

// ours makes our policy in the form of a name.
func ours(name string) *engine.Policy {
	p := engine.Headrace()
	switch name {
	case Youngest:
		p.Yields.Band, p.Yields.Youngest = 1, true
	case ReserveHead:
		p = p.Reserving(engine.ReserveHead)
	case ReserveAll:
		p = p.Reserving(engine.ReserveAll)
	case Dense:
		rules := warm.Dense()
		p = p.Warming(&rules)
	}
	p.Name = name
	return p
}

// needsOf says how our policy, in the form of a name, charges shares by what their kind
// needs. docs/results.md has what other values give.
func needsOf(name string) learn.Needs {
	if name == Dense {
		return learn.Needs{Charge: 800, After: 1}
	}
	return learn.Needs{Charge: quantity.One}
}
