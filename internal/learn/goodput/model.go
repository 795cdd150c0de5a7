package goodput

import (
	"math"
	"slices"
)

// Limits are what a job declares about itself.
type Limits struct {
	// MinBatch is the total batch against which efficiency is counted, MaxBatch the
	// largest.
	MinBatch, MaxBatch int
	GPUs               []GPULimits
	// Expected is how far, as a part, a step may be from what the last fit expects and
	// still teach nothing; 0: every new step is learned from.
	Expected float64
	// Beforehand says that what one GPU does is known: that a step with MaxLocal examples
	// takes MaxLocal / Single seconds.
	Beforehand bool
}

// GPULimits bound the batch on one GPU of a model. Single is its throughput on one
// GPU in examples per second, known beforehand; where Limits.Beforehand does not say
// otherwise only ratios of it matter.
type GPULimits struct {
	GPU                string
	MinLocal, MaxLocal int
	Single             float64
}

// Batch is how a step is made: examples on each GPU in one pass, and passes beyond
// the first.
type Batch struct{ Local, Passes int }

// Model is what is known of one job. It belongs to one goroutine.
type Model struct {
	limits    Limits
	steps     *Steps
	sqr, vari float64
	gradient  bool
	version   int
}

// Steps are measured steps, and what was fitted to them. Jobs of one kind, with the
// same GPU models, may share them.
type Steps struct {
	known   []known // by GPU model, in the order of the limits
	version int
	shared  bool
}

type known struct {
	samples []Sample
	params  Params
	stale   bool
	most    int // GPUs in the largest sample
	trials  map[trialKey][]trial
}

// NewSteps is nothing yet, of so many GPU models.
func NewSteps(gpus int) *Steps { return &Steps{known: make([]known, gpus)} }

// NewModel makes the model of a job that has measured nothing.
func NewModel(limits Limits) *Model {
	return &Model{limits: limits, steps: NewSteps(len(limits.GPUs))}
}

// Sharing makes the model of a job that has the steps of others.
func Sharing(limits Limits, steps *Steps) *Model {
	steps.shared = true
	return &Model{limits: limits, steps: steps}
}

func (m *Model) index(gpu string) int {
	return slices.IndexFunc(m.limits.GPUs, func(l GPULimits) bool { return l.GPU == gpu })
}

// Observe takes a measured step in. One of a shape and batch that was seen before
// changes nothing.
func (m *Model) Observe(gpu string, s Sample) {
	i := m.index(gpu)
	if i < 0 {
		return
	}
	k, same := &m.steps.known[i], 0
	for _, old := range k.samples {
		if old.Nodes == s.Nodes && old.GPUs == s.GPUs {
			if same++; old.Local == s.Local || m.steps.shared && same == enoughBatches {
				return
			}
		}
	}
	k.most = max(k.most, s.GPUs)
	if m.expected(k, &s) {
		return
	}
	if known := &m.limits.GPUs[i]; m.limits.Beforehand && len(k.samples) == 0 {
		k.samples = append(k.samples, Sample{Nodes: 1, GPUs: 1, Local: known.MaxLocal, Step: float64(known.MaxLocal) / known.Single})
	}
	k.samples = append(k.samples, s)
	k.stale = true
	m.steps.version++
}

// expected says that the last fit knew both the step and the pass.
func (m *Model) expected(k *known, s *Sample) bool {
	if m.limits.Expected == 0 || k.stale || len(k.samples) == 0 {
		return false
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= m.limits.Expected*b }
	return near(k.params.passTime(s.Local), math.Max(s.Step-s.Sync, tiny)) && near(k.params.StepTime(s.Nodes, s.GPUs, s.Local, 0), s.Step)
}

// enoughBatches is how many batches of one shape are kept of the jobs of one kind.
const enoughBatches = 16

// Gradient takes the last statistics of the gradient in.
func (m *Model) Gradient(sqr, vari float64) {
	if m.gradient && m.sqr == sqr && m.vari == vari {
		return
	}
	m.sqr, m.vari, m.gradient = sqr, vari, true
	m.version++
}

// Version changes when what the model says may have changed.
func (m *Model) Version() int { return m.version + m.steps.version }

// Tried says that something was measured on a GPU model.
func (m *Model) Tried(gpu string) bool {
	i := m.index(gpu)
	return i >= 0 && m.gradient && len(m.steps.known[i].samples) > 0
}

// Most is the most GPUs measured so far on a GPU model.
func (m *Model) Most(gpu string) int {
	if i := m.index(gpu); i >= 0 {
		return m.steps.known[i].most
	}
	return 0
}

// Params are the fitted parameters on a GPU model.
func (m *Model) Params(gpu string) (Params, bool) {
	if !m.Tried(gpu) {
		return Params{}, false
	}
	return *m.fitted(m.index(gpu)), true
}

func (m *Model) fitted(i int) *Params {
	k := &m.steps.known[i]
	if k.stale {
		k.params, k.stale = Fit(k.samples), false
		k.trials = map[trialKey][]trial{}
	}
	return &k.params
}

// worth is what an example of a batch is worth, in examples of the smallest batch.
func (m *Model) worth(batch int) float64 {
	scale := float64(batch) / float64(m.limits.MinBatch)
	below := m.vari/scale + m.sqr
	if below <= 0 {
		return 1 / scale
	}
	return (m.vari + m.sqr) / below / scale
}

// candidates is how many total batches are tried, in geometric steps.
const candidates = 50

// Best is the highest goodput (examples a second, by worth) on so many GPUs of a
// model on so many nodes, and the batch that reaches it, with at most maxLocal
// examples on a GPU and maxBatch in all; not ok before anything was measured there.
func (m *Model) Best(gpu string, nodes, gpus, maxLocal, maxBatch int) (rate float64, batch Batch, ok bool) {
	if !m.Tried(gpu) || gpus < 1 {
		return 0, Batch{}, false
	}
	for _, t := range m.trials(m.index(gpu), nodes, gpus, maxLocal, maxBatch) {
		value := 0.0
		if t.seconds > 0 {
			value = float64(t.size) / t.seconds * m.worth(t.size)
		}
		if batch.Local == 0 || value > rate {
			rate, batch = value, t.batch
		}
	}
	return rate, batch, true
}

// trial is a batch that is tried, and what a step of it takes; 0 says that a GPU
// cannot have it.
type trial struct {
	batch   Batch
	size    int
	seconds float64
}

// trialKey is what trials are for: a GPU model by its place in the limits.
type trialKey struct{ gpu, nodes, gpus, maxLocal, maxBatch int }

// trials are the batches that are tried, with the times of the present fit.
func (m *Model) trials(gpu, nodes, gpus, maxLocal, maxBatch int) []trial {
	p := m.fitted(gpu)
	key := trialKey{gpu, nodes, gpus, maxLocal, maxBatch}
	if list, known := m.steps.known[gpu].trials[key]; known {
		return list
	}
	minLocal := m.limits.GPUs[gpu].MinLocal
	least := math.Max(float64(m.limits.MinBatch), float64(minLocal*gpus))
	grow := math.Pow(float64(maxBatch)/least, 1/float64(candidates-1))
	sync := p.syncTime(nodes, gpus)
	logSync := math.Log(sync)
	var list []trial
	total := least
	for c := range candidates {
		if c == candidates-1 {
			total = float64(maxBatch)
		}
		t := trial{batch: m.split(total, gpus, maxLocal)}
		if total *= grow; c > 0 && t.batch == list[len(list)-1].batch {
			continue
		}
		if b := t.batch; b.Local >= minLocal && b.Local <= maxLocal {
			pass := p.passTime(b.Local)
			t.size = gpus * b.Local * (b.Passes + 1)
			t.seconds = float64(b.Passes)*pass + blend(pass, sync, logSync, p.Overlap)
		}
		list = append(list, t)
	}
	m.steps.known[gpu].trials[key] = list
	return list
}

// split divides a total over GPUs, as a job does.
func (m *Model) split(total float64, gpus, maxLocal int) Batch {
	const hair = 1e-8
	each := total / float64(gpus)
	passes := int(math.Ceil(each/float64(maxLocal)-hair)) - 1
	if gpus == 1 && each > float64(m.limits.MinBatch)+hair {
		passes = max(passes, 1)
	}
	passes = max(passes, 0)
	return Batch{Local: int(math.Ceil(each/float64(passes+1) - hair)), Passes: passes}
}

// Expect is the goodput on a GPU model that may never have been tried: there it is
// that of a model that was, on as many GPUs, times the ratio of what one GPU does.
// perNode says how many GPUs a node of each model has.
func (m *Model) Expect(gpu string, nodes, gpus, maxBatch int, perNode func(gpu string) int) (rate float64, ok bool) {
	at := m.index(gpu)
	if at < 0 {
		return 0, false
	}
	if m.Tried(gpu) {
		rate, _, ok = m.Best(gpu, nodes, gpus, m.limits.GPUs[at].MaxLocal, maxBatch)
		return rate, ok
	}
	for _, other := range m.limits.GPUs {
		if !m.Tried(other.GPU) {
			continue
		}
		on := (gpus + perNode(other.GPU) - 1) / perNode(other.GPU)
		rate, _, ok = m.Best(other.GPU, on, gpus, other.MaxLocal, maxBatch)
		return rate * m.limits.GPUs[at].Single / other.Single, ok
	}
	return 0, false
}
