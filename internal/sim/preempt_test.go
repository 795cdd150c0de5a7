package sim

import (
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/yield"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// byPriority evicts running work of strictly lower priority, the lowest first.
func byPriority() *engine.Policy {
	return &engine.Policy{
		Name: "by priority",
		Score: func(v *cluster.View, _ cluster.ShapeID, node cluster.NodeID) int64 {
			return -int64(v.Node(node).FreeMilli)
		},
		Victims: func(v *cluster.View, _ decision.Cycle, pod cluster.PodID) []cluster.PodID {
			var out []cluster.PodID
			for i := range v.Pods.Len() {
				p := v.Pod(cluster.PodID(i))
				if p.Phase == cluster.PhaseRunning && p.Spec.Priority < v.Pod(pod).Spec.Priority {
					out = append(out, cluster.PodID(i))
				}
			}
			slices.SortFunc(out, func(a, b cluster.PodID) int {
				x, y := v.Pod(a), v.Pod(b)
				if x.Spec.Priority != y.Spec.Priority {
					return int(x.Spec.Priority - y.Spec.Priority)
				}
				if x.Key < y.Key {
					return -1
				}
				return 1
			})
			return out
		},
	}
}

// TestTheUrgentGetsTheRoomOfTheLesser: a pod of higher priority waits for its
// victim's grace period and no longer, the victim runs again afterwards, and work
// of the same priority is left alone.
func TestTheUrgentGetsTheRoomOfTheLesser(t *testing.T) {
	pod := func(name string, priority int32, at moment.Span) trace.Pod {
		return trace.Pod{Name: name, CPU: 1000, GPUs: 1, Milli: 1000, Priority: priority, Arrival: moment.Instant(at), Duration: 10 * moment.Minute}
	}
	w := trace.Workload{
		Name: "urgent", Timed: true,
		Nodes: []trace.Node{
			{Name: "n0", CPU: 8000, Memory: quantity.GiB, Pods: 10, GPUs: 1, Model: "T4"},
			{Name: "n1", CPU: 8000, Memory: quantity.GiB, Pods: 10, GPUs: 1, Model: "T4"},
		},
		Pods: []trace.Pod{pod("low", 0, 0), pod("same", 5, 0), pod("urgent", 5, moment.Minute)},
	}
	res, err := Run(Config{Workload: &w, Mode: Timed, Policy: "by priority", policy: byPriority(), Audited: true})
	if err != nil {
		t.Fatal(err)
	}
	if res.Unfinished != 0 || res.Decisions != 5 {
		t.Fatalf("%d pods unfinished after %d decisions, want none after 4 binds and 1 eviction", res.Unfinished, res.Decisions)
	}
	// "same" ends after 10 minutes, "urgent" after the grace period and 10 minutes;
	// "low" waits for the first of them and starts anew.
	grace := seconds(leaveTakes)
	if got := res.Detail.JCTsS; got[0] > 601 || got[1] < 600+grace || got[1] > 601+grace || got[2] < 1200 {
		t.Errorf("completion times %v s, want 600, %v and over 1200", got, 600+grace)
	}
}

// TestEvictionsKeepTheBooks: under random work, failures and eviction the books
// balance after every event, and everything that fits ends.
func TestEvictionsKeepTheBooks(t *testing.T) {
	preempting := &engine.Policy{Name: "preempting", Score: byPriority().Score, Yields: rules()}
	lending := preempting.Lending()
	lending.Name = "lending"
	for _, policy := range []*engine.Policy{byPriority(), preempting, lending} {
		evictionsKeepTheBooks(t, policy)
	}
}

func evictionsKeepTheBooks(t *testing.T, policy *engine.Policy) {
	t.Helper()
	for seed := range seeds(20, 400) {
		w := randomWorkload(seed)
		c := Config{
			Workload: &w, Mode: Timed, Policy: policy.Name, policy: policy, Seed: seed, Audited: true,
			Failures: Failures{NodeEvery: 2 * moment.Hour, NodeRepair: 10 * moment.Minute, RefuseMilli: 50},
		}
		res, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if never := neverFits(&w, c.Policy); res.Unfinished != never {
			t.Fatalf("seed %d: %d pods unfinished, %d fit no node", seed, res.Unfinished, never)
		}
	}
}

// rules are the default ones.
func rules() *yield.Rules {
	out := yield.Default()
	return &out
}
