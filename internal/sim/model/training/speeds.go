package training

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// Speeds is how a kind steps on one GPU model.
type Speeds struct {
	GPU string
	// MinLocal and MaxLocal bound the batch on one GPU.
	MinLocal, MaxLocal int
	kind               string
	shapes             map[string][]point // by shape, ascending local batch
	mostOf             map[int]int        // largest local batch measured, by GPUs
	scale              []trace.StepRow
	points             []trace.StepRow
	simplices          [][4]int
	// Single is the throughput of one GPU as a scheduler may know it beforehand, in
	// examples per second: the largest batch over the longest step.
	Single float64
}

type point struct {
	local      int
	step, sync float64
}

// siaDeepspeech is the largest batch of deepspeech2 on a 2080Ti that policies of
// the Sia artefact count on, below what was measured.
const siaDeepspeech = 57

func newSpeeds(kind string, t trace.StepTable, maxLocal int) (*Speeds, error) {
	s := &Speeds{
		GPU: t.GPU, MinLocal: math.MaxInt, kind: kind, scale: t.Scale, points: t.Points, simplices: t.Simplices,
		shapes: map[string][]point{}, mostOf: map[int]int{},
	}
	longest, largest := 0.0, 0
	for _, row := range t.Shapes {
		s.shapes[row.Shape] = append(s.shapes[row.Shape], point{row.Local, row.Step, row.Sync})
		s.mostOf[row.GPUs] = max(s.mostOf[row.GPUs], row.Local)
		s.MinLocal, s.MaxLocal = min(s.MinLocal, row.Local), max(s.MaxLocal, row.Local)
		if row.GPUs == 1 {
			longest, largest = max(longest, row.Step), max(largest, row.Local)
		}
	}
	if largest == 0 {
		return nil, fmt.Errorf("%s on %s: the placements table has no row for one GPU", kind, t.GPU)
	}
	s.Single = float64(largest) / longest
	if maxLocal > 0 {
		s.MaxLocal = maxLocal
	}
	for shape, rows := range s.shapes { // order: each is sorted alone.
		slices.SortFunc(rows, func(a, b point) int { return a.local - b.local })
		for i := 1; i < len(rows); i++ {
			if rows[i].local == rows[i-1].local {
				return nil, fmt.Errorf("%s on %s: the placements table has shape %s with batch %d twice", kind, t.GPU, shape, rows[i].local)
			}
		}
	}
	return s, nil
}

// PolicyMaxLocal is the largest batch on a GPU that a policy may count on.
func (s *Speeds) PolicyMaxLocal() int {
	if s.kind == "deepspeech2" && s.GPU == "rtx" {
		return min(s.MaxLocal, siaDeepspeech)
	}
	return s.MaxLocal
}

// shapeOf writes a placement (GPUs on each node) as the tables do: the smallest of
// its rotations, a digit a node.
func shapeOf(placement []int) string {
	digits := make([]byte, len(placement))
	for i, n := range placement {
		if n > 9 {
			return "" // in no table
		}
		digits[i] = byte('0' + n)
	}
	twice, best := string(digits)+string(digits), string(digits)
	for i := 1; i < len(digits); i++ {
		best = min(best, twice[i:i+len(digits)])
	}
	return best
}

// Step is the time of one step, and the part of it that is communication, with a
// batch on each GPU.
func (s *Speeds) Step(placement []int, local int) (step, sync float64, err error) {
	if rows := s.shapes[shapeOf(placement)]; rows != nil {
		return s.inTable(rows, placement, local)
	}
	return s.between(placement, local)
}

// inTable is linear in the batch between the two measured ones around it.
func (s *Speeds) inTable(rows []point, placement []int, local int) (step, sync float64, err error) {
	first, last := rows[0].local, rows[len(rows)-1].local
	if local < first || local > last {
		return 0, 0, fmt.Errorf("%s on %s GPUs %v: batch %d on a GPU is outside the measured %d to %d", s.kind, s.GPU, placement, local, first, last)
	}
	if len(rows) == 1 {
		return rows[0].step, rows[0].sync, nil
	}
	hi, _ := slices.BinarySearchFunc(rows, local, func(p point, b int) int { return p.local - b })
	hi = max(hi, 1)
	a, b := rows[hi-1], rows[hi]
	width, at := float64(b.local-a.local), float64(local-a.local)
	line := func(low, high float64) float64 { return float64((high-low)/width*at) + low }
	return line(a.step, b.step), line(a.sync, b.sync), nil
}

// maxNodes is where the triangulation ends: more nodes count as so many.
const maxNodes = 16

// between interpolates in the triangulation over (nodes, GPUs, batch on a GPU).
func (s *Speeds) between(placement []int, local int) (step, sync float64, err error) {
	gpus := 0
	for _, n := range placement {
		gpus += n
	}
	at := [3]float64{float64(min(len(placement), maxNodes)), float64(gpus), float64(local)}
	best, found := -math.MaxFloat64, -1
	var weights [4]float64
	for i := range s.simplices {
		w, ok := s.barycentric(i, at)
		if least := min(w[0], w[1], w[2], w[3]); ok && least > best {
			best, found, weights = least, i, w
			if least >= 0 {
				break
			}
		}
	}
	// Rounding may put a point on a face a hair outside of both its neighbours.
	const hair = 1e-9
	if found < 0 || best < -hair {
		return 0, 0, fmt.Errorf("%s on %s GPUs %v with batch %d on a GPU: neither in the table of shapes nor inside the triangulation", s.kind, s.GPU, placement, local)
	}
	for i, corner := range s.simplices[found] {
		step += float64(weights[i] * s.points[corner].Step)
		sync += float64(weights[i] * s.points[corner].Sync)
	}
	return step, sync, nil
}

// barycentric are the weights of the corners of a tetrahedron at a point; all are
// positive inside. A flat one has none.
func (s *Speeds) barycentric(simplex int, at [3]float64) (w [4]float64, ok bool) {
	var p [4][3]float64
	for i, corner := range s.simplices[simplex] {
		row := s.points[corner]
		p[i] = [3]float64{float64(row.Nodes), float64(row.GPUs), float64(row.Local)}
	}
	var m [3][3]float64 // columns: corners 0..2 seen from corner 3
	for i := range 3 {
		for c := range 3 {
			m[i][c] = p[c][i] - p[3][i]
		}
	}
	whole := det(m)
	if whole == 0 {
		return w, false
	}
	w[3] = 1
	for c := range 3 {
		n := m
		for i := range 3 {
			n[i][c] = at[i] - p[3][i]
		}
		w[c] = det(n) / whole
		w[3] -= w[c]
	}
	return w, true
}

func det(m [3][3]float64) float64 {
	return float64(m[0][0]*(float64(m[1][1]*m[2][2])-float64(m[1][2]*m[2][1]))) -
		float64(m[0][1]*(float64(m[1][0]*m[2][2])-float64(m[1][2]*m[2][0]))) +
		float64(m[0][2]*(float64(m[1][0]*m[2][1])-float64(m[1][1]*m[2][0])))
}

// MostLocal is the largest batch on a GPU for a placement, as measured on its
// shape or, where that is in no table, on any of at least its size.
func (s *Speeds) MostLocal(placement []int) int {
	if rows := s.shapes[shapeOf(placement)]; rows != nil {
		return rows[len(rows)-1].local
	}
	gpus, most := 0, 0
	for _, n := range placement {
		gpus += n
	}
	for _, row := range s.scale {
		if row.Nodes >= len(placement) && row.GPUs >= gpus {
			most = max(most, row.Local)
		}
	}
	if most == 0 {
		return s.MaxLocal
	}
	return most
}

// String names the table in messages.
func (s *Speeds) String() string { return strings.Join([]string{s.kind, s.GPU}, "/") }
