package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// mover stands in for the API server where pods move.
type mover struct{ *evictor }

func newMover(t *testing.T) *mover {
	m := &mover{&evictor{truth: newTruth(t)}}
	rules, err := TidyNamed("waiting", true)
	if err != nil {
		t.Fatal(err)
	}
	m.books.turns[0].Policy = engine.Headrace().Preempting().Tidying(rules)
	return m
}

// review decides about everything.
func (m *mover) review() {
	m.tellAll()
	m.flying = append(m.flying, m.books.decide(decision.CycleReview)...)
	m.leaving = append(m.leaving, m.books.takeEvictions()...)
}

// owned creates a pod of a Job, or a Deployment that may be scaled.
func (m *mover) owned(name, owner string, gpus int, notes ...string) {
	m.createPod(name, DefaultName, 1, gpus)
	p := m.pods["ns/"+name]
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: owner, UID: "uid-of-" + "job", Controller: &yes}}
	p.Annotations = make(map[string]string)
	for i := 0; i+1 < len(notes); i += 2 {
		p.Annotations[notes[i]] = notes[i+1]
	}
}

// runs tells that a bound pod runs.
func (m *mover) runs(name string) {
	m.change("ns/"+name, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

// scattered puts two nodes of two cards there, with one pod each: a, and the other one.
func (m *mover) scattered(other func()) {
	m.putNode("n1", 16, 2, "", true)
	m.putNode("n2", 16, 2, "", true)
	m.createPod("fill", DefaultName, 1, 2)
	m.settleAll()
	m.createPod("a", DefaultName, 1, 1)
	m.createPod("b", DefaultName, 1, 1)
	m.settleAll()
	m.deletePod("ns/fill")
	m.tellAll()
	other()
	m.settleAll()
	m.deletePod("ns/b")
	m.tellAll()
	for _, pods := range m.bound() {
		if len(pods) != 1 {
			m.Fatalf("bound: %v, want one on each node", m.bound())
		}
	}
	m.createPod("wide", DefaultName, 1, 2)
	m.tellAll()
}

// A pod that its owner makes anew moves: its place is written down before it is told to
// go, nobody else gets it, and its heir does, whatever its name.
func TestHeirGetsThePlace(t *testing.T) {
	m := newMover(t)
	m.scattered(func() { m.owned("job-x1", "job", 1) })
	m.review()
	if len(m.leaving) != 1 || m.leaving[0].Victims[0].Key != "ns/job-x1" || m.leaving[0].Keep == nil || len(m.leaving[0].Keep.Legacies) != 1 {
		t.Fatalf("evictions %+v, want that of ns/job-x1 with its place", m.leaving)
	}
	from, to := m.leaving[0].Node, m.leaving[0].Keep.Legacies[0].Place.Node
	if from == to || m.leaving[0].Holders[0].Key != "ns/wide" {
		t.Fatalf("from %s to %s for %+v", from, to, m.leaving[0].Holders)
	}
	m.balanced("the decision")
	m.carry(false)
	m.createPod("other", DefaultName, 1, 1)
	m.review()
	m.balanced("while it leaves")
	m.deletePod("ns/job-x1")
	m.review()
	m.balanced("after it has left")
	if len(m.flying) != 1 || m.flying[0].Key != "ns/wide" || m.flying[0].Node != from {
		t.Fatalf("binds %+v, want that of wide alone", m.flying)
	}
	m.owned("job-x2", "job", 1)
	m.review()
	if len(m.flying) != 2 || m.flying[1].Key != "ns/job-x2" || m.flying[1].Node != to {
		t.Fatalf("binds %+v, want that of job-x2 on %s", m.flying, to)
	}
	m.finishAll()
	m.balanced("all is bound")
	if kept := m.books.keeping(); len(kept.Legacies) != 0 {
		t.Errorf("kept still: %+v", kept)
	}
}

// What nobody comes for is given up, and whoever waits gets it.
func TestHeirThatNeverComes(t *testing.T) {
	m := newMover(t)
	m.scattered(func() { m.owned("job-x1", "job", 1) })
	m.review()
	m.carry(false)
	m.deletePod("ns/job-x1")
	m.createPod("other", DefaultName, 1, 1)
	m.review()
	m.pass(time.Minute)
	m.books.forgo()
	if m.review(); len(m.flying) != 1 {
		t.Fatalf("binds %+v, want that of wide alone", m.flying)
	}
	m.pass(time.Minute + time.Second)
	m.books.forgo()
	if m.review(); len(m.flying) != 2 || m.flying[1].Key != "ns/other" {
		t.Fatalf("binds %+v, want that of other, too", m.flying)
	}
	m.balanced("it is given up")
}

// A pod that nobody makes anew stays; so does one that would lose work.
func TestWhoStays(t *testing.T) {
	for name, other := range map[string]func(*mover){
		"without an owner": func(m *mover) { m.createPod("x", DefaultName, 1, 1) },
		"with work to lose": func(m *mover) {
			m.owned("x", "job", 1)
			m.settleAll()
			m.runs("x")
			m.tellAll()
			m.pass(time.Hour)
		},
	} {
		m := newMover(t)
		m.scattered(func() { other(m) })
		m.review()
		if len(m.leaving) != 0 {
			t.Errorf("%s: evictions %+v, want none", name, m.leaving)
		}
	}
}

// An eviction that is refused, or a place that cannot be written down, leaves all as it
// was.
func TestMoveRefused(t *testing.T) {
	m := newMover(t)
	m.scattered(func() { m.owned("job-x1", "job", 1) })
	m.review()
	m.carry(true)
	m.tellAll()
	if got := m.books.world.View().Legacies(); len(got) != 0 {
		t.Errorf("kept: %+v, want nothing", got)
	}
	m.balanced("the refusal")
}

// A new instance keeps on what was written down, for as long as an heir may take: of a pod
// that has left, or is leaving, and not of one that was not told to go.
func TestHeirsAreRecalled(t *testing.T) {
	for name, step := range map[string]func(*mover) (kept int){
		"not told to go": func(*mover) int { return 0 },
		"leaving":        func(m *mover) int { m.carry(false); return 1 },
		"gone":           func(m *mover) int { m.carry(false); m.deletePod("ns/job-x1"); return 1 },
	} {
		m := newMover(t)
		m.scattered(func() { m.owned("job-x1", "job", 1) })
		m.review()
		written := m.leaving[0].Keep
		want := step(m)
		m.tellAll()

		next := newMover(t)
		next.pass(m.now.Sub(next.now))
		for _, n := range m.nodes { // order: each is told by itself
			next.writeNode(n)
		}
		for _, p := range m.pods { // order: each is told by itself
			next.writePod(p)
		}
		next.tellAll()
		next.books.recalled = written
		next.books.recallHeirs()
		got := next.books.world.View().Legacies()
		if len(got) != want {
			t.Fatalf("%s: kept %+v, want %d", name, got, want)
		}
		if n := next.books.world.View().MovedSince(next.books.instant(), moment.Hour); n != 1 {
			t.Errorf("%s: %d pods have moved, want one", name, n)
		}
		if v := next.books.world.View(); want == 1 && (got[0].Until == moment.Never || v.Node(got[0].Place.Node).Spec.Name != written.Legacies[0].Place.Node) {
			t.Errorf("%s: kept %+v, want on %s", name, got[0], written.Legacies[0].Place.Node)
		}
		next.balanced(name)
	}
}

// Who is the owner of a pod, and whose Deployment may be scaled.
func TestSuccession(t *testing.T) {
	m := newMover(t)
	m.owned("x", "web-5d9f", 1)
	p := m.pods["ns/x"]
	if f := facts.PodOf(p, DefaultName, DefaultGPU); f.Added.Owner != "uid-of-job" || f.Added.Surges {
		t.Errorf("a Job's pod: owner %q, surges %v", f.Added.Owner, f.Added.Surges)
	}
	p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "apps/v1", "ReplicaSet"
	p.Labels = map[string]string{"pod-template-hash": "5d9f"}
	p.Annotations[facts.Surge] = "true"
	if f := facts.PodOf(p, DefaultName, DefaultGPU); !f.Added.Surges {
		t.Error("a Deployment's pod with the annotation does not surge")
	}
	if _, name, ok := facts.DeploymentOf(p); !ok || name != "web" {
		t.Errorf("the Deployment is %q, known: %v, want web", name, ok)
	}
	p.Labels = map[string]string{"pod-template-hash": "other"}
	if f := facts.PodOf(p, DefaultName, DefaultGPU); f.Added.Surges {
		t.Error("a ReplicaSet of nobody surges")
	}
}
