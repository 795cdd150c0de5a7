package trace

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// tuneSlowly is Tune said once more, draw by draw, for two nodes of one GPU and
// pods of one GPU share each.
func tuneSlowly(pods []Pod, nodes int, aim quantity.MilliGPU, seed int64) (order []string, rank []int, next int64) {
	r := rand.New(rand.NewSource(seed))
	_ = r.Int()
	shuffled := slices.Clone(pods)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	var demand quantity.MilliGPU
	for _, p := range shuffled {
		order = append(order, p.Name)
		demand += p.Milli
	}
	for demand > aim {
		i := r.Intn(len(order))
		name := order[i]
		demand -= pods[slices.IndexFunc(pods, func(p Pod) bool { return p.Name == name })].Milli
		order = slices.Delete(order, i, i+1)
	}
	if len(order) == len(pods) && demand < aim {
		for {
			p := pods[r.Intn(len(pods))]
			if demand+p.Milli > aim {
				break
			}
			demand += p.Milli
			order = append(order, p.Name)
		}
	}
	for range 10 {
		r.Float64()
	}
	rank = r.Perm(nodes)
	return order, rank, r.Int63()
}

func TestTuneConsumesInOrder(t *testing.T) {
	w := Workload{Nodes: []Node{{Name: "n0", GPUs: 1, Model: "T4"}, {Name: "n1", GPUs: 1, Model: "T4"}}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.Pods = append(w.Pods, Pod{Name: name, GPUs: 1, Milli: 300})
	}
	for seed := int64(0); seed < 20; seed++ {
		for _, ratio := range []quantity.Milli{500, 750, 751, 1300, 4000} { // 1500 of 2000 milli-GPU are there.
			order, rank, next := tuneSlowly(w.Pods, 2, quantity.MilliGPU(ratio)*2, seed)
			got := Tune(w, ratio, seed)
			for i, p := range got.Workload.Pods {
				original, _, _ := strings.Cut(p.Name, ".")
				if i >= len(order) || original != order[i] {
					t.Fatalf("seed %d, ratio %d: pod %d is %s, want the order %v", seed, ratio, i, p.Name, order)
				}
			}
			if len(got.Workload.Pods) != len(order) || int(got.Rank[0]) != rank[0] || int(got.Rank[1]) != rank[1] {
				t.Fatalf("seed %d, ratio %d: %d pods, rank %v, want %d, %v", seed, ratio, len(got.Workload.Pods), got.Rank, len(order), rank)
			}
			if n := got.Rand.Int63(); n != next {
				t.Fatalf("seed %d, ratio %d: the generator goes on with %d, want %d", seed, ratio, n, next)
			}
		}
	}
}

// The stop rule counts a drawn pod once, its demand as often as it has GPUs.
func TestTuneMayOvershoot(t *testing.T) {
	w := Workload{
		Nodes: []Node{{Name: "n0", GPUs: 10, Model: "T4"}},
		Pods:  []Pod{{Name: "a", GPUs: 8, Milli: 1000}},
	}
	got := Tune(w, 1000, 1)
	if len(got.Workload.Pods) != 2 || Stat(got.Workload).GPU.Demand != 16000 {
		t.Errorf("Tune: %d pods with %d milli-GPU, want 2 with 16000", len(got.Workload.Pods), Stat(got.Workload).GPU.Demand)
	}
}

func TestTuneEndsWithoutGPUDemand(t *testing.T) {
	w := Workload{Nodes: []Node{{Name: "n0", GPUs: 1, Model: "T4"}}, Pods: []Pod{{Name: "a", CPU: 1}}}
	if got := Tune(w, 1300, 1); len(got.Workload.Pods) != 1 {
		t.Errorf("Tune of a pod without GPU: %d pods, want 1", len(got.Workload.Pods))
	}
	if got := Tune(Workload{}, 1300, 1); len(got.Workload.Pods) != 0 {
		t.Errorf("Tune of nothing: %d pods, want none", len(got.Workload.Pods))
	}
}

func TestTuneLeavesItsInput(t *testing.T) {
	w, err := openB(smallNodes, smallPods)
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(w.Pods)
	Tune(w, 3000, 7)
	for i := range before {
		if w.Pods[i].Name != before[i].Name {
			t.Fatalf("pod %d was %s and is %s", i, before[i].Name, w.Pods[i].Name)
		}
	}
}
