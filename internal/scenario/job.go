package scenario

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

func jobFields() []string {
	return []string{"queue", "priority", "preemptible", "expected", "sla", "class", "checkpoint-period", "checkpoint-write", "restart", "deadline", "disruptions", "after"}
}

func jobStatements() []statement {
	return []statement{
		{"job", form{usage: "NAME [queue=NAME] [priority=N] [preemptible=no] …", least: 1, most: 1, fields: jobFields()}, true, (*interp).addJob},
		{"change-job", form{usage: "NAME [queue=NAME] [priority=N] …", least: 1, most: 1, fields: jobFields()}, true, (*interp).changeJob},
		{"remove-job", form{usage: "NAME", least: 1, most: 1}, false, func(in *interp, c *call) ([]string, error) {
			if _, err := in.job(c.args[0]); err != nil {
				return nil, err
			}
			return nil, in.apply(world.JobRemoved{Name: c.args[0]})
		}},
		{"end-job", form{usage: "NAME [failed]", least: 1, most: 2, flags: []string{"failed"}}, false, (*interp).endJob},
		{"checkpointed", form{usage: "JOB", least: 1, most: 1}, false, (*interp).checkpointed},
	}
}

func (in *interp) addJob(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("job", name); err != nil {
		return nil, err
	}
	var f world.JobFacts
	if err := in.jobFacts(c.reader("job "+name), &f); err != nil {
		return nil, err
	}
	var err error
	if f.Configurations, err = configurations("job "+name, c.block); err != nil {
		return nil, err
	}
	return nil, in.apply(world.JobAdded{Name: name, JobFacts: f})
}

// changeJob changes the fields that are said; what is not said stays.
func (in *interp) changeJob(c *call) ([]string, error) {
	name := c.args[0]
	id, err := in.job(name)
	if err != nil {
		return nil, err
	}
	f := in.factsOf(id)
	if err := in.jobFacts(c.reader("change-job "+name), &f); err != nil {
		return nil, err
	}
	if len(c.block) > 0 {
		if f.Configurations, err = configurations("change-job "+name, c.block); err != nil {
			return nil, err
		}
	}
	return nil, in.apply(world.JobChanged{Name: name, JobFacts: f})
}

// jobFacts reads the fields that are there.
func (in *interp) jobFacts(r *reader, f *world.JobFacts) error {
	if r.has("queue") {
		if f.Queue = r.name("queue"); f.Queue == none {
			f.Queue = ""
		}
	}
	f.Priority = int32(r.number("priority", int64(f.Priority), math.MinInt32, math.MaxInt32))
	if r.has("preemptible") {
		f.Unpreemptible = r.oneOf("preemptible", "yes", []string{"yes", "no"}) == 1
	}
	f.Expected, f.SLATotal = r.span("expected", f.Expected), r.span("sla", f.SLATotal)
	if r.has("class") {
		if f.SLA = r.name("class"); f.SLA == none {
			f.SLA = ""
		}
	}
	c := &f.Checkpoint
	c.Period, c.Write, c.Restart = r.span("checkpoint-period", c.Period), r.span("checkpoint-write", c.Write), r.span("restart", c.Restart)
	f.Deadline = moment.Instant(r.span("deadline", moment.Span(f.Deadline)))
	if r.text("disruptions", "") == none {
		f.Disruptions = 0
	} else {
		f.Disruptions = int32(r.number("disruptions", int64(f.Disruptions), 1, math.MaxInt32))
	}
	f.After = r.dependencies(f.After)
	if r.err != nil {
		return r.err
	}
	if _, known := in.queue(f.Queue); f.Queue != "" && !known {
		return fmt.Errorf("%s: field queue: value %q: no such queue%s", r.of, f.Queue, suggestAny(f.Queue, in.queueNames()))
	}
	return nil
}

// factsOf is what was said of a job.
func (in *interp) factsOf(id cluster.JobID) world.JobFacts {
	v := in.view()
	j := v.Job(id)
	f := world.JobFacts{
		Kind: v.Symbols.Text(j.Kind), Priority: j.Priority, SLA: v.Symbols.Text(j.SLA), SLATotal: j.SLATotal, Unpreemptible: !j.Preemptible,
		MinWorkers: j.MinWorkers, MaxWorkers: j.MaxWorkers, Expected: j.Expected, Configurations: configurationsOf(v, j),
		Checkpoint: world.Checkpoint{Last: j.Checkpoint.Last, Period: j.Checkpoint.Period, Write: j.Checkpoint.Write, Restart: j.Checkpoint.Restart},
	}
	for _, d := range j.After {
		f.After = append(f.After, world.Dependency{Job: v.Job(d.Job).Name, When: d.When})
	}
	if j.Queue != cluster.None {
		f.Queue = v.Queue(j.Queue).Name
	}
	if j.Deadline != moment.Never {
		f.Deadline = j.Deadline
	}
	switch j.Disruptions {
	case cluster.None:
	case 0:
		f.Disruptions = world.Spent
	default:
		f.Disruptions = j.Disruptions
	}
	return f
}

// job finds a job that was told of.
func (in *interp) job(name string) (cluster.JobID, error) {
	id, named := in.world.Job(name)
	if !named || !in.view().Job(id).Known {
		return cluster.None, fmt.Errorf("job %q: no such job%s", name, suggestAny(name, in.jobNames()))
	}
	return id, nil
}

func (in *interp) jobNames() []string {
	v := in.view()
	var out []string
	for i := range v.Jobs.Len() {
		j := v.Jobs.At(int32(i))
		if id, named := in.world.Job(j.Name); named && int(id) == i && j.Known {
			out = append(out, j.Name)
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// checkpointed says that the state of a job is saved. Its pods that were to save
// first and then go, go.
func (in *interp) checkpointed(c *call) ([]string, error) {
	id, err := in.job(c.args[0])
	if err != nil {
		return nil, err
	}
	if err := in.apply(world.JobCheckpointed{Name: c.args[0], At: in.now}); err != nil {
		return nil, err
	}
	return nil, in.leave(func(p *cluster.Pod) bool { return p.Spec.Job == id })
}

// leave lets pods go that were told to save first.
func (in *interp) leave(which func(*cluster.Pod) bool) error {
	v := in.view()
	var names []string
	for i := range v.Intents.Len() {
		intent := v.Intents.At(int32(i))
		if intent.ID == 0 || intent.Action != cluster.ActionEvict || intent.Deadline == moment.Never {
			continue
		}
		if p := v.Pod(intent.Pod); which(p) {
			names = append(names, p.Spec.Name)
		}
	}
	slices.SortFunc(names, compareNames)
	for _, name := range names {
		if in.carry(name, true); in.fault != nil {
			return in.fault
		}
	}
	return nil
}

// showJobs prints what is known of each job, and how often it was evicted.
func (in *interp) showJobs() []string {
	v := in.view()
	var rows [][]string
	elastic := in.anyElastic()
	for _, name := range in.jobNames() {
		id, _ := in.world.Job(name)
		j := v.Job(id)
		row := []string{j.Name, in.queueName(j.Queue), fmt.Sprint(j.Priority), fmt.Sprint(j.Members), spanOf(j.Expected), "-", "-", fmt.Sprint(j.Evictions), "any"}
		if j.Deadline != moment.Never {
			row[5] = j.Deadline.String()
		}
		if j.Checkpoint.Last > 0 {
			row[6] = "at " + j.Checkpoint.Last.String()
		}
		switch {
		case !j.Preemptible:
			row[8] = "none"
		case j.Disruptions != cluster.None:
			row[8] = fmt.Sprint(j.Disruptions)
		}
		if elastic {
			row = in.showSize(j, row)
		}
		rows = append(rows, row)
	}
	heading := "job|queue|priority|pods|expected|deadline|saved|evicted|may be evicted"
	if elastic {
		heading += "|runs|resized|sync|lags"
	}
	return table(heading, rows)
}

func spanOf(s moment.Span) string {
	if s == 0 {
		return "-"
	}
	return s.String()
}
