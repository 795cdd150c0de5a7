package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"

	"github.com/headrace-dev/headrace/live/beliefs"
	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// truth stands in for the API server: what is written there, what the informers
// have yet to tell, and the binds that are in flight.
type truth struct {
	*testing.T
	books  *books
	now    time.Time
	nodes  map[string]*corev1.Node
	pods   map[string]*corev1.Pod
	untold []func()
	flying []Bind
	uids   int
	stamps int      // versions given out
	heard  versions // told
}

func newTruth(t *testing.T) *truth {
	w := &truth{
		T: t, books: newBooks(engine.Headrace(), slog.New(slog.DiscardHandler)), now: time.Unix(1_000_000, 0),
		nodes: make(map[string]*corev1.Node), pods: make(map[string]*corev1.Pod), heard: newVersions(),
	}
	w.pass(0)
	return w
}

// kept is what was learned, as it comes back by way of bytes.
func (w *truth) kept() *beliefs.Beliefs {
	w.Helper()
	kept, err := w.books.learned()
	if err != nil {
		w.Fatal(err)
	}
	data, err := beliefs.Encode(kept)
	if err != nil {
		w.Fatal(err)
	}
	if kept, err = beliefs.Decode(data); err != nil {
		w.Fatal(err)
	}
	return kept
}

// stamp returns a version that no object had before.
func (w *truth) stamp() string {
	w.stamps++
	return fmt.Sprint(w.stamps)
}

// later has the informers tell something in its turn.
func (w *truth) later(m message) { w.untold = append(w.untold, func() { w.hear(m) }) }

func (w *truth) hear(m message) {
	w.heard.hear(&m)
	w.books.hear(&m)
}

// pass lets time go by.
func (w *truth) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.books.tick(w.now)
}

func (w *truth) putNode(name string, cpu, gpus int, taint string, ready bool) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("20"),
		DefaultGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	if taint != "" {
		n.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	if ready {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	w.writeNode(n)
}

// putNodeIn puts a node with cards in a rack.
func (w *truth) putNodeIn(name string, gpus int, rack string) {
	w.putLabelled(name, gpus, map[string]string{facts.RackLabel: rack})
}

// putLabelled puts a node with cards and labels of its own.
func (w *truth) putLabelled(name string, gpus int, labels map[string]string) {
	w.putNode(name, 8, gpus, "", true)
	n := w.nodes[name].DeepCopy()
	maps.Copy(n.Labels, labels)
	w.untold = w.untold[:len(w.untold)-1]
	w.writeNode(n)
}

func (w *truth) writeNode(n *corev1.Node) {
	w.nodes[n.Name] = n
	n.ResourceVersion = w.stamp()
	f := facts.NodeOf(n, DefaultGPU, facts.DefaultLevels())
	w.later(message{node: &f, version: n.ResourceVersion})
}

func (w *truth) deleteNode(name string) {
	if w.nodes[name] == nil {
		return
	}
	delete(w.nodes, name)
	w.later(message{nodeGone: name})
}

func (w *truth) createPod(name, scheduler string, cpu, gpus int) {
	if w.pods["ns/"+name] != nil {
		return
	}
	w.uids++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("uid-", w.uids))},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI),
		}}}}},
	}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Requests[DefaultGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	w.writePod(p)
}

func (w *truth) writePod(p *corev1.Pod) {
	p.ResourceVersion = w.stamp()
	w.pods[facts.Key(p)] = p
	w.untold = append(w.untold, func() {
		f := facts.PodOf(p, DefaultName, DefaultGPU)
		w.hear(message{pod: &f, podKey: facts.Key(p), version: p.ResourceVersion})
	})
}

func (w *truth) deletePod(key string) {
	if w.pods[key] == nil {
		return
	}
	delete(w.pods, key)
	w.later(message{podKey: key})
}

var errConflict = errors.New("conflict")

// bindPod writes a bind as the API server does: once, and only for this very pod.
func (w *truth) bindPod(key, uid, node string) error {
	p := w.pods[key]
	if p == nil || string(p.UID) != uid || p.Spec.NodeName != "" {
		return errConflict
	}
	p = p.DeepCopy()
	p.Spec.NodeName = node
	w.writePod(p)
	return nil
}

// tell delivers the oldest thing that the informers have not told yet.
func (w *truth) tell() {
	if len(w.untold) > 0 {
		next := w.untold[0]
		w.untold = w.untold[1:]
		next()
	}
}

// land carries out the i-th bind in flight, or loses it.
func (w *truth) land(i int, fails bool) {
	b := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	err := errConflict
	if !fails {
		err = w.bindPod(b.Key, b.UID, b.Node)
	}
	w.books.outcome(&Outcome{Bind: b, Err: err})
}

func (w *truth) decide() { w.flying = append(w.flying, w.books.decide(decision.CycleArrival)...) }

func (w *truth) settleAll() {
	for range 20 {
		for len(w.untold) > 0 {
			w.tell()
		}
		for len(w.flying) > 0 {
			w.land(0, false)
		}
		w.pass(pauseMost + pauseMost/4)
		w.books.resume()
		w.decide()
	}
}

// balanced fails when the books do not add up.
func (w *truth) balanced(step string) {
	w.Helper()
	if err := w.books.audit(); err != nil {
		w.Fatalf("after %s: %v", step, err)
	}
	if found, _ := w.audited(); len(found) > 0 {
		w.Fatalf("after %s: the ledger differs: %v", step, found)
	}
}

// equal fails when the books differ from what is written at the API server.
func (w *truth) equal() {
	w.Helper()
	for key, p := range w.pods {
		known := w.books.pods[key]
		onNode := p.Spec.NodeName != "" && w.nodes[p.Spec.NodeName] != nil
		switch {
		case known == nil && (p.Spec.NodeName != "" || p.Spec.SchedulerName == DefaultName):
			w.Errorf("pod %s is not in the books", key)
		case known == nil:
		case onNode && known.footing != charged:
			w.Errorf("pod %s is bound to %s, in the books its footing is %d", key, p.Spec.NodeName, known.footing)
		case onNode && known.node != p.Spec.NodeName:
			w.Errorf("pod %s is bound to %s, in the books to %q", key, p.Spec.NodeName, known.node)
		case !onNode && known.footing == charged:
			w.Errorf("pod %s holds nothing, in the books it is charged to %s", key, known.node)
		}
	}
	for key := range w.books.pods {
		if w.pods[key] == nil {
			w.Errorf("pod %s is gone, and in the books", key)
		}
	}
	if got, want := slices.Sorted(maps.Keys(w.books.nodes)), slices.Sorted(maps.Keys(w.nodes)); !reflect.DeepEqual(got, want) {
		w.Errorf("nodes %v in the books, %v in truth", got, want)
	}
}

// bound returns the pods by the node that they are bound to.
func (w *truth) bound() map[string][]string {
	out := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		if node := w.pods[key].Spec.NodeName; node != "" {
			out[node] = append(out[node], key)
		}
	}
	return out
}

// Whatever happens in whatever order, the books balance after every step, and in
// the end they equal what is written at the API server.
func TestBooksFollowTheTruth(t *testing.T) {
	for seed := range int64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w, r := newTruth(t), rand.New(rand.NewSource(seed))
			for i := range 4 {
				w.putNode(fmt.Sprint("node-", i), 8, 4, "", true)
			}
			for range 400 {
				w.balanced(step(w, r))
			}
			w.settleAll()
			w.balanced("settling")
			w.equal()
		})
	}
}

// step does one thing at random and says what.
func step(w *truth, r *rand.Rand) string {
	w.pass(time.Duration(r.Intn(300)) * time.Millisecond)
	node := fmt.Sprint("node-", r.Intn(5))
	pods := slices.Sorted(maps.Keys(w.pods))
	switch r.Intn(14) {
	case 0, 1, 2:
		w.createPod(fmt.Sprint("pod-", r.Intn(40)), DefaultName, 1+r.Intn(3), r.Intn(3))
		return "a pod"
	case 3:
		w.createPod(fmt.Sprint("pod-", r.Intn(40)), "other", 1+r.Intn(3), r.Intn(3))
		return "a pod of another scheduler"
	case 4:
		if len(pods) > 0 {
			w.deletePod(pods[r.Intn(len(pods))])
		}
		return "a deletion"
	case 5:
		if len(pods) > 0 {
			p := w.pods[pods[r.Intn(len(pods))]]
			_ = w.bindPod(facts.Key(p), string(p.UID), node)
		}
		return "a bind by another writer"
	case 6:
		w.putNode(node, 6+r.Intn(4), 3+r.Intn(3), []string{"", "taint"}[r.Intn(2)], r.Intn(4) > 0)
		return "a change of a node"
	case 7:
		if r.Intn(3) == 0 {
			w.deleteNode(node)
		}
		return "the end of a node"
	case 8:
		w.books.resume()
		w.decide()
		return "a cycle"
	case 9, 10:
		if len(w.flying) > 0 {
			w.land(r.Intn(len(w.flying)), r.Intn(4) == 0)
		}
		return "the end of a bind"
	}
	w.tell()
	return "a word from the informers"
}

// A pod that does not fit where it is bound closes the node, until it fits.
func TestOverdrawnNodeTakesNothing(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	for i := range 2 {
		w.createPod(fmt.Sprint("foreign-", i), "other", 1, 3)
	}
	w.createPod("ours", DefaultName, 1, 1)
	for i := range 2 {
		p := w.pods[fmt.Sprint("ns/foreign-", i)]
		if err := w.bindPod(facts.Key(p), string(p.UID), "n"); err != nil {
			t.Fatal(err)
		}
	}
	w.settleAll()
	if got := w.bound()["n"]; len(got) != 2 {
		t.Errorf("bound while overdrawn: %v, want the two foreign pods", got)
	}
	w.deletePod("ns/foreign-0")
	w.settleAll()
	if got := w.bound()["n"]; !slices.Equal(got, []string{"ns/foreign-1", "ns/ours"}) {
		t.Errorf("bound after one has left: %v, want foreign-1 and ours", got)
	}
}

// As in package world: a pod backs off as long after a first refusal, and so long at
// most, and up to a quarter longer.
const (
	pauseFirst = time.Second
	pauseMost  = 5 * time.Minute
)

// A refused bind makes its pod back off, twice as long each time.
func TestRefusedBindPauses(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createPod("p", DefaultName, 1, 1)
	w.tell()
	w.tell()
	for _, pause := range []time.Duration{pauseFirst, 2 * pauseFirst, 4 * pauseFirst} {
		w.decide()
		if len(w.flying) != 1 {
			t.Fatalf("before a pause of %v: %d binds, want 1", pause, len(w.flying))
		}
		w.land(0, true)
		w.pass(pause - time.Millisecond)
		w.books.resume()
		if w.decide(); len(w.flying) != 0 {
			t.Fatalf("within a pause of %v: %d binds, want none", pause, len(w.flying))
		}
		w.pass(pause/4 + time.Millisecond)
		w.books.resume()
	}
}

// A reason is told once, again when it is another one, and not at all to a pod
// that waits only a moment.
func TestRemarks(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createPod("p", DefaultName, 1, 5)
	w.tell()
	w.tell()
	w.decide()
	if got := w.books.remarks(); len(got) != 0 {
		t.Errorf("at once: %v, want nothing", got)
	}
	w.pass(DefaultBeat)
	got := w.books.remarks()
	if len(got) != 1 || got[0].Reason != corev1.PodReasonUnschedulable || !strings.Contains(got[0].Message, "needs 5 devices on one node, the largest node has 4") {
		t.Errorf("after a moment: %+v, want that 5 devices are needed and 4 are there", got)
	}
	if got := w.books.remarks(); len(got) != 0 {
		t.Errorf("again: %v, want nothing", got)
	}
	w.putNode("n", 8, 6, "taint", true)
	w.tell()
	w.decide()
	if got := w.books.remarks(); len(got) != 1 || !strings.Contains(got[0].Message, "taints") {
		t.Errorf("after a taint: %+v, want that the taint is named", got)
	}
}

// A node goes and comes back under its name while a bind to it is in flight, and
// the pod is decided on again. What becomes of the first bind says nothing about
// the second: its room stays taken until its own end is known.
func TestOutcomeOfAnEarlierBind(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 1, "", true)
	w.createPod("first", DefaultName, 1, 1)
	w.tell()
	w.tell()
	w.decide()
	w.deleteNode("n")
	w.putNode("n", 8, 1, "", true)
	w.tell()
	w.tell()
	w.decide()
	w.createPod("second", DefaultName, 1, 1)
	w.tell()
	w.decide()
	if len(w.flying) != 2 || w.flying[1].Key != "ns/first" {
		t.Fatalf("in flight: %v, want two binds of the first pod", w.flying)
	}
	w.land(0, true)
	w.decide()
	if len(w.flying) != 1 {
		t.Errorf("in flight after the end of the earlier bind: %v, want only the later one", w.flying)
	}
	w.settleAll()
	if got := w.bound()["n"]; !slices.Equal(got, []string{"ns/first"}) {
		t.Errorf("bound: %v, want the first pod alone", got)
	}
}

// A pod whose binds are refused again and again is told so, is set aside, and comes back
// when the node has changed.
func TestAlwaysRefusedIsSetAside(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createPod("p", DefaultName, 1, 1)
	w.tell()
	w.tell()
	for n := 1; ; n++ {
		if n > 20 {
			t.Fatal("it is tried for ever")
		}
		w.decide()
		if len(w.flying) == 0 {
			break
		}
		w.land(0, true)
		if said, _ := w.books.said(w.books.pods["ns/p"]); (said.sentence != "") != (n >= tellRefused) {
			t.Errorf("after %d refusals it is told %q", n, said.sentence)
		}
		if got := w.books.state(w.books.pods["ns/p"]); got != statePaused {
			t.Errorf("after %d refusals it is %s", n, got)
		}
		w.pass(pauseMost + pauseMost/4)
		w.books.resume()
	}
	said, _ := w.books.said(w.books.pods["ns/p"])
	if want := "set aside after 12 refused binds, the last on n; a change of the pod or of that node brings it back; waiting for a change: "; !strings.HasPrefix(said.sentence, want) {
		t.Errorf("it is told %q, want %q", said.sentence, want)
	}
	if got := verdictOf(w.books.pods["ns/p"], &said); got != explain.AfterChange {
		t.Errorf("the verdict is %v", got)
	}
	w.putNode("n", 16, 4, "", true)
	w.tell()
	if w.decide(); len(w.flying) != 1 {
		t.Errorf("the node has changed: %d binds, want 1", len(w.flying))
	}
}
