package sim

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// spreadOut is a load that spreads over all nodes before somebody wants whole ones.
func spreadOut() *trace.Workload {
	w := &trace.Workload{Name: "spread-out"}
	for i := range 4 {
		w.Nodes = append(w.Nodes, trace.Node{Name: fmt.Sprintf("n%d", i), CPU: 64000, Memory: 256 * quantity.GiB, Pods: 110, GPUs: 4, Model: "A100"})
	}
	add := func(name string, gpus int) {
		w.Pods = append(w.Pods, trace.Pod{Name: name, CPU: 1000, Memory: quantity.GiB, GPUs: gpus, Milli: quantity.WholeGPU})
	}
	for i := range 8 {
		add(fmt.Sprintf("small%d", i), 1)
	}
	for i := range 3 {
		add(fmt.Sprintf("wide%d", i), 4)
	}
	return w
}

func tidied(t *testing.T, moves, least int64) meter.Result {
	t.Helper()
	r, err := Run(Config{Workload: spreadOut(), Mode: Static, Policy: "kube-default", Seed: 1, Audited: true, Tidy: LeastRules(least), TidyMoves: moves})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Pods move within the budget, for as much as a move has to place; and who was placed
// stays placed.
func TestTidyStatic(t *testing.T) {
	plain, err := Run(Config{Workload: spreadOut(), Mode: Static, Policy: "kube-default", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ budget, least, moves, unlocked int64 }{
		{budget: 0, least: 1},
		// One node is rid of its only pod; the next takes three moves.
		{budget: 1000, least: 1, moves: 4, unlocked: 8000},
		{budget: 1000, least: 1333, moves: 4, unlocked: 8000},
		{budget: 1000, least: 1334, moves: 1, unlocked: 4000},
		{budget: 1000, least: 4001},
		{budget: 400, least: 1, moves: 1, unlocked: 4000}, // three more would be four for nine
	} {
		r := tidied(t, c.budget, c.least)
		got := r.Tidied
		if int64(got.Moves) != c.moves || got.MilliUnlocked != c.unlocked || int64(r.Placed-plain.Placed)*4000 != c.unlocked {
			t.Errorf("budget %d, at least %d: %+v, %d placed, %d without moves; want %d moves, %d milli-GPU", c.budget, c.least, *got, r.Placed, plain.Placed, c.moves, c.unlocked)
		}
		if again := tidied(t, c.budget, c.least); again.Digest != r.Digest {
			t.Errorf("budget %d, at least %d: digest %s, then %s", c.budget, c.least, r.Digest, again.Digest)
		}
	}
}

// While pods move, nodes and GPUs break and binds are refused: the books equal their
// recomputation after every event, all that fits ends, and the same seed gives the same
// run.
func TestBooksBalanceWhileMoving(t *testing.T) {
	moves := 0.0
	for seed := range seeds(40, 600) {
		w := randomWorkload(seed)
		for i := range w.Pods {
			w.Pods[i].Checkpoint, w.Pods[i].Save, w.Pods[i].Restart = 2*moment.Minute, 5*moment.Second, 5*moment.Second
		}
		rules := tidy.Default()
		rules.For, rules.Price, rules.PerHour, rules.Rest = tidy.Waiting|tidy.Nodes|tidy.Demand, 1, 0, 5*moment.Minute
		run := func(audited bool) meter.Result {
			r, err := newRun(Config{
				Workload: &w, Mode: Timed, Seed: seed, Audited: audited, Tidy: &rules, policy: engine.Headrace(),
				Failures: Failures{NodeEvery: 2 * moment.Hour, NodeRepair: 10 * moment.Minute, GPUEvery: 10 * moment.Hour, GPURepair: 20 * moment.Minute, RefuseMilli: 50},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.knows, r.learner = true, &learner{} // jobs say how long they have to run
			if err := r.timed(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			r.result.Digest = fmt.Sprint(r.digest)
			return r.result
		}
		first := run(true)
		if again := run(false); again.Digest != first.Digest || *again.Moves != *first.Moves || again.Unfinished != first.Unfinished {
			t.Fatalf("seed %d: %d decisions and %v moves, then %d and %v", seed, first.Decisions, *first.Moves, again.Decisions, *again.Moves)
		}
		if never := neverFits(&w, Ours); first.Unfinished != never {
			t.Fatalf("seed %d: %d pods unfinished, %d fit no node of the cluster", seed, first.Unfinished, never)
		}
		moves += *first.Moves
	}
	t.Logf("%.0f moves", moves)
	if moves == 0 {
		t.Error("nobody ever moved")
	}
}
