package goodput

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// truth makes samples of a model whose parameters are known.
func truth(p Params, shapes [][2]int, locals []int) []Sample {
	var out []Sample
	for _, s := range shapes {
		for _, local := range locals {
			pass := p.passTime(local)
			step := p.StepTime(s[0], s[1], local, 0)
			out = append(out, Sample{Nodes: s[0], GPUs: s[1], Local: local, Step: step, Sync: step - pass})
		}
	}
	return out
}

// TestFitFindsTruth: samples of a known model on all sorts of shapes are explained
// to 2 %, and steps on a shape that was not seen are expected to 5 %. The fit has a
// pull towards little overlap and growth, so that it is not exact.
func TestFitFindsTruth(t *testing.T) {
	p := Params{PassConst: 0.02, PassEach: 0.001, NodeConst: 0.05, NodeEach: 0.002, LinkConst: 0.01, LinkEach: 0.0005, Overlap: 1.4}
	samples := truth(p, [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 8}, {4, 16}}, []int{32, 64, 128})
	got := Fit(samples)
	for _, s := range samples {
		if e := got.StepTime(s.Nodes, s.GPUs, s.Local, 0)/s.Step - 1; math.Abs(e) > 0.02 {
			t.Errorf("%+v: expected %v s", s, got.StepTime(s.Nodes, s.GPUs, s.Local, 0))
		}
	}
	if want, is := p.StepTime(3, 12, 96, 2), got.StepTime(3, 12, 96, 2); math.Abs(is/want-1) > 0.05 {
		t.Errorf("12 GPUs on 3 nodes: %v s, want %v", is, want)
	}
}

// TestFitIsHopeful: from one GPU alone the model expects that more GPUs cost
// nothing, and never that nodes are closer than the GPUs of one.
func TestFitIsHopeful(t *testing.T) {
	one := Fit([]Sample{{1, 1, 64, 0.1, 0.001}})
	if a, b := one.StepTime(1, 1, 64, 0), one.StepTime(2, 8, 64, 0); b > a*1.01 {
		t.Errorf("8 GPUs: %v s, one: %v s", b, a)
	}
	within := Fit([]Sample{{1, 2, 64, 0.1, 0.02}, {1, 4, 64, 0.11, 0.03}})
	if a, b := within.StepTime(1, 4, 64, 0), within.StepTime(2, 4, 64, 0); b < a {
		t.Errorf("4 GPUs on two nodes: %v s, on one: %v s", b, a)
	}
}

// TestFitDescends: no small change of a fitted parameter explains the samples
// better, beyond what the search calls enough.
func TestFitDescends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var samples []Sample
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			gpus := rapid.IntRange(1, 16).Draw(t, "gpus")
			step := rapid.Float64Range(0.01, 2).Draw(t, "step")
			samples = append(samples, Sample{
				Nodes: min(gpus, rapid.IntRange(1, 4).Draw(t, "nodes")), GPUs: gpus, Local: rapid.IntRange(1, 512).Draw(t, "local"),
				Step: step, Sync: step * rapid.Float64Range(0, 0.9).Draw(t, "sync"),
			})
		}
		f := newFitting(samples)
		x := f.minimise()
		var slope [params]float64
		start := f.start
		at, from := f.value(&x, &slope), f.value(&start, &slope)
		if math.IsNaN(at) || at > from {
			t.Fatalf("%+v: %v at the end, %v at the start", samples, at, from)
		}
		for i, v := range x {
			if v < tiny*(1-1e-9) || i == gamma && (v < 1 || v > mostGamma) {
				t.Fatalf("%+v: parameter %d is %v", samples, i, v)
			}
		}
	})
}

// TestSlope: the slope of the objective is that of small differences.
func TestSlope(t *testing.T) {
	f := newFitting(truth(Params{0.02, 0.001, 0.05, 0.002, 0.01, 0.0005, 1.4}, [][2]int{{1, 1}, {1, 4}, {2, 8}}, []int{32, 100}))
	x := [params]float64{0.03, 0.0007, 0.08, 0.001, 0.02, 0.001, 1.7}
	var slope, none [params]float64
	f.value(&x, &slope)
	for i := range x {
		h := x[i] * 1e-6
		up, down := x, x
		up[i], down[i] = x[i]+h, x[i]-h
		if want := (f.value(&up, &none) - f.value(&down, &none)) / (2 * h); math.Abs(slope[i]-want) > 1e-4*(1+math.Abs(want)) {
			t.Errorf("parameter %d: slope %v, differences give %v", i, slope[i], want)
		}
	}
}

func limits() Limits {
	return Limits{MinBatch: 32, MaxBatch: 1024, GPUs: []GPULimits{{"slow", 8, 64, 100}, {"fast", 8, 128, 400}}}
}

// TestBatchFollowsNoise: a noisy gradient makes large batches worth while, a clear
// one does not.
func TestBatchFollowsNoise(t *testing.T) {
	m := NewModel(limits())
	for _, s := range truth(Params{0.05, 0.0005, 0.1, 0.001, 0.02, 0.001, 1.2}, [][2]int{{1, 1}, {1, 4}}, []int{8, 16, 64}) {
		m.Observe("slow", s)
	}
	total := func() int {
		_, b, ok := m.Best("slow", 1, 4, 64, 1024)
		if !ok {
			t.Fatal("nothing is known")
		}
		return 4 * b.Local * (b.Passes + 1)
	}
	m.Gradient(1, 0.01)
	clear := total()
	m.Gradient(0.01, 1)
	if noisy := total(); noisy <= clear {
		t.Errorf("batch %d with a noisy gradient, %d with a clear one", noisy, clear)
	}
}

// TestUntried: of a GPU model that was not tried the model expects what another
// does, by the ratio of single GPUs; of nothing it says nothing.
func TestUntried(t *testing.T) {
	m := NewModel(limits())
	perNode := func(string) int { return 4 }
	if _, ok := m.Expect("fast", 1, 2, 1024, perNode); ok {
		t.Error("something is expected before anything was measured")
	}
	m.Observe("slow", Sample{1, 1, 32, 0.3, 0.001})
	m.Gradient(1, 1)
	slow, _ := m.Expect("slow", 1, 2, 1024, perNode)
	fast, ok := m.Expect("fast", 1, 2, 1024, perNode)
	if !ok || math.Abs(fast/slow-4) > 1e-9 {
		t.Errorf("fast %v, slow %v, want four times as much", fast, slow)
	}
	if before := m.Version(); before == 0 {
		t.Error("the version did not change")
	}
}

// TestSharing: what one job measured, the others of its kind expect; each keeps its
// own gradient; and a fit has a bounded number of steps behind it.
func TestSharing(t *testing.T) {
	steps := NewSteps(2)
	a, b := Sharing(limits(), steps), Sharing(limits(), steps)
	perNode := func(string) int { return 4 }
	for local := 8; local < 58; local++ {
		a.Observe("slow", Sample{1, 1, local, 0.01 * float64(local), 0.001})
	}
	a.Gradient(1, 1)
	if _, ok := b.Expect("slow", 1, 1, 1024, perNode); ok {
		t.Error("something is expected without a gradient")
	}
	b.Gradient(1, 1)
	mine, _ := a.Expect("slow", 1, 1, 1024, perNode)
	theirs, ok := b.Expect("slow", 1, 1, 1024, perNode)
	if !ok || mine != theirs {
		t.Errorf("one job expects %v, the other %v", mine, theirs)
	}
	if n := len(steps.known[0].samples); n > enoughBatches {
		t.Errorf("%d batches of one shape are kept", n)
	}
}

// TestBeforehand: one measured batch cannot tell what is constant in a pass from what
// grows with it; what one GPU does with the largest batch, known beforehand, can.
func TestBeforehand(t *testing.T) {
	pass := func(local int) float64 { return 0.3 + 0.001*float64(local) }
	limits := Limits{MinBatch: 100, MaxBatch: 4000, GPUs: []GPULimits{{GPU: "a", MinLocal: 10, MaxLocal: 1000, Single: 1000 / pass(1000)}}}
	far := func(beforehand bool) float64 {
		limits.Beforehand = beforehand
		m := NewModel(limits)
		m.Observe("a", Sample{Nodes: 1, GPUs: 1, Local: 100, Step: pass(100)})
		m.Gradient(1, 1)
		p, ok := m.Params("a")
		if !ok {
			t.Fatal("nothing is known after a measured step")
		}
		if most := m.Most("a"); most != 1 {
			t.Errorf("%d GPUs measured, want 1", most)
		}
		return math.Abs(p.passTime(800)/pass(800) - 1)
	}
	if known, unknown := far(true), far(false); known > 0.01 || unknown < 0.1 {
		t.Errorf("a pass over 800 examples is off by %.3f with what is known beforehand and by %.3f without, want less than 0.01 and more than 0.1", known, unknown)
	}
}
