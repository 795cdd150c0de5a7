package cluster

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// An elastic job runs in any of its configurations. Which of them is decided, as its
// size, and written down before it is acted on: a commitment. What its workers measure
// is kept beside it, as far as it is about that size.

// Configuration is one way to run a job: so many workers on GPUs of a model, with
// the rate of progress predicted for it.
type Configuration struct {
	Model   Symbol
	Workers int32
	Spread  int32 // nodes it may span; 0 is any
	Rate    int64 // predicted progress, in thousandths of what one GPU of the mean kind does
}

// JobSize is how a job runs: with so many workers, on GPUs of a model. The zero value is
// for a job whose size nobody decided.
type JobSize struct {
	Model   Symbol
	Workers int32
}

// Sizing is what is decided about the size of a job, and what was measured since.
type Sizing struct {
	Size JobSize
	// Resized is when it was changed last, Times how often; 0: never.
	Resized moment.Instant
	Times   int32
	// Moving is until when room of the model is kept for the job, which leaves its
	// old place whole and comes back there; 0: it does not.
	Moving moment.Instant
	// Crowded says that it was made smaller since its workers waited for each other.
	Crowded bool
	// Sync is which part of a step goes into the synchronisation of gradients, in
	// thousandths.
	Sync Gauge
}

// Gauge is a smoothed reading.
type Gauge struct {
	Value int32 // thousandths
	Count int32 // of readings
	Of    int32 // how often the job had been resized: the reading is about that size
}

// smoothing is the weight of a new reading, as a divisor: about the last eight count.
const smoothing = 4

// Read takes in a reading about a size.
func (g Gauge) Read(value, of int32) Gauge {
	if g.Count == 0 || g.Of != of {
		return Gauge{Value: value, Count: 1, Of: of}
	}
	return Gauge{Value: g.Value + (value-g.Value)/smoothing, Count: g.Count + 1, Of: of}
}

// About says whether the reading is about the present size, and rests on so many.
func (g Gauge) About(of, least int32) bool { return g.Count >= least && g.Of == of }

// Elastic says whether the job has several ways to run, or one that is told.
func (j *Job) Elastic() bool { return len(j.Configurations) > 0 }

// Scale books in a transaction how a job is to run.
func (t *Txn) Scale(id JobID, size JobSize) { t.ledger.EditJob(id).Sizing.Size = size }

// Withhold keeps a device of a transaction from everybody.
func (t *Txn) Withhold(id DeviceID) { t.ledger.SetHealth(id, Sick) }

// sizingDigest adds to the hash of a job how it may run, and how it does.
func (v *View) sizingDigest(h uint64, j *Job) uint64 {
	for _, c := range j.Configurations {
		h = chance.Hash(40, h, chance.HashString(v.Symbols.Text(c.Model)), uint64(c.Workers), uint64(c.Spread), uint64(c.Rate))
	}
	if j.Progress > 0 {
		h = chance.Hash(41, h, uint64(j.Progress))
	}
	if s := &j.Sizing; *s != (Sizing{}) {
		h = chance.Hash(42, h, chance.HashString(v.Symbols.Text(s.Size.Model)), uint64(s.Size.Workers), uint64(s.Resized), uint64(s.Times), uint64(s.Moving))
		if h = s.Sync.digest(h); s.Crowded {
			h++
		}
	}
	return h
}

func (g Gauge) digest(h uint64) uint64 {
	return chance.Hash(43, h, uint64(g.Value), uint64(g.Count), uint64(g.Of))
}

// sizes looks at what is decided and told of how jobs run.
func (a *audit) sizes() error {
	v := a.view
	for i := range v.Jobs.Len() {
		j := v.Job(JobID(i))
		s := &j.Sizing
		if j.Known && s.Size.Workers >= 0 && (s.Size.Workers > 0) == (s.Size.Model != 0) && (s.Times > 0) == (s.Resized > 0) && (j.Elastic() || *s == Sizing{}) {
			least, most := WorkersOf(j.Configurations)
			if !j.Elastic() || least == j.MinWorkers && most == j.MaxWorkers {
				continue
			}
		}
		if !j.Known && !j.Elastic() && *s == (Sizing{}) {
			continue
		}
		return fmt.Errorf("audit: job %s: known: %v, %d configurations for %d to %d workers, runs as %+v", j.Name, j.Known, len(j.Configurations), j.MinWorkers, j.MaxWorkers, *s)
	}
	return nil
}

// WorkersOf is the range of workers over some configurations.
func WorkersOf(all []Configuration) (least, most int32) {
	for i, c := range all {
		if i == 0 || c.Workers < least {
			least = c.Workers
		}
		most = max(most, c.Workers)
	}
	return least, most
}
