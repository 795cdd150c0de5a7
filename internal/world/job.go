package world

import (
	"fmt"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Checkpoint is what is known of a job's saved state.
type Checkpoint struct {
	Last    moment.Instant // when the newest was complete; 0 without one
	Period  moment.Span    // from one to the next; 0: it saves nothing by itself
	Write   moment.Span    // to save when it is asked to; 0: it cannot be asked
	Restart moment.Span    // from a new start to where the newest was made
}

// JobFacts is what is known of a job. What a pod says of itself comes before what its
// job says.
type JobFacts struct {
	Kind     string      // runs of one kind resemble each other
	Queue    string      // of pods that name none
	Priority int32       // of pods that have none of their own
	SLA      string      // name of its SLA class; empty: as its priority says
	SLATotal moment.Span // from the arrival of a pod to its end; 0: no promise
	Deadline moment.Instant
	// Unpreemptible says that its pods are never evicted for others.
	Unpreemptible bool
	// MinWorkers and MaxWorkers are the range in which it runs; 0: it has none, or that
	// of its Configurations.
	MinWorkers, MaxWorkers int32
	Expected               moment.Span // declared run time; 0: not declared
	Checkpoint             Checkpoint
	// After are the jobs that it comes after; they may come later, or be gone.
	After []Dependency `json:",omitempty"`
	// Configurations are the ways to run; with any, the range of workers is theirs. None: it
	// is rigid.
	Configurations []Configuration `json:",omitempty"`
	// Disruptions is how often it may be evicted from now on; 0: there is no limit.
	// A job that never bore one is Unpreemptible; one that has none left, Spent.
	Disruptions int32
}

// Spent is the Disruptions of a job that may not be evicted any more.
const Spent = -1

// JobAdded makes a job known, or one anew that has ended: it is submitted again. Pods,
// groups and jobs that come after it name it, before it comes or after.
type JobAdded struct {
	Name string
	JobFacts
}

func (e JobAdded) apply(w *World) error {
	if id, named := w.jobs[e.Name]; e.Name == "" || named && w.ledger.Job(id).Known && !w.ledger.Job(id).Over() {
		return fmt.Errorf("job: name %q: must be new and not empty", e.Name)
	}
	return w.tellJob(e.Name, &e.JobFacts, true)
}

// JobChanged replaces what is known of a job. Pods that hold something stay in the
// queue they are in.
type JobChanged struct {
	Name string
	JobFacts
}

func (e JobChanged) apply(w *World) error {
	if id, named := w.jobs[e.Name]; !named || !w.ledger.Job(id).Known {
		return fmt.Errorf("job %q: no such job", e.Name)
	}
	return w.tellJob(e.Name, &e.JobFacts, false)
}

func (w *World) tellJob(name string, f *JobFacts, anew bool) error {
	if err := w.validJob(f); err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	if err := w.validAfter(name, f.After); err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	if err := validConfigurations(f.Configurations); err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	queue := cluster.QueueID(cluster.None)
	if f.Queue != "" {
		known := false
		if queue, known = w.queues[f.Queue]; !known {
			return fmt.Errorf("job %s: queue %q: no such queue", name, f.Queue)
		}
	}
	id := w.jobNamed(name)
	if anew {
		w.beginAnew(id)
	}
	w.setAfter(id, f.After)
	j := w.ledger.EditJob(id)
	j.Known, j.Kind, j.Queue, j.Priority, j.SLA, j.SLATotal = true, w.Symbol(f.Kind), queue, f.Priority, w.Symbol(f.SLA), f.SLATotal
	if j.Deadline = f.Deadline; f.Deadline == 0 {
		j.Deadline = moment.Never
	}
	j.Preemptible, j.MinWorkers, j.MaxWorkers, j.Expected = !f.Unpreemptible, f.MinWorkers, f.MaxWorkers, f.Expected
	j.Checkpoint = cluster.Checkpoint{Last: f.Checkpoint.Last, Period: f.Checkpoint.Period, Write: f.Checkpoint.Write, Restart: f.Checkpoint.Restart}
	w.configure(j, f.Configurations)
	switch j.Disruptions = f.Disruptions; f.Disruptions {
	case 0:
		j.Disruptions = cluster.None
	case Spent:
		j.Disruptions = 0
	}
	w.respecify(id)
	w.fileEnded(id)
	return nil
}

func (w *World) validJob(f *JobFacts) error {
	c := &f.Checkpoint
	switch {
	case f.SLATotal < 0 || f.Expected < 0 || f.Deadline < 0:
		return fmt.Errorf("SLA %v, expected %v, deadline %v: must not be negative", f.SLATotal, f.Expected, f.Deadline)
	case f.SLA != "" && w.ledger.SLA(f.SLA) == nil:
		return fmt.Errorf("SLA class %q: must be one of %s", f.SLA, strings.Join(w.ledger.SLANames(), ", "))
	case f.MinWorkers < 0 || f.MaxWorkers < 0 || f.MaxWorkers > 0 && f.MinWorkers > f.MaxWorkers:
		return fmt.Errorf("workers %d to %d: must not be negative, the least not more than the most", f.MinWorkers, f.MaxWorkers)
	case c.Last < 0 || c.Period < 0 || c.Write < 0 || c.Restart < 0:
		return fmt.Errorf("checkpoint at %v, every %v, written in %v, restart in %v: must not be negative", c.Last, c.Period, c.Write, c.Restart)
	case c.Last > w.now:
		return fmt.Errorf("checkpoint at %v: it is only %v", c.Last, w.now)
	case f.Disruptions < 0 && f.Disruptions != Spent:
		return fmt.Errorf("disruptions %d: must not be negative", f.Disruptions)
	}
	return nil
}

// JobCheckpointed says that a job's state was saved: what was done before is not lost
// when its pods go.
type JobCheckpointed struct {
	Name string
	At   moment.Instant
}

func (e JobCheckpointed) apply(w *World) error {
	id, named := w.jobs[e.Name]
	if !named || !w.ledger.Job(id).Known {
		return fmt.Errorf("job %q: no such job", e.Name)
	}
	if e.At > w.now || e.At < 0 {
		return fmt.Errorf("job %s: checkpoint at %v: must be from 0s to now, %v", e.Name, e.At, w.now)
	}
	j := w.ledger.EditJob(id)
	j.Checkpoint.Last = max(j.Checkpoint.Last, e.At)
	return nil
}

// JobRemoved takes a job away. Its pods go on as pods that have none, until there is
// a job of that name again. How it ended, if it has, is remembered for those that come
// after it; one that had not ended is as if it had never been.
type JobRemoved struct{ Name string }

func (e JobRemoved) apply(w *World) error {
	id, named := w.jobs[e.Name]
	if !named || !w.ledger.Job(id).Known {
		return fmt.Errorf("job %q: no such job", e.Name)
	}
	w.setAfter(id, nil)
	old := *w.ledger.Job(id)
	w.beginAnew(id)
	if old.Over() {
		j := w.ledger.EditJob(id)
		j.State, j.Began, j.Ended = old.State, old.Began, old.Ended
	}
	w.respecify(id)
	w.fileEnded(id)
	w.dropJob(id)
	return nil
}

func newJob(name string, generation uint32, members int32) cluster.Job {
	return cluster.Job{
		Name: name, Key: chance.HashString(name), Generation: generation, Queue: cluster.None, Deadline: moment.Never,
		Preemptible: true, Disruptions: cluster.None, Members: members,
	}
}

// jobNamed returns the row of a job, making one for a name that is new.
func (w *World) jobNamed(name string) cluster.JobID {
	if name == "" {
		return cluster.None
	}
	if id, known := w.jobs[name]; known {
		return id
	}
	reuse := cluster.JobID(cluster.None)
	if n := len(w.freeJobs); n > 0 {
		reuse = w.freeJobs[n-1]
		w.freeJobs = w.freeJobs[:n-1]
	}
	id := w.ledger.AddJob(newJob(name, 0, 0), reuse)
	w.jobs[name] = id
	return id
}

// dropJob frees the row of a job that is gone and that nobody names.
func (w *World) dropJob(id cluster.JobID) {
	if id == cluster.None {
		return
	}
	j := w.ledger.Job(id)
	if j.Known || j.Members > 0 || j.Named > 0 || j.Ended != 0 {
		return
	}
	for i := range w.ledger.Groups.Len() {
		if g := w.ledger.Group(cluster.GroupID(i)); g.Known && g.Job == id {
			return
		}
	}
	delete(w.jobs, j.Name)
	w.freeJobs = append(w.freeJobs, id)
}

// respecify tells the pods of a job what they have from it now.
func (w *World) respecify(id cluster.JobID) {
	if w.ledger.Job(id).Members == 0 {
		return
	}
	for i := range w.ledger.Pods.Len() {
		p := w.ledger.Pod(cluster.PodID(i))
		if p.Phase == cluster.PhaseGone || p.Spec.Job != id {
			continue
		}
		spec := *p.Spec
		queue := spec.Queue
		w.inherit(&spec)
		if p.Phase.Charged() {
			spec.Queue = queue
		}
		w.ledger.Respecify(cluster.PodID(i), &spec)
	}
}

// inherit fills in what a pod has from its job and its group where it says nothing
// itself.
func (w *World) inherit(spec *cluster.PodSpec) {
	own := &spec.Own
	spec.Queue, spec.Kind, spec.Priority, spec.SLATotal, spec.Expected, spec.Protected = own.Queue, own.Kind, own.Priority, own.SLATotal, own.Expected, own.Protected
	spec.Deadline = 0
	class := (*cluster.SLA)(nil)
	if spec.Job != cluster.None {
		if j := w.ledger.Job(spec.Job); j.Known {
			if spec.Queue == cluster.None {
				spec.Queue = j.Queue
			}
			if spec.Kind == 0 {
				spec.Kind = j.Kind
			}
			if spec.Priority == 0 {
				spec.Priority = j.Priority
			}
			if spec.SLATotal == 0 {
				spec.SLATotal = j.SLATotal
			}
			if spec.Expected == 0 {
				spec.Expected = j.Expected
			}
			if j.Deadline != moment.Never {
				spec.Deadline = j.Deadline
			}
			spec.Protected = spec.Protected || !j.Preemptible
			class = w.ledger.SLA(w.interner.Symbols().Text(j.SLA))
		}
	}
	if spec.Kind == 0 {
		spec.Kind = own.Runs
	}
	w.promise(spec, class)
	if spec.Queue == cluster.None && spec.Group != cluster.None {
		spec.Queue = w.ledger.Group(spec.Group).Queue
	}
}

// displaced books that a pod left because we decided so.
func (w *World) displaced(id cluster.PodID) {
	p := w.ledger.EditPod(id)
	p.Displaced = max(w.now, 1)
	p.Evictions++
}

// disturbed books that the eviction of a pod is decided: its job is evicted with it.
// Pods that are told to go at one instant are one disruption.
func (w *World) disturbed(id cluster.PodID) {
	p := w.ledger.Pod(id)
	job := p.Spec.Job
	if job == cluster.None || !w.ledger.Job(job).Known {
		return
	}
	if at := max(w.now, 1); w.ledger.Job(job).Displaced != at {
		j := w.ledger.EditJob(job)
		j.Displaced = at
		j.Evictions++
		if j.Disruptions > 0 {
			j.Disruptions--
		}
	}
}

// Job returns the id of a job by name, known or only named by others.
func (w *World) Job(name string) (cluster.JobID, bool) {
	id, ok := w.jobs[name]
	return id, ok
}
