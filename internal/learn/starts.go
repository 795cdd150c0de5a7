package learn

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Starts follows how far foretold waits were off, by cells of waits that are alike. It
// tracks three quantiles of the quotient of true and foretold wait: after each wait each
// of them moves by a step, up by its level or down by the rest, so that in the long run
// a tenth, a half and nine tenths of the quotients are below them, whatever they are
// like and however that changes (Gibbs and Candès, "Adaptive conformal inference", NeurIPS
// 2021). The zero value has seen nothing.
type Starts struct {
	cells map[uint64]*quotients
}

// levels are the quantiles that are followed, in thousandths.
var levels = [3]float64{0.1, 0.5, 0.9}

const (
	// stride is how far a quantile moves at most for one wait, in powers of e, and
	// strideAgain for what is said of a wait once more: the many that wait at once, told
	// every hour, teach little more than one of them told once.
	stride      = 0.1
	strideAgain = 0.007
	// mostQuotient bounds quotients, in powers of e.
	mostQuotient = 7
)

// prior is what is thought of a wait before any was seen: a play knows nothing of who is
// still to come, and a burst is over before its first waits are.
var prior = [3]float64{-1.5, 0, 1.75}

// quotients are those of one cell, as logarithms.
type quotients struct {
	at   [3]float64
	runs int32
}

// Wait is one that has been foretold and is not over. What it has taught so far is in it.
type Wait struct {
	cells  [2]*quotients
	taught [2][3]bool
	stride float64
}

// Foretold begins to follow a wait that belongs to two cells, the narrower first; again
// says that something was foretold of it before.
func (s *Starts) Foretold(own, any uint64, again bool) Wait {
	wide := s.cell(any, prior)
	w := Wait{cells: [2]*quotients{s.cell(own, wide.at), wide}, stride: stride}
	if again {
		w.stride = strideAgain
	}
	return w
}

// cell returns the quotients of a cell; of a new one they are as told.
func (s *Starts) cell(key uint64, at [3]float64) *quotients {
	if s.cells == nil {
		s.cells = make(map[uint64]*quotients)
	}
	q := s.cells[key]
	if q == nil {
		q = &quotients{at: at}
		s.cells[key] = q
	}
	return q
}

// Lasts says that a wait has lasted for so much of what was foretold, and goes on: where
// that is more than a quantile, its being above is known already. It says whether there
// is more to learn.
func (w *Wait) Lasts(quotient float64) (more bool) {
	r := logarithm(quotient)
	for i, q := range w.cells {
		for k := range q.at {
			if !w.taught[i][k] && r > q.at[k] {
				w.taught[i][k] = true
				q.move(k, w.stride, true)
			}
			more = more || !w.taught[i][k]
		}
	}
	return more
}

// Over says that a wait is over, after so much of what was foretold.
func (w *Wait) Over(quotient float64) {
	r := logarithm(quotient)
	for i, q := range w.cells {
		for k := range q.at {
			if !w.taught[i][k] {
				q.move(k, w.stride, r > q.at[k])
			}
		}
		q.runs = min(q.runs+1, math.MaxInt32-1)
	}
}

func logarithm(quotient float64) float64 {
	return min(max(math.Log(max(quotient, 1e-9)), -mostQuotient), mostQuotient)
}

func (q *quotients) move(k int, stride float64, above bool) {
	step := -stride * (1 - levels[k])
	if above {
		step = stride * levels[k]
	}
	q.at[k] = min(max(q.at[k]+step, -mostQuotient), mostQuotient)
}

// Table returns the corrections of all cells.
func (s *Starts) Table() *cluster.Starts {
	out := &cluster.Starts{ByCell: make(map[uint64]cluster.Correction, len(s.cells))}
	for key, q := range s.cells { // order: a map is filled
		out.ByCell[key] = q.correction()
	}
	out.Prior = (&quotients{at: prior}).correction()
	return out
}

func (q *quotients) correction() cluster.Correction {
	at := q.at // quantiles that are followed apart may cross
	slices.Sort(at[:])
	milli := func(k int) quantity.Milli { return quantity.Milli(math.Exp(at[k])*1000 + 0.5) }
	return cluster.Correction{Low: milli(0), Likely: milli(1), High: milli(2), Runs: q.runs}
}
