package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim/rounds"
)

// pool is the runs of one policy over all workloads.
type pool struct {
	policy string
	runs   []*meter.Training
}

func pools(results []meter.Training) []pool {
	var out []pool
	at := map[string]int{}
	for i := range results {
		p := results[i].Policy
		if _, seen := at[p]; !seen {
			at[p] = len(out)
			out = append(out, pool{policy: p})
		}
		out[at[p]].runs = append(out[at[p]].runs, &results[i])
	}
	return out
}

// jcts are the completion times of all jobs in hours.
func (p *pool) jcts() []float64 {
	var list []float64
	for _, r := range p.runs {
		for _, j := range r.Each {
			list = append(list, j.JCTS/3600)
		}
	}
	return list
}

// mean is over the workloads.
func (p *pool) mean(value func(*meter.Training) float64) float64 {
	sum := 0.0
	for _, r := range p.runs {
		sum += value(r)
	}
	return sum / float64(len(p.runs))
}

// weighted is over the jobs.
func (p *pool) weighted(value func(*meter.Training) float64) float64 {
	sum, jobs := 0.0, 0
	for _, r := range p.runs {
		sum, jobs = sum+value(r)*float64(r.Pods), jobs+r.Pods
	}
	return sum / float64(jobs)
}

func (p *pool) most(value func(*meter.Training) float64) float64 {
	most := math.Inf(-1)
	for _, r := range p.runs {
		most = max(most, value(r))
	}
	return most
}

// spread is the standard deviation (of a population) of the workloads' means.
func (p *pool) spread() float64 {
	hours := func(r *meter.Training) float64 { return *r.JCTMeanS / 3600 }
	mean := p.mean(hours)
	return math.Sqrt(p.mean(func(r *meter.Training) float64 { return (hours(r) - mean) * (hours(r) - mean) }))
}

func known(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// poolColumns are the figures of the published tables, in their units.
func poolColumns() []struct {
	title string
	digit int
	value func(*pool) float64
} {
	type column = struct {
		title string
		digit int
		value func(*pool) float64
	}
	mean := func(get func(*meter.Training) float64) func(*pool) float64 {
		return func(p *pool) float64 { return p.mean(get) }
	}
	weighted := func(get func(*meter.Training) float64) func(*pool) float64 {
		return func(p *pool) float64 { return p.weighted(get) }
	}
	most := func(get func(*meter.Training) float64) func(*pool) float64 {
		return func(p *pool) float64 { return p.most(get) }
	}
	return []column{
		{"jobs", 0, func(p *pool) float64 { return float64(len(p.jcts())) }},
		{"completion h", 3, func(p *pool) float64 {
			return p.weighted(func(r *meter.Training) float64 { return *r.JCTMeanS / 3600 })
		}},
		{"±", 3, (*pool).spread},
		{"p99 h", 2, func(p *pool) float64 { return rounds.Percentile(p.jcts(), 99) }},
		{"makespan h", 1, mean(func(r *meter.Training) float64 { return r.MakespanS / 3600 })},
		{"GPU-h/job", 2, weighted(func(r *meter.Training) float64 { return r.GPUHoursPerJob })},
		{"restarts", 2, weighted(func(r *meter.Training) float64 { return r.RestartsMean })},
		{"contention", 1, mean(func(r *meter.Training) float64 { return r.ContentionMean })},
		{"most", 0, most(func(r *meter.Training) float64 { return float64(r.ContentionMax) })},
		{"FTF worst", 2, most(func(r *meter.Training) float64 { return known(r.FTFWorst) })},
		{"unfair %", 2, weighted(func(r *meter.Training) float64 { return known(r.UnfairPct) })},
		{"gap %", 2, most(func(r *meter.Training) float64 { return known(r.GapWorstPct) })},
		{"decide p50 ms", 2, mean(func(r *meter.Training) float64 { return r.DecideP50Us / 1000 })},
		{"p95 ms", 2, mean(func(r *meter.Training) float64 { return r.DecideP95Us / 1000 })},
		{"run s", 2, mean(func(r *meter.Training) float64 { return r.WallMs / 1000 })},
	}
}

// writeTrainingTable prints one line per policy, over all workloads, and the mean
// completion time of each workload.
func writeTrainingTable(w io.Writer, results []meter.Training) error {
	all := pools(results)
	first := &results[0]
	fmt.Fprintf(w, "%s, %d workloads, %s\n\n", first.Source, len(all[0].runs), first.Cluster)
	rows := [][]string{{"policy"}}
	for _, p := range all {
		rows = append(rows, []string{p.policy})
	}
	for _, c := range poolColumns() {
		cells, some := []string{c.title}, false
		for i := range all {
			x := c.value(&all[i])
			if math.IsNaN(x) || math.IsInf(x, 0) {
				cells = append(cells, "-")
				continue
			}
			some = true
			cells = append(cells, strconv.FormatFloat(x, 'f', c.digit, 64))
		}
		for i := range rows {
			if some {
				rows[i] = append(rows[i], cells[i])
			}
		}
	}
	if err := align(w, rows); err != nil || len(all[0].runs) < 2 {
		return err
	}
	fmt.Fprint(w, "\nMean completion time in hours, by workload\n\n")
	rows = [][]string{{"policy"}}
	for _, r := range all[0].runs {
		rows[0] = append(rows[0], r.Workload)
	}
	for _, p := range all {
		line := []string{p.policy}
		for _, r := range p.runs {
			line = append(line, strconv.FormatFloat(*r.JCTMeanS/3600, 'f', 3, 64))
		}
		rows = append(rows, line)
	}
	if err := align(w, rows); err != nil || len(all) < 2 {
		return err
	}
	fmt.Fprintf(w, "\nMean completion time against that of %s, %%, paired by workload, with the interval of 95 %% of %d bootstrap draws\n\n", all[0].policy, bootstraps)
	rows = [][]string{{"policy", "difference", "from", "to"}}
	for i := range all[1:] {
		middle, low, high := paired(&all[0], &all[i+1])
		line := []string{all[i+1].policy}
		for _, x := range []float64{middle, low, high} {
			line = append(line, strconv.FormatFloat(x, 'f', 1, 64))
		}
		rows = append(rows, line)
	}
	return align(w, rows)
}

// bootstraps is how often workloads are drawn for an interval.
const bootstraps = 10_000

// paired is the difference of the mean completion time of b to that of a in percent
// of a's, and the interval of 95 % when the workloads are drawn again.
func paired(a, b *pool) (middle, low, high float64) {
	n := int64(len(a.runs))
	difference := func(draw func(i int) int) float64 {
		sumA, sumB := 0.0, 0.0
		for i := range a.runs {
			k := draw(i)
			sumA, sumB = sumA+*a.runs[k].JCTMeanS, sumB+*b.runs[k].JCTMeanS
		}
		return 100 * (sumB/sumA - 1)
	}
	source, draws := chance.New(1), make([]float64, bootstraps)
	for d := range draws {
		draws[d] = difference(func(int) int { return int(source.Below(n)) })
	}
	slices.Sort(draws)
	return difference(func(i int) int { return i }), draws[bootstraps/40], draws[bootstraps-1-bootstraps/40]
}
