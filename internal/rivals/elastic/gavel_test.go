package elastic

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// halves draws numbers of the size of rates and of GPUs: an error that counts is not one
// of rounding.
func halves(least int) *rapid.Generator[float64] {
	return rapid.Map(rapid.IntRange(least, 18), func(n int) float64 { return float64(n) / 2 })
}

// TestSimplexDual: at the optimum, prices of the limits prove it. They are found as
// the solution of the dual program, which is brought into the form of the first by
// keeping all its numbers positive.
func TestSimplexDual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "m")
		p := program{}
		for range n {
			p.value = append(p.value, halves(0).Draw(t, "value"))
		}
		for range m {
			var row []float64
			for range n {
				row = append(row, halves(1).Draw(t, "a"))
			}
			p.rows, p.limit = append(p.rows, row), append(p.limit, halves(0).Draw(t, "limit"))
		}
		x := p.solve()
		got := 0.0
		for j := range x {
			got += x[j] * p.value[j]
		}
		for i, row := range p.rows {
			sum := 0.0
			for j := range x {
				sum += row[j] * x[j]
			}
			if sum > p.limit[i]+1e-6 {
				t.Fatalf("row %d: %v above its limit %v", i, sum, p.limit[i])
			}
		}
		if want := corners(&p); math.Abs(got-want) > 1e-6*(1+want) {
			t.Fatalf("value %v, the best corner has %v", got, want)
		}
	})
}

// corners is the oracle: the best of all corners, each where as many limits (or
// zeros) hold exactly as there are unknowns.
func corners(p *program) float64 {
	n, m := len(p.value), len(p.rows)
	best := 0.0
	for set := range 1 << (n + m) {
		var rows [][]float64
		for i := range n + m {
			if set>>i&1 == 0 {
				continue
			}
			row := make([]float64, n+1)
			if i < n {
				row[i] = 1
			} else {
				copy(row, p.rows[i-n])
				row[n] = p.limit[i-n]
			}
			rows = append(rows, row)
		}
		if len(rows) != n {
			continue
		}
		if x, ok := eliminate(rows); ok && p.allows(x) {
			sum := 0.0
			for j := range x {
				sum += x[j] * p.value[j]
			}
			best = math.Max(best, sum)
		}
	}
	return best
}

func (p *program) allows(x []float64) bool {
	for _, v := range x {
		if v < -1e-7 {
			return false
		}
	}
	for i, row := range p.rows {
		sum := 0.0
		for j := range x {
			sum += row[j] * x[j]
		}
		if sum > p.limit[i]+1e-7 {
			return false
		}
	}
	return true
}

// eliminate solves a square system, the right side in the last column.
func eliminate(rows [][]float64) ([]float64, bool) {
	n := len(rows)
	for c := range n {
		top := c
		for i := c; i < n; i++ {
			if math.Abs(rows[i][c]) > math.Abs(rows[top][c]) {
				top = i
			}
		}
		if math.Abs(rows[top][c]) < 1e-9 {
			return nil, false
		}
		rows[c], rows[top] = rows[top], rows[c]
		for i := range n {
			if i == c {
				continue
			}
			f := rows[i][c] / rows[c][c]
			for j := range rows[i] {
				rows[i][j] -= f * rows[c][j]
			}
		}
	}
	x := make([]float64, n)
	for i := range n {
		x[i] = rows[i][n] / rows[i][i]
	}
	return x, true
}

// TestGavelShares: two jobs of which one gains ten times on the fast GPU and the
// other nothing: the first has the fast GPU and the second the slow one, all the
// time.
func TestGavelShares(t *testing.T) {
	p := newGavel(Cluster{{Name: "slow", Nodes: 1, PerNode: 1}, {Name: "fast", Nodes: 1, PerNode: 1}})
	rates := [][2]float64{{1, 10}, {1, 1}}
	var jobs []Job
	for i := range rates {
		jobs = append(jobs, Job{ID: i, Kind: "k", GPUs: 1, Rate: func(typ int) float64 { return rates[i][typ] }})
	}
	for range 5 {
		seats := p.Round(0, jobs)
		for i, want := range []int{1, 0} {
			if seats[i].Empty() || seats[i].Type != want {
				t.Errorf("job %d: seat %+v, want one of type %d", i, seats[i], want)
			}
			jobs[i].Seat = seats[i]
		}
	}
}

// TestGavelTurns: three equal jobs on two GPUs have them in turn.
func TestGavelTurns(t *testing.T) {
	p := newGavel(Cluster{{Name: "gpu", Nodes: 1, PerNode: 2}})
	jobs := make([]Job, 3)
	for i := range jobs {
		jobs[i] = Job{ID: i, Kind: "k", GPUs: 1, Rate: func(int) float64 { return 1 }}
	}
	had := make([]int, 3)
	for range 30 {
		seats := p.Round(0, jobs)
		for i := range jobs {
			jobs[i].Seat = seats[i]
			had[i] += len(seats[i].Nodes)
		}
	}
	for i, n := range had {
		if n < 19 || n > 21 {
			t.Errorf("job %d had %d of 60 GPU rounds, want about 20: %v", i, n, had)
		}
	}
}
