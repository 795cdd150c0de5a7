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
}

// GPULimits bound the batch on one GPU of a model. Single is its throughput on one
// GPU in examples per second, known beforehand; only ratios of it matter.
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
	k.samples = append(k.samples, s)
	k.most = max(k.most, s.GPUs)
	k.stale = true
	m.steps.version++
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
	i := m.index(gpu)
	p, minLocal := m.fitted(i), m.limits.GPUs[i].MinLocal
	least := math.Max(float64(m.limits.MinBatch), float64(minLocal*gpus))
	grow := math.Pow(float64(maxBatch)/least, 1/float64(candidates-1))
	sync := p.syncTime(nodes, gpus)
	logSync := math.Log(sync)
	total, last := least, Batch{}
	for c := range candidates {
		if c == candidates-1 {
			total = float64(maxBatch)
		}
		b := m.split(total, gpus, maxLocal)
		if total *= grow; c > 0 && b == last {
			continue
		}
		last = b
		value := 0.0
		if b.Local >= minLocal && b.Local <= maxLocal {
			pass := p.passTime(b.Local)
			size := gpus * b.Local * (b.Passes + 1)
			value = float64(size) / (float64(b.Passes)*pass + blend(pass, sync, logSync, p.Overlap)) * m.worth(size)
		}
		if c == 0 || value > rate {
			rate, batch = value, b
		}
	}
	return rate, batch, true
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
