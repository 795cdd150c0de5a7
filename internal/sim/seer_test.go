package sim

import (
	"fmt"
	"math"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// rush is a workload of jobs of two kinds that come faster than they leave, in waves; of
// some it takes a share of a GPU.
func rush(jobs int, shares bool) trace.Workload {
	from := chance.New(7)
	exponential := func(mean moment.Span) moment.Span {
		return moment.Span(-math.Log((float64(from.Below(1_000_000))+0.5)/1e6) * float64(mean))
	}
	w := trace.Workload{Name: "rush", Timed: true, Queues: []trace.Queue{{Name: "a", Deserved: 8000}, {Name: "b", Deserved: 8000}}}
	for i := range 4 {
		w.Nodes = append(w.Nodes, trace.Node{Name: fmt.Sprintf("n%d", i), Pods: 110, GPUs: 4, Model: "GPU"})
	}
	at := moment.Instant(0)
	for i := range jobs {
		pause := 4 * moment.Minute
		if i/100%2 > 0 {
			pause = 15 * moment.Minute
		}
		at = at.Add(exponential(pause))
		queue, milli := []string{"a", "b"}[i%2], quantity.MilliGPU(quantity.WholeGPU)
		if i%3 == 0 && shares {
			milli = quantity.MilliGPU(300 + from.Below(600))
		}
		w.Pods = append(w.Pods, trace.Pod{
			Name: fmt.Sprintf("j%d", i), Kind: queue, Queue: queue, GPUs: 1 << (i % 3), Milli: milli, Arrival: at,
			Duration: exponential([]moment.Span{30 * moment.Minute, 2 * moment.Hour}[i%2]) + moment.Minute, Checkpoint: 30 * moment.Minute, Restart: moment.Minute,
		})
	}
	return w
}

// Foretelling starts changes nothing of what is decided, gives the same twenty times, and
// the intervals hold about eight of ten.
func TestStartsAreForetold(t *testing.T) {
	w := rush(1500, false)
	run := func(policy string, starts bool) (digest string, held float64, forecasts int) {
		t.Helper()
		res, err := Run(Config{Workload: &w, Mode: Timed, Policy: policy, Seed: 1, Starts: starts})
		if err != nil || res.Unfinished > 0 {
			t.Fatalf("%s: %d unfinished, %v", policy, res.Unfinished, err)
		}
		for _, s := range res.Starts {
			if math.Abs(s.HeldPct+s.EarlierPct+s.LaterPct-100) > 1e-6 || s.Forecasts == 0 {
				t.Errorf("%s: %+v: the parts are not the whole", policy, s)
			}
			if s.Foretold == "all" && s.When != occasionNames[afterEviction] {
				forecasts += s.Forecasts
			}
		}
		if res.StartsHeldPct != nil {
			held = *res.StartsHeldPct
		}
		return res.Digest, held, forecasts
	}
	plain, _, none := run(Ours, false)
	if none > 0 {
		t.Error("starts were told that nobody asked for")
	}
	told, held, forecasts := run(Ours, true)
	if told != plain {
		t.Errorf("digest %s with start times, %s without", told, plain)
	}
	if forecasts < 500 || held < 70 || held > 90 {
		t.Errorf("%.1f %% of %d forecasts held, want 70 to 90 of at least 500", held, forecasts)
	}
	if _, again, n := run(Ours, true); again != held || n != forecasts {
		t.Errorf("%v of %d held, and the second time %v of %d", held, forecasts, again, n)
	}
	if other, _, _ := run("fifo", true); other == plain {
		t.Error("fifo decides as we do")
	}
}

// Room is reserved by what runs have taken: the policies differ, and all jobs end.
func TestReservingRuns(t *testing.T) {
	w := rush(200, true)
	digests := make(map[string]string)
	for _, policy := range []string{Ours, ReserveHead, ReserveAll} {
		for _, declared := range []bool{false, true} {
			res, err := Run(Config{Workload: &w, Mode: Timed, Policy: policy, Seed: 1, Declared: declared, Audited: policy != ReserveAll})
			if err != nil || res.Unfinished > 0 {
				t.Fatalf("%s: %d unfinished, %v", policy, res.Unfinished, err)
			}
			of := fmt.Sprintf("%s, declared %t", policy, declared)
			for other, digest := range digests {
				if digest == res.Digest && policy != Ours {
					t.Errorf("%s decides as %s", of, other)
				}
			}
			digests[of] = res.Digest
		}
	}
}
