package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim"
)

// write prints the results in one of the formats.
func write(w io.Writer, format string, results []meter.Result) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	case "csv":
		return writeCSV(w, results)
	}
	return writeTable(w, results)
}

// column is one figure of a result; absent ones are NaN.
type column struct {
	title string
	digit int
	value func(r *meter.Result) float64
}

func optional(get func(r *meter.Result) *float64) func(*meter.Result) float64 {
	return func(r *meter.Result) float64 {
		if x := get(r); x != nil {
			return *x
		}
		return math.NaN()
	}
}

// at reads a curve at a percentage of arrived demand.
func at(percent int, curve func(r *meter.Result) []float64) func(*meter.Result) float64 {
	return func(r *meter.Result) float64 {
		for i, p := range r.ArrivedPct {
			if p == percent {
				return curve(r)[i]
			}
		}
		return math.NaN()
	}
}

func allocation(r *meter.Result) []float64 { return r.GPUAllocPct }
func fragments(r *meter.Result) []float64  { return r.FragPct }

func counted(get func(r *meter.Result) int) func(*meter.Result) float64 {
	return func(r *meter.Result) float64 { return float64(get(r)) }
}

func columns(mode string) []column {
	common := []column{
		{"pods", 0, counted(func(r *meter.Result) int { return r.Pods })},
		{"placed", 0, counted(func(r *meter.Result) int { return r.Placed })},
	}
	cost := []column{
		{"decide p50 µs", 1, func(r *meter.Result) float64 { return r.DecideP50Us }},
		{"p99 µs", 0, func(r *meter.Result) float64 { return r.DecideP99Us }},
		{"run ms", 0, func(r *meter.Result) float64 { return r.WallMs }},
	}
	if mode == sim.Static {
		return append(append(common,
			column{"failed", 0, counted(func(r *meter.Result) int { return r.Failed })},
			column{"alloc@90 %", 2, at(90, allocation)}, column{"@95 %", 2, at(95, allocation)},
			column{"@100 %", 2, at(100, allocation)}, column{"@130 %", 2, at(130, allocation)},
			column{"frag@100 %", 2, at(100, fragments)}, column{"@130 %", 2, at(130, fragments)}), cost...)
	}
	return append(append(common,
		column{"unfinished", 0, counted(func(r *meter.Result) int { return r.Unfinished })},
		column{"alloc %", 1, optional(func(r *meter.Result) *float64 { return r.GPUAllocMeanPct })},
		column{"frag %", 1, optional(func(r *meter.Result) *float64 { return r.FragMeanPct })},
		column{"util %", 1, optional(func(r *meter.Result) *float64 { return r.GPUUtilMeanPct })},
		column{"peak %", 1, optional(func(r *meter.Result) *float64 { return r.GPUUtilPeakPct })},
		column{"busy %", 1, optional(func(r *meter.Result) *float64 { return r.GPUBusyPct })},
		column{"start s", 1, optional(func(r *meter.Result) *float64 { return r.StartMeanS })},
		column{"SLA met %", 1, optional(func(r *meter.Result) *float64 { return r.SLAMetPct })},
		column{"wait s", 1, optional(func(r *meter.Result) *float64 { return r.WaitMeanS })},
		column{"p99 s", 0, optional(func(r *meter.Result) *float64 { return r.WaitP99S })},
		column{"completion s", 0, optional(func(r *meter.Result) *float64 { return r.JCTMeanS })},
		column{"p50 s", 0, optional(jobFigure(func(r *meter.Result) *float64 { return r.JCTP50S }))},
		column{"p99 s", 0, optional(func(r *meter.Result) *float64 { return r.JCTP99S })},
		column{"not served %", 1, optional(func(r *meter.Result) *float64 { return r.UnservedMeanPct })},
		column{"moves", 0, optional(func(r *meter.Result) *float64 { return r.Moves })},
		column{"evictions/job", 3, optional(func(r *meter.Result) *float64 { return r.EvictionsPerJob })},
		column{"lost GPU-h", 0, optional(func(r *meter.Result) *float64 { return r.LostGPUH })},
		column{"of preempted %", 2, func(r *meter.Result) float64 {
			if r.LostPerPreempted == nil {
				return math.NaN()
			}
			return 100 * *r.LostPerPreempted
		}}), cost...)
}

// jobFigure is a figure that is shown where jobs are more than pods.
func jobFigure(get func(r *meter.Result) *float64) func(*meter.Result) *float64 {
	return func(r *meter.Result) *float64 {
		if r.Jobs == nil {
			return nil
		}
		return get(r)
	}
}

// writeTable prints one line per policy: means over the seeds. Figures that the
// mode cannot know are left out.
func writeTable(w io.Writer, results []meter.Result) error {
	if len(results) == 0 {
		return nil
	}
	results, tidied := apartTidied(results)
	first := &results[0]
	fmt.Fprintf(w, "%s, %s, %s mode, %s\n\n", first.Source, first.Workload, first.Mode, seedText(results))
	if err := writeColumns(w, results, columns(first.Mode)); err != nil {
		return err
	}
	if err := writeTidied(w, results, tidied); err != nil {
		return err
	}
	if first.Jobs == nil {
		return writeStarts(w, results)
	}
	fmt.Fprint(w, "\nMean time without a place, by size of job, in seconds\n\n")
	var sizes []column
	for _, size := range first.Sizes {
		sizes = append(sizes, column{size.Size, 0, func(r *meter.Result) float64 {
			for _, s := range r.Sizes {
				if s.Size == size.Size {
					return s.WaitMeanS
				}
			}
			return math.NaN()
		}})
	}
	if err := writeColumns(w, results, sizes); err != nil {
		return err
	}
	return writeStarts(w, results)
}

// writeStarts prints how true foretold starts were, one line per occasion and length of
// the wait, for each run that tells.
func writeStarts(w io.Writer, results []meter.Result) error {
	for i := range results {
		r := &results[i]
		if len(r.Starts) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nForetold starts, %s, seed %d: of those who waited for more than a minute\n\n", r.Policy, r.Seed)
		rows := [][]string{{"told", "wait foretold", "forecasts", "held %", "earlier %", "later %", "off by, median s", "% of wait", "wait, median s", "interval, median s", "played held %", "off by, median s"}}
		number := func(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
		for _, s := range r.Starts {
			rows = append(rows, []string{
				s.When, s.Foretold, strconv.Itoa(s.Forecasts), number(s.HeldPct, 1), number(s.EarlierPct, 1), number(s.LaterPct, 1), number(s.ErrorP50S, 0),
				number(s.ErrorP50Pct, 0), number(s.WaitP50S, 0), number(s.WidthP50S, 0), number(s.PlayedHeldPct, 1), number(s.PlayedErrorS, 0),
			})
		}
		if err := align(w, rows); err != nil {
			return err
		}
	}
	return nil
}

// writeColumns prints one line per policy.
func writeColumns(w io.Writer, results []meter.Result, columns []column) error {
	policies, byPolicy := group(results)
	rows := [][]string{{"policy"}}
	for _, p := range policies {
		rows = append(rows, []string{p})
	}
	for _, c := range columns {
		cells, known := []string{c.title}, false
		for _, p := range policies {
			mean := meanOf(byPolicy[p], c.value)
			if math.IsNaN(mean) {
				cells = append(cells, "-")
				continue
			}
			known = true
			cells = append(cells, strconv.FormatFloat(mean, 'f', c.digit, 64))
		}
		if known {
			for i := range rows {
				rows[i] = append(rows[i], cells[i])
			}
		}
	}
	return align(w, rows)
}

func seedText(results []meter.Result) string {
	low, high, seen := results[0].Seed, results[0].Seed, map[int64]bool{}
	for i := range results {
		low, high = min(low, results[i].Seed), max(high, results[i].Seed)
		seen[results[i].Seed] = true
	}
	if len(seen) == 1 {
		return fmt.Sprintf("seed %d", low)
	}
	return fmt.Sprintf("means over %d seeds %d..%d", len(seen), low, high)
}

func group(results []meter.Result) ([]string, map[string][]*meter.Result) {
	var order []string
	by := make(map[string][]*meter.Result)
	for i := range results {
		p := results[i].Policy
		if by[p] == nil {
			order = append(order, p)
		}
		by[p] = append(by[p], &results[i])
	}
	return order, by
}

// meanOf is the mean over the runs that know the figure, NaN where none does.
func meanOf(runs []*meter.Result, value func(*meter.Result) float64) float64 {
	sum, n := 0.0, 0
	for _, r := range runs {
		if x := value(r); !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(n)
}

// align prints rows with the first column to the left and the others to the
// right.
func align(w io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0 && len(row) > 1:
				b.WriteString(cell + pad)
			case i == 0:
				b.WriteString(cell)
			default:
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCSV prints one row per run with the scalar fields of the JSON, under the
// same names; unknown ones are empty. Curves are in the JSON only.
func writeCSV(w io.Writer, results []meter.Result) error {
	rows := make([][]string, len(results))
	for i := range results {
		rows[i] = results[i].Scalars()
	}
	return writeRows(w, meter.ScalarNames(), rows)
}

func writeRows(w io.Writer, names []string, rows [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(names); err != nil {
		return err
	}
	return out.WriteAll(rows)
}
