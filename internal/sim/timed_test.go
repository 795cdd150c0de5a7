package sim

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// randomWorkload is a small cluster under pressure: every draw comes from the
// seed.
func randomWorkload(seed int64) trace.Workload {
	source := chance.New(seed)
	pick := func(from ...int64) int64 { return from[source.Below(int64(len(from)))] }
	w := trace.Workload{Name: fmt.Sprintf("random %d", seed), Timed: true}
	for i := range 2 + source.Below(6) {
		n := trace.Node{
			Name: fmt.Sprintf("n%d", i), CPU: quantity.MilliCPU(pick(16, 32, 96) * 1000), Memory: quantity.Bytes(pick(64, 256)) * quantity.GiB,
			Pods: pick(8, 110), GPUs: int(pick(0, 1, 2, 4, 8)), Model: "A100", GPUMemory: 40 * quantity.GiB, Rack: fmt.Sprintf("r%d", i%2), Zone: "z",
		}
		for g := range n.GPUs {
			n.Island, n.NUMA = append(n.Island, int32(g/4)), append(n.NUMA, int32(g/4))
		}
		w.Nodes = append(w.Nodes, n)
	}
	for i := range 30 + source.Below(60) {
		p := trace.Pod{
			Name: fmt.Sprintf("p%d", i), Kind: fmt.Sprintf("kind%d", source.Below(4)), Queue: fmt.Sprintf("q%d", source.Below(3)),
			CPU: quantity.MilliCPU(pick(500, 2000, 8000)), Memory: quantity.Bytes(pick(1, 8)) * quantity.GiB,
			Arrival: moment.Instant(source.Below(int64(2 * moment.Hour))), Duration: moment.Span(source.Below(int64(moment.Hour))) + 1,
			Priority: int32(source.Below(3)), SLA: moment.Span(pick(0, int64(moment.Hour))),
			Use: trace.Use{GPUMemory: 2 * quantity.GiB, LoadBusy: 300, ComputeBusy: 900, LoadPhase: moment.Minute, ComputePhase: moment.Minute, Image: quantity.GiB, WarmUp: 5 * moment.Second},
		}
		if share := pick(0, 250, 460, 1000, 1000); share > 0 {
			p.Milli, p.GPUs, p.GPUMemory = quantity.MilliGPU(share), 1, quantity.Bytes(pick(0, 4, 10))*quantity.GiB
			if share == 1000 {
				p.GPUs = int(pick(1, 1, 2, 4))
			}
		}
		w.Pods = append(w.Pods, p)
	}
	return w
}

func seeds(short, long int64) int64 {
	if os.Getenv("HEADRACE_LONG") == "1" {
		return long
	}
	return short
}

// TestBooksBalanceUnderFailures: with random work, failing nodes and GPUs and
// refused binds, the books equal their recomputation after every event, every pod
// that fits an empty cluster ends, and the same seed gives the same run.
func TestBooksBalanceUnderFailures(t *testing.T) {
	policies := Policies()
	for seed := range seeds(50, 1000) {
		w := randomWorkload(seed)
		c := Config{
			Workload: &w, Mode: Timed, Policy: policies[seed%int64(len(policies))].Name, Seed: seed, Audited: true,
			Failures: Failures{NodeEvery: 2 * moment.Hour, NodeRepair: 10 * moment.Minute, GPUEvery: 10 * moment.Hour, GPURepair: 20 * moment.Minute, RefuseMilli: 50},
		}
		first, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		c.Audited = false
		again, err := Run(c)
		if err != nil || first.Digest != again.Digest {
			t.Fatalf("seed %d: a second run gives digest %s and %v, the first gave %s", seed, again.Digest, err, first.Digest)
		}
		if never := neverFits(&w, c.Policy); first.Unfinished != never {
			t.Fatalf("seed %d, policy %s: %d pods unfinished, %d fit no node of the cluster", seed, c.Policy, first.Unfinished, never)
		}
	}
}

// neverFits counts the pods that no empty node holds.
func neverFits(w *trace.Workload, policy string) int {
	whole := policy == "kube-default" || policy == "kube-binpack"
	count := 0
	for i := range w.Pods {
		p := &w.Pods[i]
		memory := p.GPUMemory
		if whole {
			memory = 0
		}
		if !slices.ContainsFunc(w.Nodes, func(n trace.Node) bool {
			return p.CPU <= n.CPU && p.Memory <= n.Memory && p.GPUs <= n.GPUs && memory <= n.GPUMemory
		}) {
			count++
		}
	}
	return count
}

// TestAPodAloneTakesItsTime: without others and without failures, completion is
// start-up plus duration.
func TestAPodAloneTakesItsTime(t *testing.T) {
	w := trace.Workload{
		Name: "alone", Timed: true,
		Nodes: []trace.Node{{Name: "n", CPU: 8000, Memory: quantity.GiB, Pods: 10, GPUs: 1, Model: "T4"}},
		Pods: []trace.Pod{{
			Name: "p", CPU: 1000, GPUs: 1, Milli: 1000, Arrival: moment.Instant(moment.Minute), Duration: 10 * moment.Minute,
			Use: trace.Use{LoadBusy: 300, ComputeBusy: 900, LoadPhase: moment.Minute, ComputePhase: moment.Minute, Image: 10 * model.ImageRate, WarmUp: 20 * moment.Second},
		}},
	}
	res, err := Run(Config{Workload: &w, Mode: Timed, Policy: "bestfit", Audited: true})
	if err != nil {
		t.Fatal(err)
	}
	overhead := seconds(batchWindow + bindTakes)
	if got, want := *res.JCTMeanS, 600+30+overhead; got < want || got > want+0.001 {
		t.Errorf("completion after %v s, want %v s", got, want)
	}
	if got, want := *res.StartMeanS, 30.0; got != want {
		t.Errorf("start took %v s, want %v s", got, want)
	}
}

// TestSharersSlowEachOther: two pods that keep a card busy for more than all of
// its time take longer together than alone, and the card is fully busy.
func TestSharersSlowEachOther(t *testing.T) {
	pod := trace.Pod{CPU: 1000, GPUs: 1, Milli: 500, Duration: 10 * moment.Minute, Use: trace.Use{LoadBusy: 900, ComputeBusy: 900, LoadPhase: moment.Minute, ComputePhase: moment.Minute}}
	w := trace.Workload{Name: "two", Timed: true, Nodes: []trace.Node{{Name: "n", CPU: 8000, Memory: quantity.GiB, Pods: 10, GPUs: 1, Model: "T4"}}}
	for i := range 2 {
		pod.Name = fmt.Sprintf("p%d", i)
		w.Pods = append(w.Pods, pod)
	}
	res, err := Run(Config{Workload: &w, Mode: Timed, Policy: "bestfit", Audited: true})
	if err != nil {
		t.Fatal(err)
	}
	// Each gets 1/1.8 of its speed, less what the neighbour's presence costs.
	rate := float64(model.Rate(900, 1800)) / 1000
	if got, want := *res.JCTMeanS, 600/rate; got < want || got > want+0.1 {
		t.Errorf("completion after %v s, want %v s", got, want)
	}
}

// TestShuffledInputGivesTheSamePlacements: the order in which nodes are listed
// does not matter, up to names.
func TestShuffledInputGivesTheSamePlacements(t *testing.T) {
	for seed := range int64(20) {
		w := randomWorkload(seed)
		first, err := Run(Config{Workload: &w, Mode: Timed, Policy: Ours, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		shuffled := w
		shuffled.Nodes = nil
		for _, i := range chance.New(seed + 99).Permutation(len(w.Nodes)) {
			shuffled.Nodes = append(shuffled.Nodes, w.Nodes[i])
		}
		again, err := Run(Config{Workload: &shuffled, Mode: Timed, Policy: Ours, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		if first.Digest != again.Digest {
			t.Errorf("seed %d: digest %s with the nodes shuffled, %s before", seed, again.Digest, first.Digest)
		}
	}
}
