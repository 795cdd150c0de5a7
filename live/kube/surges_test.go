package kube

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// deployed creates a pod of a Deployment that allows surges, and says that it is ready.
func (m *mover) deployed(name string) {
	m.owned(name, "web-5d9f", 1, facts.Surge, "true")
	p := m.pods["ns/"+name]
	p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "apps/v1", "ReplicaSet"
	p.Labels = map[string]string{"pod-template-hash": "5d9f"}
}

// steps returns what is to be carried out, and reports it as done, or not.
func (m *mover) steps(err error) (out []SurgeStep) {
	for _, t := range m.books.takeSteps() {
		out = append(out, t.Step)
		m.books.surged(&SurgeOutcome{Pod: t.Pod.Key, Step: t.Step, Replicas: 1, Err: err})
	}
	return out
}

func (m *mover) want(what string, want ...SurgeStep) {
	m.Helper()
	got := m.steps(nil)
	if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
		m.Fatalf("%s: steps %v, want %v", what, got, want)
	}
	m.balanced(what)
}

// surge is a mover whose service is being replaced.
func surge(t *testing.T) *mover {
	m := newMover(t)
	m.scattered(func() {
		m.deployed("web-5d9f-old")
		m.settleAll()
		m.runs("web-5d9f-old")
		m.tellAll()
		m.pass(time.Hour)
	})
	m.review()
	if len(m.leaving) != 1 || len(m.leaving[0].Victims) != 0 || m.leaving[0].Holders[0].Key != "ns/wide" {
		t.Fatalf("evictions %+v, want none, and wide to hold the room", m.leaving)
	}
	m.carry(false)
	m.want("the decision", surgeLook)
	m.want("it is looked at", surgeUp)
	return m
}

// The Deployment is scaled up, the heir gets the place, and the old pod goes when the heir
// is ready: not before, and no other pod.
func TestServiceIsReplaced(t *testing.T) {
	m := surge(t)
	m.createPod("other", DefaultName, 1, 1)
	m.deployed("web-5d9f-new")
	m.review()
	if len(m.flying) != 1 || m.flying[0].Key != "ns/web-5d9f-new" {
		t.Fatalf("binds %+v, want that of the heir", m.flying)
	}
	m.land(0, false)
	m.review()
	m.want("it is bound")
	if kept := m.books.keeping(); len(kept.Surges) != 1 || kept.Surges[0].Heir.Key != "ns/web-5d9f-new" || kept.Surges[0].Replicas != 1 {
		t.Fatalf("kept %+v, want the surge with its heir", kept)
	}
	if kept := m.books.keeping(); len(kept.Moves) != 1 || len(kept.Rests) != 2 {
		t.Fatalf("kept %+v, want one move, and old and new at rest", kept)
	}
	m.books.stirred = false
	m.runs("web-5d9f-new")
	m.tellAll()
	if !m.books.stirred {
		t.Error("nobody thinks at once when the heir is ready")
	}
	m.decide() // and an arrival is enough
	m.want("it is ready", surgeDown)
	m.deletePod("ns/web-5d9f-old")
	m.review()
	m.books.followSurges()
	if len(m.flying) != 1 || m.flying[0].Key != "ns/wide" || len(m.books.surges) != 0 {
		t.Fatalf("binds %+v, surges %v, want that of wide, and none", m.flying, m.books.surges)
	}
	m.balanced("the end")
}

// What comes to nothing is taken back: as many as before, and the pod goes on.
func TestSurgeIsUndone(t *testing.T) {
	for name, fails := range map[string]func(*mover){
		"nobody comes": func(m *mover) { m.pass(6 * time.Minute); m.books.forgo() },
		"the heir is gone": func(m *mover) {
			m.deployed("web-5d9f-new")
			m.review()
			m.land(0, false)
			m.tellAll()
			m.deletePod("ns/web-5d9f-new")
			m.tellAll()
		},
		"nobody waits": func(m *mover) { m.deletePod("ns/wide"); m.tellAll(); m.books.forgo() },
		"the pod dies": func(m *mover) { m.deletePod("ns/web-5d9f-old"); m.tellAll() },
		"the heir is late": func(m *mover) {
			m.deployed("web-5d9f-new")
			m.review()
			m.land(0, false)
			m.tellAll()
			m.pass(16 * time.Minute)
			m.books.forgo()
		},
		"it is told to go": func(m *mover) {
			m.change("ns/web-5d9f-old", leaving(m))
			m.tellAll()
			m.deletePod("ns/web-5d9f-old")
			m.tellAll()
		},
		"the hold is broken": func(m *mover) { m.deleteNode("n1"); m.deleteNode("n2"); m.tellAll() },
	} {
		m := surge(t)
		fails(m)
		m.books.followSurges()
		m.want(name, surgeUndo)
		if len(m.books.surges) != 0 {
			t.Errorf("%s: surges %+v, want none", name, m.books.surges)
		}
	}
}

// A step that fails ends the surge, and what may have been written is taken back.
func TestSurgeFails(t *testing.T) {
	down := errors.New("the API server is down")
	m := newMover(t)
	m.scattered(func() { m.deployed("web-5d9f-old"); m.settleAll(); m.runs("web-5d9f-old"); m.tellAll() })
	m.review()
	if got := m.steps(down); len(got) != 1 || len(m.books.surges) != 0 || len(m.books.world.View().Legacies()) != 0 {
		t.Fatalf("after a failed look: steps %v, surges %v", got, m.books.surges)
	}
	m.balanced("a failed look")

	m = surge(t)
	m.deployed("web-5d9f-new")
	m.review()
	m.land(0, false)
	m.runs("web-5d9f-new")
	m.review()
	if got := m.steps(down); len(got) != 1 || got[0] != surgeDown {
		t.Fatalf("steps %v, want down", got)
	}
	if p := m.books.pods["ns/web-5d9f-old"]; p.leaving || p.evicting {
		t.Error("the pod counts as leaving, though it was not told to go")
	}
	m.want("a failed step down", surgeUndo)
}

// A new instance takes back a surge that is on its way up, and goes on with one that is on
// its way down.
func TestSurgesAreRecalled(t *testing.T) {
	for step, want := range map[SurgeStep]SurgeStep{surgeUp: surgeUndo, surgeDown: surgeDown, surgeUndo: surgeUndo} {
		m := newMover(t)
		m.books.recalled = &Kept{Surges: []Surge{{Namespace: "ns", Deployment: "web", Pod: Ref{Key: "ns/old", UID: "1"}, Replicas: 3, Step: step}}}
		m.books.recallHeirs()
		due := m.books.takeSteps()
		if len(due) != 1 || due[0].Step != want || due[0].Replicas != 3 || due[0].Deployment != "web" {
			t.Errorf("%s: steps %+v, want %s", step, due, want)
		}
	}
}

// leaving tells a pod to go.
func leaving(m *mover) func(*corev1.Pod) {
	return func(p *corev1.Pod) { now := metav1.NewTime(m.now); p.DeletionTimestamp = &now }
}
