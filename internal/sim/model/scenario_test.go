package model

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

func mustScenario(t *testing.T, name string, seed int64) trace.Workload {
	t.Helper()
	w, err := Scenario(name, seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestScenarioOfUnknownName(t *testing.T) {
	_, err := Scenario("a100-8x", 1)
	if err == nil || !strings.Contains(err.Error(), `"a100-8x8"`) {
		t.Errorf("Scenario(a100-8x): %v, want the nearest name in it", err)
	}
	if got := Names(); !slices.Equal(got, []string{"a100-8x8", "hetero", "mixed"}) {
		t.Errorf("Names() = %v", got)
	}
}

func TestScenarioIsDeterministic(t *testing.T) {
	for _, name := range Names() {
		if !reflect.DeepEqual(mustScenario(t, name, 7), mustScenario(t, name, 7)) {
			t.Errorf("%s: the same seed gave two workloads", name)
		}
		a, b := mustScenario(t, name, 7), mustScenario(t, name, 8)
		if reflect.DeepEqual(a.Pods, b.Pods) {
			t.Errorf("%s: two seeds gave the same pods", name)
		}
		if name != mixedName && !reflect.DeepEqual(a.Nodes, b.Nodes) {
			t.Errorf("%s: the cluster depends on the seed", name)
		}
	}
}

// timedNames are the scenarios with a clock.
func timedNames() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return name == mixedName })
}

// A kind is the same in every run and with every seed.
func TestKindsResemble(t *testing.T) {
	for _, name := range timedNames() {
		kinds := map[string]trace.Pod{}
		for seed := range int64(3) {
			for _, p := range mustScenario(t, name, seed).Pods {
				p.Name, p.Arrival, p.Duration, p.SLA = "", 0, 0, 0
				if first, ok := kinds[p.Kind]; ok && !reflect.DeepEqual(first, p) {
					t.Fatalf("%s: kind %s is %+v and %+v", name, p.Kind, first, p)
				}
				kinds[p.Kind] = p
			}
		}
		if len(kinds) < 50 {
			t.Errorf("%s has %d kinds, want many, so that caches matter", name, len(kinds))
		}
	}
}

// Every pod fits some empty node, uses no more than it declares, and arrives in
// order; what the format cannot hold does not occur.
func TestScenariosAreValid(t *testing.T) {
	for _, name := range Names() {
		w := mustScenario(t, name, 3)
		for i := range w.Pods {
			p := &w.Pods[i]
			if w.Timed == (name == mixedName) {
				t.Fatalf("%s: timed is %v", name, w.Timed)
			}
			if !slices.ContainsFunc(w.Nodes, func(n trace.Node) bool { return holds(&n, p) }) {
				t.Fatalf("%s: %+v fits no node", name, p)
			}
			if p.Use.GPUMemory > p.GPUMemory || p.Use.LoadBusy > quantity.Milli(p.Milli) || p.Use.ComputeBusy > quantity.Milli(p.Milli) {
				t.Fatalf("%s: %+v uses more than it declares", name, p)
			}
			if w.Timed && (i > 0 && p.Arrival < w.Pods[i-1].Arrival || p.Arrival >= moment.Instant(moment.Day) || p.Duration <= 0) {
				t.Fatalf("%s: pod %d arrives at %v for %v", name, i, p.Arrival, p.Duration)
			}
		}
		path := filepath.Join(t.TempDir(), "w.jsonl")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := trace.Write(file, w); err != nil || file.Close() != nil {
			t.Fatal(err)
		}
		if got, err := trace.Read(path); err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("%s: does not survive writing and reading: %v", name, err)
		}
	}
}

func holds(n *trace.Node, p *trace.Pod) bool {
	return p.CPU <= n.CPU && p.Memory <= n.Memory && p.GPUs <= n.GPUs && p.GPUMemory <= n.GPUMemory &&
		(len(p.Models) == 0 || slices.Contains(p.Models, n.Model))
}

func TestClusters(t *testing.T) {
	tests := []struct {
		name        string
		nodes, gpus int
	}{
		{name: "a100-8x8", nodes: 8, gpus: 64},
		{name: "hetero", nodes: 56, gpus: 140},
	}
	for _, tt := range tests {
		w := mustScenario(t, tt.name, 1)
		if len(w.Nodes) != tt.nodes || w.GPUCapacity() != quantity.MilliGPU(tt.gpus)*quantity.WholeGPU {
			t.Errorf("%s: %d nodes with %v, want %d with %d GPUs", tt.name, len(w.Nodes), w.GPUCapacity(), tt.nodes, tt.gpus)
		}
	}
	n := mustScenario(t, "a100-8x8", 1).Nodes[5]
	if !slices.Equal(n.NUMA, []int32{0, 0, 0, 0, 1, 1, 1, 1}) || n.Rack != "rack-1" || n.GPUMemory != 40*quantity.GiB || n.Island[7] != 0 {
		t.Errorf("node 5 is %+v", n)
	}
}

func TestPopularKindsComeFirst(t *testing.T) {
	count := map[string]int{}
	for _, p := range mustScenario(t, "a100-8x8", 1).Pods {
		count[p.Kind]++
	}
	if count["infer-chat-00"] < 2*count["infer-chat-23"] || count["infer-chat-23"] == 0 {
		t.Errorf("the first kind came %d times, the last %d times", count["infer-chat-00"], count["infer-chat-23"])
	}
}
