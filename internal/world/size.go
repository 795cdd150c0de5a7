package world

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Configuration is one way to run a job.
type Configuration struct {
	Model   string // of the GPUs of all its workers
	Workers int32
	Spread  int32 `json:",omitempty"` // nodes it may span; 0: any
	// Rate is the progress that is predicted for it, in thousandths of what one GPU of
	// the mean kind does.
	Rate int64
}

const (
	// mostConfigurations bounds the ways to run of one job: sizes up to 64 of four models.
	mostConfigurations = 256
	// mostWorkers and mostRate bound what one of them says, so that sums over all jobs
	// are exact.
	mostWorkers = 100_000
	mostRate    = 1_000_000_000
)

func validConfigurations(all []Configuration) error {
	if len(all) > mostConfigurations {
		return fmt.Errorf("%d configurations: must be at most %d", len(all), mostConfigurations)
	}
	seen := make(map[Configuration]bool, len(all))
	for _, c := range all {
		switch one := (Configuration{Model: c.Model, Workers: c.Workers}); {
		case c.Model == "":
			return fmt.Errorf("configuration of %d workers: model %q: must be named", c.Workers, c.Model)
		case c.Workers < 1 || c.Workers > mostWorkers:
			return fmt.Errorf("configuration on %s: workers %d: must be 1 to %d", c.Model, c.Workers, mostWorkers)
		case c.Rate < 1 || c.Rate > mostRate:
			return fmt.Errorf("configuration %dx%s: rate %d: must be 1 to %d thousandths", c.Workers, c.Model, c.Rate, mostRate)
		case c.Spread < 0:
			return fmt.Errorf("configuration %dx%s: nodes %d: must not be negative", c.Workers, c.Model, c.Spread)
		case seen[one]:
			return fmt.Errorf("configuration %dx%s: must be there once", c.Workers, c.Model)
		default:
			seen[one] = true
		}
	}
	return nil
}

// configure says how a job may run from now on. How it does run stays, and with
// nothing to choose from it is nothing that was chosen.
func (w *World) configure(j *cluster.Job, all []Configuration) {
	j.Configurations = nil
	for _, c := range slices.SortedFunc(slices.Values(all), func(a, b Configuration) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Workers, b.Workers))
	}) {
		j.Configurations = append(j.Configurations, cluster.Configuration{Model: w.Symbol(c.Model), Workers: c.Workers, Spread: c.Spread, Rate: c.Rate})
	}
	if !j.Elastic() {
		j.Sizing = cluster.Sizing{}
		return
	}
	j.MinWorkers, j.MaxWorkers = cluster.WorkersOf(j.Configurations)
}

// acceptScale commits to the size of a job: its workers come and go by decisions of
// their own.
func (w *World) acceptScale(d *decision.Decision) error {
	s := d.Scale
	if s == nil || s.Job < 0 || int(s.Job) >= w.ledger.Jobs.Len() {
		return fmt.Errorf("accept %v: it names no job", d.Action)
	}
	j := w.ledger.Job(s.Job)
	switch {
	case j.Generation != d.Row.Generation || j.Key != d.Subject || !j.Known:
		return fmt.Errorf("accept %v: the job it was decided for is gone", d.Action)
	case !j.Elastic():
		return fmt.Errorf("accept %v %s: it has no configurations", d.Action, j.Name)
	case s.To.Workers < 1 || s.To.Model == 0 || s.From != j.Sizing.Size:
		return fmt.Errorf("accept %v %s: from %d to %d workers: it must come to some, and has %d", d.Action, j.Name, s.From.Workers, s.To.Workers, j.Sizing.Size.Workers)
	}
	row := &w.ledger.EditJob(s.Job).Sizing
	row.Size, row.Moving = s.To, 0
	if s.Why == decision.SizeStart {
		return nil
	}
	row.Resized = max(w.now, 1)
	row.Times++
	row.Crowded = s.Why == decision.SizeCrowded || row.Crowded && s.To.Model == s.From.Model && s.To.Workers <= s.From.Workers
	if s.Why == decision.SizeMove {
		row.Moving = d.Deadline
	}
	return nil
}

// JobMeasured is what the workers of a job report of one stretch of training.
type JobMeasured struct {
	Name string
	// Sync is which part of a step went into the synchronisation of gradients, in
	// thousandths; negative: it was not measured.
	Sync int32
	// Busy is how busy the GPUs of workers were, by the names of their pods.
	Busy []WorkerBusy `json:",omitempty"`
	// Progress is how much of its work is done, in thousandths; 0: nobody knows.
	Progress int32 `json:",omitempty"`
}

// WorkerBusy is a reading of one worker.
type WorkerBusy struct {
	Pod  string
	Busy int32 // thousandths
}

func (e JobMeasured) apply(w *World) error {
	id, named := w.jobs[e.Name]
	if !named || !w.ledger.Job(id).Known {
		return fmt.Errorf("job %q: no such job", e.Name)
	}
	if !w.ledger.Job(id).Elastic() {
		return fmt.Errorf("job %s: it has no configurations, so that nothing is measured for it", e.Name)
	}
	if e.Sync > 1000 || e.Progress < 0 || e.Progress > 1000 {
		return fmt.Errorf("job %s: sync %d, progress %d: must be 0 to 1000 thousandths", e.Name, e.Sync, e.Progress)
	}
	for _, b := range e.Busy {
		pod, known := w.pods[b.Pod]
		switch {
		case !known || w.ledger.JobOf(w.ledger.Pod(pod)) != w.ledger.Job(id):
			return fmt.Errorf("job %s: worker %q: no such pod of it", e.Name, b.Pod)
		case b.Busy < 0 || b.Busy > 1000:
			return fmt.Errorf("job %s: worker %s: busy %d: must be 0 to 1000 thousandths", e.Name, b.Pod, b.Busy)
		}
	}
	j := w.ledger.EditJob(id)
	if e.Sync >= 0 {
		j.Sizing.Sync = j.Sizing.Sync.Read(e.Sync, j.Sizing.Times)
	}
	if e.Progress > 0 {
		j.Progress = quantity.Milli(e.Progress)
	}
	for _, b := range e.Busy {
		if pod := w.pods[b.Pod]; w.ledger.Pod(pod).Phase.Charged() {
			row := w.ledger.EditPod(pod)
			row.Busy = row.Busy.Read(b.Busy, j.Sizing.Times)
		}
	}
	return nil
}

// Sizing is what was decided and measured of the size of a job, by names.
type Sizing struct {
	Model    string `json:",omitempty"` // empty: nothing was decided
	Workers  int32
	Resized  moment.Instant `json:",omitempty"`
	Times    int32          `json:",omitempty"`
	Moving   moment.Instant `json:",omitempty"`
	Crowded  bool           `json:",omitempty"`
	Sync     cluster.Gauge  `json:",omitzero"`
	Progress int32          `json:",omitempty"`
}

func (w *World) sizingRecalled(j *cluster.Job) *Sizing {
	s := &j.Sizing
	if *s == (cluster.Sizing{}) && j.Progress == 0 {
		return nil
	}
	return &Sizing{
		Model: w.interner.Symbols().Text(s.Size.Model), Workers: s.Size.Workers, Resized: s.Resized, Times: s.Times, Moving: s.Moving,
		Crowded: s.Crowded, Sync: s.Sync, Progress: int32(j.Progress),
	}
}

// valid refuses what cannot have been decided of a job.
func (s *Sizing) valid(j *cluster.Job) error {
	switch {
	case s == nil:
		return nil
	case !j.Elastic():
		return fmt.Errorf("job %s: size %dx%s: it has no configurations", j.Name, s.Workers, s.Model)
	case s.Workers < 0 || (s.Workers > 0) != (s.Model != "") || s.Times < 0 || s.Resized < 0 || (s.Times > 0) != (s.Resized > 0) || s.Moving < 0 || s.Progress < 0 || s.Progress > 1000:
		return fmt.Errorf("job %s: size %dx%s, resized %d times, at %v, progress %d: a size has both, and only what was resized has a time", j.Name, s.Workers, s.Model, s.Times, s.Resized, s.Progress)
	}
	return nil
}

func (w *World) recallSizing(j *cluster.Job, s *Sizing) {
	if s == nil {
		return
	}
	j.Progress = quantity.Milli(s.Progress)
	j.Sizing = cluster.Sizing{
		Size: cluster.JobSize{Workers: s.Workers}, Resized: s.Resized, Times: s.Times, Moving: s.Moving, Crowded: s.Crowded, Sync: s.Sync,
	}
	if s.Model != "" {
		j.Sizing.Size.Model = w.Symbol(s.Model)
	}
}
