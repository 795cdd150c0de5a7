package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// awaiting finds out what jobs wait for. It remembers what it has found: many come after
// the same.
type awaiting struct {
	view  *cluster.View
	known map[cluster.JobID]cluster.JobID // the failed job without which one never begins; None where there is none
}

// appendAwaiting adds the pods whose job waits for others.
func appendAwaiting(waiting []decision.Waiting, v *cluster.View, c decision.Cycle) []decision.Waiting {
	if len(v.Dependents()) == 0 {
		return waiting
	}
	a := awaiting{view: v}
	why := make(map[*cluster.Job]*decision.Reason)
	for _, id := range v.AppendWaiting(nil) {
		p := v.Pod(id)
		if c.Profile != 0 && p.Spec.Policy != c.Profile || !v.AwaitsJobs(p) {
			continue
		}
		j := v.JobOf(p)
		if why[j] == nil {
			why[j] = a.of(j)
		}
		waiting = append(waiting, decision.Waiting{Pod: id, Why: why[j]})
	}
	return waiting
}

// of is what a job waits for: where it comes after one that has failed, that; else the
// first that has not come so far.
func (a *awaiting) of(j *cluster.Job) *decision.Reason {
	var first *decision.Reason
	for _, d := range j.After {
		if a.view.Met(d) {
			continue
		}
		why := decision.Reason{Code: decision.AwaitsJob, Need: int64(d.When), Job: d.Job}
		if failed := a.failedBefore(d); failed != cluster.None {
			why.Code, why.Failed = decision.AncestorFailed, failed
			return &why
		}
		if first == nil {
			if before := a.view.Job(d.Job); !before.Known && !before.Over() && before.Members == 0 && before.Began == 0 {
				why.Code = decision.JobUnknown
			}
			first = &why
		}
	}
	return first
}

// failedBefore is the failed job because of which a dependency does not come true; None
// where it still may. The graph has no cycles, and is no deeper than there are jobs.
func (a *awaiting) failedBefore(d cluster.Dependency) cluster.JobID {
	if a.view.Met(d) {
		return cluster.None
	}
	j := a.view.Job(d.Job)
	if j.State == cluster.JobFailed {
		return d.Job
	}
	if !a.view.Awaits(j) {
		return cluster.None
	}
	if failed, known := a.known[d.Job]; known {
		return failed
	}
	failed := cluster.JobID(cluster.None)
	for _, before := range j.After {
		if failed = a.failedBefore(before); failed != cluster.None {
			break
		}
	}
	if a.known == nil {
		a.known = make(map[cluster.JobID]cluster.JobID)
	}
	a.known[d.Job] = failed
	return failed
}

// awaitsIn is what the job of a waiting member of a group waits for; of several members
// the one with the least key speaks. Nil where no job does.
func awaitsIn(v *cluster.View, id cluster.GroupID) *decision.Reason {
	if len(v.Dependents()) == 0 {
		return nil
	}
	var first *cluster.Pod
	for pod := range v.Members(id) {
		if p := v.Pod(pod); p.Phase == cluster.PhaseWaiting && v.AwaitsJobs(p) && (first == nil || p.Key < first.Key) {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	why := (&awaiting{view: v}).of(v.JobOf(first))
	why.Group = id
	return why
}
