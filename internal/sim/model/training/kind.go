package training

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// Kind is one kind of training: a model with its data and its measured behaviour.
// It is read only, and may be shared by runs.
type Kind struct {
	Name     string
	Epochs   int
	Restart  int64 // seconds
	Slowdown float64
	ByShape  bool
	runs     []trace.BatchRun
	// boundary[e] is the progress at which epoch e begins.
	boundary []float64
	speeds   []*Speeds
}

// Kinds makes the kinds of a setting out of their profiles, by name.
func Kinds(profiles []trace.Profile, set Setting) (map[string]*Kind, error) {
	kinds := make(map[string]*Kind, len(profiles))
	for _, p := range profiles {
		i := slices.IndexFunc(facts(), func(f fact) bool { return f.name == p.Kind })
		if i < 0 {
			return nil, fmt.Errorf("no facts about the application %q", p.Kind)
		}
		f := facts()[i]
		k := &Kind{Name: f.name, Epochs: f.epochs, Restart: f.restart, Slowdown: f.slowdown, ByShape: set.ByShape, runs: p.Runs}
		if set.Restart > 0 {
			k.Restart = set.Restart
		}
		if !set.Slowdown {
			k.Slowdown = 1
		}
		if set.ByShape {
			f.maxLocal = 0
		}
		for _, run := range p.Runs {
			if len(run.Epochs) < f.epochs {
				return nil, fmt.Errorf("%s: the run of batch %d has %d epochs, want at least %d", p.Kind, run.Batch, len(run.Epochs), f.epochs)
			}
		}
		k.boundary = boundaries(p.Runs, f.epochs)
		for _, table := range p.GPUs {
			s, err := newSpeeds(p.Kind, table, f.maxLocal)
			if err != nil {
				return nil, err
			}
			if s.MinLocal > k.MaxBatch() {
				return nil, fmt.Errorf("%s on %s: the smallest batch on a GPU, %d, is above the largest total batch, %d", p.Kind, table.GPU, s.MinLocal, k.MaxBatch())
			}
			k.speeds = append(k.speeds, s)
		}
		kinds[k.Name] = k
	}
	return kinds, nil
}

// boundaries are where epochs begin: the least progress that any measured run had
// made by then.
func boundaries(runs []trace.BatchRun, epochs int) []float64 {
	out := make([]float64, epochs+1)
	for e := 1; e <= epochs; e++ {
		out[e] = runs[0].Epochs[e-1].Progress
		for _, run := range runs[1:] {
			out[e] = min(out[e], run.Epochs[e-1].Progress)
		}
	}
	return out
}

// MinBatch is the batch against which efficiency is counted: the smallest
// measured.
func (k *Kind) MinBatch() int { return k.runs[0].Batch }

// MaxBatch is the largest total batch.
func (k *Kind) MaxBatch() int { return k.runs[len(k.runs)-1].Batch }

// On is how the kind steps on a GPU model, nil where it was not measured.
func (k *Kind) On(gpu string) *Speeds {
	for _, s := range k.speeds {
		if s.GPU == gpu {
			return s
		}
	}
	return nil
}

// gradient is the squared norm and the variance of the gradient in an epoch,
// linear in the batch between the two measured ones around it.
func (k *Kind) gradient(batch, epoch int) (sqr, vari float64, err error) {
	if batch < k.MinBatch() || batch > k.MaxBatch() {
		return 0, 0, fmt.Errorf("%s: batch %d is outside the measured %d to %d", k.Name, batch, k.MinBatch(), k.MaxBatch())
	}
	hi, exact := slices.BinarySearchFunc(k.runs, batch, func(r trace.BatchRun, b int) int { return r.Batch - b })
	upper := k.runs[hi].Epochs[epoch]
	if exact {
		return upper.GradSqr, upper.GradVar, nil
	}
	lower := k.runs[hi-1].Epochs[epoch]
	up, down := float64(batch-k.runs[hi-1].Batch), float64(k.runs[hi].Batch-batch)
	mix := func(low, high float64) float64 { return (float64(up*high) + float64(down*low)) / (up + down) }
	return mix(lower.GradSqr, upper.GradSqr), mix(lower.GradVar, upper.GradVar), nil
}

// Gain is what one step of a batch is worth in steps of the smallest batch.
func gain(sqr, vari, scale float64) float64 { return (vari + sqr) / (vari/scale + sqr) }
