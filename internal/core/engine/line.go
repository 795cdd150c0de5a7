package engine

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// inLine lists the waiting pods whose turn the cycle is, by id.
func inLine(v *cluster.View, c decision.Cycle) []cluster.PodID {
	all := v.AppendWaiting(nil)
	if c.Profile == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(id cluster.PodID) bool { return v.Pod(id).Spec.Policy != c.Profile })
}

// Line lists the waiting pods of a cycle in the order of their turn, whether there
// is room for them or not.
func Line(v *cluster.View, c decision.Cycle, p *Policy) []cluster.PodID {
	line := inLine(v, c)
	if p.Order != nil {
		p.Order(v, c, line)
		return line
	}
	slices.SortFunc(line, func(a, b cluster.PodID) int { return compare(v, c, a, b) })
	return line
}
