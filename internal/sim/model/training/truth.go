package training

import "math"

// This file tells the truth to those who may know it: the variant of a policy that
// shows what its knowledge is worth.

// Rate is the progress in a second on GPUs of a model, so many on each node, with a
// batch on each GPU and passes beyond the first, in an epoch; in steps of the
// smallest batch.
func (k *Kind) Rate(gpu string, placement []int, local, passes, epoch int) (float64, error) {
	gpus := 0
	for _, g := range placement {
		gpus += g
	}
	total := gpus * local * (passes + 1)
	sqr, vari, err := k.gradient(total, epoch)
	if err != nil {
		return 0, err
	}
	step, sync, err := k.On(gpu).Step(placement, local)
	if err != nil {
		return 0, err
	}
	g := gain(sqr, vari, float64(total)/float64(k.MinBatch()))
	return g / (step + float64((step-sync)*float64(passes))) / k.Slowdown, nil
}

// batchesTried is how many total batches Best tries, in geometric steps, as jobs do.
const batchesTried = 50

// Best is the highest true rate in an epoch, and the batch that reaches it.
func (k *Kind) Best(gpu string, placement []int, maxLocal, epoch int) (rate float64, local, passes int) {
	s, gpus := k.On(gpu), 0
	for _, g := range placement {
		gpus += g
	}
	least := math.Max(float64(k.MinBatch()), float64(s.MinLocal*gpus))
	for c := range batchesTried {
		total := int(least * math.Pow(float64(k.MaxBatch())/least, float64(c)/(batchesTried-1)))
		l, p := Split(total, gpus, maxLocal, k.MinBatch())
		l = min(l, k.MaxBatch()/(gpus*(p+1)))
		if l < s.MinLocal {
			continue
		}
		if r, err := k.Rate(gpu, placement, l, p, epoch); err == nil && r > rate {
			rate, local, passes = r, l, p
		}
	}
	return rate, local, passes
}

// Left is the progress that the job has yet to make.
func (j *Job) Left() float64 { return j.Kind.boundary[j.Kind.Epochs] - j.Progress }

// Boundary is the progress at which an epoch begins.
func (k *Kind) Boundary(epoch int) float64 { return k.boundary[epoch] }
