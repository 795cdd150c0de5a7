package trace

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// twoKinds is a cluster of 1000 GPUs and pods of half a GPU for 10 s and of two
// GPUs for 100 s: 102.5 GPU-seconds and 55 s on average.
func twoKinds() Workload {
	w := Workload{Name: "two", Timed: true, Nodes: make([]Node, 100)}
	for i := range w.Nodes {
		w.Nodes[i] = Node{Name: "n" + formatNumber(i), GPUs: 10, Model: "T4", CPU: 1000}
	}
	w.Pods = []Pod{
		{Name: "a", GPUs: 1, Milli: 500, Duration: 10 * moment.Second},
		{Name: "b", GPUs: 2, Milli: 1000, Duration: 100 * moment.Second},
	}
	return w
}

// offered is the GPU-time of the pods that arrive after the start, over the run's
// length and the capacity.
func offered(w Workload) float64 {
	var gpuTime float64
	for i := range w.Pods {
		if p := &w.Pods[i]; p.Arrival > 0 {
			gpuTime += float64(p.GPUDemand()) * float64(p.Duration)
		}
	}
	return gpuTime / float64(w.WarmUp*warmUpPart) / float64(w.GPUCapacity())
}

func TestResampleMeetsTheLoad(t *testing.T) {
	for _, load := range []quantity.Milli{500, 900, 1100} {
		w, err := Resample(twoKinds(), Resampling{Load: load, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		if got := offered(w); math.Abs(got-float64(load)/1000) > 1e-4 {
			t.Errorf("load %d: %.4f is offered", load, got)
		}
		length, initial := w.WarmUp*warmUpPart, len(w.Pods)-DefaultArrivals
		wantLength := 10_000 * 102.5 / 1000 / (float64(load) / 1000)
		wantInitial := 10_000 / wantLength * 55
		if math.Abs(float64(length)/1e6-wantLength) > 0.03*wantLength || math.Abs(float64(initial)-wantInitial) > 0.03*wantInitial {
			t.Errorf("load %d: %v and %d pods at the start, want %.1f s and %.1f", load, length, initial, wantLength, wantInitial)
		}
	}
}

// Both halves of a run have the same number of pods at work if none waits: the
// stream starts in its steady state.
func TestResampleIsSteady(t *testing.T) {
	w, err := Resample(twoKinds(), Resampling{Load: 900, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	length := w.WarmUp * warmUpPart
	for part := moment.Span(0); part < 10; part++ {
		at := moment.Instant(part * length / 10)
		var gpus float64
		for i := range w.Pods {
			if p := &w.Pods[i]; p.Arrival <= at && at < p.Arrival.Add(p.Duration) {
				gpus += float64(p.GPUDemand()) / 1000
			}
		}
		if math.Abs(gpus-900) > 130 { // Three standard deviations: most come in pairs.
			t.Errorf("after %d tenths %.1f GPUs are asked for, want about 900", part, gpus)
		}
	}
}

func TestResampleIsDeterministic(t *testing.T) {
	run := func(seed int64) Workload {
		w, err := Resample(twoKinds(), Resampling{Load: 900, Seed: seed, Arrivals: 500})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if !reflect.DeepEqual(run(1), run(1)) {
		t.Error("the same seed gave two workloads")
	}
	if reflect.DeepEqual(run(1).Pods, run(2).Pods) {
		t.Error("two seeds gave one workload")
	}
	w := run(1)
	seen := map[string]bool{}
	for i := range w.Pods {
		if i > 0 && w.Pods[i].Arrival < w.Pods[i-1].Arrival {
			t.Fatalf("pod %d arrives before pod %d", i, i-1)
		}
		if seen[w.Pods[i].Name] {
			t.Fatalf("two pods are named %s", w.Pods[i].Name)
		}
		seen[w.Pods[i].Name] = true
	}
}

func TestResampleErrors(t *testing.T) {
	untimed := twoKinds()
	untimed.Timed = false
	instant := twoKinds()
	for i := range instant.Pods {
		instant.Pods[i].Duration = 0
	}
	noGPU := twoKinds()
	noGPU.Nodes = noGPU.Nodes[:0]
	tests := []struct {
		name string
		w    Workload
		load quantity.Milli
		want string
	}{
		{name: "untimed", w: untimed, load: 900, want: "has no times"},
		{name: "no load", w: twoKinds(), load: 0, want: "want a load"},
		{name: "no durations", w: instant, load: 900, want: "no GPU-time"},
		{name: "no GPU", w: noGPU, load: 900, want: "no GPU"},
	}
	for _, tt := range tests {
		if _, err := Resample(tt.w, Resampling{Load: tt.load}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestResamplePublic(t *testing.T) {
	w, err := Resample(publicOpenB(t, "default"), Resampling{Load: 900, Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	if got := offered(w); math.Abs(got-0.9) > 1e-4 {
		t.Errorf("%.3f of the capacity is offered, want 0.9", got)
	}
	t.Logf("length %v, %d pods at the start, %d in all, offered %.3f", w.WarmUp*warmUpPart, len(w.Pods)-DefaultArrivals, len(w.Pods), offered(w))
}
