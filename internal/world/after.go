package world

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Jobs may come after others. A job that has ended is remembered by its name, also when
// it is gone, so that those which are submitted later find how it ended.
//
//	            first pod starts        JobEnded              JobRemoved
//	waiting ──────▶ running ──────▶ done or failed ──────▶ remembered ──▶ forgotten
//	   ▲                                  │                     │
//	   └───────────── JobAdded: submitted again ◀───────────────┘
const (
	// endedKept is for how long after its end a job is remembered that is gone and that
	// nobody comes after: what belongs together is submitted within a day.
	endedKept = moment.Day
	// mostEnded bounds how many such are remembered; those that ended first go first. It
	// is a day of a cluster that ends seven jobs a minute.
	mostEnded = 10_000
	// mostAfter is how many others a job may come after: a step that gathers the parts
	// of a sweep. More can go by a job in between.
	mostAfter = 1000
)

// Dependency makes a job wait for another, by name.
type Dependency struct {
	Job  string
	When cluster.DependencyKind
}

// Equal says whether both say the same.
func (f *JobFacts) Equal(g *JobFacts) bool {
	x, y := *f, *g
	x.After, y.After = nil, nil
	x.Configurations, y.Configurations = nil, nil
	return reflect.DeepEqual(x, y) && slices.Equal(f.After, g.After) && slices.Equal(f.Configurations, g.Configurations)
}

// JobEnded says that a job is over. Its pods are no part of that: they are removed one
// by one.
type JobEnded struct {
	Name   string
	Failed bool `json:",omitempty"`
}

func (e JobEnded) apply(w *World) error {
	id, named := w.jobs[e.Name]
	if !named || !w.ledger.Job(id).Known {
		return fmt.Errorf("job %q: no such job", e.Name)
	}
	if j := w.ledger.Job(id); j.Over() {
		return fmt.Errorf("job %s: it has ended already, at %v", e.Name, j.Ended)
	}
	j := w.ledger.EditJob(id)
	j.Ended = max(w.now, 1)
	j.State = stateOf(j.Began, j.Ended, e.Failed)
	return nil
}

// stateOf is where a job stands that began and ended so.
func stateOf(began, ended moment.Instant, failed bool) cluster.JobState {
	switch {
	case ended != 0 && failed:
		return cluster.JobFailed
	case ended != 0:
		return cluster.JobDone
	case began != 0:
		return cluster.JobRunning
	}
	return cluster.JobWaiting
}

// validAfter refuses what a job cannot come after: itself, one twice, more than there may
// be, and whatever comes after it.
func (w *World) validAfter(name string, after []Dependency) error {
	if len(after) > mostAfter {
		return fmt.Errorf("after %d jobs: must be at most %d", len(after), mostAfter)
	}
	seen := make(map[string]bool, len(after))
	for _, d := range after {
		switch {
		case d.Job == "" || d.When > cluster.AfterStart:
			return fmt.Errorf("after job %q, kind %d: must have a name, and be of success, end or start", d.Job, uint8(d.When))
		case seen[d.Job]:
			return fmt.Errorf("after job %s: must be named once", d.Job)
		case d.Job == name:
			return fmt.Errorf("after job %s: a job cannot come after itself", name)
		}
		seen[d.Job] = true
	}
	if id, named := w.jobs[name]; named && w.ledger.Job(id).Named > 0 {
		if circle := w.circle(id, after); circle != nil {
			return fmt.Errorf("after job %s: they would wait for each other: %s", circle[0], strings.Join(append([]string{name}, circle...), " after "))
		}
	}
	return nil
}

// circle is a shortest way from what a job is to come after back to that job; nil where
// there is none.
func (w *World) circle(back cluster.JobID, after []Dependency) []string {
	v := &w.ledger.View
	var line []cluster.JobID
	from := make(map[cluster.JobID]cluster.JobID) // on the way to which job a job was found
	for _, d := range sortedAfter(after) {
		if id, named := w.jobs[d.Job]; named {
			line = append(line, id)
			from[id] = cluster.None
		}
	}
	for i := 0; i < len(line); i++ {
		if line[i] == back {
			var way []string
			for id := back; id != cluster.None; id = from[id] {
				way = append(way, v.Job(id).Name)
			}
			slices.Reverse(way)
			return way
		}
		for _, d := range v.Job(line[i]).After {
			if _, found := from[d.Job]; !found {
				from[d.Job] = line[i]
				line = append(line, d.Job)
			}
		}
	}
	return nil
}

func sortedAfter(after []Dependency) []Dependency {
	return slices.SortedFunc(slices.Values(after), func(a, b Dependency) int { return cmp.Compare(a.Job, b.Job) })
}

// setAfter says what a job comes after from now on, and forgets the jobs that nobody
// names any more.
func (w *World) setAfter(id cluster.JobID, after []Dependency) {
	old := w.ledger.Job(id).After
	if len(old) == 0 && len(after) == 0 {
		return
	}
	var rows []cluster.Dependency
	for _, d := range sortedAfter(after) {
		rows = append(rows, cluster.Dependency{Job: w.jobNamed(d.Job), When: d.When})
	}
	w.ledger.SetAfter(id, rows)
	for _, list := range [...][]cluster.Dependency{rows, old} {
		for _, d := range list {
			w.fileEnded(d.Job)
			w.dropJob(d.Job)
		}
	}
}

// beginAnew makes a job one that nothing is known of but who names it. Pods of it that
// run are its own: with them it has begun.
func (w *World) beginAnew(id cluster.JobID) {
	old := *w.ledger.Job(id)
	j := w.ledger.EditJob(id)
	*j = newJob(old.Name, old.Generation, old.Members)
	j.Named, j.After = old.Named, old.After
	if old.Members == 0 {
		return
	}
	for i := range w.ledger.Pods.Len() {
		p := w.ledger.Pod(cluster.PodID(i))
		if p.Spec == nil || p.Spec.Job != id || p.Phase != cluster.PhaseRunning {
			continue
		}
		if at := max(p.Started, 1); j.Began == 0 || at < j.Began {
			j.Began = at
		}
	}
	j.State = stateOf(j.Began, 0, false)
}

// beginJob books that a pod of a job has started.
func (w *World) beginJob(pod cluster.PodID) {
	id := w.ledger.Pod(pod).Spec.Job
	if g := w.ledger.Pod(pod).Spec.Group; id == cluster.None && g != cluster.None {
		id = w.ledger.Group(g).Job
	}
	if id == cluster.None || w.ledger.Job(id).Began != 0 {
		return
	}
	j := w.ledger.EditJob(id)
	j.Began = max(w.now, 1)
	j.State = stateOf(j.Began, j.Ended, j.State == cluster.JobFailed)
}

// fileEnded keeps the list of jobs of which only the name and the end are remembered.
func (w *World) fileEnded(id cluster.JobID) {
	if at := slices.Index(w.ended, id); at >= 0 {
		w.ended = slices.Delete(w.ended, at, at+1)
	}
	j := w.ledger.Job(id)
	if j.Known || j.Ended == 0 || j.Named > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(w.ended, j, func(id cluster.JobID, j *cluster.Job) int {
		other := w.ledger.Job(id)
		return cmp.Or(cmp.Compare(other.Ended, j.Ended), cmp.Compare(other.Key, j.Key))
	})
	w.ended = slices.Insert(w.ended, at, id)
}

// forgetEnded lets go of those whose time is over.
func (w *World) forgetEnded() {
	for len(w.ended) > 0 {
		id := w.ended[0]
		if ended := w.ledger.Job(id).Ended; len(w.ended) <= mostEnded && w.now < ended.Add(endedKept) {
			return
		}
		w.ended = w.ended[1:]
		j := w.ledger.EditJob(id)
		j.State, j.Began, j.Ended = cluster.JobWaiting, 0, 0
		w.beginAnew(id)
		w.dropJob(id)
	}
}
