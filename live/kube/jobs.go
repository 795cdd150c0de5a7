package kube

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// mostAhead is how far in the future a checkpoint may seem to be: clocks differ.
const mostAhead = moment.Minute

// complaint is what its author should know of a pod, once.
type complaint struct{ key, uid, says string }

// employ tells the world of the job that a pod's annotations speak of, before the
// pod itself. Every pod that says something has a job of its own.
func (b *books) employ(key string, p *pod) {
	job, faults := p.seen.Job, p.seen.JobFaults
	if now := b.instant(); job.Checkpoint.Last > now {
		if job.Checkpoint.Last.Since(now) > mostAhead {
			at := time.UnixMicro(int64(job.Checkpoint.Last)).UTC().Format(time.RFC3339)
			faults = append(slices.Clip(faults), fmt.Sprintf("annotation %s: %q: lies ahead of now; it is ignored", facts.CheckpointedAt, at))
			job.Checkpoint.Last = 0
		} else {
			job.Checkpoint.Last = now
		}
	}
	if !slices.Equal(faults, p.faults) {
		p.faults = faults
		for _, says := range faults {
			b.complaints = append(b.complaints, complaint{key: key, uid: p.seen.UID, says: says})
		}
	}
	p.seen.Added.Job = ""
	if p.seen.Job.Equal(&world.JobFacts{}) {
		b.dismiss(key, p)
		return
	}
	p.seen.Added.Job = key
	if p.employed && p.jobSeen.Equal(&p.seen.Job) {
		return
	}
	later := p.job
	later.Checkpoint.Last = job.Checkpoint.Last
	switch {
	case !p.employed:
		b.must(world.JobAdded{Name: key, JobFacts: job})
	case later.Equal(&job) && job.Checkpoint.Last > p.job.Checkpoint.Last:
		b.must(world.JobCheckpointed{Name: key, At: job.Checkpoint.Last})
	case !p.job.Equal(&job):
		b.must(world.JobChanged{Name: key, JobFacts: job})
	}
	p.employed, p.job, p.jobSeen = true, job, p.seen.Job
	b.stirred = true
}

// dismiss takes the job of a pod away.
func (b *books) dismiss(key string, p *pod) {
	if p.employed {
		b.must(world.JobRemoved{Name: key})
		p.employed, p.job, p.jobSeen = false, world.JobFacts{}, world.JobFacts{}
	}
}

// takeComplaints hands out some of what authors of pods should know.
func (b *books) takeComplaints() []complaint {
	n := min(len(b.complaints), tellMost)
	out := b.complaints[:n:n]
	b.complaints = b.complaints[n:]
	return out
}
