package web

import (
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/meter"
)

// kind says how a measure is printed.
type kind int

const (
	percent kind = iota
	seconds
	pods
)

// aim says which end of a measure is the good one.
type aim int

const (
	high aim = iota
	low
)

// measure is one figure of a run: a column of the table.
type measure struct {
	name string
	kind kind
	aim  aim
	// of returns NaN where the run does not know the figure.
	of func(r *meter.Result) float64
}

func known(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// timedMeasures are the columns of a timed study; those no run knows are
// dropped.
func timedMeasures() []measure {
	return []measure{
		{"Completion mean", seconds, low, func(r *meter.Result) float64 { return known(r.JCTMeanS) }},
		{"Completion p50", seconds, low, func(r *meter.Result) float64 { return known(r.JCTP50S) }},
		{"Completion p99", seconds, low, func(r *meter.Result) float64 { return known(r.JCTP99S) }},
		{"Wait mean", seconds, low, func(r *meter.Result) float64 { return known(r.WaitMeanS) }},
		{"Wait p99", seconds, low, func(r *meter.Result) float64 { return known(r.WaitP99S) }},
		{"Start mean", seconds, low, func(r *meter.Result) float64 { return known(r.StartMeanS) }},
		{"SLA met", percent, high, func(r *meter.Result) float64 { return known(r.SLAMetPct) }},
		{"Entitlement not served", percent, low, func(r *meter.Result) float64 { return known(r.UnservedMeanPct) }},
		{"Evictions per 1000 jobs", pods, low, func(r *meter.Result) float64 { return 1000 * known(r.EvictionsPerJob) }},
		{"Lost of preempted GPU-hours", percent, low, func(r *meter.Result) float64 { return 100 * known(r.LostPerPreempted) }},
		{"GPU allocated", percent, high, func(r *meter.Result) float64 { return known(r.GPUAllocMeanPct) }},
		{"Fragments", percent, low, func(r *meter.Result) float64 { return known(r.FragMeanPct) }},
		{"GPU use mean", percent, high, func(r *meter.Result) float64 { return known(r.GPUUtilMeanPct) }},
		{"GPU use peak", percent, high, func(r *meter.Result) float64 { return known(r.GPUUtilPeakPct) }},
		{"GPU busy", percent, high, func(r *meter.Result) float64 { return known(r.GPUBusyPct) }},
		{"Placed", pods, high, placed},
		{"Failed", pods, low, failed},
		{"Unfinished", pods, low, func(r *meter.Result) float64 { return float64(r.Unfinished) }},
	}
}

// staticMeasures are the columns of a static study whose runs all reach the
// given arrived demand.
func staticMeasures(at int) []measure {
	where := " at " + figure(float64(at), 0) + nbsp + "% arrived"
	return []measure{
		allocatedAt(at, "Allocated"+where),
		{"Fragmented" + where, percent, low, func(r *meter.Result) float64 {
			return valueAt(r.ArrivedPct, r.FragPct, at)
		}},
		{"Allocated at the end", percent, high, func(r *meter.Result) float64 { return last(r.GPUAllocPct) }},
		{"Fragmented at the end", percent, low, func(r *meter.Result) float64 { return last(r.FragPct) }},
		{"GPU use mean", percent, high, func(r *meter.Result) float64 { return known(r.GPUUtilMeanPct) }},
		{"GPU use peak", percent, high, func(r *meter.Result) float64 { return known(r.GPUUtilPeakPct) }},
		{"Placed", pods, high, placed},
		{"Failed", pods, low, failed},
	}
}

func allocatedAt(at int, name string) measure {
	return measure{name, percent, high, func(r *meter.Result) float64 {
		return valueAt(r.ArrivedPct, r.GPUAllocPct, at)
	}}
}

func placed(r *meter.Result) float64 { return float64(r.Placed) }
func failed(r *meter.Result) float64 { return float64(r.Failed) }

// over sums the measure up over a group's seeds.
func (m measure) over(g group) spread {
	values := make([]float64, len(g.runs))
	for i := range g.runs {
		values[i] = m.of(&g.runs[i])
	}
	return spreadOf(values)
}

// valueAt reads a curve at x, in a straight line between its points, and
// returns NaN outside of it. The curve's xs ascend.
func valueAt(xs []int, ys []float64, x int) float64 {
	n := min(len(xs), len(ys))
	i, exact := slices.BinarySearch(xs[:n], x)
	switch {
	case exact:
		return ys[i]
	case i == 0 || i == n:
		return math.NaN()
	}
	part := float64(x-xs[i-1]) / float64(xs[i]-xs[i-1])
	return ys[i-1] + part*(ys[i]-ys[i-1])
}

func last(ys []float64) float64 {
	if len(ys) == 0 {
		return math.NaN()
	}
	return ys[len(ys)-1]
}

// fullDemand is the arrived demand at which policies are compared: as much as
// the cluster could hold if nothing were lost.
const fullDemand = 100

// reach is the arrived demand that every run of the study got to, at most
// fullDemand; zero when a run has no curve.
func (s study) reach() int {
	at := fullDemand
	for _, g := range s.groups {
		for _, r := range g.runs {
			n := min(len(r.ArrivedPct), len(r.GPUAllocPct))
			if n == 0 {
				return 0
			}
			at = min(at, r.ArrivedPct[n-1])
		}
	}
	return at
}

// table is the summary: a row per policy, a column per measure.
type table struct {
	Caption string
	Columns []column
	Rows    []tableRow
}

type column struct{ Name, Unit string }

type tableRow struct {
	Policy string
	Cells  []cell
}

type cell struct {
	Mean, Deviation string // Deviation is empty for a single seed
	Best            bool
}

func tableOf(s study) table {
	measures := timedMeasures()
	if s.mode == static {
		measures = staticMeasures(s.reach())
	}
	t := table{Caption: s.tableCaption()}
	for _, g := range s.groups {
		t.Rows = append(t.Rows, tableRow{Policy: g.policy})
	}
	for _, m := range measures {
		t.addColumn(m, s.groups)
	}
	return t
}

// sizesOf is the mean time without a place by size of job, where jobs are more than
// pods.
func sizesOf(s study) table {
	t := table{Caption: s.tableCaption()}
	for _, g := range s.groups {
		t.Rows = append(t.Rows, tableRow{Policy: g.policy})
	}
	for _, r := range s.groups[0].runs {
		if r.Jobs == nil {
			return table{}
		}
	}
	for _, size := range s.groups[0].runs[0].Sizes {
		t.addColumn(measure{size.Size, seconds, low, func(r *meter.Result) float64 {
			for _, own := range r.Sizes {
				if own.Size == size.Size {
					return own.WaitMeanS
				}
			}
			return math.NaN()
		}}, s.groups)
	}
	return t
}

func (s study) tableCaption() string {
	parts := []string{"One row per policy."}
	if slices.ContainsFunc(s.groups, func(g group) bool { return len(g.runs) > 1 }) {
		parts = []string{"One row per policy: mean over seeds ± standard deviation."}
	}
	if len(s.groups) > 1 {
		parts = append(parts, "Bold: best in the column.")
	}
	return strings.Join(parts, " ")
}

func (t *table) addColumn(m measure, groups []group) {
	spreads := make([]spread, len(groups))
	none, top := true, 0.0
	for i, g := range groups {
		spreads[i] = m.over(g)
		none = none && spreads[i].n == 0
		top = max(top, spreads[i].mean)
	}
	if none {
		return
	}
	unit, scale, decimals := m.print(top)
	if m.kind == pods && slices.ContainsFunc(spreads, func(sp spread) bool { return sp.mean != math.Trunc(sp.mean) }) {
		decimals = 1 // a mean over seeds
	}
	cells := make([]cell, len(groups))
	for i, sp := range spreads {
		cells[i].Mean = "–"
		if sp.n > 0 {
			cells[i].Mean = figure(sp.mean/scale, decimals)
		}
		if sp.n > 1 {
			cells[i].Deviation = figure(sp.sd/scale, decimals)
			if sp.sd == 0 {
				cells[i].Deviation = "0"
			}
		}
	}
	markBest(cells, spreads, m.aim)
	t.Columns = append(t.Columns, column{m.name, unit})
	for i := range t.Rows {
		t.Rows[i].Cells = append(t.Rows[i].Cells, cells[i])
	}
}

// print chooses a column's unit and decimals from its largest mean.
func (m measure) print(top float64) (unit string, scale float64, decimals int) {
	switch m.kind {
	case seconds:
		u := timeUnitFor(top)
		return u.name, u.seconds, decimalsFor(top / u.seconds)
	case pods:
		return "pods", 1, 0
	}
	return "%", 1, 1
}

// markBest marks every cell that reads like the best one, and none when all
// read alike: then nobody won.
func markBest(cells []cell, spreads []spread, a aim) {
	best := -1
	for i, sp := range spreads {
		if sp.n > 0 && (best < 0 || a.prefers(sp.mean, spreads[best].mean)) {
			best = i
		}
	}
	alike := true
	for i := range cells {
		alike = alike && cells[i].Mean == cells[best].Mean
	}
	for i := range cells {
		cells[i].Best = !alike && cells[i].Mean == cells[best].Mean
	}
}

func (a aim) prefers(x, y float64) bool {
	if a == low {
		return x < y
	}
	return x > y
}
