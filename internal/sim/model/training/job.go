package training

import (
	"fmt"
	"math"

	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// Measurement is what a job measures while it runs.
type Measurement struct {
	GPU         string
	Nodes, GPUs int
	Local       int     // examples on each GPU in one pass
	Step, Sync  float64 // seconds
	GradSqr     float64
	GradVar     float64
}

// Tuner chooses a job's batch from what it measured.
type Tuner interface {
	Observe(m Measurement)
	// Batch chooses the examples on each GPU in one pass and how many passes more are
	// accumulated before a step; not ok before anything was measured on the GPU model.
	Batch(gpu string, nodes, gpus, maxLocal int) (local, accumulate int, ok bool)
}

// Job is one training job as it runs. Times are in whole seconds since the start
// of the run.
type Job struct {
	Name   string
	Kind   *Kind
	Submit float64
	// GPUs and Batch are what the user asked for.
	GPUs, Batch int

	// GPU and Placement are where it runs: the model, and the GPUs on each node.
	// Empty: nowhere.
	GPU       string
	Placement []int
	Local     int
	Passes    int // passes accumulated before a step, beyond the first

	Epoch     int
	Progress  float64
	Now       int64
	Countdown int64 // seconds of restart that are left
	Attained  int64 // GPU-seconds
	// Restarts does not count the first start.
	Restarts int
	Done     bool
	Finished int64

	tuner   Tuner // nil: the batch is as asked for
	started bool
	rate    rate
}

// rate keeps the last step time looked up.
type rate struct {
	local      int
	step, sync float64
}

// NewJob makes a job that has not started. Without a tuner it keeps the batch that
// was asked for.
func NewJob(row trace.TrainingJob, kind *Kind, tuner Tuner) *Job {
	return &Job{Name: row.Name, Kind: kind, Submit: row.Submit, GPUs: row.GPUs, Batch: row.Batch, tuner: tuner}
}

// Place moves the job to GPUs of a model, so many on each node, which restarts it;
// an empty placement suspends it.
func (j *Job) Place(gpu string, placement []int) error {
	if len(placement) == 0 {
		j.GPU, j.Placement, j.Local = "", nil, 0
		return nil
	}
	if j.Kind.On(gpu) == nil {
		return fmt.Errorf("%s: %s was not measured on GPU %s", j.Name, j.Kind.Name, gpu)
	}
	j.GPU, j.Placement, j.rate = gpu, placement, rate{}
	j.chooseBatch()
	j.Countdown = j.Kind.Restart
	if j.started {
		j.Restarts++
	}
	j.started = true
	return nil
}

// Started says that the job had GPUs at least once.
func (j *Job) Started() bool { return j.started }

// Held is how many GPUs the job holds.
func (j *Job) Held() int {
	n := 0
	for _, g := range j.Placement {
		n += g
	}
	return n
}

// ceil is the ceiling of a quotient that may be a hair above an integer.
func ceil(x float64) int { return int(math.Ceil(x - 1e-8)) }

// chooseBatch sets the batch for where the job runs.
func (j *Job) chooseBatch() {
	gpus, s := j.Held(), j.Kind.On(j.GPU)
	most := s.MaxLocal
	if j.Kind.ByShape {
		most = s.MostLocal(j.Placement)
	}
	batch := j.Batch
	if j.tuner != nil {
		if local, passes, ok := j.tuner.Batch(j.GPU, len(j.Placement), gpus, most); ok {
			j.Local, j.Passes = local, passes
			j.clip(s, gpus)
			return
		}
		batch = max(j.Kind.MinBatch(), s.MinLocal*gpus)
	}
	j.Local, j.Passes = Split(batch, gpus, most, j.Kind.MinBatch())
	j.clip(s, gpus)
}

// Split divides a total batch over GPUs: the examples on each in one pass, and the
// passes accumulated beyond the first. One GPU with more than the smallest batch
// accumulates at least once, since it cannot measure its gradient's noise
// otherwise.
func Split(batch, gpus, most, smallest int) (local, passes int) {
	each := ceil(float64(batch) / float64(gpus))
	passes = ceil(float64(each)/float64(most)) - 1
	if gpus == 1 && batch > smallest {
		passes = max(passes, 1)
	}
	return ceil(float64(each) / float64(passes+1)), passes
}

// clip holds the batch within what was measured and what the kind allows.
func (j *Job) clip(s *Speeds, gpus int) {
	if most := s.mostOf[gpus]; j.Kind.ByShape && most > 0 {
		j.Local = min(j.Local, most)
	}
	j.Local = min(j.Local, j.Kind.MaxBatch()/(gpus*(j.Passes+1)))
}

// Total is the batch of one step over all GPUs.
func (j *Job) Total() int { return j.Held() * j.Local * (j.Passes + 1) }

// Advance lets the job run for so many seconds. A job without GPUs only ages.
func (j *Job) Advance(seconds int64) error {
	if j.Done {
		return nil
	}
	if len(j.Placement) == 0 {
		j.Now += seconds
		return nil
	}
	gpus := int64(j.Held())
	delay := min(j.Countdown, seconds)
	j.Countdown -= delay
	seconds -= delay
	j.pass(delay, gpus)
	for seconds > 0 && !j.Done {
		goodput, err := j.goodput()
		if err != nil {
			return fmt.Errorf("job %s: %w", j.Name, err)
		}
		next := j.Kind.boundary[j.Epoch+1]
		if made := j.Progress + float64(goodput*float64(seconds)); made < next {
			j.Progress = made
			j.pass(seconds, gpus)
			seconds = 0
		} else {
			rest := int64(math.RoundToEven((next - j.Progress) / goodput))
			j.Epoch++
			j.Progress = next
			j.pass(rest, gpus)
			seconds -= rest
			if j.Epoch >= j.Kind.Epochs {
				j.Done, j.Finished = true, j.Now
			}
		}
		j.chooseBatch()
	}
	return nil
}

// pass lets time go by.
func (j *Job) pass(seconds, gpus int64) {
	j.Now += seconds
	j.Attained += seconds * gpus
}

// goodput is the progress in a second, in steps of the smallest batch; what the
// job measured on the way goes to its tuner.
func (j *Job) goodput() (float64, error) {
	total := j.Total()
	sqr, vari, err := j.Kind.gradient(total, j.Epoch)
	if err != nil {
		return 0, err
	}
	if j.rate.local != j.Local {
		step, sync, err := j.Kind.On(j.GPU).Step(j.Placement, j.Local)
		if err != nil {
			return 0, err
		}
		j.rate = rate{j.Local, step, sync}
	}
	step, sync := j.rate.step, j.rate.sync
	if j.tuner != nil {
		j.tuner.Observe(Measurement{j.GPU, len(j.Placement), j.Held(), j.Local, step, sync, sqr, vari})
	}
	g := gain(sqr, vari, float64(total)/float64(j.Kind.MinBatch()))
	whole := step + float64((step-sync)*float64(j.Passes))
	return g / whole * (1 / j.Kind.Slowdown), nil
}
