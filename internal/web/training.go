package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/meter"
)

// TrainingPlots draws runs of elastic training jobs: how long jobs took, over all
// workloads; and of the first workload who held which GPUs when, and one job's life
// where it was followed.
func TrainingPlots(results []meter.Training) []Plot {
	var policies []string
	for i := range results {
		policies = appendNew(policies, results[i].Policy)
	}
	times := chart{Title: "Completion time of jobs", Unit: "share of jobs that are done, %", X: axisLog, XLabel: "time since submission", Y: axisShare}
	for at, policy := range policies {
		var all []float64
		for i := range results {
			if results[i].Policy == policy {
				for _, j := range results[i].Each {
					all = append(all, j.JCTS)
				}
			}
		}
		slices.Sort(all)
		times.add(at, cumulative(all))
	}
	out := []Plot{{Name: plotName(times.Title), SVG: draw(&times, policies)}}
	var lives []*meter.Training
	for i := range results {
		r := &results[i]
		if r.Workload != results[0].Workload {
			continue
		}
		lives = append(lives, r)
		if len(r.Trail) == 0 {
			continue
		}
		for _, by := range []struct {
			name string
			of   func(*meter.TrainingRound) map[string]int
		}{
			{"GPU model", func(t *meter.TrainingRound) map[string]int { return t.ByGPU }},
			{"kind of job", func(t *meter.TrainingRound) map[string]int { return t.ByKind }},
		} {
			c, names := heldOver(r, by.of)
			c.Title = fmt.Sprintf("GPUs by %s under %s", by.name, r.Policy)
			out = append(out, Plot{Name: plotName(c.Title), SVG: draw(&c, names)})
		}
	}
	if len(lives) > 0 && len(lives[0].Life) > 0 {
		out = append(out, Plot{Name: "life", SVG: lifeOf(lives)})
	}
	return out
}

// heldOver is the GPUs in use over time, a line for each name.
func heldOver(r *meter.Training, of func(*meter.TrainingRound) map[string]int) (chart, []string) {
	most := map[string]int{}
	for i := range r.Trail {
		for name, n := range of(&r.Trail[i]) { // order: a maximum each.
			most[name] = max(most[name], n)
		}
	}
	names := slices.Sorted(maps.Keys(most))
	c := chart{Unit: "GPUs in use, " + r.Workload, X: axisTime, XLabel: "time", Y: axisCount}
	for at, name := range names {
		var l line
		for _, i := range evenly(len(r.Trail), maxPoints) {
			l.X = append(l.X, number(r.Trail[i].TimeS))
			l.Y = append(l.Y, number(of(&r.Trail[i])[name]))
		}
		c.add(at, l)
	}
	return c, names
}

// lifeOf is one job under each policy: four charts in one picture.
func lifeOf(runs []*meter.Training) []byte {
	var policies []string
	panels := []struct {
		title, unit string
		of          func(*meter.TrainingLife) float64
	}{
		{"Workers", "GPUs", func(l *meter.TrainingLife) float64 { return float64(l.GPUs) }},
		{"Batch", "examples a step", func(l *meter.TrainingLife) float64 { return float64(l.Batch) }},
		{"Goodput", "examples a second, by worth", func(l *meter.TrainingLife) float64 { return l.Goodput }},
		{"Restarts", "so far", func(l *meter.TrainingLife) float64 { return float64(l.Restarts) }},
	}
	charts := make([]chart, len(panels))
	for p := range panels {
		charts[p] = chart{Title: panels[p].title, Unit: panels[p].unit, X: axisTime, XLabel: "time", Y: axisCount}
	}
	for at, r := range runs {
		policies = append(policies, r.Policy)
		for p := range panels {
			var l line
			for _, i := range evenly(len(r.Life), maxPoints) {
				l.X = append(l.X, number(r.Life[i].TimeS))
				l.Y = append(l.Y, number(panels[p].of(&r.Life[i])))
			}
			charts[p].add(at, l)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">`+"\n", plotWidth, plotHeight*len(charts))
	for p := range charts {
		inner := string(draw(&charts[p], policies))
		fmt.Fprintf(&b, `<svg y="%d" width="%d" height="%d"%s`, p*plotHeight, plotWidth, plotHeight, strings.TrimPrefix(inner, "<svg"))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}
