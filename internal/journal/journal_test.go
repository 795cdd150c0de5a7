package journal_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/journal"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/sim"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
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
	pods := 400
	if testing.Short() {
		pods = 40
	}
	for _, p := range sim.Policies() {
		for mode, load := range map[string]trace.Workload{sim.Timed: workload(t, "hetero", pods), sim.Static: workload(t, "mixed", pods)} {
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

// TestReplayOfGroups: what is told, decided and accepted of groups replays digest
// for digest.
func TestReplayOfGroups(t *testing.T) {
	var out bytes.Buffer
	record, w, policy := journal.NewWriter(&out), world.New(), engine.Headrace()
	tell := func(e world.Event) {
		if err := w.Apply(w.Now(), e); err != nil {
			t.Fatal(err)
		}
		record.Event(w.Now(), e)
	}
	record.Begin(policy, rivals.Side{})
	tell(world.NodeAdded{Name: "n", CPU: 4000, Memory: 1 << 30, Pods: 10, Life: cluster.LifeReady})
	for i := range 5 {
		tell(world.PodAdded{Name: fmt.Sprint("p-", i), Group: []string{"a", "b"}[i%2], Request: world.Request{CPU: 1000}})
	}
	tell(world.GroupAdded{Name: "a", Minimum: 4})
	tell(world.GroupAdded{Name: "b", Minimum: 2})
	bound := 0
	for number := range uint64(3) {
		snapshot, plan := decided(record, w, policy, decision.Cycle{Number: number, Now: w.Now()})
		for _, bundle := range plan.Bundles() {
			tell(world.Acceptance(bundle))
			for i := range bundle {
				tell(world.Bound{Name: snapshot.Pod(bundle[i].Pod).Spec.Name})
				bound++
			}
		}
		switch number {
		case 0:
			tell(world.GroupChanged{Name: "a", Minimum: 2})
		case 1:
			tell(world.GroupRemoved{Name: "b"})
		}
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := journal.Replay("j", &out, policyOf)
	if err != nil || got.Cycles != 3 || got.Differing != 0 || bound != 4 {
		t.Errorf("%d bound, replayed %+v, %v; want 4 bound and 3 cycles as recorded", bound, got, err)
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
		{"cut short and gone on", head + "\n" + rest[:len(rest)/2] + "\n" + `{"event":"lost","data":{"Name":"x"}}`, "j:"},
		{"after the end", head + "\n" + `{"end":"x"}` + "\n" + `{"event":"lost","data":{"Name":"x"}}`, "j:3: a line after the end"},
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

// TestTornTail: wherever a writer is cut off, what it wrote before is played.
func TestTornTail(t *testing.T) {
	text, cycles := record(t, workload(t, "mixed", 20), sim.Static, "bestfit")
	head := bytes.IndexByte(text, '\n') + 1
	for cut := head; cut < len(text); cut += len(text)/50 + 1 {
		got, err := journal.Replay("j", bytes.NewReader(text[:cut]), policyOf)
		last := text[bytes.LastIndexByte(text[:cut], '\n')+1 : cut]
		if err != nil || got.Torn != (len(last) > 0 && !json.Valid(last)) || got.Differing != 0 || got.Cycles > cycles {
			t.Fatalf("cut after %d bytes, within %q: %+v, %v", cut, last, got, err)
		}
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(text)
	_ = z.Flush() // no end: the writer was killed
	r, err := gzip.NewReader(&zipped)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := journal.Replay("j", r, policyOf); err != nil || !got.Torn || got.Cycles != cycles {
		t.Errorf("a compressed journal without an end: %+v, %v; want torn, with all %d cycles", got, err, cycles)
	}
}

// TestLimit: a journal stays below its limit, says that it ended there, and
// replays up to there.
func TestLimit(t *testing.T) {
	whole, _ := record(t, workload(t, "mixed", 40), sim.Static, "bestfit")
	limit := int64(len(whole)) * 9 / 10
	var out bytes.Buffer
	w := journal.NewWriter(&out)
	w.Limit(limit)
	load := workload(t, "mixed", 40)
	if _, err := sim.Run(sim.Config{Workload: &load, Mode: sim.Static, Policy: "bestfit", Seed: 3, Record: w}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || !w.Full() || int64(out.Len()) > limit {
		t.Fatalf("%d bytes, full %v, %v; want at most %d and full", out.Len(), w.Full(), err, limit)
	}
	got, err := journal.Replay("j", &out, policyOf)
	if want := fmt.Sprintf("the limit of %d bytes", limit); err != nil || got.End != want || got.Differing != 0 || got.Cycles == 0 {
		t.Errorf("replayed to %+v, %v; want the end %q", got, err, want)
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

// decided runs a cycle, and records it.
func decided(record *journal.Writer, w *world.World, policy *engine.Policy, cycle decision.Cycle) (*cluster.Snapshot, decision.Plan) {
	snapshot := w.Snapshot()
	plan := engine.Decide(snapshot, cycle, policy, nil)
	record.Cycle(cycle, plan.Digest(&snapshot.View))
	return snapshot, plan
}

// Rules of warm starts that are not the policy's own are in the head, and those that are
// its own are not.
func TestHeadKeepsRulesOfWarmStarts(t *testing.T) {
	rules := warm.Default()
	rules.Drops, rules.Beside = false, false
	for _, p := range []*engine.Policy{engine.Headrace(), engine.Headrace().Warming(&rules)} {
		var out bytes.Buffer
		w := journal.NewWriter(&out)
		w.Begin(p, rivals.Side{})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var head journal.Head
		if err := json.Unmarshal(out.Bytes(), &head); err != nil {
			t.Fatal(err)
		}
		want := p.Warms
		if *want == warm.Default() {
			want = nil
		}
		if diff := cmp.Diff(head.Warms, want); diff != "" {
			t.Errorf("- the head has, + want:\n%s", diff)
		}
	}
}

// TestReplayOfMoves: a service that is replaced for one who waits is so again.
func TestReplayOfMoves(t *testing.T) {
	load := trace.Workload{Name: "moves", Timed: true}
	for i := range 2 {
		load.Nodes = append(load.Nodes, trace.Node{Name: fmt.Sprint("n", i), CPU: 16000, Memory: quantity.TiB, Pods: 20, GPUs: 2, Model: "A100"})
	}
	add := func(name string, gpus int, arrives, lasts moment.Span, service bool) {
		load.Pods = append(load.Pods, trace.Pod{
			Name: name, Kind: name[:1], CPU: 1000, Memory: quantity.GiB, GPUs: gpus, Milli: quantity.WholeGPU, Arrival: moment.Instant(arrives), Duration: lasts, Service: service,
		})
	}
	add("filler-1", 2, 0, 10*moment.Minute, false)
	add("a", 1, moment.Second, 3*moment.Hour, true)
	add("filler-2", 1, moment.Second, 20*moment.Minute, false)
	add("b", 1, 11*moment.Minute, 3*moment.Hour, true)
	add("wide", 2, 25*moment.Minute, moment.Hour, false)
	var out bytes.Buffer
	w, rules := journal.NewWriter(&out), tidy.Default()
	result, err := sim.Run(sim.Config{Workload: &load, Mode: sim.Timed, Policy: sim.Ours, Seed: 1, Record: w, Tidy: &rules})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `"ReplacedBy"`); n != 1 || result.Unfinished != 0 || *result.Moves != 1 {
		t.Fatalf("%d pods were replaced, %v moved, %d did not end; want one, one, none", n, *result.Moves, result.Unfinished)
	}
	got, err := journal.Replay("j", &out, policyOf)
	if err != nil || got.Differing != 0 || got.Cycles == 0 {
		t.Errorf("replayed %+v, %v; want the same", got, err)
	}
}
