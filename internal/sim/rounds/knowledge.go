package rounds

import (
	"github.com/headrace-dev/headrace/internal/learn/goodput"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// mostGPUs is the most GPUs of a job that the published simulators can handle.
const mostGPUs = 64

// knowledge is what was learned of one job: it chooses the job's batch, and tells
// the policy what to expect.
type knowledge struct {
	model    *goodput.Model
	cluster  elastic.Cluster
	kind     *training.Kind
	maxBatch int // that policies count on
	version  int
	memo     map[[3]int]float64
	last     chosen
	kin      *kinSteps // nil where jobs learn alone
	gradient bool      // the job has a gradient: its own, or that of others at their start
}

// chosen is the last choice of a batch, and what it was chosen for.
type chosen struct {
	version, nodes, gpus, maxLocal int
	gpu                            string
	batch                          goodput.Batch
}

func newKnowledge(c *Config, kind *training.Kind, row trace.TrainingJob, kin map[string]*kinSteps) *knowledge {
	limits := goodput.Limits{MinBatch: kind.MinBatch(), MaxBatch: kind.MaxBatch(), Expected: c.Policy.Expected}
	limits.Beforehand = c.Policy.Beforehand && c.Setting.Beforehand
	for _, t := range c.Cluster {
		s := kind.On(t.Name)
		limits.GPUs = append(limits.GPUs, goodput.GPULimits{GPU: t.Name, MinLocal: s.MinLocal, MaxLocal: s.PolicyMaxLocal(), Single: s.Single})
	}
	k := &knowledge{cluster: c.Cluster, kind: kind, maxBatch: kind.MaxBatch(), memo: map[[3]int]float64{}}
	k.model = goodput.NewModel(limits)
	if c.Policy.Kin {
		if k.kin = kin[kind.Name]; k.kin == nil {
			k.kin = &kinSteps{steps: goodput.NewSteps(len(limits.GPUs))}
			kin[kind.Name] = k.kin
		}
		k.model = goodput.Sharing(limits, k.kin.steps)
	}
	if c.Policy.AskedBatch {
		k.maxBatch = max(row.Batch, kind.MinBatch())
	}
	return k
}

// Observe takes in what the job measured.
func (k *knowledge) Observe(m training.Measurement) {
	k.model.Observe(m.GPU, goodput.Sample{Nodes: m.Nodes, GPUs: m.GPUs, Local: m.Local, Step: m.Step, Sync: m.Sync})
	k.model.Gradient(m.GradSqr, m.GradVar)
	k.gradient = true
	if k.kin != nil && !k.kin.known {
		k.kin.known, k.kin.sqr, k.kin.vari = true, m.GradSqr, m.GradVar
	}
}

// kinSteps is what jobs of one kind learn from each other: how long steps take, and
// the gradient at the start.
type kinSteps struct {
	steps     *goodput.Steps
	known     bool
	sqr, vari float64
}

// inherit takes the gradient of others while the job has none.
func (k *knowledge) inherit() {
	if k.kin != nil && k.kin.known && !k.gradient {
		k.gradient = true
		k.model.Gradient(k.kin.sqr, k.kin.vari)
	}
}

// Batch chooses the job's batch.
func (k *knowledge) Batch(gpu string, nodes, gpus, maxLocal int) (local, passes int, ok bool) {
	k.inherit()
	c := chosen{k.model.Version(), nodes, gpus, maxLocal, gpu, k.last.batch}
	if c != k.last {
		if _, c.batch, ok = k.model.Best(gpu, nodes, gpus, maxLocal, k.kind.MaxBatch()); !ok {
			return 0, 0, false
		}
		k.last = c
	}
	return c.batch.Local, c.batch.Passes, true
}

func (k *knowledge) tried() bool {
	k.inherit()
	for _, t := range k.cluster {
		if k.model.Tried(t.Name) {
			return true
		}
	}
	return false
}

// most is how many GPUs the job may be given: twice what it measured.
func (k *knowledge) most() int {
	most := 1
	for _, t := range k.cluster {
		bound := k.kind.MaxBatch() / k.kind.On(t.Name).MinLocal
		most = max(most, min(2*k.model.Most(t.Name), mostGPUs, bound))
	}
	return most
}

func (k *knowledge) measured() int {
	most := 0
	for _, t := range k.cluster {
		most = max(most, k.model.Most(t.Name))
	}
	return most
}

// goodput is what the policy may expect.
func (k *knowledge) goodput(typ, nodes, gpus int) (float64, bool) {
	if v := k.model.Version(); v != k.version {
		k.version = v
		clear(k.memo)
	}
	key := [3]int{typ, nodes, gpus}
	if rate, seen := k.memo[key]; seen {
		return rate, true
	}
	rate, ok := k.model.Expect(k.cluster[typ].Name, nodes, gpus, k.maxBatch, k.perNode)
	if ok {
		k.memo[key] = rate
	}
	return rate, ok
}

func (k *knowledge) perNode(gpu string) int {
	for _, t := range k.cluster {
		if t.Name == gpu {
			return t.PerNode
		}
	}
	return 1
}
