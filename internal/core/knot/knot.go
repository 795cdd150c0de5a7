// Package knot finds those who wait for each other in the wait-for graph.
//
//	left := knot.Left(n, completes)    // who never comes to an end, whatever all others do
//	rings := knot.Rings(waits)         // for each, a shortest way from it back to itself
//	of := knot.Knots(waits)            // who is in one knot with whom
//
// The package knows no resources: its caller says who can come to an end once others have
// left, and who waits for whom. It leaves to its caller what becomes of a knot.
package knot

// Left says which of n never complete: those that can, given who is gone, leave, again
// and again until nobody can. What completes once others have left must complete as well
// when more have: then the order does not matter.
func Left(n int, completes func(i int, gone []bool) bool) []bool {
	gone, left := make([]bool, n), make([]bool, n)
	for again := true; again; {
		again = false
		for i := range n {
			if !gone[i] && completes(i, gone) {
				gone[i], again = true, true
			}
		}
	}
	for i := range n {
		left[i] = !gone[i]
	}
	return left
}

// Rings returns, for each, a shortest way over those that it waits for back to itself,
// beginning with itself; nil where there is none. Of ways of one length, the first by
// the order in which each lists those that it waits for.
func Rings(waits [][]int) [][]int {
	out := make([][]int, len(waits))
	for i := range waits {
		out[i] = ring(waits, i)
	}
	return out
}

func ring(waits [][]int, start int) []int {
	from := make([]int, len(waits))
	for i := range from {
		from[i] = -1
	}
	line := []int{start}
	for k := 0; k < len(line); k++ {
		for _, next := range waits[line[k]] {
			if next == start {
				var back []int
				for at := line[k]; at != start; at = from[at] {
					back = append(back, at)
				}
				way := []int{start}
				for i := len(back) - 1; i >= 0; i-- {
					way = append(way, back[i])
				}
				return way
			}
			if from[next] < 0 {
				from[next] = line[k]
				line = append(line, next)
			}
		}
	}
	return nil
}

// Knots numbers the knots from 0 on, and says in which each is: those that wait for each
// other, over whomever. -1: in none.
func Knots(waits [][]int) []int {
	n := len(waits)
	reach := make([][]bool, n)
	for i := range waits {
		reach[i] = make([]bool, n)
		line := append([]int(nil), waits[i]...)
		for k := 0; k < len(line); k++ {
			if !reach[i][line[k]] {
				reach[i][line[k]] = true
				line = append(line, waits[line[k]]...)
			}
		}
	}
	out, next := make([]int, n), 0
	for i := range out {
		out[i] = -1
	}
	for i := range out {
		if out[i] >= 0 || !reach[i][i] {
			continue
		}
		for j := range out {
			if reach[i][j] && reach[j][i] {
				out[j] = next
			}
		}
		next++
	}
	return out
}
