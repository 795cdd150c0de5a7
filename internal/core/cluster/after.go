package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A job may come after others. Until all that it waits for has come true its pods have
// no turn; once a pod of it has started, nothing of this holds it any more. What jobs
// come after each other by is a graph without cycles: the world refuses those.

// Dependency makes a job wait for another.
type Dependency struct {
	Job  JobID
	When DependencyKind
}

// DependencyKind is the event of the other job that is waited for.
type DependencyKind uint8

const (
	AfterSuccess DependencyKind = iota
	AfterEnd                    // with success or without
	AfterStart                  // of its first pod
)

var dependencyNames = [...]string{"success", "end", "start"} // const: names of the kinds

func (k DependencyKind) String() string { return dependencyNames[k] }

// Over says whether the job has ended, with success or without.
func (j *Job) Over() bool { return j.State == JobDone || j.State == JobFailed }

// Met says whether what a dependency waits for has come true.
func (v *View) Met(d Dependency) bool {
	switch j := v.Job(d.Job); d.When {
	case AfterEnd:
		return j.Over()
	case AfterStart:
		return j.Began != 0 || j.State == JobDone
	default:
		return j.State == JobDone
	}
}

// Dependents lists the jobs that come after others, in no order that means anything.
func (v *View) Dependents() []JobID { return v.dependents }

// Awaits says whether a job waits for others. One that has begun does not, whatever
// becomes of those.
func (v *View) Awaits(j *Job) bool {
	if len(j.After) == 0 || j.Began != 0 || !j.Known {
		return false
	}
	return slices.ContainsFunc(j.After, func(d Dependency) bool { return !v.Met(d) })
}

// AwaitsJobs says whether the job of a pod waits for others.
func (v *View) AwaitsJobs(p *Pod) bool {
	if len(v.dependents) == 0 {
		return false
	}
	j := v.JobOf(p)
	return j != nil && v.Awaits(j)
}

// HeldBack says whether a waiting pod has no turn at an instant: its binds were
// refused a moment ago, its job waits for others, or its group has given its room back.
func (v *View) HeldBack(p *Pod, now moment.Instant) bool {
	return p.BacksOff(now) || v.AwaitsJobs(p) || v.BacksOffIn(p.Spec.Group, now) != None
}

// AnyHeldBack says whether there may be pods that are held back.
func (v *View) AnyHeldBack() bool {
	return len(v.refused) > 0 || len(v.dependents) > 0 || len(v.returned) > 0
}

// SetAfter says what a job comes after. The list of those that come after others is
// never changed in place.
func (l *Ledger) SetAfter(id JobID, after []Dependency) {
	old := l.Job(id).After
	switch {
	case len(old) == 0 && len(after) > 0:
		l.dependents = appended(l.dependents, id)
	case len(old) > 0 && len(after) == 0:
		l.dependents = removed(l.dependents, id)
	}
	l.EditJob(id).After = after
	for _, d := range after {
		l.EditJob(d.Job).Named++
	}
	for _, d := range old {
		l.EditJob(d.Job).Named--
	}
}

// afterDigest adds to the hash of a job what it comes after, and what others that come
// after it go by.
func (v *View) afterDigest(h uint64, j *Job) uint64 {
	if j.State != JobWaiting || j.Began != 0 || j.Ended != 0 || j.Named != 0 {
		h = chance.Hash(34, h, uint64(j.State), uint64(j.Began), uint64(j.Ended), uint64(j.Named))
	}
	for _, d := range j.After {
		h = chance.Hash(35, h, v.Job(d.Job).Key, uint64(d.When))
	}
	return h
}

// dependencies counts anew who names a job, and looks for cycles: taking away, again and
// again, jobs after which no other comes has to take all away.
func (a *audit) dependencies() error {
	v := a.view
	named, listed, comes := make([]int32, v.Jobs.Len()), make([]bool, v.Jobs.Len()), 0
	for _, id := range v.dependents {
		listed[id] = true
	}
	for i := range named {
		j := v.Job(JobID(i))
		if over := j.Over(); over != (j.Ended != 0) || j.Began < 0 || j.Ended < 0 || j.State == JobRunning && j.Began == 0 {
			return fmt.Errorf("audit: job %s: state %d, began at %v, ended at %v", j.Name, j.State, j.Began, j.Ended)
		}
		if is := listed[i]; is != (len(j.After) > 0) || is && !j.Known {
			return fmt.Errorf("audit: job %s comes after %d others, known: %v, listed: %v", j.Name, len(j.After), j.Known, is)
		}
		if len(j.After) > 0 {
			comes++
		}
		for _, d := range j.After {
			named[d.Job]++
		}
	}
	if comes != len(v.dependents) {
		return fmt.Errorf("audit: %d jobs come after others, %d are listed", comes, len(v.dependents))
	}
	var free []JobID
	for i, n := range named {
		if j := v.Job(JobID(i)); j.Named != n {
			return fmt.Errorf("audit: job %s: named by %d, counted %d", j.Name, j.Named, n)
		}
		if n == 0 {
			free = append(free, JobID(i))
		}
	}
	away := len(free)
	for len(free) > 0 {
		last := free[len(free)-1]
		free = free[:len(free)-1]
		for _, d := range v.Job(last).After {
			if named[d.Job]--; named[d.Job] == 0 {
				free = append(free, d.Job)
				away++
			}
		}
	}
	if away != len(named) {
		return fmt.Errorf("audit: %d jobs come after each other in a circle, or after such", len(named)-away)
	}
	return nil
}
