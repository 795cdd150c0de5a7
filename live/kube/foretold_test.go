package kube

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// What was foretold is compared with what came: where runs that declare an hour take half
// of it, the world learns that waits are half as long as foretold, each wait counts once,
// and that is known again after a restart.
func TestForetoldStartsAreLearned(t *testing.T) {
	w := newTruth(t)
	w.books.turns[0].Policy = engine.Headrace().ForetellingInReviews()
	w.putNode("n", 8, 1, "", true)
	// later creates a pod that says it runs for an hour.
	later := func(name string) {
		w.createPod(name, DefaultName, 1, 1)
		p := w.pods["ns/"+name]
		p.Annotations = map[string]string{facts.ExpectedDuration: "1h"}
		p.CreationTimestamp = metav1.NewTime(w.now)
	}
	settle := func() { // in no time
		w.decide()
		for len(w.flying)+len(w.untold) > 0 {
			w.tellAll()
			for len(w.flying) > 0 {
				w.land(0, false)
			}
			w.decide()
		}
	}
	// Runs begin when the kubelet says so.
	begins := func(name string) {
		settle()
		p := w.pods["ns/"+name].DeepCopy()
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: w.now}
		w.writePod(p)
		settle()
	}
	later("p-0")
	begins("p-0")
	const waits = 25
	for i := range waits {
		next := fmt.Sprint("p-", i+1)
		later(next)
		w.tellAll()
		for range 3 {
			w.books.decide(decision.CycleReview)
			w.pass(10 * time.Minute)
		}
		w.deletePod(fmt.Sprint("ns/p-", i))
		w.tellAll()
		begins(next)
		if w.pods["ns/"+next].Spec.NodeName == "" {
			t.Fatalf("%s was not placed", next)
		}
		w.books.believeStarts()
	}
	if n := w.books.starts.Seen(); n != waits {
		t.Errorf("%d waits are taken in, want %d", n, waits)
	}
	w.pass(time.Hour)
	w.books.startsStale = true
	w.books.believeStarts()
	known := w.books.world.View().Beliefs.Starts.ByCell
	if len(known) == 0 {
		t.Fatal("the world was told of no cell")
	}
	for cell, c := range known {
		if c.Likely < 400 || c.Likely > 750 {
			t.Errorf("cell %x: %+v, want waits about half as long as foretold", cell, c)
		}
	}
	if n := len(w.books.visions); n != 0 {
		t.Errorf("%d waits are remembered, and nobody waits", n)
	}
	later("gone")
	w.tellAll()
	w.books.decide(decision.CycleReview)
	w.deletePod("ns/gone")
	w.tellAll()
	if n := len(w.books.visions); n != 0 {
		t.Errorf("%d waits are remembered of a pod that is gone", n)
	}

	kept := w.kept()
	again := newTruth(t)
	again.pass(w.now.Sub(again.now))
	if err := again.books.remember(kept); err != nil {
		t.Fatal(err)
	}
	again.books.believeStarts()
	if diff := cmp.Diff(again.books.world.View().Beliefs.Starts.ByCell, known); diff != "" {
		t.Errorf("- after a restart, + before:\n%s", diff)
	}
}
