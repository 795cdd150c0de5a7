package elastic

import "math"

// program is a linear program: the greatest value·x with rows·x ≤ limit and x ≥ 0.
// No limit is negative, so that x = 0 is a start.
type program struct {
	value []float64
	rows  [][]float64
	limit []float64
}

const (
	simplexEps = 1e-9
	// mostPivots ends a search that does not: real ones take some hundreds.
	mostPivots = 50_000
)

// solve runs the simplex method on a dense table. After many pivots without gain it
// takes the first improving column instead of the best, which cannot cycle.
func (p *program) solve() []float64 {
	n, m := len(p.value), len(p.rows)
	width := n + m + 1
	table := make([][]float64, m+1)
	basis := make([]int, m)
	for i := range m {
		table[i] = make([]float64, width)
		copy(table[i], p.rows[i])
		table[i][n+i], table[i][width-1] = 1, p.limit[i]
		basis[i] = n + i
	}
	goal := make([]float64, width)
	for j, v := range p.value {
		goal[j] = -v
	}
	table[m] = goal
	still := 0
	for range mostPivots {
		enter := entering(goal[:n+m], still > m)
		if enter < 0 {
			break
		}
		leave, least := -1, math.Inf(1)
		for i := range m {
			if a := table[i][enter]; a > simplexEps {
				ratio := table[i][width-1] / a
				if ratio < least-simplexEps || ratio < least+simplexEps && leave >= 0 && basis[i] < basis[leave] {
					leave, least = i, ratio
				}
			}
		}
		if leave < 0 {
			break // unbounded: not with limits on all
		}
		if least > simplexEps {
			still = 0
		} else {
			still++
		}
		pivot(table, leave, enter)
		basis[leave] = enter
	}
	x := make([]float64, n)
	for i, b := range basis {
		if b < n {
			x[b] = math.Max(0, table[i][width-1])
		}
	}
	return x
}

// entering is the column that gains most, or the first that gains; -1 is none.
func entering(goal []float64, first bool) int {
	best, least := -1, -simplexEps
	for j, g := range goal {
		if g < least {
			best, least = j, g
			if first {
				break
			}
		}
	}
	return best
}

func pivot(table [][]float64, row, column int) {
	by := table[row][column]
	for j := range table[row] {
		table[row][j] /= by
	}
	for i := range table {
		factor := table[i][column]
		if i == row || factor == 0 {
			continue
		}
		for j, x := range table[row] {
			table[i][j] -= factor * x
		}
	}
}
