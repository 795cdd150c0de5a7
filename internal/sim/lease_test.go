package sim

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// TestLenderSlowsDownAndGetsItsQuarterBack: a pod with 800 milli lends 200 from 2m on
// until 10m and works at three quarters of its pace, so that its 20 minutes take 22;
// nobody is evicted for the other, which is done before.
func TestLenderSlowsDownAndGetsItsQuarterBack(t *testing.T) {
	pod := func(name string, milli quantity.MilliGPU, priority int32, at, runs moment.Span) trace.Pod {
		return trace.Pod{Name: name, CPU: 1000, GPUs: 1, Milli: milli, Priority: priority, Arrival: moment.Instant(at), Duration: runs}
	}
	w := trace.Workload{
		Name: "lend", Timed: true,
		Nodes: []trace.Node{{Name: "n0", CPU: 8000, Memory: quantity.GiB, Pods: 10, GPUs: 1, Model: "T4"}},
		Pods:  []trace.Pod{pod("low", 800, 0, 0, 20*moment.Minute), pod("urgent", 300, 5, 2*moment.Minute, 5*moment.Minute)},
	}
	policy := engine.Headrace().Preempting().Lending()
	res, err := Run(Config{Workload: &w, Mode: Timed, Policy: "lending", policy: policy, Audited: true})
	if err != nil {
		t.Fatal(err)
	}
	if res.Unfinished != 0 || res.Decisions != 4 {
		t.Fatalf("%d pods unfinished after %d decisions, want none after 2 binds and 2 resizes", res.Unfinished, res.Decisions)
	}
	if got := res.Detail.JCTsS; got[0] < 300 || got[0] > 302 || got[1] < 1319 || got[1] > 1323 {
		t.Errorf("completion times %v s, want 300 and 1320", got)
	}
}
