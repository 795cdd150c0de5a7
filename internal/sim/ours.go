package sim

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/engine"
)

// Ours in other forms, for comparison.
const (
	Youngest    = "headrace-youngest"
	ReserveHead = "headrace-reserve-head"
	ReserveAll  = "headrace-reserve-all"
)

// isOurs says whether a name is of our policy, in any form.
func isOurs(name string) bool {
	return slices.Contains([]string{Ours, Youngest, ReserveHead, ReserveAll}, name)
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
	}
	p.Name = name
	return p
}
