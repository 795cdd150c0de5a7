package cluster

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// UnsavedFor is how long a pod has worked since its job's last checkpoint, or its start.
func (v *View) UnsavedFor(p *Pod, now moment.Instant) moment.Span {
	if p.Phase != PhaseRunning {
		return 0
	}
	from := p.Started
	if j := v.JobOf(p); j != nil {
		from = max(from, j.Checkpoint.Last)
	}
	return max(now.Since(from), 0)
}

// LostFor is how much time a pod loses when it goes: what it has worked since its last
// checkpoint, or what it takes to make one, and its restart.
func (v *View) LostFor(p *Pod, now moment.Instant) moment.Span {
	lost := v.UnsavedFor(p, now)
	if j := v.JobOf(p); j != nil {
		if j.Saves() {
			lost = min(lost, j.Checkpoint.Write)
		}
		lost += j.Checkpoint.Restart
	}
	return lost
}

// LostWith is LostFor in milli-GPU-seconds of what the pod holds.
func (v *View) LostWith(p *Pod, now moment.Instant) int64 {
	return quantity.MulDiv(int64(p.Placement.Milli()), int64(v.LostFor(p, now)), int64(moment.Second))
}

// SavesFirst says whether a pod is better asked to save its state before it goes, and
// until when it has time for that, with some grace.
func (v *View) SavesFirst(p *Pod, now moment.Instant, grace moment.Span) (until moment.Instant, saves bool) {
	j := v.JobOf(p)
	if j == nil || !j.Saves() || v.UnsavedFor(p, now) <= j.Checkpoint.Write {
		return moment.Never, false
	}
	return now.Add(j.Checkpoint.Write + grace), true
}

// Leftover is for how long a pod is still expected to run; known is false where nobody
// knows.
func (v *View) Leftover(p *Pod, now moment.Instant) (left moment.Span, known bool) {
	run := v.ExpectedRun(p).Likely
	if run <= 0 {
		return 0, false
	}
	return max(run-v.RanFor(p, now), 0), true
}
