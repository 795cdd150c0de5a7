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
}

// chosen is the last choice of a batch, and what it was chosen for.
type chosen struct {
	version, nodes, gpus, maxLocal int
	gpu                            string
	batch                          goodput.Batch
}

func newKnowledge(c *Config, kind *training.Kind, row trace.TrainingJob) *knowledge {
	limits := goodput.Limits{MinBatch: kind.MinBatch(), MaxBatch: kind.MaxBatch()}
	for _, t := range c.Cluster {
		s := kind.On(t.Name)
		limits.GPUs = append(limits.GPUs, goodput.GPULimits{GPU: t.Name, MinLocal: s.MinLocal, MaxLocal: s.PolicyMaxLocal(), Single: s.Single})
	}
	k := &knowledge{model: goodput.NewModel(limits), cluster: c.Cluster, kind: kind, maxBatch: kind.MaxBatch(), memo: map[[3]int]float64{}}
	if c.Policy.AskedBatch {
		k.maxBatch = max(row.Batch, kind.MinBatch())
	}
	return k
}

// Observe takes in what the job measured.
func (k *knowledge) Observe(m training.Measurement) {
	k.model.Observe(m.GPU, goodput.Sample{Nodes: m.Nodes, GPUs: m.GPUs, Local: m.Local, Step: m.Step, Sync: m.Sync})
	k.model.Gradient(m.GradSqr, m.GradVar)
}

// Batch chooses the job's batch.
func (k *knowledge) Batch(gpu string, nodes, gpus, maxLocal int) (local, passes int, ok bool) {
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
