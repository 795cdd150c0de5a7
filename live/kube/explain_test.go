package kube

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// explained asks the books about a pod, as the scheduler does.
func (w *truth) explained(key string) explain.Pod {
	w.Helper()
	o := owner{books: w.books}
	q, err := o.inquire(key)
	if err != nil {
		w.Fatal(err)
	}
	q.now = w.now
	return q.answer()
}

// told delivers everything and runs a cycle.
func (w *truth) told() {
	for len(w.untold) > 0 {
		w.tell()
	}
	w.decide()
}

// Each way in which a pod can wait has its verdict, its code, and what would help.
func TestExplainWaiting(t *testing.T) {
	w := newTruth(t)
	w.putNode("full", 8, 4, "", true)
	w.putNode("reserved", 8, 4, "reserved", true)
	w.createPod("first", DefaultName, 1, 3)
	w.told()
	w.createPod("room", DefaultName, 1, 2)
	w.told()
	w.pass(time.Second)
	w.createPod("never", DefaultName, 1, 9)
	w.createPod("gated", DefaultName, 1, 0)
	w.pods["ns/gated"].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	w.createPod("labels", DefaultName, 1, 0)
	w.pods["ns/labels"].Spec.NodeSelector = map[string]string{"disk": "fast"}
	w.told()
	w.pass(5 * time.Second)
	for _, c := range []struct {
		pod, code, says, help string
		verdict               explain.Verdict
	}{
		{"room", "DeviceIdle", "needs 2 idle devices on one node, the most idle is 1 (1 of 2 nodes)", "2 idle GPUs on one node; the closest: full", explain.Waiting},
		{"never", "DeviceCount", "the largest node has 4", "a node with 9 GPUs", explain.Never},
		{"gated", "Gated", "a scheduling gate holds the pod", "removed", explain.AfterChange},
		{"labels", "NodeSelector", "no node has the labels asked for", "a node with the labels disk=fast", explain.AfterChange},
	} {
		got := w.explained("ns/" + c.pod)
		if got.Verdict != c.verdict || got.Reason == nil || got.Reason.Code != c.code || !strings.Contains(got.Reason.Says, c.says) || !strings.Contains(strings.Join(got.Help, "|"), c.help) {
			t.Errorf("%s: verdict %s, reason %+v, help %q; want %s, %s %q, %q", c.pod, got.Verdict, got.Reason, got.Help, c.verdict, c.code, c.says, c.help)
		}
		if want := 5.0; got.WaitedSeconds != want && c.pod != "room" {
			t.Errorf("%s: waited %v s, want %v", c.pod, got.WaitedSeconds, want)
		}
	}
	got := w.explained("ns/room")
	if got.Line != 3 || got.Turn != 1 {
		t.Errorf("room: turn %d of %d, want 1 of 3", got.Turn, got.Line)
	}
	nodes := int32(0)
	for _, c := range got.Classes {
		nodes += c.Nodes
		for _, r := range c.Reasons {
			if r.Code != "DeviceIdle" && r.Code != "NodeTaint" {
				t.Errorf("room: class %q answers %s", c.Name, r.Code)
			}
		}
	}
	if nodes != 2 {
		t.Errorf("room: the classes have %d nodes, want 2: %+v", nodes, got.Classes)
	}
}

// A placed pod says where it is, on which devices, and what spoke for the place;
// its history tells how it came there. One that another scheduler bound says so.
func TestExplainPlaced(t *testing.T) {
	w := newTruth(t)
	w.putNode("small", 8, 2, "", true)
	w.createPod("p", DefaultName, 1, 4)
	w.told()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.putNode(name, 8, 4, "", true)
	}
	w.told()
	got := w.explained("ns/p")
	if got.Verdict != explain.Placed || !got.Place.Binding || len(got.Place.Devices) != 4 || got.Place.Identity != "presumed" || got.Place.Devices[3].Milli != 1000 {
		t.Fatalf("verdict %s, place %+v: want placed, binding, four whole devices whose identity is presumed", got.Verdict, got.Place)
	}
	chosen := got.Place.Chosen
	if chosen == nil || chosen.Feasible != 5 || len(chosen.RunnersUp) != runnersUp || chosen.Policy != "headrace" || chosen.Cycle != 2 {
		t.Fatalf("chosen %+v, want 5 nodes that could take it, %d runners-up, policy headrace, cycle 2", chosen, runnersUp)
	}
	for _, up := range chosen.RunnersUp {
		if up.Node == got.Place.Node || up.Score.Total > chosen.Score.Total {
			t.Errorf("runner-up %+v beside %s with %+v", up, got.Place.Node, chosen.Score)
		}
	}
	var kinds []string
	for _, h := range got.History {
		kinds = append(kinds, h.Kind)
	}
	if diff := cmp.Diff([]string{"too few devices on any node", "placed"}, kinds); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	w.createPod("foreign", "other", 1, 0)
	p := w.pods["ns/foreign"]
	if err := w.bindPod(facts.Key(p), string(p.UID), "small"); err != nil {
		t.Fatal(err)
	}
	w.told()
	if got := w.explained("ns/foreign"); got.Verdict != explain.Placed || got.Place.Node != "small" || got.Place.Chosen != nil || got.Profile != "" {
		t.Errorf("foreign: %+v, want placed on small, nothing chosen, no profile", got)
	}
	if _, err := (&owner{books: w.books}).inquire("ns/nobody"); !errors.Is(err, errNoPod) {
		t.Errorf("nobody: %v, want errNoPod", err)
	}
}

// A history is bounded, and a reason whose numbers change is one entry.
func TestStoryIsBounded(t *testing.T) {
	var s story
	for i := range 3 * historyKept {
		s.tell(time.Unix(int64(i), 0), string(rune('a'+i%20)), "first")
		s.tell(time.Unix(int64(i), 0), string(rune('a'+i%20)), "second")
	}
	if len(s.past) != historyKept || s.past[0].Says != "second" {
		t.Errorf("%d entries, the first %+v; want %d, each with its last sentence", len(s.past), s.past[0], historyKept)
	}
}

// The line is in the order of the turns, then come those that are not in line; a
// limit cuts it and the total stays.
func TestExplainQueue(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 1, "", true)
	for _, name := range []string{"first", "second", "gated"} {
		w.createPod(name, DefaultName, 1, 2)
		if name == "gated" {
			w.pods["ns/gated"].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		}
		w.told()
		w.pass(time.Second)
	}
	urgent := int32(7)
	w.createPod("urgent", DefaultName, 1, 2)
	w.pods["ns/urgent"].Spec.Priority = &urgent
	w.told()
	line := (&owner{books: w.books}).line()
	var got []string
	for _, p := range line.answer(10).Pods {
		got = append(got, p.Name+" "+string(p.Verdict))
	}
	if diff := cmp.Diff([]string{"urgent never", "first never", "second never", "gated after-change"}, got); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if short := line.answer(2); short.Total != 4 || len(short.Pods) != 2 {
		t.Errorf("limit 2: %d of %d pods, want 2 of 4", len(short.Pods), short.Total)
	}
}

// Profiles decide about their own pods, over one world.
func TestProfilesShareTheWorld(t *testing.T) {
	profiles, err := ParseProfiles([]string{"packed=gpu-packing", "ours=headrace"})
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Profiles: profiles}
	w := newTruth(t)
	w.books.divide(profiles)
	w.putNode("n", 8, 4, "", true)
	for name, scheduler := range map[string]string{"a": "packed", "b": "ours", "c": "other"} { // order: they ask for the same and all fit
		w.createPod(name, scheduler, 1, 1)
		p := w.pods["ns/"+name]
		w.untold = w.untold[:len(w.untold)-1]
		w.untold = append(w.untold, func() {
			f := facts.PodOf(p, config.nameFor(p), DefaultGPU)
			f.Added.Policy = config.profileOf(p)
			w.books.podSeen(facts.Key(p), f)
		})
	}
	w.told()
	if len(w.flying) != 2 {
		t.Fatalf("%d binds, want 2", len(w.flying))
	}
	for name, want := range map[string]string{"a": "gpu-packing", "b": "headrace"} {
		if got := w.explained("ns/" + name); got.Policy != want || got.Place.Chosen.Policy != want {
			t.Errorf("pod %s was decided by %s (%s), want %s", name, got.Place.Chosen.Policy, got.Policy, want)
		}
	}
	w.balanced("two profiles")
}

func TestParseProfilesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a":                `profile "a": must be NAME=POLICY`,
		"=headrace":        `profile "=headrace": must be NAME=POLICY`,
		"a=none":           `profile "a=none": no policy "none": there are headrace,`,
		"a=fgd,a=headrace": `profile "a=headrace": the name is there already`,
		strings.Repeat("a=fgd,", maxProfiles) + "a=fgd": `17 profiles: at most 16`,
	} {
		if _, err := ParseProfiles(strings.Split(text, ",")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Answers over HTTP are JSON; a scheduler that is not ready says so, a bad limit
// and an unknown pod have their codes.
func TestExplainOverHTTP(t *testing.T) {
	s := New(Config{})
	registry := prometheus.NewRegistry()
	server := httptest.NewServer(s.Handler(registry))
	defer server.Close()
	ask := func(path string) (int, string) {
		answer, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var failure explain.Failure
		if answer.Header.Get("Content-Type") == "application/json" {
			if err := json.NewDecoder(answer.Body).Decode(&failure); err != nil {
				t.Fatal(err)
			}
		}
		return answer.StatusCode, failure.Error
	}
	if code, says := ask(explain.QueuePath); code != 503 || !strings.Contains(says, "not rebuilt yet") {
		t.Errorf("before it is ready: %d %q", code, says)
	}
	s.synced.Store(true)
	o := owner{Scheduler: s, books: newBooks(s.config.Policy, s.config.Log)}
	done := make(chan struct{})
	defer close(done)
	// Ends with the test.
	go func() {
		for {
			select {
			case do := <-s.asks:
				do(&o)
			case <-done:
				return
			}
		}
	}()
	for path, want := range map[string]int{
		explain.QueuePath: 200, explain.TopPath: 200, explain.QueuePath + "?limit=0": 400, explain.TopPath + "?limit=x": 400,
		explain.PodPath + "ns/nobody": 404, "/explain/v1/nothing": 404,
	} {
		if code, says := ask(path); code != want {
			t.Errorf("%s: %d %q, want %d", path, code, says, want)
		}
	}
	s.unable.lack([]string{"watch pods"})
	if says := s.unready(); says != "permission is missing to watch pods" {
		t.Errorf("without a permission readiness says %q", says)
	}
}
