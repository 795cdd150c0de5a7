package kube

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/beliefs"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// taught are books that have seen pods of a few kinds come.
func taught(t *testing.T) *truth {
	t.Helper()
	w, r := newTruth(t), rand.New(rand.NewSource(1))
	w.putNode("n", 800, 8, "", true)
	for i := range 60 {
		w.pass(time.Second)
		name := fmt.Sprint("p-", i)
		w.createPod(name, DefaultName, 1+r.Intn(3), r.Intn(3))
		w.pods["ns/"+name].Labels = map[string]string{facts.KindLabel: fmt.Sprint("kind-", r.Intn(3))}
		w.pods["ns/"+name].CreationTimestamp = metav1.NewTime(w.now)
	}
	for len(w.untold) > 0 {
		w.tell()
	}
	return w
}

// What was learned comes back by way of bytes, although the world gives its shapes
// other ids; pods that it rests on are not counted again, and the journal of it
// replays.
func TestLearnedComesBack(t *testing.T) {
	w := taught(t)
	kept := w.kept()
	_, err := w.books.learned()
	if !errors.Is(err, errNothingNew) {
		t.Errorf("again: %v, want %v", err, errNothingNew)
	}
	again := newTruth(t)
	path := filepath.Join(t.TempDir(), "j")
	if again.books.record, err = record(path, DefaultRecordLimit, again.books.turns[0].Policy); err != nil {
		t.Fatal(err)
	}
	again.now = w.now
	again.pass(0)
	if err := again.books.remember(kept); err != nil {
		t.Fatal(err)
	}
	again.putNode("n", 800, 8, "", true)
	for _, p := range w.pods { // order: none of them is new to what was learned
		again.writePod(p)
	}
	for len(again.untold) > 0 {
		again.tell()
	}
	again.books.expect()
	if got, want := again.books.demandDigest(), w.books.demandDigest(); got != want || again.books.demand.Seen() != 60 {
		t.Errorf("digest %x of %d pods, want %x of 60", got, again.books.demand.Seen(), want)
	}
	if b := again.books.world.View().Beliefs; b == nil || b.Worth == nil || len(b.Demand.Rows) == 0 {
		t.Errorf("the world believes %+v, want a demand and what it makes of worth", b)
	}
	if _, err := again.books.learned(); !errors.Is(err, errNothingNew) {
		t.Errorf("with nothing new: %v, want %v", err, errNothingNew)
	}
	again.pass(2 * time.Second)
	again.createPod("late", DefaultName, 1, 1)
	again.pods["ns/late"].CreationTimestamp = metav1.NewTime(again.now)
	for len(again.untold) > 0 {
		again.tell()
	}
	if got := again.books.demand.Seen(); got != 61 {
		t.Errorf("after a new pod: %d pods seen, want 61", got)
	}
	again.settleAll()
	if err := again.books.record.end(); err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, path); got.Differing != 0 || got.Cycles == 0 {
		t.Errorf("replayed to %+v, want no difference", got)
	}
}

// What makes no sense is refused whole, and nothing is believed then.
func TestSenselessBeliefs(t *testing.T) {
	for name, change := range map[string]func(*beliefs.Beliefs){
		"a negative count":   func(b *beliefs.Beliefs) { b.Asks[0].Pods = -1 },
		"an enormous count":  func(b *beliefs.Beliefs) { b.Asks[0].Pods = math.MaxInt64 },
		"a negative request": func(b *beliefs.Beliefs) { b.Asks[0].Request.CPU = -1 },
		"too many devices": func(b *beliefs.Beliefs) {
			b.Asks[0].Request.Devices = []world.DeviceRequest{{Count: 1 << 30, Milli: 1000}}
		},
		"a size out of range":  func(b *beliefs.Beliefs) { b.Fill = []beliefs.Price{{Milli: 5000}} },
		"a price out of range": func(b *beliefs.Beliefs) { b.Fill = []beliefs.Price{{Milli: 500, Price: 1e300}} },
		"a time to come":       func(b *beliefs.Beliefs) { b.At = math.MaxInt64 / 2 },
		"a time before all":    func(b *beliefs.Beliefs) { b.At = -1 },
	} {
		kept, err := taught(t).books.learned()
		if err != nil {
			t.Fatal(err)
		}
		change(kept)
		w := newTruth(t)
		w.pass(time.Hour)
		if err := w.books.remember(kept); err == nil || w.books.demand.Seen() != 0 || w.books.until != 0 {
			t.Errorf("%s: said %v and rests on %d pods, want it refused", name, err, w.books.demand.Seen())
		}
	}
}
