package measure

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/live/usage"
)

// The baseline is at both ends of a round; the others go forwards, then backwards.
func TestOrder(t *testing.T) {
	all, err := armsNamed([]string{"headrace", "kube", "kube-groups"})
	if err != nil {
		t.Fatal(err)
	}
	for round, want := range []string{"binds kube kube-groups headrace binds", "binds headrace kube-groups kube binds"} {
		var names []string
		for _, a := range order(all, round) {
			names = append(names, a.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("round %d: %s, want %s", round, got, want)
		}
	}
	if _, err := armsNamed([]string{"volcano"}); err == nil || !strings.Contains(err.Error(), "kube-packing") {
		t.Errorf("an arm that does not exist: %v, want the names of those that do", err)
	}
}

// Ratios are taken within a round against the mean of its two baselines, so that
// a machine that slows down between rounds favours nobody.
func TestRatiosWithinARound(t *testing.T) {
	run := func(round int, arm string, rate float64) Run {
		return Run{Nodes: 10, Round: round, Arm: arm, Drain: &Drain{PerSecond: rate}}
	}
	runs := []Run{
		run(0, "binds", 1000), run(0, "headrace", 900), run(0, "binds", 800),
		run(1, "binds", 500), run(1, "headrace", 400), run(1, "binds", 500),
		{Nodes: 10, Round: 2, Arm: "headrace", Failure: "it ended"},
		run(2, "binds", 100),
		run(0, "other", 1),
		{Nodes: 20, Round: 0, Arm: "headrace", Drain: &Drain{PerSecond: 7}},
	}
	row := rowOf(10, &arm{name: "headrace", title: "Headrace"}, runs)
	got := []float64{row.PerSecond, row.Ratio, row.RatioMin, row.RatioMax, float64(row.Measured)}
	if diff := cmp.Diff([]float64{650, 0.9, 0.8, 1.0, 2}, got); diff != "" {
		t.Errorf("rate, ratio, from, to, measured (-want +got):\n%s", diff)
	}
	if row.Failure != "it ended" {
		t.Errorf("failure %q, want that of the third round", row.Failure)
	}
}

// What was not measured is a dash, and why is said below.
func TestPrint(t *testing.T) {
	o := Options{Nodes: []int{10}, Pods: 40, Group: 8, Repeats: 1}
	all, err := armsNamed([]string{"headrace-groups"})
	if err != nil {
		t.Fatal(err)
	}
	runs := []Run{
		{Nodes: 10, Arm: baseline, Drain: &Drain{PerSecond: 1000, ServerCPUms: 1.5}, ServerMiB: 400},
		{Nodes: 10, Arm: "headrace-groups", Failure: "not supported: no groups here"},
	}
	r := Report{Options: o, Rows: rows(&o, all, runs), Runs: runs}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"bare loop of binds, 32 workers             1000      1.00  1.00  1.00",
		"Headrace, groups                              -         -     -     -",
		"Headrace, groups: not supported: no groups here\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// Options that cannot be measured are refused before a cluster is started.
func TestRefusedOptions(t *testing.T) {
	good := Options{Nodes: []int{10}, Pods: 80, Group: 8, Repeats: 1, Rate: 40, For: time.Second, Stall: time.Second}
	if _, err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*Options)
	}{
		{"--nodes", func(o *Options) { o.Nodes = nil }},
		{"10: 80 GPUs are fewer than the 81 pods", func(o *Options) { o.Pods = 81 }},
		{"10: 80 GPUs are fewer than the 120 pods", func(o *Options) { o.For = 3 * time.Second }},
		{"--pods 40", func(o *Options) { o.Pods, o.Group = 40, 39 }},
		{"--group 0", func(o *Options) { o.Group = 0 }},
		{"--repeats 0", func(o *Options) { o.Repeats = 0 }},
		{"--rate -1", func(o *Options) { o.Rate = -1 }},
		{"--stall 0s", func(o *Options) { o.Stall = 0 }},
		{"kube-packing", func(o *Options) { o.Arms = []string{"x"} }},
	} {
		o := good
		c.change(&o)
		if _, err := o.check(); err == nil || !strings.Contains(err.Error(), c.want) || usage.ExitCode(err) != 2 {
			t.Errorf("%+v: error %v, want one of the command line with %q", o, err, c.want)
		}
	}
}
