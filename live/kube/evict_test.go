package kube

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/engine"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// evictor stands in for the API server where pods give way.
type evictor struct {
	*truth
	leaving []Eviction
}

func newEvictor(t *testing.T) *evictor {
	e := &evictor{truth: newTruth(t)}
	e.books.turns[0].Policy = engine.Headrace().Preempting()
	return e
}

// think decides, and gathers what is to be carried out.
func (e *evictor) think() {
	e.decide()
	e.leaving = append(e.leaving, e.books.takeEvictions()...)
}

// change writes a pod anew.
func (e *evictor) change(key string, how func(*corev1.Pod)) {
	p := e.pods[key].DeepCopy()
	how(p)
	e.writePod(p)
}

func (e *evictor) pod(name string, priority int32, gpus int) {
	e.createPod(name, DefaultName, 1, gpus)
	e.pods["ns/"+name].Spec.Priority = &priority
}

// finishAll carries out all that is under way: evicted pods are gone, binds have landed.
func (e *evictor) finishAll() {
	e.Helper()
	e.tellAll()
	for len(e.leaving) > 0 {
		e.carry(false)
	}
	for _, key := range slices.Sorted(maps.Keys(e.pods)) {
		if e.pods[key].DeletionTimestamp != nil {
			e.deletePod(key)
		}
	}
	e.tellAll()
	for len(e.flying) > 0 {
		e.land(0, false)
	}
}

// carry carries out the oldest eviction: the node is written, and each victim is
// told to go, or refused.
func (e *evictor) carry(refuse bool) {
	next := e.leaving[0]
	e.leaving = e.leaving[1:]
	held := len(next.Holders) == 0
	for _, h := range next.Holders {
		if p := e.pods[h.Key]; p != nil && string(p.UID) == h.UID {
			e.change(h.Key, func(p *corev1.Pod) { p.Status.NominatedNodeName = next.Node })
			held = true
		}
	}
	for _, v := range next.Victims {
		out := EvictOutcome{Victim: v}
		p := e.pods[v.Key]
		switch here := p != nil && string(p.UID) == v.UID; {
		case refuse || !held:
			out.Err = errConflict
		case here && p.DeletionTimestamp == nil:
			e.change(v.Key, func(p *corev1.Pod) { now := metav1.NewTime(e.now); p.DeletionTimestamp = &now })
		}
		e.books.evicted(&out)
	}
}

func (e *evictor) tellAll() {
	for len(e.untold) > 0 {
		e.tell()
	}
}

// fill puts a node there with low pods that hold all of it.
func (e *evictor) fill(names ...string) {
	e.putNode("n", 16, 2*len(names), "", true)
	for _, name := range names {
		e.pod(name, 0, 2)
	}
	e.settleAll()
	if got := len(e.bound()["n"]); got != len(names) {
		e.Fatalf("%d pods are bound, want %d", got, len(names))
	}
}

// A pod of high priority holds the room of the lower one until that has left, and
// nobody else gets it in between.
func TestHolderGetsTheRoom(t *testing.T) {
	e := newEvictor(t)
	e.fill("low-0", "low-1")
	e.pod("high", 10, 3)
	e.tellAll()
	e.think()
	if len(e.flying) != 0 || len(e.leaving) != 1 || len(e.leaving[0].Victims) != 2 || e.leaving[0].Holders[0].Key != "ns/high" || e.leaving[0].Node != "n" {
		t.Fatalf("%d binds and evictions %+v, want two victims for ns/high on n", len(e.flying), e.leaving)
	}
	e.carry(false)
	e.pod("late", 10, 2)
	e.tellAll()
	for _, gone := range []string{"ns/low-0", "ns/low-1"} {
		e.think()
		if len(e.flying) != 0 || len(e.leaving) != 0 {
			t.Fatalf("while %s is there: binds %+v and evictions %+v, want none", gone, e.flying, e.leaving)
		}
		e.balanced("a stage")
		e.deletePod(gone)
		e.tellAll()
	}
	e.think()
	if len(e.flying) != 1 || e.flying[0].Key != "ns/high" || e.flying[0].Node != "n" {
		t.Fatalf("binds %+v, want that of high", e.flying)
	}
	e.settleAll()
	e.equal()
	if got := e.bound()["n"]; !slices.Equal(got, []string{"ns/high"}) {
		t.Errorf("bound %v, want high alone", got)
	}
}

// A pod that has room on the node where others give way does not wait for them.
func TestRoomBesideAnEviction(t *testing.T) {
	e := newEvictor(t)
	e.fill("low")
	e.pod("high", 10, 2)
	e.pod("beside", 0, 0)
	e.tellAll()
	e.think()
	if len(e.flying) != 1 || e.flying[0].Key != "ns/beside" {
		t.Errorf("binds %+v, want that of beside", e.flying)
	}
	if len(e.leaving) != 1 || len(e.leaving[0].Holders) != 1 || e.leaving[0].Holders[0].Key != "ns/high" {
		t.Errorf("evictions %+v, want one for high alone", e.leaving)
	}
	e.balanced("the cycle")
}

// A refused eviction leaves everything as it was, and the pod pauses before it
// tries again.
func TestRefusedEviction(t *testing.T) {
	e := newEvictor(t)
	e.fill("low")
	e.change("ns/low", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	e.pod("high", 10, 1)
	e.tellAll()
	e.think()
	e.carry(true)
	e.tellAll()
	e.think()
	e.balanced("the refusal")
	if low := e.books.pods["ns/low"]; low.footing != charged || !low.running || low.evicting || low.leaving {
		t.Errorf("low is %+v, want it to run on", low)
	}
	if len(e.leaving) != 1 || e.leaving[0].Node != "" || len(e.leaving[0].Victims) != 0 {
		t.Fatalf("evictions %+v, want the node on high taken back", e.leaving)
	}
	e.carry(false)
	e.tellAll()
	e.pass(pauseFirst + pauseFirst/4)
	e.books.resume()
	e.think()
	if len(e.leaving) != 1 || len(e.leaving[0].Victims) != 1 {
		t.Errorf("after the pause: evictions %+v, want another try", e.leaving)
	}
}

// When who was to have the room is gone, others have it.
func TestHolderVanishes(t *testing.T) {
	e := newEvictor(t)
	e.fill("low")
	e.pod("high", 10, 2)
	e.tellAll()
	e.think()
	e.carry(false)
	e.deletePod("ns/high")
	e.pod("other", 0, 2)
	e.tellAll()
	e.deletePod("ns/low")
	e.tellAll()
	e.settleAll()
	e.equal()
	if got := e.bound()["n"]; !slices.Equal(got, []string{"ns/other"}) {
		t.Errorf("bound %v, want other", got)
	}
	if len(e.books.holds) != 0 {
		t.Errorf("holds %v, want none", e.books.holds)
	}
}

// A new instance goes on where the old one stopped: a pod with a node written on
// it gets the room there, before others that wait.
func TestPromiseAfterRestart(t *testing.T) {
	for _, stage := range []string{"leaving", "left"} {
		t.Run(stage, func(t *testing.T) {
			e := newEvictor(t)
			e.fill("low")
			e.pod("early", 10, 2)
			e.pod("late", 10, 2)
			before := metav1.NewTime(e.now.Add(-time.Hour))
			e.pods["ns/early"].CreationTimestamp = before // its turn would be first
			e.change("ns/late", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })
			e.change("ns/low", func(p *corev1.Pod) { p.DeletionTimestamp = &before })
			if stage == "left" {
				delete(e.pods, "ns/low")
			}
			e.books = newBooks(engine.Headrace().Preempting(), slog.New(slog.DiscardHandler))
			e.pass(0)
			e.untold = nil
			for _, key := range slices.Sorted(maps.Keys(e.pods)) {
				e.writePod(e.pods[key])
			}
			e.putNode("n", 16, 2, "", true)
			e.tellAll()
			e.think()
			e.balanced("the restart")
			if stage == "leaving" {
				if len(e.flying) != 0 || len(e.leaving) != 0 {
					t.Fatalf("while low leaves: binds %+v, evictions %+v; want none", e.flying, e.leaving)
				}
				e.deletePod("ns/low")
				e.tellAll()
				e.think()
			}
			if len(e.flying) != 1 || e.flying[0].Key != "ns/late" {
				t.Errorf("binds %+v, want that of late", e.flying)
			}
		})
	}
}

// A budget without evictions left keeps its pods, and the reason says so; pods
// that have not started are not guarded.
func TestBudgetKeepsPods(t *testing.T) {
	budget := func(left int32) facts.Budget {
		p := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}
		p.Status.DisruptionsAllowed = left
		return facts.BudgetOf(p)
	}
	e := newEvictor(t)
	e.fill("low")
	e.change("ns/low", func(p *corev1.Pod) { p.Status.Phase, p.Labels = corev1.PodRunning, map[string]string{"app": "web"} })
	e.books.budgetSeen(budget(0))
	e.pod("high", 10, 1)
	e.tellAll()
	e.think()
	if len(e.leaving) != 0 {
		t.Fatalf("evictions %+v, want none", e.leaving)
	}
	e.pass(DefaultBeat)
	if got := e.books.remarks(); len(got) != 1 || !strings.Contains(got[0].Message, "budgets and protection keep them") {
		t.Errorf("remarks %+v, want that budgets keep the others", got)
	}
	e.books.budgetSeen(budget(1))
	e.think()
	if len(e.leaving) != 1 {
		t.Errorf("with one left: evictions %+v, want one", e.leaving)
	}
}

// Whatever happens in whatever order, the books balance, and in the end nobody
// holds room that others were to leave.
func TestEvictionsFollowTheTruth(t *testing.T) {
	evictions, held := 0, 0
	for seed := range int64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			e, r := newEvictor(t), rand.New(rand.NewSource(seed))
			path := filepath.Join(t.TempDir(), "j")
			var err error
			if e.books.record, err = record(path, DefaultRecordLimit, e.books.turns[0].Policy); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				e.putNode(fmt.Sprint("node-", i), 8, 4, "", true)
			}
			for range 500 {
				what := "an eviction"
				switch r.Intn(8) {
				case 0:
					name := fmt.Sprint("pod-", r.Intn(40))
					if e.pods["ns/"+name] == nil {
						e.pod(name, int32(r.Intn(3)*10), r.Intn(4))
					}
				case 1:
					if len(e.leaving) > 0 {
						evictions += len(e.leaving[0].Victims)
						e.carry(r.Intn(4) == 0)
					}
				case 2:
					for _, key := range slices.Sorted(maps.Keys(e.pods)) {
						if e.pods[key].DeletionTimestamp != nil {
							e.deletePod(key)
							break
						}
					}
				case 3:
					for _, key := range slices.Sorted(maps.Keys(e.pods)) {
						if p := e.pods[key]; p.Spec.NodeName != "" && p.Status.Phase == "" && r.Intn(4) == 0 {
							e.change(key, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
						}
					}
				default:
					what = step(e.truth, r)
				}
				e.leaving = append(e.leaving, e.books.takeEvictions()...)
				held += len(e.books.holds)
				e.balanced(what)
			}
			for range 50 {
				e.finishAll()
				e.pass(pauseMost + pauseMost/4)
				e.books.resume()
				e.think()
			}
			e.tellAll()
			e.balanced("settling")
			e.equal()
			if err := e.books.record.end(); err != nil {
				t.Fatal(err)
			}
			if got := replayed(t, path); got.Differing != 0 || got.Cycles != int(e.books.cycle) {
				t.Errorf("replayed to %+v, want %d cycles and no difference", got, e.books.cycle)
			}
			if len(e.books.holds) != 0 || len(e.leaving) != 0 {
				t.Errorf("in the end holds %v, evictions %v; want none", e.books.holds, e.leaving)
			}
		})
	}
	if evictions == 0 || held == 0 {
		t.Errorf("%d evictions, %d holds: nothing was shown", evictions, held)
	}
}
