package rounds

import (
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
)

// oracle is told what knowledge has to learn: the rates on every shape in the present
// epoch, the best batch, and what is left. It shows how far a policy is from what it
// could do if it knew.
type oracle struct {
	job     *training.Job
	cluster elastic.Cluster
	shared  oracleRates
}

// oracleRates are the rates that were looked up, of all jobs.
type oracleRates map[oracleKey]oracleRate

type oracleKey struct {
	kind, gpu             string
	nodes, gpus, maxLocal int
	epoch                 int
}

type oracleRate struct {
	rate          float64
	local, passes int
}

// Observe has nothing to learn.
func (o *oracle) Observe(training.Measurement) {}

// look is the best rate on a shape, and its batch, by the job's own search.
func (o *oracle) look(gpu string, nodes, gpus, maxLocal, epoch int) oracleRate {
	k := o.job.Kind
	epoch = min(epoch, k.Epochs-1)
	key := oracleKey{k.Name, gpu, nodes, gpus, maxLocal, epoch}
	r, seen := o.shared[key]
	if !seen {
		shape := measurable(wholeNodes(gpus, (gpus+nodes-1)/nodes), gpu)
		r.rate, r.local, r.passes = k.Best(gpu, shape, maxLocal, epoch)
		o.shared[key] = r
	}
	return r
}

// Batch is the best batch.
func (o *oracle) Batch(gpu string, nodes, gpus, maxLocal int) (local, passes int, ok bool) {
	r := o.look(gpu, nodes, gpus, maxLocal, o.job.Epoch)
	return r.local, r.passes, r.rate > 0
}

// most is as many as can be had.
func (o *oracle) most() int {
	most := 1
	for _, t := range o.cluster {
		most = max(most, min(mostGPUs, o.job.Kind.MaxBatch()/o.job.Kind.On(t.Name).MinLocal))
	}
	return most
}

// measured is all that can be had: nothing has to be tried.
func (o *oracle) measured() int { return o.most() }

// goodput is the true goodput.
func (o *oracle) goodput(typ, nodes, gpus int) (float64, bool) {
	t := o.cluster[typ]
	shape := wholeNodes(gpus, t.PerNode)
	return o.rate(t.Name, shape, o.job.Epoch), true
}

// rate is the best rate on a shape, in examples by worth as knowledge gives it.
func (o *oracle) rate(gpu string, shape []int, epoch int) float64 {
	gpus := 0
	for _, g := range shape {
		gpus += g
	}
	s := o.job.Kind.On(gpu)
	most := s.MaxLocal
	if o.job.Kind.ByShape {
		most = s.MostLocal(shape)
	}
	return o.look(gpu, len(shape), gpus, most, epoch).rate * float64(o.job.Kind.MinBatch())
}

// left is the seconds until the end on one GPU, a mean over models by their GPUs.
func (o *oracle) left() float64 {
	sum, whole := 0.0, 0.0
	for _, t := range o.cluster {
		for e := o.job.Epoch; e < o.job.Kind.Epochs; e++ {
			work := o.job.Kind.Boundary(e+1) - max(o.job.Kind.Boundary(e), o.job.Progress)
			sum += work * float64(o.job.Kind.MinBatch()) / o.rate(t.Name, []int{1}, e) * float64(t.GPUs())
		}
		whole += float64(t.GPUs())
	}
	return sum / whole
}

// tried: all is known.
func (o *oracle) tried() bool { return true }
