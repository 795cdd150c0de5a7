package trace

import (
	"fmt"
	"math/rand"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// PublishedRatio is the demand up to which the published experiments on openb
// fill the cluster: 1.3 times its GPU capacity.
const PublishedRatio quantity.Milli = 1300

// watches is how many numbers the scheduler library of the published experiments
// draws between the shuffle and the ranking: ten informers start their watches
// at that moment, each with a random time-out.
const watches = 10

// Tuned is a workload as the published experiments offer it.
type Tuned struct {
	// Workload has its pods in the order they are offered.
	Workload Workload
	// Rank orders the nodes: of nodes with equal scores, the one of lowest rank
	// wins.
	Rank []int32
	// Rand stands behind all draws of Tune. The policy that chooses at random
	// continues with it.
	Rand *rand.Rand
}

// Tune orders the pods of w, and grows or shrinks them to a GPU demand of ratio
// times the capacity, as the published experiments do. w.Pods and w.Nodes are
// taken as sorted by name.
//
// One generator of math/rand is consumed in this order, which fixes the result
// to the last pod:
//
//  1. one Int, which the original writes to its log;
//  2. Shuffle over the pods;
//  3. to grow, one Intn(pods of w) for each draw, the one that is too large and
//     ends it included; to shrink, one Intn(pods left) for each removal;
//  4. ten Float64, drawn by the scheduler library of the original;
//  5. Perm(nodes), the ranks.
//
// A drawn pod is too large when its gpu_milli, not multiplied by its GPUs, would
// lift the demand above the aim. So the demand may overshoot by part of a pod.
// A workload without GPU demand does not grow.
func Tune(w Workload, ratio quantity.Milli, seed int64) Tuned {
	r := rand.New(rand.NewSource(seed))
	r.Int()
	pods := slices.Clone(w.Pods)
	r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })

	var demand quantity.MilliGPU
	for i := range pods {
		demand += pods[i].GPUDemand()
	}
	aim := quantity.MilliGPU(quantity.MulDiv(int64(w.GPUCapacity()), int64(ratio), int64(quantity.One)))
	switch {
	case demand > aim:
		pods = shrink(pods, demand, aim, r)
	case demand > 0 && demand < aim:
		pods = grow(pods, w.Pods, demand, aim, r)
	}
	for range watches {
		r.Float64()
	}
	rank := make([]int32, len(w.Nodes))
	for i, p := range r.Perm(len(w.Nodes)) {
		rank[i] = int32(p)
	}
	w.Pods = pods
	return Tuned{Workload: w, Rank: rank, Rand: r}
}

// grow appends pods drawn with replacement.
func grow(pods, from []Pod, demand, aim quantity.MilliGPU, r *rand.Rand) []Pod {
	for n := 1; len(pods) < MaxRows; n++ {
		p := from[r.Intn(len(from))]
		if demand+p.Milli > aim {
			break
		}
		p.Name = drawnName(p.Name, n)
		demand += p.GPUDemand()
		pods = append(pods, p)
	}
	return pods
}

// drawnName names the n-th pod drawn, since several may come from one.
func drawnName(name string, n int) string { return fmt.Sprintf("%s.%d", name, n) }

// shrink removes pods until their demand is not above the aim.
func shrink(pods []Pod, demand, aim quantity.MilliGPU, r *rand.Rand) []Pod {
	for demand > aim {
		i := r.Intn(len(pods))
		demand -= pods[i].GPUDemand()
		pods = slices.Delete(pods, i, i+1)
	}
	return pods
}
