package rounds

import (
	"fmt"
	"math"
	"sync"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// Alone remembers how long jobs take alone on a small cluster: finish-time fairness
// asks for the same runs again and again. It may be shared by runs of one setting
// and one set of profiles.
type Alone struct {
	mu    sync.Mutex // guards known
	known map[aloneKey]aloneRun
}

type aloneKey struct {
	policy, kind string
	gpus, batch  int
	every        int64
	typ          elastic.Type
	most         int
}

// aloneRun is when a job that was there from the start ended.
type aloneRun struct {
	end float64
	ok  bool // the job fits
}

// fairness adds finish-time fairness: a job's completion time over what it would
// have been alone on a cluster of all GPUs over the mean number of jobs while it was
// there, a mean over GPU types by their GPUs. Above 1 is unfair.
func (r *run) fairness(out *meter.Training) error {
	memory := r.Alone
	if memory == nil {
		memory = new(Alone)
	}
	whole := 0
	for _, t := range r.Cluster {
		whole += t.GPUs()
	}
	worst, unfair := 0.0, 0
	for i, s := range r.jobs {
		share := float64(whole) / (float64(s.rivals) / float64(s.rounds))
		sum, weight := 0.0, 0.0
		for _, t := range r.Cluster {
			jct, ok, err := r.alone(memory, s, t, share)
			if err != nil {
				return fmt.Errorf("job %s alone: %w", s.Name, err)
			}
			if ok {
				sum, weight = sum+jct*float64(t.GPUs()), weight+float64(t.GPUs())
			}
		}
		if weight == 0 {
			continue
		}
		ftf := out.Each[i].JCTS / (sum / weight)
		out.Each[i].FTF = pointer(ftf)
		worst = max(worst, ftf)
		if ftf > 1 {
			unfair++
		}
	}
	out.FTFWorst = pointer(worst)
	out.UnfairPct = pointer(100 * float64(unfair) / float64(len(r.jobs)))
	return nil
}

// alone is the completion time of a job alone on a share of GPUs of a type: between
// two whole numbers it is linear, and below one the GPU is had a part of the time.
// A job whose size is not the policy's to choose runs with its size; where that is
// more than the share, a part of the time too.
func (r *run) alone(memory *Alone, s *jobState, t elastic.Type, share float64) (jct float64, ok bool, err error) {
	offset := math.Mod(s.Submit, float64(r.Every))
	at := func(most int) float64 {
		run, e := r.remembered(memory, s, t, most)
		if e != nil {
			err = e
		}
		ok = run.ok
		return run.end - offset
	}
	if !r.Policy.Elastic {
		jct = at(s.GPUs)
		if float64(s.GPUs) > share {
			jct *= float64(s.GPUs) / share
		}
		return jct, ok, err
	}
	if share < 1 {
		return at(1) / share, ok, err
	}
	low := math.Floor(share)
	jct = at(int(low))
	if share > low && err == nil {
		jct += (at(int(low)+1) - jct) * (share - low)
	}
	return jct, ok, err
}

func (r *run) remembered(memory *Alone, s *jobState, t elastic.Type, most int) (aloneRun, error) {
	nodes := min(t.Nodes, most/t.PerNode+1)
	most = min(most, nodes*t.PerNode)
	key := aloneKey{r.Policy.Name, s.Kind.Name, s.GPUs, s.Batch, r.Every, elastic.Type{Name: t.Name, Nodes: nodes, PerNode: t.PerNode}, most}
	if !r.Policy.Elastic {
		key.typ.Nodes = min(t.Nodes, (s.GPUs+t.PerNode-1)/t.PerNode)
		if s.GPUs > key.typ.GPUs() {
			return aloneRun{}, nil
		}
	} else if !r.Policy.AskedBatch {
		key.gpus, key.batch = 0, 0
	}
	memory.mu.Lock()
	run, known := memory.known[key]
	memory.mu.Unlock()
	if known {
		return run, nil
	}
	c := Config{
		Setting: r.Setting, Kinds: r.Kinds, Cluster: elastic.Cluster{key.typ}, Policy: r.Policy, Every: r.Every, Most: most,
		Jobs: []trace.TrainingJob{{Name: s.Name, Kind: s.Kind.Name, GPUs: s.GPUs, Batch: s.Batch}},
	}
	res, err := Run(c)
	if err != nil {
		return aloneRun{}, err
	}
	run = aloneRun{end: *res.JCTMeanS, ok: true}
	memory.mu.Lock()
	defer memory.mu.Unlock()
	if memory.known == nil {
		memory.known = map[aloneKey]aloneRun{}
	}
	memory.known[key] = run
	return run, nil
}
