package web

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/meter"
)

// offeredEnd is where the curves of moves are read, in percent of demand arrived.
const offeredEnd = 130

// tidiedCharts draws how much more is allocated the more pods move: one point for what a
// move had to place at least, a mean over seeds.
func tidiedCharts(s study) []chart {
	c := chart{Title: "Moves", Unit: "GPU allocated at 130 % arrived, % of capacity", X: axisCount, XLabel: "pods moved, thousandths of those placed", Y: axisNear}
	for i, g := range s.groups {
		if len(g.tidied) > 0 {
			c.add(i, movesOf(g))
		}
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return []chart{c}
}

// movesOf is the curve of one policy, from no moves on.
func movesOf(g group) line {
	type point struct{ moves, alloc []float64 }
	var least []int64
	by := make(map[int64]*point)
	note := func(of int64, moves float64, r *meter.Result) {
		if by[of] == nil {
			by[of] = &point{}
			least = append(least, of)
		}
		if at := slices.Index(r.ArrivedPct, offeredEnd); at >= 0 {
			by[of].moves, by[of].alloc = append(by[of].moves, moves), append(by[of].alloc, r.GPUAllocPct[at])
		}
	}
	const none = 1 << 62
	for i := range g.runs {
		note(none, 0, &g.runs[i])
	}
	for i := range g.tidied {
		note(g.tidied[i].Tidied.LeastMilli, g.tidied[i].Tidied.MovesPermille, &g.tidied[i])
	}
	slices.SortFunc(least, func(a, b int64) int { return -cmp.Compare(a, b) })
	var l line
	for _, of := range least {
		if len(by[of].alloc) > 0 {
			l.X, l.Y = append(l.X, number(spreadOf(by[of].moves).mean)), append(l.Y, number(spreadOf(by[of].alloc).mean))
		}
	}
	return l
}
