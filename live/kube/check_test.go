package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

var errVeto = errors.New("no")

// refuse takes the only bind of a cycle back and returns its node; empty when
// there is none.
func (w *truth) refuse() string {
	w.Helper()
	binds := w.books.decide(0)
	if len(binds) == 0 {
		return ""
	}
	if len(binds) > 1 {
		w.Fatalf("%d binds, want one at most", len(binds))
	}
	w.books.veto(&binds[0], errVeto)
	w.balanced("a refusal")
	return binds[0].Node
}

// What the last check refuses is tried elsewhere at once, and there again only
// when the node has changed, a pod has left it, or time has passed.
func TestVeto(t *testing.T) {
	for _, test := range []struct {
		name string
		then func(w *truth)
	}{
		{"the node changes", func(w *truth) { w.putNode("a", 9, 4, "", true) }},
		{"a pod leaves", func(w *truth) { w.deletePod("ns/old") }},
		{"time passes", func(w *truth) { w.pass(vetoFor); w.books.expire() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTruth(t)
			w.putNode("a", 8, 4, "", true)
			w.putNode("b", 8, 4, "", true)
			w.createPod("old", "other", 1, 0)
			old := w.pods["ns/old"]
			if err := w.bindPod("ns/old", string(old.UID), "a"); err != nil {
				t.Fatal(err)
			}
			w.createPod("p", DefaultName, 1, 1)
			for len(w.untold) > 0 {
				w.tell()
			}
			got := []string{w.refuse(), w.refuse()}
			slices.Sort(got)
			if !slices.Equal(got, []string{"a", "b"}) {
				t.Fatalf("refused on %v, want once on each node", got)
			}
			if again := w.refuse(); again != "" {
				t.Fatalf("tried again on %s", again)
			}
			w.pass(DefaultBeat)
			if got := w.books.remarks(); len(got) != 1 || !strings.Contains(got[0].Message, "rule the nodes out") {
				t.Errorf("remarks %+v, want that the nodes are ruled out", got)
			}
			test.then(w)
			for len(w.untold) > 0 {
				w.tell()
			}
			if got := w.refuse(); got != "a" && test.name != "time passes" || got == "" {
				t.Errorf("after that tried on %q, want a", got)
			}
		})
	}
}

// A pod that is refused again and again makes a pause.
func TestVetoesPause(t *testing.T) {
	w := newTruth(t)
	for i := range vetoesMost + 2 {
		w.putNode(string(rune('a'+i)), 8, 4, "", true)
	}
	w.createPod("p", DefaultName, 1, 1)
	for len(w.untold) > 0 {
		w.tell()
	}
	for range vetoesMost {
		if w.refuse() == "" {
			t.Fatal("no bind before the pause")
		}
	}
	if got := w.refuse(); got != "" {
		t.Errorf("tried on %s within the pause", got)
	}
	w.pass(pauseFirst + pauseFirst/4)
	w.books.resume()
	if w.refuse() == "" {
		t.Error("no bind after the pause")
	}
}

// A pod with volumes goes only where they can be had, once somebody has looked at
// them, and says what is amiss with them.
func TestVolumesBar(t *testing.T) {
	w := newTruth(t)
	for _, name := range []string{"a", "b", "c"} {
		w.putNode(name, 8, 4, "", true)
	}
	w.createPod("p", DefaultName, 1, 1)
	w.createPod("q", DefaultName, 1, 1)
	w.pods["ns/p"].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	for len(w.untold) > 0 {
		w.tell()
	}
	w.decide()
	if len(w.flying) != 1 || w.flying[0].Key != "ns/q" {
		t.Fatalf("binds %+v, want that of q alone", w.flying)
	}
	w.pass(DefaultBeat)
	if got := w.books.remarks(); len(got) != 1 || !strings.Contains(got[0].Message, "volume v of a kind that ties the pod to some nodes, which Headrace does not place yet") {
		t.Errorf("before anybody looks: remarks %+v", got)
	}
	looks := 0
	barred, why := []string{"a", "b", "c"}, "no such claim"
	look := func() {
		w.books.lookAtVolumes(func(key string) ([]string, string) {
			if key != "ns/p" {
				t.Errorf("asked about %s", key)
			}
			looks++
			return barred, why
		})
		w.decide()
	}
	look()
	w.pass(time.Minute)
	if got := w.books.remarks(); len(got) != 1 || got[0].Message != "no such claim" {
		t.Errorf("without a claim: remarks %+v", got)
	}
	barred, why = []string{"a", "c"}, ""
	look()
	if looks != 1 || len(w.flying) != 1 {
		t.Errorf("%d looks and %d binds before anything has changed, want one of each", looks, len(w.flying))
	}
	w.books.volumesStirred()
	look()
	if len(w.flying) != 2 || w.flying[1].Node != "b" {
		t.Errorf("binds %+v, want one to b", w.flying)
	}
	w.settleAll()
	w.balanced("settling")
	w.equal()
}

// Many pods with volumes are looked at in turn, and none is forgotten.
func TestVolumesInTurn(t *testing.T) {
	w := newTruth(t)
	for i := range 200 {
		w.books.nodeSeen(facts.Node{Ready: true, Added: world.NodeAdded{Name: fmt.Sprint(i), CPU: 8000, Pods: 20, Life: cluster.LifeReady}})
	}
	for i := range 600 {
		w.createPod(string(rune('a'+i%26))+strings.Repeat("x", i/26), DefaultName, 0, 0)
	}
	for _, p := range w.pods {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}}}
	}
	for len(w.untold) > 0 {
		w.tell()
	}
	looked := make(map[string]bool)
	for range 3 {
		w.books.volumesStirred() // all the time
		most := len(looked) + barVisits/200 + 1
		w.books.lookAtVolumes(func(key string) ([]string, string) { looked[key] = true; return nil, "" })
		if len(looked) > most {
			t.Errorf("%d looked at, want %d at most", len(looked), most)
		}
	}
	if len(looked) != 600 {
		t.Errorf("%d of 600 looked at", len(looked))
	}
}
