package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// audited compares the books with what is written at the API server.
func (w *truth) audited() ([]Difference, map[string]string) {
	l := w.books.ledger(DefaultGPU)
	l.heard = w.heard.copied()
	return auditLedger(l, slices.Collect(maps.Values(w.nodes)), slices.Collect(maps.Values(w.pods)), func(p *corev1.Pod) bool { return p.Spec.SchedulerName == DefaultName }, DefaultGPU)
}

// twoBound returns a node with a bound pod, one that waits, and one whose bind
// the informers have not told of.
func twoBound(t *testing.T) *truth {
	w := newTruth(t)
	w.putNode("n", 8, 2, "", true)
	w.createPod("bound", DefaultName, 1, 1)
	w.settleAll()
	w.createPod("fresh", DefaultName, 1, 1)
	w.tell()
	w.decide()
	w.land(0, false)
	w.createPod("waits", DefaultName, 1, 2)
	w.untold[0], w.untold[1] = w.untold[1], w.untold[0]
	w.tell()
	w.decide()
	return w
}

// Sound books show no difference, also while a bind is not told of yet.
func TestAuditSound(t *testing.T) {
	w := twoBound(t)
	found, transit := w.audited()
	if len(found) > 0 {
		t.Errorf("differences %v, want none", found)
	}
	if len(transit) != 1 || transit["pod ns/fresh"] == "" {
		t.Errorf("on their way are %v, want only the fresh pod", transit)
	}
	if again, _ := overdue(transit, transit); len(again) != 1 || again[0].Pod != "ns/fresh" {
		t.Errorf("overdue after the same again: %v, want the fresh pod", again)
	}
	if again, _ := overdue(map[string]string{"pod ns/fresh": "1 to 2"}, transit); len(again) != 0 {
		t.Errorf("overdue after another way: %v, want nothing", again)
	}
}

// Every kind of fault in the books, or in the truth as it were, is found.
func TestAuditFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(w *truth)
		want  []string
	}{
		{"a pod nobody told of, said to be told", func(w *truth) {
			w.createPod("new", DefaultName, 1, 0)
			w.untold = nil
			w.heard.pods["ns/new"] = w.pods["ns/new"].ResourceVersion
		}, []string{"pod ns/new: it is not in the ledger"}},
		{"a pod that has gone", func(w *truth) {
			delete(w.pods, "ns/bound")
			delete(w.heard.pods, "ns/bound")
		}, []string{"pod ns/bound: it is in the ledger as bound and gone", "node n: free cpu is 7000, in the ledger 6000", "node n: free nvidia.com/gpu is 1, in the ledger 0", "node n: free pods is 19, in the ledger 18"}},
		{"a pod that is bound elsewhere", func(w *truth) { w.pods["ns/bound"].Spec.NodeName = "gone" }, []string{`pod ns/bound: its node gone is gone, in the ledger it is at n`}},
		{"a pod that is not bound", func(w *truth) { w.pods["ns/bound"].Spec.NodeName = "" }, []string{"pod ns/bound: it is bound nowhere, in the ledger to n"}},
		{"a waiting pod that is bound", func(w *truth) { w.pods["ns/waits"].Spec.NodeName = "n" }, []string{`pod ns/waits: it is bound to n, in the ledger it is waiting at ""`}},
		{"another pod of the name", func(w *truth) { w.books.pods["ns/waits"].seen.UID = "other" }, []string{"pod ns/waits: its UID is uid-3, in the ledger other"}},
		{"a pod that is forgotten", func(w *truth) {
			p := w.books.pods["ns/waits"]
			w.books.drop("ns/waits", p)
		}, []string{"pod ns/waits: it neither waits nor holds anything in the ledger"}},
		{"a pod of another scheduler", func(w *truth) { w.pods["ns/waits"].Spec.SchedulerName = "other" }, []string{"pod ns/waits: it does not wait for this scheduler, in the ledger it is waiting"}},
		{"a finished pod", func(w *truth) { w.pods["ns/waits"].Status.Phase = corev1.PodFailed }, []string{"pod ns/waits: it has finished, in the ledger it is waiting"}},
		{"a node of another size", func(w *truth) {
			w.nodes["n"].Status.Allocatable["example.com/fpga"] = w.nodes["n"].Status.Allocatable["pods"]
		}, []string{"node n: free example.com/fpga is 20, in the ledger 0"}},
		{"a node that is not booked", func(w *truth) {
			w.putNode("m", 1, 0, "", true)
			w.untold = nil
			w.heard.nodes["m"] = w.nodes["m"].ResourceVersion
		}, []string{"node m: it is not in the ledger"}},
		{"a node that has gone", func(w *truth) {
			w.deleteNode("n")
			delete(w.heard.nodes, "n")
		}, []string{"node n: it is in the ledger and gone", "pod ns/bound: its node n is gone, in the ledger it is at n", "pod ns/fresh: its node n is gone, in the ledger it is at n"}},
	} {
		w := twoBound(t)
		for len(w.untold) > 0 {
			w.tell()
		}
		c.fault(w)
		found, _ := w.audited()
		var got []string
		for _, d := range found {
			got = append(got, d.String())
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n  %s\nwant\n  %s", c.name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

// Of a bind that was carried out and that nobody told of between two audits the
// API server is asked: it is a difference when the pod is not where the ledger has
// it. One in flight is none.
func TestAuditUnheardBind(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 2, "", true)
	w.createPod("p", DefaultName, 1, 1)
	w.tell()
	w.tell()
	w.decide()
	if _, flying := w.audited(); len(flying) != 1 {
		t.Errorf("on its way: %v, want the bind", flying)
	} else if found, binds := overdue(flying, flying); len(found)+len(binds) != 0 {
		t.Errorf("in flight: overdue %v and binds of %v, want nothing", found, binds)
	}
	w.books.outcome(&Outcome{Bind: w.flying[0]})
	_, done := w.audited()
	found, binds := overdue(done, done)
	if len(found) != 0 || !slices.Equal(binds, []string{"ns/p"}) {
		t.Fatalf("carried out: overdue %v and binds of %v, want the bind of the pod", found, binds)
	}
	script := &scripted{}
	a := auditor{Scheduler: schedulerAt(t, script)}
	l := w.books.ledger(DefaultGPU)
	l.Pods[0].UID = "uid" // of the scripted pod
	if got := a.unheard(t.Context(), l, binds); len(got) != 1 || !strings.Contains(got[0].Says, "its bind to n was carried out") {
		t.Errorf("the pod is not bound: %v, want that said", got)
	}
	script.node = "n"
	if got := a.unheard(t.Context(), l, binds); len(got) != 0 {
		t.Errorf("the pod is bound where it should be: %v, want nothing", got)
	}
}
