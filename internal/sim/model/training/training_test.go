package training

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// small is a kind with one GPU model: a step takes 1 s for 10 examples and 2 s for
// 20, half of it communication on two GPUs.
func small(t testing.TB, set Setting) *Kind {
	t.Helper()
	run := func(batch int, sqr float64) trace.BatchRun {
		r := trace.BatchRun{Batch: batch}
		for e := range 2 {
			r.Epochs = append(r.Epochs, trace.EpochRow{Progress: float64(100 * (e + 1)), GradSqr: sqr, GradVar: 1})
		}
		return r
	}
	row := func(shape string, nodes, gpus, local int, step, sync float64) trace.StepRow {
		return trace.StepRow{Shape: shape, Nodes: nodes, GPUs: gpus, Local: local, Step: step, Sync: sync}
	}
	kinds, err := Kinds([]trace.Profile{{
		Kind: "bert", Runs: []trace.BatchRun{run(10, 1), run(40, 3)},
		GPUs: []trace.StepTable{{
			GPU:    "aws",
			Shapes: []trace.StepRow{row("1", 1, 1, 20, 2, 0), row("1", 1, 1, 10, 1, 0), row("2", 1, 2, 10, 1, 0.5), row("2", 1, 2, 20, 2, 0.5)},
			Scale:  []trace.StepRow{row("", 4, 8, 16, 4, 1)},
			Points: []trace.StepRow{
				row("", 1, 1, 10, 1, 0.1), row("", 3, 3, 10, 2, 0.2), row("", 1, 3, 10, 3, 0.3), row("", 1, 1, 30, 5, 0.4),
			},
			Simplices: [][4]int{{0, 1, 2, 3}},
		}},
	}}, set)
	if err != nil {
		t.Fatal(err)
	}
	return kinds["bert"]
}

func TestStep(t *testing.T) {
	s := small(t, PolluxSetting()).On("aws")
	for _, test := range []struct {
		name       string
		placement  []int
		local      int
		step, sync float64
		says       string
	}{
		{name: "between two batches", placement: []int{2}, local: 15, step: 1.5, sync: 0.5},
		{name: "a corner of the triangulation", placement: []int{1, 1, 1}, local: 10, step: 2, sync: 0.2},
		{name: "between corners", placement: []int{1, 1}, local: 10, step: 1.5, sync: 0.15},
		{name: "above the table", placement: []int{1}, local: 21, says: "10 to 20"},
		{name: "outside the triangulation", placement: []int{9, 9}, local: 10, says: "triangulation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			step, sync, err := s.Step(test.placement, test.local)
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v × %d: error %v, want it to name %q", test.placement, test.local, err, test.says)
				}
				return
			}
			if err != nil || math.Abs(step-test.step) > 1e-9 || math.Abs(sync-test.sync) > 1e-9 {
				t.Errorf("%v × %d: %v and %v s, %v; want %v and %v", test.placement, test.local, step, sync, err, test.step, test.sync)
			}
		})
	}
}

func TestShape(t *testing.T) {
	for _, test := range []struct {
		placement []int
		want      string
	}{{[]int{4, 1}, "14"}, {[]int{2, 1, 3}, "132"}, {[]int{12}, ""}, {[]int{4, 4, 4}, "444"}} {
		if got := shapeOf(test.placement); got != test.want {
			t.Errorf("%v: %q, want %q", test.placement, got, test.want)
		}
	}
}

// TestSplit: the whole batch is divided, nothing is above what a GPU takes, and one
// GPU accumulates above the smallest batch.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch, gpus := rapid.IntRange(1, 40_000).Draw(t, "batch"), rapid.IntRange(1, 64).Draw(t, "gpus")
		most, smallest := rapid.IntRange(1, 2000).Draw(t, "most"), rapid.IntRange(1, 500).Draw(t, "smallest")
		local, passes := Split(batch, gpus, most, smallest)
		whole := local * (passes + 1) * gpus
		if local < 1 || local > most || passes < 0 || whole < batch || whole-batch >= gpus*(passes+2) {
			t.Fatalf("%d over %d GPUs of at most %d: %d in each of %d passes, %d in all", batch, gpus, most, local, passes+1, whole)
		}
		if gpus == 1 && batch > smallest && passes == 0 {
			t.Fatalf("%d on one GPU in one pass", batch)
		}
	})
}

// TestAdvance: a restart comes first, epochs end in whole seconds, and the job with
// them.
func TestAdvance(t *testing.T) {
	kind := small(t, PolluxSetting())
	j := NewJob(trace.TrainingJob{Name: "j", Kind: "bert", GPUs: 1, Batch: 10}, kind, nil)
	if err := j.Advance(60); err != nil || j.Now != 60 || j.Progress != 0 {
		t.Fatalf("without GPUs: at %d with progress %v, %v", j.Now, j.Progress, err)
	}
	if err := j.Place("aws", []int{1}); err != nil {
		t.Fatal(err)
	}
	if err := j.Advance(60); err != nil || j.Progress != 30 { // 30 s of restart, then a step a second
		t.Fatalf("progress %v, %v; want 30", j.Progress, err)
	}
	if err := j.Place("aws", []int{2}); err != nil || j.Restarts != 1 || j.Local != 5 {
		t.Fatalf("%d restarts, batch %d, %v; want 1 and 5", j.Restarts, j.Local, err)
	}
	if err := j.Advance(60); err == nil {
		t.Fatal("a batch of 5 on a GPU was not measured, and runs")
	}
	if err := j.Place("aws", []int{1}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := j.Advance(60); err != nil {
			t.Fatal(err)
		}
	}
	// 30 of 200 steps were made by 120; the failed round took 30 s of its restart.
	if !j.Done || j.Finished != 150+30+170 || j.Restarts != 2 {
		t.Errorf("done %v at %d after %d restarts, want at 350 after 2", j.Done, j.Finished, j.Restarts)
	}
}

// TestSlowdown: the setting of Sia has restarts and slowdowns of its own.
func TestSlowdown(t *testing.T) {
	kind := small(t, SiaSetting())
	if kind.Restart != 120 || kind.Slowdown != 1.2 {
		t.Errorf("restart %d s, slowdown %v", kind.Restart, kind.Slowdown)
	}
}

// TestEfficiency: twice the batch is worth between one and two of the smallest.
func TestEfficiency(t *testing.T) {
	kind := small(t, PolluxSetting())
	sqr, vari, err := kind.gradient(25, 0)
	if err != nil || math.Abs(sqr-2) > 1e-12 || vari != 1 {
		t.Errorf("batch 25: %v and %v, %v; want 2 and 1", sqr, vari, err)
	}
	if g := gain(sqr, vari, 2.5); g <= 1 || g >= 2.5 {
		t.Errorf("gain %v", g)
	}
	if _, _, err := kind.gradient(41, 0); err == nil || !strings.Contains(err.Error(), "10 to 40") {
		t.Errorf("batch 41: %v", err)
	}
}
