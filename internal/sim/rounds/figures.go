package rounds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
)

// result turns the run into figures.
func (r *run) result(begun time.Time) (meter.Training, error) {
	out := meter.Training{Cluster: ClusterText(r.Cluster), Rounds: r.count}
	n := float64(len(r.jobs))
	var jcts []float64
	first, last := math.Inf(1), 0.0
	for _, s := range r.jobs {
		jct := float64(s.Finished) - s.Submit
		jcts = append(jcts, jct)
		first, last = min(first, s.Submit), max(last, float64(s.Finished))
		out.RestartsMean += float64(s.Restarts) / n
		out.Each = append(out.Each, meter.TrainingJob{Name: s.Name, JCTS: jct, Restarts: s.Restarts})
		out.Decisions += s.Restarts + 1
	}
	out.Result = meter.Result{
		Schema: meter.Schema, Policy: r.Policy.Name, Mode: "timed", Pods: len(r.jobs), Placed: len(r.jobs),
		Decisions: out.Decisions, Digest: r.sum(),
		JCTMeanS: pointer(mean(jcts)), JCTP50S: pointer(Percentile(jcts, 50)), JCTP99S: pointer(Percentile(jcts, 99)),
		DecideP50Us: r.decided(50), DecideP99Us: r.decided(99),
	}
	out.DecideP95Us = r.decided(95)
	out.MakespanS = last - first
	out.Trail, out.Life = r.trail.rounds, r.trail.life
	out.GPUHoursPerJob = float64(r.gpuSeconds) / 3600 / n
	out.ContentionMean = float64(r.contended) / float64(r.count)
	out.ContentionMax = r.most
	if g, ok := r.policy.(interface{ Gap() float64 }); ok {
		out.GapWorstPct = pointer(100 * g.Gap())
	}
	if r.Fairness {
		if err := r.fairness(&out); err != nil {
			return out, err
		}
	}
	out.WallMs = float64(time.Since(begun).Microseconds()) / 1000
	return out, nil
}

func pointer(x float64) *float64 { return &x }

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}

// Percentile is the element at index floor(p·n/100) of the sorted values, the last
// where that is beyond the end.
func Percentile(list []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(p*len(sorted)/100, len(sorted)-1)]
}

func (r *run) decided(p int) float64 {
	var us []float64
	for _, d := range r.spent {
		us = append(us, float64(d.Nanoseconds())/1000)
	}
	if len(us) == 0 {
		return 0
	}
	return Percentile(us, p)
}

// ClusterText writes a cluster as --cluster reads it.
func ClusterText(c elastic.Cluster) string {
	var parts []string
	for _, t := range c {
		parts = append(parts, fmt.Sprintf("%dx%s", t.Nodes, t.Name))
	}
	return strings.Join(parts, ",")
}
