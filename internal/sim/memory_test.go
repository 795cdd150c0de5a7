package sim

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// shareOf is a run of a kind that asks for half a card of 40 GiB and uses so much memory.
func shareOf(name string, at, duration moment.Span, uses quantity.Bytes) []trace.Pod {
	return []trace.Pod{{
		Name: name, Kind: "k", GPUs: 1, Milli: 500, GPUMemory: 20 * quantity.GiB, Arrival: moment.Instant(at), Duration: duration,
		Use: trace.Use{GPUMemory: uses, LoadBusy: 200, ComputeBusy: 200, LoadPhase: moment.Second, ComputePhase: moment.Second},
	}}
}

// TestMemoryRunsOut: of five runs of a kind, three teach that 10 GiB are enough; the
// fourth and the fifth take 19 of them beside each other and a sixth. The last that starts
// fails, waits, and from then on two of the kind are on a card, as they ask for.
func TestMemoryRunsOut(t *testing.T) {
	w := trace.Workload{Name: "memory", Timed: true, Nodes: gpuNodes(1, 1), Pods: jobs(
		shareOf("a", 0, moment.Minute, 10*quantity.GiB), shareOf("b", 2*moment.Minute, moment.Minute, 10*quantity.GiB), shareOf("c", 4*moment.Minute, moment.Minute, 10*quantity.GiB),
		shareOf("d", 10*moment.Minute, moment.Hour, 19*quantity.GiB), shareOf("e", 11*moment.Minute, moment.Hour, 19*quantity.GiB), shareOf("f", 12*moment.Minute, moment.Hour, 19*quantity.GiB),
	)}
	w.Nodes[0].GPUMemory = 40 * quantity.GiB
	res := mustRun(t, Config{Workload: &w, Policy: Ours})
	if *res.MemoryFailures != 1 {
		t.Errorf("%v starts found no memory, want 1", *res.MemoryFailures)
	}
	jct := res.Detail.JCTsS
	if last := jct[len(jct)-1]; last < 3600+3480 {
		t.Errorf("completion after %v s: f, which failed, waits for d to end", jct)
	}
	less := mustRun(t, Config{Workload: &w, Policy: Ours, Without: []string{"need"}})
	if less.MemoryFailures != nil {
		t.Errorf("without need: %v starts found no memory, want none told", *less.MemoryFailures)
	}
}

// TestIngredientsAreLeftOut: each is named, an unknown one is refused, and a card holds two
// halves only where cards are shared.
func TestIngredientsAreLeftOut(t *testing.T) {
	w := trace.Workload{Name: "two", Timed: true, Nodes: gpuNodes(1, 1), Pods: jobs(
		shareOf("a", 0, moment.Hour, quantity.GiB), shareOf("b", 0, moment.Hour, quantity.GiB),
	)}
	for _, g := range Ingredients() {
		res := mustRun(t, Config{Workload: &w, Policy: Ours, Without: []string{g.Name}})
		if alone := g.Name == "sharing"; (*res.WaitMeanS > 1000) != alone || res.Policy != "headrace without "+g.Name {
			t.Errorf("%s: mean wait %v s", res.Policy, *res.WaitMeanS)
		}
	}
	if _, err := Run(Config{Workload: &w, Mode: Timed, Policy: Ours, Without: []string{"luck"}}); err == nil || err.Error() != `without "luck": no such ingredient` {
		t.Errorf("without luck: got %v", err)
	}
}
