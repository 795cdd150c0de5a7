package journal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/journal"
	"github.com/headrace-dev/headrace/internal/sim"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// record runs a policy on a workload and returns the journal.
func record(t testing.TB, load trace.Workload, mode, policy string) (text []byte, cycles int) {
	t.Helper()
	var out bytes.Buffer
	w := journal.NewWriter(&out)
	_, err := sim.Run(sim.Config{
		Workload: &load, Mode: mode, Policy: policy, Seed: 3, Record: w,
		Failures: sim.Failures{NodeEvery: 6 * moment.Hour, NodeRepair: moment.Hour, GPUEvery: 100 * moment.Hour, GPURepair: moment.Hour, RefuseMilli: 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), bytes.Count(out.Bytes(), []byte(`{"cycle"`))
}

func policyOf(h journal.Head) (*engine.Policy, error) {
	p, _, err := sim.Policy(h.Policy, h.Side)
	return p, err
}

// workload is a part of a built-in scenario.
func workload(t testing.TB, name string, pods int) trace.Workload {
	t.Helper()
	w, err := model.Scenario(name, 5)
	if err != nil {
		t.Fatal(err)
	}
	w.Pods = w.Pods[:min(pods, len(w.Pods))]
	return w
}

// TestReplayGivesTheSameDigests: for every policy, in both modes and under
// failures, the journal of a run replays digest for digest.
func TestReplayGivesTheSameDigests(t *testing.T) {
	for _, p := range sim.Policies() {
		for mode, load := range map[string]trace.Workload{sim.Timed: workload(t, "hetero", 400), sim.Static: workload(t, "mixed", 400)} {
			t.Run(p.Name+"/"+mode, func(t *testing.T) {
				text, cycles := record(t, load, mode, p.Name)
				got, err := journal.Replay("j", bytes.NewReader(text), policyOf)
				if err != nil {
					t.Fatal(err)
				}
				if got.Differing != 0 || got.Cycles != cycles || cycles == 0 {
					t.Errorf("%d of %d cycles differ, %d were recorded; the first: %+v", got.Differing, got.Cycles, cycles, got.First)
				}
			})
		}
	}
}

// TestReplayFindsTheFirstDifference: an event that was changed shows in the first
// cycle that it bears on.
func TestReplayFindsTheFirstDifference(t *testing.T) {
	text, _ := record(t, workload(t, "hetero", 100), sim.Timed, "bestfit")
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.Contains(line, `"event":"pod_added"`) {
			lines[i] = strings.Replace(line, `"CPU":`, `"CPU":9`, 1)
			break
		}
	}
	got, err := journal.Replay("j", strings.NewReader(strings.Join(lines, "\n")), policyOf)
	if err == nil && (got.Differing == 0 || got.First == nil || got.First.Cycle > 3) {
		t.Errorf("a changed pod was not noticed in the first cycles: %+v", got)
	}
}

// TestBadJournals: each fault is named with its line.
func TestBadJournals(t *testing.T) {
	text, _ := record(t, workload(t, "mixed", 20), sim.Static, "bestfit")
	head, rest, _ := strings.Cut(string(text), "\n")
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"not JSON", "hello", "j:1: not the head"},
		{"another version", `{"headrace_journal":9,"policy":"fgd","side":{}}`, "version 1"},
		{"unknown policy", `{"headrace_journal":1,"policy":"nobody","side":{}}`, `j:1: policy "nobody"`},
		{"cut short", head + "\n" + rest[:len(rest)/2], "unexpected EOF"},
		{"unknown event", head + "\n" + `{"event":"exploded","data":{}}`, `j:2: event "exploded"`},
		{"unknown field", head + "\n" + `{"event":"lost","data":{"Nam":"x"}}`, "j:2: event lost"},
		{"refused event", head + "\n" + `{"event":"lost","data":{"Name":"x"}}`, `j:2: pod "x"`},
		{"nothing", head + "\n{}", "j:2: neither"},
	} {
		if _, err := journal.Replay("j", strings.NewReader(test.text), policyOf); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: said %v, want it to contain %q", test.name, err, test.want)
		}
	}
}

// FuzzReplay: no text makes a replay panic, and what is played keeps the books.
func FuzzReplay(f *testing.F) {
	for _, policy := range []string{"headrace", "bestfit"} {
		text, _ := record(f, workload(f, "hetero", 6), sim.Timed, policy)
		if len(text) < 1<<20 {
			f.Add(text)
		}
	}
	f.Add([]byte(`{"headrace_journal":1,"policy":"headrace","side":{}}` + "\n" + `{"event":"learned","data":{"Beliefs":{"Worth":{"CPUStep":0}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := journal.Replay("j", bytes.NewReader(text), policyOf)
		_ = fmt.Sprint(out, err)
	})
}
