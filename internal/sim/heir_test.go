package sim

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/world"
)

// succession counts what became of replacements.
type succession struct{ decided, came, done, givenUp int }

func (*succession) Begin(*engine.Policy, rivals.Side) {}
func (*succession) Cycle(decision.Cycle, uint64)      {}
func (s *succession) Event(_ moment.Instant, e world.Event) {
	switch e := e.(type) {
	case world.PodAdded:
		if e.HeirOf != "" {
			s.came++
		}
	case world.LegacyDropped:
		s.givenUp++
	case world.Accepted:
		if e.Decision.Action == cluster.ActionReplace {
			s.decided++
		}
		if e.Decision.Because.ReplacedBy != "" {
			s.done++
		}
	}
}

// While services are replaced, nodes and GPUs break and binds are refused: the books equal
// their recomputation after every event, all that fits ends, nobody is left over, and the
// same seed gives the same run.
func TestBooksBalanceWhileServicesAreReplaced(t *testing.T) {
	var sum succession
	for seed := range seeds(25, 300) {
		w := randomWorkload(seed)
		for i := range w.Pods {
			if p := &w.Pods[i]; p.Group == "" && p.GPUs > 0 && i%3 > 0 {
				p.Kind, p.Service, p.Duration = fmt.Sprintf("service-%d", i%4), true, 4*p.Duration
				if seed%2 == 0 { // alike, so that others of the kind would do as heirs
					p.Kind, p.GPUs, p.Milli, p.GPUMemory, p.Models, p.CPU, p.Memory = "service", 1, 500, 0, nil, 100, quantity.GiB
				}
			}
		}
		rules := tidy.Default()
		rules.For, rules.Price, rules.PerHour, rules.Rest, rules.WarmUp = tidy.Waiting|tidy.Nodes|tidy.Demand, 1, 0, 5*moment.Minute, moment.Second
		run := func(audited bool, record Recorder) string {
			r, err := newRun(Config{
				Workload: &w, Mode: Timed, Seed: seed, Audited: audited, Tidy: &rules, policy: engine.Headrace(), Record: record,
				Failures: Failures{NodeEvery: 10 * moment.Minute, NodeRepair: 2 * moment.Minute, GPUEvery: 30 * moment.Minute, GPURepair: 5 * moment.Minute, RefuseMilli: 300},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.knows, r.learner = true, &learner{}
			if err := r.timed(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if never := neverFits(&w, Ours); r.result.Unfinished != never {
				t.Fatalf("seed %d: %d pods unfinished, %d fit no node of the cluster", seed, r.result.Unfinished, never)
			}
			v := r.world.View()
			for i := range v.Pods.Len() {
				if p := v.Pod(cluster.PodID(i)); p.Phase.Charged() && p.Spec.HeirOf != "" && r.result.Unfinished == 0 {
					t.Fatalf("seed %d: %s is left over", seed, p.Spec.Name)
				}
			}
			return fmt.Sprint(r.digest)
		}
		if first, again := run(true, &sum), run(false, nil); again != first {
			t.Fatalf("seed %d: digest %s, then %s", seed, first, again)
		}
	}
	t.Logf("%+v", sum)
	if sum.decided == 0 || sum.came == 0 || sum.done == 0 {
		t.Error("some of that never happened")
	}
}
