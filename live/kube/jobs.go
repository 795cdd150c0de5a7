package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// mostAhead is how far in the future a checkpoint may seem to be: clocks differ.
const mostAhead = moment.Minute

// complaint is what its author should know of a pod, once.
type complaint struct{ key, uid, reason, says string }

// ignoredReason is the reason of an event about an annotation that cannot be read.
const ignoredReason = "AnnotationIgnored"

// work is what others may come after by a name: a group of pods, those of a Job, or a
// pod alone. It is a job of the world as soon as its pods say something, or come after
// others.
type work struct {
	members map[string]*pod // those that are there
	known   bool            // the world was told of it
	job     world.JobFacts  // as the world has it
	anew    bool            // it was submitted again after its end
	refusal string          // why what it is to come after is not accepted; empty: it is
	asks    []world.Dependency
}

// employ tells the world of the work that a pod is part of, and that its annotations
// speak of, before the pod itself.
func (b *books) employ(key string, p *pod) {
	name := p.seen.Work
	p.seen.Added.Job = name
	if p.works == name && p.jobSeen.Equal(&p.seen.Job) {
		return
	}
	if p.works != name {
		b.dismiss(key, p)
	}
	p.jobSeen = p.seen.Job
	var faults []string
	p.job, faults = b.readable(p)
	if !slices.Equal(faults, p.faults) {
		p.faults = faults
		for _, says := range faults {
			b.complain(key, p, ignoredReason, says)
		}
	}
	w, since := b.works[name], moment.Instant(0)
	if p.works != name {
		since = max(p.seen.Added.Since, 1)
	}
	if w == nil {
		w = &work{members: make(map[string]*pod)}
		b.works[name] = w
	}
	p.works, w.members[key] = name, p
	b.tellWork(name, w, since)
	p.unordered = w.refusal
}

// readable is what a pod says of its job, as far as it can be meant.
func (b *books) readable(p *pod) (world.JobFacts, []string) {
	job, faults := p.seen.Job, slices.Clip(p.seen.JobFaults)
	if now := b.instant(); job.Checkpoint.Last > now {
		if job.Checkpoint.Last.Since(now) > mostAhead {
			at := time.UnixMicro(int64(job.Checkpoint.Last)).UTC().Format(time.RFC3339)
			faults = append(faults, fmt.Sprintf("annotation %s: %q: lies ahead of now; it is ignored", facts.CheckpointedAt, at))
			job.Checkpoint.Last = 0
		} else {
			job.Checkpoint.Last = now
		}
	}
	if job.SLA != "" && b.world.View().SLA(job.SLA) == nil {
		faults = append(faults, fmt.Sprintf("%s: %q: must be one of %s; it is ignored", facts.SLAClass, clipped(job.SLA), strings.Join(b.world.View().SLANames(), ", ")))
		job.SLA = ""
	}
	return job, faults
}

// clipped is as much of a value as is shown.
func clipped(value string) string { return value[:min(len(value), 80)] }

// facts is what the pods of a work say of it; none is zero. Of several the first by name
// speaks, save that the oldest of their checkpoints counts, and that it is enough if one of
// them cannot be preempted.
func (w *work) facts() world.JobFacts {
	var out world.JobFacts
	last := moment.Instant(0)
	said := false
	for _, key := range slices.Sorted(maps.Keys(w.members)) {
		job := &w.members[key].job
		if job.Equal(&world.JobFacts{}) {
			continue
		}
		if !said {
			out, said = *job, true
		}
		out.Unpreemptible = out.Unpreemptible || job.Unpreemptible
		if at := job.Checkpoint.Last; at > 0 && (last == 0 || at < last) {
			last = at
		}
	}
	out.Checkpoint.Last = last
	return out
}

// tellWork makes the world agree with what the pods of a work say of it. Since is when a
// pod that is new to it was made; 0: none is.
func (b *books) tellWork(name string, w *work, since moment.Instant) {
	if id, named := b.world.Job(name); named && since > 0 {
		if j := b.world.View().Job(id); j.Over() && since > j.Ended {
			w.anew, w.known = true, false // it is submitted again
		}
	}
	job := w.facts()
	silent := job.Equal(&world.JobFacts{}) && !w.anew
	later := w.job
	later.Checkpoint.Last = job.Checkpoint.Last
	reordered := !slices.Equal(w.asks, job.After) || !w.known
	switch {
	case silent && w.known:
		b.must(world.JobRemoved{Name: name})
		w.known, w.job = false, world.JobFacts{}
	case silent:
		return
	case w.known && w.refusal == "" && later.Equal(&job) && job.Checkpoint.Last > w.job.Checkpoint.Last:
		b.must(world.JobCheckpointed{Name: name, At: job.Checkpoint.Last})
		w.job = job
	case !w.known || !w.job.Equal(&job):
		b.tellOrder(name, w, job)
	}
	b.stirred = true
	if w.asks = job.After; reordered {
		b.retryOrders(name)
	}
}

// tellOrder tells the world of a work. What cannot be, a circle of works that would wait
// for each other, it is told without; the pods of the work are held back then.
func (b *books) tellOrder(name string, w *work, job world.JobFacts) {
	tell := func(job world.JobFacts) error {
		if w.known {
			return b.apply(world.JobChanged{Name: name, JobFacts: job})
		}
		return b.apply(world.JobAdded{Name: name, JobFacts: job})
	}
	refusal := ""
	if err := tell(job); err != nil {
		refusal = fmt.Sprintf("annotation %s: %v", facts.AfterWork, err)
		job.After = nil
		if err := tell(job); err != nil {
			panic(fmt.Sprintf("kube: the job %s: %v", name, err))
		}
	}
	w.known, w.job = true, job
	if refusal == w.refusal {
		return
	}
	w.refusal = refusal
	for _, key := range slices.Sorted(maps.Keys(w.members)) {
		p := w.members[key]
		if p.unordered = refusal; refusal != "" {
			b.complain(key, p, "AfterRefused", refusal)
		}
		b.resettle = append(b.resettle, key)
	}
}

// retryOrders tells the world once more of works that it did not take as they are: with
// another one changed, it may.
func (b *books) retryOrders(but string) {
	for _, name := range slices.Sorted(maps.Keys(b.works)) {
		if w := b.works[name]; w.refusal != "" && name != but {
			b.tellOrder(name, w, w.facts())
		}
	}
}

// settleOrders makes the world agree with pods that are held back since, or no more.
func (b *books) settleOrders() {
	for len(b.resettle) > 0 {
		key := b.resettle[0]
		b.resettle = b.resettle[1:]
		if p := b.pods[key]; p != nil && (p.footing == waiting || p.footing == outside) {
			b.settle(key, p)
		}
	}
}

// dismiss takes a pod out of the work that it was part of. A work whose pods are all
// gone is forgotten, save while others wait to hear how it ended.
func (b *books) dismiss(key string, p *pod) {
	w := b.works[p.works]
	name := p.works
	p.works, p.unordered = "", ""
	if w == nil {
		return
	}
	delete(w.members, key)
	if len(w.members) > 0 {
		b.tellWork(name, w, 0)
		return
	}
	if id, named := b.world.Job(name); named {
		if j := b.world.View().Job(id); j.Named > 0 && !j.Over() {
			b.lookSoon(name)
			return // it may have ended well: whoever waits for it asks
		}
	}
	b.forgetWork(name, w)
}

func (b *books) forgetWork(name string, w *work) {
	if delete(b.works, name); w.known {
		b.must(world.JobRemoved{Name: name})
		b.stirred = true
	}
	b.retryOrders(name)
}

func (b *books) complain(key string, p *pod, reason, says string) {
	b.complaints = append(b.complaints, complaint{key: key, uid: p.seen.UID, reason: reason, says: says})
}

// takeComplaints hands out some of what authors of pods should know.
func (b *books) takeComplaints() []complaint {
	n := min(len(b.complaints), tellMost)
	out := b.complaints[:n:n]
	b.complaints = b.complaints[n:]
	return out
}

// Others wait for the end of works, which pods do not tell: to those who watch pods, one
// that has finished is as one that was deleted. So it is asked for, work by work, as
// long as somebody waits for it.
const (
	// lookEvery is the pause between two looks at one work, and looksMost how many works
	// are looked at in a second.
	lookEvery = 2 * time.Second
	looksMost = 20
)

// lookSoon has a work looked at in the next second.
func (b *books) lookSoon(name string) { delete(b.looked, name) }

// awaited lists some of the works that others wait for, those first that were looked at
// longest ago.
func (b *books) awaited() []string {
	v := b.world.View()
	looked := make(map[string]time.Time)
	var out []string
	for _, id := range v.Dependents() {
		j := v.Job(id)
		if !v.Awaits(j) {
			continue
		}
		for _, d := range j.After {
			before := v.Job(d.Job)
			if _, listed := looked[before.Name]; listed || before.Over() || v.Met(d) {
				continue
			}
			looked[before.Name] = b.looked[before.Name]
			out = append(out, before.Name)
		}
	}
	b.looked = looked
	out = slices.DeleteFunc(out, func(name string) bool { return b.now.Sub(looked[name]) < lookEvery })
	slices.SortFunc(out, func(x, y string) int {
		if c := looked[x].Compare(looked[y]); c != 0 {
			return c
		}
		return strings.Compare(x, y)
	})
	out = out[:min(len(out), looksMost)]
	for _, name := range out {
		looked[name] = b.now
	}
	return out
}

// workSeen takes in how it stands with a work, as the API server knows it.
func (b *books) workSeen(name string, state facts.Work, began, ended moment.Instant) {
	id, named := b.world.Job(name)
	w := b.works[name]
	if !named || b.world.View().Job(id).Over() {
		return
	}
	now := max(b.instant(), 1)
	j := *b.world.View().Job(id)
	if began = min(began, now); j.Began != 0 {
		began = j.Began
	}
	recalled := world.JobRecalled{Name: name, Displaced: j.Displaced, Evictions: j.Evictions, Ran: j.Ran, Began: began}
	switch {
	case state == facts.WorkUnknown && j.Members == 0: // it went without an end
		if w != nil {
			b.forgetWork(name, w)
		}
		if id, named := b.world.Job(name); named && b.world.View().Job(id).Began != 0 {
			recalled.Began = 0
			b.must(recalled)
		}
		return
	case state == facts.WorkDone || state == facts.WorkFailed:
		recalled.Ended = min(max(ended, began, 1), now)
		recalled.Failed = state == facts.WorkFailed
	case state == facts.WorkUnknown || j.Began == began:
		return
	}
	b.must(recalled)
	b.stirred = true
	if w != nil && len(w.members) == 0 && recalled.Ended != 0 {
		b.forgetWork(name, w)
	}
}

// endsKept bounds the ends of works that are kept for the next start.
const endsKept = 1000

// ends lists the works that are over and remembered, by name.
func (b *books) ends() (out []world.JobRecalled) {
	v := b.world.View()
	for i := range v.Jobs.Len() {
		j := v.Job(cluster.JobID(i))
		if id, named := b.world.Job(j.Name); named && int(id) == i && j.Over() {
			out = append(out, world.JobRecalled{Name: j.Name, Began: j.Began, Ended: j.Ended, Failed: j.State == cluster.JobFailed})
		}
	}
	slices.SortFunc(out, func(x, y world.JobRecalled) int {
		if x.Ended != y.Ended {
			return int(min(max(y.Ended.Since(x.Ended), -1), 1))
		}
		return strings.Compare(x.Name, y.Name)
	})
	return out[:min(len(out), endsKept)]
}

// promise defines SLA classes. It comes before the first pod.
func (b *books) promise(classes []world.SLADefined) error {
	for _, class := range classes {
		if err := b.apply(class); err != nil {
			return err
		}
	}
	return nil
}
