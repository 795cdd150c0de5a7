package scenario

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/world"
)

func sizeStatements() []statement {
	return []statement{
		{"measure", form{usage: "job NAME [sync=N] [busy=POD:N,…] [progress=N] [times=N]", least: 2, most: 2, fields: []string{"sync", "busy", "progress", "times"}}, false, (*interp).measure},
	}
}

var sizeRE = regexp.MustCompile(`^([1-9][0-9]{0,8})x([A-Za-z0-9][A-Za-z0-9._/-]*)$`)

// configurations reads lines "runs 4xA100 [nodes=N] rate=N": so many workers on GPUs of a
// model, over at most so many nodes.
func configurations(of string, block []blockLine) ([]world.Configuration, error) {
	var out []world.Configuration
	for _, line := range block {
		w := split(line.text)
		if w.name != "runs" {
			return nil, fmt.Errorf("%s: indented line %q: want runs WORKERSxMODEL [nodes=N] rate=N", of, line.text)
		}
		if err := w.conform(&form{usage: "WORKERSxMODEL [nodes=N] rate=N", least: 1, most: 1, fields: []string{"nodes", "rate"}}); err != nil {
			return nil, fmt.Errorf("%s: %w", of, err)
		}
		parts := sizeRE.FindStringSubmatch(w.args[0])
		if parts == nil {
			return nil, fmt.Errorf("%s: runs %q: want a number of workers and a model, as in 4xA100", of, w.args[0])
		}
		workers, _ := strconv.ParseInt(parts[1], 10, 32) // at most nine digits
		r := &reader{of: of + ": runs " + w.args[0], w: &w}
		if !r.has("rate") {
			return nil, fmt.Errorf("%s: field rate: must be there, in thousandths of one GPU of the mean kind", r.of)
		}
		out = append(out, world.Configuration{
			Model: parts[2], Workers: int32(workers), Spread: int32(r.number("nodes", 0, 1, math.MaxInt32)), Rate: r.number("rate", 0, 1, math.MaxInt64),
		})
		if r.err != nil {
			return nil, r.err
		}
	}
	return out, nil
}

// measure tells what the workers of a job report, several times over.
func (in *interp) measure(c *call) ([]string, error) {
	if c.args[0] != "job" {
		return nil, fmt.Errorf("measure: kind %q: want job", c.args[0])
	}
	name := c.args[1]
	if _, err := in.job(name); err != nil {
		return nil, err
	}
	r := c.reader("measure job " + name)
	e := world.JobMeasured{Name: name, Sync: int32(r.number("sync", -1, 0, 1000)), Progress: int32(r.number("progress", 0, 1, 1000))}
	for _, part := range r.list("busy") {
		pod, value, _ := strings.Cut(part, ":")
		busy, err := strconv.ParseInt(value, 10, 32)
		if err != nil || busy < 0 || busy > 1000 {
			r.fail("busy", part, "POD:N with N from 0 to 1000")
			break
		}
		e.Busy = append(e.Busy, world.WorkerBusy{Pod: pod, Busy: int32(busy)})
	}
	times := r.number("times", 1, 1, maxCount)
	if r.err != nil {
		return nil, r.err
	}
	for range times {
		if err := in.apply(e); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// configurationsOf is what was said of how a job may run.
func configurationsOf(v *cluster.View, j *cluster.Job) (out []world.Configuration) {
	for _, c := range j.Configurations {
		out = append(out, world.Configuration{Model: v.Symbols.Text(c.Model), Workers: c.Workers, Spread: c.Spread, Rate: c.Rate})
	}
	return out
}

// showSize adds to a row about a job how it runs, and what its workers measured of that.
func (in *interp) showSize(j *cluster.Job, row []string) []string {
	v, s := in.view(), &j.Sizing
	if !j.Elastic() {
		return append(row, "-", "-", "-", "-")
	}
	sync, lags := "-", "-"
	if s.Sync.About(s.Times, 1) {
		sync = fmt.Sprint(s.Sync.Value)
	}
	rules := in.policy.Sizes
	if rules == nil {
		usual := engine.DefaultSizes()
		rules = &usual
	}
	for i := range v.Groups.Len() {
		id := cluster.GroupID(i)
		if g := v.Group(id); g.Job == cluster.None || v.Job(g.Job) != j {
			continue
		}
		if lag, ok := rules.Lagging(v, id); ok {
			lags = fmt.Sprintf("%s (%d, others %d)", v.Pod(lag.Pod).Spec.Name, lag.Busy, lag.Others)
		}
	}
	return append(row, decision.SizeText(v, s.Size), fmt.Sprint(s.Times), sync, lags)
}

// anyElastic says whether any job has configurations.
func (in *interp) anyElastic() bool {
	v := in.view()
	for i := range v.Jobs.Len() {
		if v.Job(cluster.JobID(i)).Elastic() {
			return true
		}
	}
	return false
}
