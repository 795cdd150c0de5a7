package knot

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
)

// system is a small one of resources that several hold and want more of.
type system struct {
	free        []int64
	holds, need [][]int64 // by process and resource
}

func randomSystem(s *chance.Source) system {
	n, kinds := 2+int(s.Below(4)), 1+int(s.Below(3))
	out := system{free: make([]int64, kinds)}
	for k := range out.free {
		out.free[k] = s.Below(2)
	}
	for range n {
		holds, need := make([]int64, kinds), make([]int64, kinds)
		for k := range kinds {
			holds[k], need[k] = s.Below(3), s.Below(4)
		}
		out.holds, out.need = append(out.holds, holds), append(out.need, need)
	}
	return out
}

func (y *system) completes(i int, gone []bool) bool {
	for k, free := range y.free {
		for j := range gone {
			if gone[j] {
				free += y.holds[j][k]
			}
		}
		if free < y.need[i][k] {
			return false
		}
	}
	return true
}

// ends says by trying all orders who can come to an end in any of them.
func (y *system) ends(gone, ever []bool) {
	for i := range gone {
		if !gone[i] && y.completes(i, gone) {
			gone[i], ever[i] = true, true
			y.ends(gone, ever)
			gone[i] = false
		}
	}
}

// Left is who comes to an end in no order at all.
func TestLeftAgainstAllOrders(t *testing.T) {
	some := 0
	for seed := range int64(2000) {
		y := randomSystem(chance.New(seed))
		n := len(y.holds)
		got, ever := Left(n, y.completes), make([]bool, n)
		y.ends(make([]bool, n), ever)
		for i := range n {
			if got[i] == ever[i] {
				t.Fatalf("seed %d: %+v: left %v, come to an end %v", seed, y, got, ever)
			}
			if got[i] {
				some++
			}
		}
	}
	if some < 500 {
		t.Fatalf("%d are left in all: too few to show anything", some)
	}
}

// cycles lists all simple cycles through a start, by brute force.
func cycles(waits [][]int, start int) (out [][]int) {
	var walk func(way []int)
	walk = func(way []int) {
		for _, next := range waits[way[len(way)-1]] {
			if next == start {
				out = append(out, slices.Clone(way))
			} else if !slices.Contains(way, next) {
				walk(append(slices.Clone(way), next))
			}
		}
	}
	walk([]int{start})
	return out
}

// A ring is one of the shortest cycles, and there is one where there is any; two are in one
// knot where a cycle of steps leads through both.
func TestRingsAgainstAllCycles(t *testing.T) {
	found := 0
	for seed := range int64(2000) {
		s := chance.New(seed)
		waits := make([][]int, 1+s.Below(6))
		for i := range waits {
			for j := range waits {
				if i != j && s.Below(4) == 0 {
					waits[i] = append(waits[i], j)
				}
			}
		}
		of := Knots(waits)
		for i, ring := range Rings(waits) {
			all := cycles(waits, i)
			if len(all) == 0 != (ring == nil) || (of[i] >= 0) != (ring != nil) {
				t.Fatalf("seed %d: %v: ring of %d is %v, knot %d, cycles %v", seed, waits, i, ring, of[i], all)
			}
			if ring == nil {
				continue
			}
			found++
			least := slices.MinFunc(all, func(a, b []int) int { return len(a) - len(b) })
			if len(ring) != len(least) || !slices.ContainsFunc(all, func(c []int) bool { return slices.Equal(c, ring) }) {
				t.Fatalf("seed %d: %v: ring of %d is %v, a shortest cycle %v", seed, waits, i, ring, least)
			}
			for _, j := range ring {
				if of[j] != of[i] {
					t.Fatalf("seed %d: %v: %d is in the ring of %d, and in another knot: %v", seed, waits, j, i, of)
				}
			}
		}
		for i := range of { // whoever is in one knot reaches each other
			for j := range of {
				both := fmt.Sprint(of[i]) == fmt.Sprint(of[j]) && of[i] >= 0 && i != j
				if linked := reaches(waits, i, j) && reaches(waits, j, i); both != (linked && i != j) {
					t.Fatalf("seed %d: %v: knots %v, %d and %d reach each other: %v", seed, waits, of, i, j, linked)
				}
			}
		}
	}
	if found < 1000 {
		t.Fatalf("%d rings in all: too few to show anything", found)
	}
}

func reaches(waits [][]int, from, to int) bool {
	seen := make([]bool, len(waits))
	var walk func(int) bool
	walk = func(at int) bool {
		for _, next := range waits[at] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if walk(next) {
					return true
				}
			}
		}
		return false
	}
	return walk(from)
}
