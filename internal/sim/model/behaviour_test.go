package model

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

func TestStartUp(t *testing.T) {
	u := trace.Use{Image: StandardImage, Weights: StandardWeights, WarmUp: StandardWarmUp}
	tests := []struct {
		name   string
		cached Cached
		want   moment.Span
	}{
		{name: "nothing there", want: 180 * moment.Second},
		{name: "image there", cached: Cached{Image: true}, want: 100 * moment.Second},
		{name: "weights there", cached: Cached{Weights: true}, want: 102 * moment.Second},
		{name: "all there", cached: Cached{Image: true, Weights: true}, want: 22 * moment.Second},
	}
	for _, tt := range tests {
		if got := StartUp(u, tt.cached); got != tt.want {
			t.Errorf("%s: StartUp = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCache(t *testing.T) {
	pod := func(kind string, size quantity.Bytes) *trace.Pod {
		return &trace.Pod{Kind: kind, Use: trace.Use{Image: size / 2, Weights: size - size/2}}
	}
	c := NewCache(10)
	c.Use(pod("a", 4))
	c.Use(pod("b", 4))
	c.Use(pod("a", 4)) // Now b is the one used longest ago.
	c.Use(pod("c", 3))
	c.Use(pod("huge", 11))
	c.Use(pod("", 1))
	for kind, want := range map[string]bool{"a": true, "b": false, "c": true, "huge": false, "": false} {
		if got := c.Holds(pod(kind, 4)); got != (Cached{Image: want, Weights: want}) {
			t.Errorf("Holds(%q) = %v, want %t", kind, got, want)
		}
	}
	if c.used != 7 {
		t.Errorf("the cache uses %d, want 7", c.used)
	}
}

func TestPhaseAt(t *testing.T) {
	p := &trace.Pod{GPUs: 1, Milli: 500, Duration: 100, Use: trace.Use{LoadBusy: 150, ComputeBusy: 450, LoadPhase: 10, ComputePhase: 30}}
	tests := []struct {
		progress moment.Span
		want     Phase
	}{
		{progress: 0, want: Phase{Busy: 150, Left: 10}},
		{progress: 9, want: Phase{Busy: 150, Left: 1}},
		{progress: 10, want: Phase{Busy: 450, Left: 30}},
		{progress: 40, want: Phase{Busy: 150, Left: 10}},
		{progress: 95, want: Phase{Busy: 450, Left: 5}},
		{progress: 100, want: Phase{Busy: 450, Left: 0}},
	}
	for _, tt := range tests {
		if got := PhaseAt(p, tt.progress); got != tt.want {
			t.Errorf("PhaseAt(%d) = %+v, want %+v", tt.progress, got, tt.want)
		}
	}
	unknown := &trace.Pod{GPUs: 1, Milli: 500, Duration: 100}
	if got := PhaseAt(unknown, 30); got != (Phase{Busy: 500, Left: 70}) {
		t.Errorf("unknown behaviour: %+v, want 500 for the rest of 70", got)
	}
}

// BusyTime is the sum over the phases.
func TestBusyTime(t *testing.T) {
	for duration := moment.Span(0); duration < 200_000; duration += 7_000 {
		p := &trace.Pod{Milli: 500, Duration: duration, Use: trace.Use{LoadBusy: 100, ComputeBusy: 900, LoadPhase: 10_000, ComputePhase: 30_000}}
		var want moment.Span
		for at := moment.Span(0); at < duration; {
			phase := PhaseAt(p, at)
			want += part(phase.Left, phase.Busy)
			at += phase.Left
		}
		if got := BusyTime(p); got != want {
			t.Errorf("BusyTime of %d = %d, want %d", duration, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	tests := []struct {
		name             string
		own, total, want quantity.Milli
	}{
		{name: "alone", own: 900, total: 900, want: 1000},
		{name: "alone and full", own: 1000, total: 1000, want: 1000},
		{name: "beside an idle one", own: 400, total: 400, want: 1000},
		{name: "room for both", own: 400, total: 800, want: 858}, // 1 − 0.355 × 0.4
		{name: "starting beside a busy one", own: 0, total: 900, want: 680},
		{name: "too much for one card", own: 900, total: 1800, want: 377}, // 0.555 × 0.680, cut
		{name: "neighbours count up to one", own: 500, total: 2500, want: 258},
	}
	for _, tt := range tests {
		if got := Rate(tt.own, tt.total); got != tt.want {
			t.Errorf("%s: Rate(%d, %d) = %d, want %d", tt.name, tt.own, tt.total, got, tt.want)
		}
	}
}

// A pod never gains by another one, and a card never does more than it can.
func TestRateIsBounded(t *testing.T) {
	for own := quantity.Milli(0); own <= 1000; own += 50 {
		last := Rate(own, own)
		for total := own; total <= 4000; total += 25 {
			rate := Rate(own, total)
			if rate < 0 || rate > last || total > 0 && rate*total > quantity.One*max(quantity.One, total) || total > quantity.One && rate*total > quantity.One*quantity.One {
				t.Fatalf("Rate(%d, %d) = %d after %d", own, total, rate, last)
			}
			last = rate
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	tests := []struct {
		name   string
		card   quantity.Bytes
		used   []quantity.Bytes
		victim int
		failed bool
	}{
		{name: "fits", card: 40, used: []quantity.Bytes{20, 20}, victim: 1},
		{name: "too much", card: 40, used: []quantity.Bytes{20, 15, 6}, victim: 2, failed: true},
		{name: "unknown card", used: []quantity.Bytes{20}, victim: 0},
		{name: "empty card", card: 40, victim: -1},
	}
	for _, tt := range tests {
		if victim, failed := OutOfMemory(tt.card, tt.used); victim != tt.victim || failed != tt.failed {
			t.Errorf("%s: OutOfMemory = %d, %t, want %d, %t", tt.name, victim, failed, tt.victim, tt.failed)
		}
	}
	if got := UsedMemory(&trace.Pod{GPUMemory: 8, Use: trace.Use{GPUMemory: 5}}); got != 5 {
		t.Errorf("UsedMemory = %d, want 5", got)
	}
	if got := UsedMemory(&trace.Pod{GPUMemory: 8}); got != 8 {
		t.Errorf("UsedMemory of unknown use = %d, want 8", got)
	}
}
