package rounds

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// TestOracle: no batch that a job tries is faster than the oracle's, in any epoch, and
// what it says is left falls to nothing with the progress.
func TestOracle(t *testing.T) {
	kind := polluxKinds(t)["cifar10"]
	o := &oracle{cluster: mixed()[:1], shared: oracleRates{}}
	o.job = training.NewJob(trace.TrainingJob{Name: "j", Kind: "cifar10", GPUs: 4, Batch: 512}, kind, o)
	for _, shape := range [][]int{{1}, {4}, {4, 4}} {
		gpus := 0
		for _, n := range shape {
			gpus += n
		}
		for epoch := 0; epoch < kind.Epochs; epoch += 9 {
			best := o.rate("aws", shape, epoch) / float64(kind.MinBatch())
			for _, batch := range []int{128, 512, 1024, 4096} {
				local, passes := training.Split(batch, gpus, kind.On("aws").MaxLocal, kind.MinBatch())
				rate, err := kind.Rate("aws", shape, local, passes, epoch)
				if err == nil && rate > best*1.01 {
					t.Errorf("%v, epoch %d: batch %d makes %v a second, the oracle's best %v", shape, epoch, batch, rate, best)
				}
			}
		}
	}
	whole := o.left()
	o.job.Epoch, o.job.Progress = 99, kind.Boundary(100)
	if end := o.left(); whole <= 0 || end != 0 {
		t.Errorf("%v s left at the start, %v at the end", whole, end)
	}
}
