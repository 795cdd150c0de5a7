package web

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/meter"
)

// maxPoints bounds a line of a chart: about one point per pixel of a column.
const maxPoints = 600

// Axes that assets/chart.js knows.
const (
	axisPercent = "pct"  // 0..130, arrived demand
	axisTime    = "time" // simulated seconds
	axisLog     = "log"  // seconds, logarithmic
	axisCount   = "count"
	axisShare   = "share" // 0..100 %, always whole
	axisNear    = "near"  // pictures only: from the least value on
)

// chart is one plot, for the page (Title, Unit, Note) and for the script.
type chart struct {
	Title    string `json:"title"`
	Unit     string `json:"unit"`
	Note     string `json:"note,omitempty"`
	X        string `json:"x"`
	XLabel   string `json:"xLabel"`
	Y        string `json:"y"`
	Diagonal bool   `json:"diagonal,omitempty"` // y = x: everything placed
	Zoom     bool   `json:"zoom,omitempty"`     // offer 80..130
	Lines    []line `json:"lines"`
}

// line is one policy in a chart. Low and High, when present, are the least and
// the greatest over seeds.
type line struct {
	Policy int      `json:"policy"` // index into the study's policies
	X      []number `json:"xs"`
	Y      []number `json:"ys"`
	Low    []number `json:"lo,omitempty"`
	High   []number `json:"hi,omitempty"`
}

// chartsOf returns the charts of a study, without those that have nothing to
// show.
func chartsOf(s study) []chart {
	charts := timedCharts(s)
	if s.mode == static {
		charts = staticCharts(s)
	}
	return slices.DeleteFunc(charts, func(c chart) bool { return len(c.Lines) == 0 })
}

func staticCharts(s study) []chart {
	against := ""
	if s.fragTarget != "" {
		against = "Fragments counted against " + s.fragTarget + "."
	}
	band := ""
	if slices.ContainsFunc(s.groups, func(g group) bool { return len(g.runs) > 1 }) {
		band = "Line: mean over seeds. Band: least to greatest."
	}
	alloc := chart{
		Title: "Allocation", Unit: "GPU allocated, % of capacity",
		Note: joined("Dashed: everything that arrived is placed.", band),
		X:    axisPercent, XLabel: "GPU demand arrived, % of capacity", Y: axisPercent,
		Diagonal: true, Zoom: true,
	}
	frag := chart{
		Title: "Fragmentation", Unit: "GPU fragmented, % of capacity",
		Note: joined(against, band),
		X:    axisPercent, XLabel: "GPU demand arrived, % of capacity", Y: axisPercent,
		Zoom: true,
	}
	for i, g := range s.groups {
		alloc.add(i, overSeeds(g, func(r *meter.Result) []float64 { return r.GPUAllocPct }))
		frag.add(i, overSeeds(g, func(r *meter.Result) []float64 { return r.FragPct }))
	}
	return []chart{alloc, frag}
}

func timedCharts(s study) []chart {
	overTime := func(title, unit, axis string, thin thinner, of func(meter.Sample) float64) chart {
		c := chart{Title: title, Unit: unit, X: axisTime, XLabel: "simulated time", Y: axis}
		some := false
		for i, g := range s.groups {
			if d, _ := g.detail(); d != nil {
				some = some || slices.ContainsFunc(d.Series, func(p meter.Sample) bool { return of(p) > 0 })
				l, note := sampled(d.Series, thin, of)
				c.add(i, l)
				c.Note = cmp.Or(c.Note, note)
			}
		}
		if !some {
			c.Lines = nil // zero throughout means unknown
		}
		return c
	}
	distribution := func(title, note string, of func(*meter.Detail) []float64) chart {
		c := chart{
			Title: title, Unit: "pods at or below, %", Note: note,
			X: axisLog, XLabel: "time, logarithmic", Y: axisShare,
		}
		for i, g := range s.groups {
			if d, _ := g.detail(); d != nil {
				c.add(i, cumulative(of(d)))
			}
		}
		return c
	}
	charts := []chart{
		overTime("GPU allocated over time", "% of capacity", axisPercent, levels,
			func(p meter.Sample) float64 { return p.GPUAllocPct }),
		overTime("GPU busy over time", "% of capacity, really working", axisPercent, levels,
			func(p meter.Sample) float64 { return p.GPUBusyPct }),
		overTime("Fragmentation over time", "GPU fragmented, % of capacity", axisPercent, levels,
			func(p meter.Sample) float64 { return p.FragPct }),
		overTime("Waiting pods over time", "pods", axisCount, peaks,
			func(p meter.Sample) float64 { return float64(p.Waiting) }),
		overTime("Entitlement not served over time", "of what queues deserve and want, %", axisPercent, levels,
			func(p meter.Sample) float64 { return p.UnservedPct }),
		distribution("Waiting time", "Pods that started.", func(d *meter.Detail) []float64 { return d.WaitsS }),
		distribution("Completion time", "Pods that finished.", func(d *meter.Detail) []float64 { return d.JCTsS }),
	}
	charts = append(charts, s.startsHeld())
	for _, q := range s.largestQueues() {
		use := overTime("GPUs of queue "+q.Queue, "GPUs in use", axisCount, levels, func(p meter.Sample) float64 {
			if q.at < len(p.QueueGPU) {
				return p.QueueGPU[q.at]
			}
			return 0
		})
		use.Note = joined("It deserves "+figure(q.DeservedGPU, 1)+nbsp+"GPU.", use.Note)
		charts = append(charts, use)
	}
	return charts
}

// startsHeld is how many foretold starts fell in their interval, by week.
func (s study) startsHeld() chart {
	const week = 7 * 24 * 3600
	c := chart{
		Title: "Foretold starts held", Unit: "of the intervals told in a week, % that have the true start", Note: "80 % is meant.",
		X: axisTime, XLabel: "simulated time", Y: axisShare,
	}
	for i, g := range s.groups {
		var l line
		for k, held := range g.runs[0].StartsWeekPct {
			if g.runs[0].StartsWeek[k] > 0 {
				l.X, l.Y = append(l.X, number(k*week)), append(l.Y, number(held))
			}
		}
		c.add(i, l)
	}
	return c
}

// mostQueues bounds the charts of single queues.
const mostQueues = 6

// queueAt is a queue with its place in the samples.
type queueAt struct {
	meter.QueueUse
	at int
}

// largestQueues lists the queues, those that deserve most first.
func (s study) largestQueues() []queueAt {
	var out []queueAt
	for i, q := range s.groups[0].runs[0].Queues {
		out = append(out, queueAt{q, i})
	}
	slices.SortStableFunc(out, func(a, b queueAt) int { return cmp.Compare(b.DeservedGPU, a.DeservedGPU) })
	return out[:min(len(out), mostQueues)]
}

func (c *chart) add(policy int, l line) {
	if len(l.X) > 0 {
		l.Policy = policy
		c.Lines = append(c.Lines, l)
	}
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}

// overSeeds sums one curve up over a group's seeds, at every arrived demand
// that any of them has.
func overSeeds(g group, of func(*meter.Result) []float64) line {
	at := map[int][]float64{}
	for i := range g.runs {
		r := &g.runs[i]
		ys := of(r)
		for k, x := range r.ArrivedPct[:min(len(r.ArrivedPct), len(ys))] {
			at[x] = append(at[x], ys[k])
		}
	}
	xs := make([]int, 0, len(at))
	for x := range at { // order: sorted below
		xs = append(xs, x)
	}
	slices.Sort(xs)
	var l line
	for _, i := range evenly(len(xs), maxPoints) {
		sp := spreadOf(at[xs[i]])
		if sp.n == 0 {
			continue
		}
		l.X = append(l.X, number(xs[i]))
		l.Y = append(l.Y, number(sp.mean))
		l.Low = append(l.Low, number(sp.low))
		l.High = append(l.High, number(sp.top))
	}
	if len(g.runs) < 2 {
		l.Low, l.High = nil, nil
	}
	return l
}
