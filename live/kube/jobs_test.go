package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// createNoted creates a pod with annotations.
func (w *truth) createNoted(name string, gpus int, notes ...string) {
	w.createPod(name, DefaultName, 1, gpus)
	p := w.pods["ns/"+name].DeepCopy()
	p.CreationTimestamp = metav1.NewTime(w.now)
	p.Annotations = make(map[string]string)
	for i := 0; i < len(notes); i += 2 {
		p.Annotations[notes[i]] = notes[i+1]
	}
	w.untold = w.untold[:len(w.untold)-1]
	w.writePod(p)
}

func (w *truth) saysOf(name, want string) {
	w.Helper()
	w.tellAll()
	w.decide()
	if said, _ := w.books.said(w.books.pods["ns/"+name]); !strings.Contains(said.sentence, want) || want == "" && said.sentence != "" {
		w.Fatalf("pod %s says %q, want %q", name, said.sentence, want)
	}
}

// landAll lets all binds in flight be carried out.
func (w *truth) landAll() {
	for len(w.flying) > 0 {
		w.land(0, false)
	}
	w.tellAll()
}

// complains returns the complaints that were made since it was last asked.
func (w *truth) complains() (out []string) {
	for _, c := range w.books.takeComplaints() {
		out = append(out, c.key+" "+c.reason+": "+c.says)
	}
	return out
}

// Work waits for work of a name until the API server says how that ended; what failed
// holds it back for good, until it is submitted again.
func TestWorkComesAfterWork(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createNoted("b", 1, facts.AfterWork, "a")
	w.saysOf("b", "waits for the success of job ns/a, which does not exist yet")
	w.createNoted("a", 1)
	w.saysOf("b", "waits for the success of job ns/a; waiting for a change")
	w.landAll()
	if got := w.books.awaited(); fmt.Sprint(got) != "[ns/a]" {
		t.Fatalf("to be looked at: %v", got)
	}
	if got := w.books.awaited(); len(got) > 0 {
		t.Fatalf("looked at again at once: %v", got)
	}
	w.deletePod("ns/a") // or finished: that looks alike
	w.saysOf("b", "waits for the success of job ns/a")
	if got := w.books.awaited(); fmt.Sprint(got) != "[ns/a]" {
		t.Fatalf("gone, to be looked at: %v", got)
	}
	w.pass(time.Minute)
	w.books.workSeen("ns/a", facts.WorkFailed, 0, 0)
	w.saysOf("b", "waits for the success of job ns/a, which has failed; never, unless that is submitted again")
	w.pass(time.Minute)
	w.createNoted("a", 1)
	w.saysOf("b", "waits for the success of job ns/a; waiting for a change")
	w.landAll()
	w.books.workSeen("ns/a", facts.WorkThere, 0, 0)
	w.saysOf("b", "waits for the success of job ns/a")
	w.pass(time.Minute)
	w.books.workSeen("ns/a", facts.WorkDone, w.books.instant()-5, w.books.instant())
	w.saysOf("b", "")
	if w.books.pods["ns/b"].footing != placing {
		t.Errorf("b is not placed")
	}
	if err := w.books.audit(); err != nil {
		t.Error(err)
	}
}

// A circle is not followed: its pods are held back and name it, until it is broken.
func TestCirclesOfWork(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createNoted("a", 1, facts.AfterWork, "b")
	w.createNoted("b", 1, facts.AfterWork, "c")
	w.createNoted("c", 1, facts.AfterWork, "a")
	w.saysOf("c", "annotation headrace.dev/after: job ns/c: after job ns/a: they would wait for each other: ns/c after ns/a after ns/b after ns/c")
	if got := w.complains(); len(got) != 1 || !strings.HasPrefix(got[0], "ns/c AfterRefused: annotation headrace.dev/after:") {
		t.Errorf("complaints: %q", got)
	}
	if w.books.pods["ns/c"].footing != outside {
		t.Errorf("c is in line")
	}
	p := w.pods["ns/b"].DeepCopy()
	delete(p.Annotations, facts.AfterWork)
	w.writePod(p)
	w.saysOf("c", "waits for the success of job ns/a")
	w.saysOf("b", "")
	if err := w.books.audit(); err != nil {
		t.Error(err)
	}
}

// What cannot be meant is said with the value and what is allowed; a deadline that cannot
// be met is said once, whether the pod waits or is placed.
func TestWordsAboutTimes(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 1, "", true)
	soon := w.now.Add(time.Hour).UTC().Format(time.RFC3339)
	w.createNoted("odd", 0, facts.SLAClass, "gold", facts.AfterWork, "a=sometime")
	w.createNoted("late", 1, facts.DeadlineAt, soon, facts.ExpectedDuration, "2h")
	w.createNoted("later", 1, facts.DeadlineAt, soon, facts.ExpectedDuration, "3h")
	w.tellAll()
	w.decide()
	w.decide()
	all := strings.Join(w.complains(), "\n")
	for _, want := range []string{
		`ns/odd AnnotationIgnored: annotation headrace.dev/after: "a=sometime": must be names of jobs`,
		`ns/odd AnnotationIgnored: headrace.dev/sla-class: "gold": must be one of always-on, batch, interactive, patient, standard; it is ignored`,
		`ns/late DeadlineCannotBeMet: annotation headrace.dev/deadline: its deadline ` + soon + ` cannot be met, the earliest end is`,
		`ns/later DeadlineCannotBeMet: `,
	} {
		if strings.Count(all, want) != 1 {
			t.Errorf("complaints do not have %q once:\n%s", want, all)
		}
	}
}

// Pods of a Job are one job: its SLA class is theirs, the oldest checkpoint counts.
func TestPodsOfAJobAreOne(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	yes := true
	for i := range 3 {
		name := fmt.Sprint("w-", i)
		w.createNoted(name, 1, facts.SLAClass, "patient", facts.CheckpointedAt, w.now.Add(-time.Duration(i)*time.Hour).UTC().Format(time.RFC3339))
		w.pods["ns/"+name].OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", Controller: &yes}}
	}
	w.tellAll()
	v := w.books.world.View()
	id, _ := w.books.world.Job("ns/train")
	if j := v.Job(id); !j.Known || j.Members != 3 || j.Checkpoint.Last != moment.Instant(w.now.Add(-2*time.Hour).UnixMicro()) {
		t.Errorf("job: %+v", j)
	}
	pod, _ := w.books.world.Pod("ns/w-1")
	if got := v.Symbols.Text(v.Pod(pod).Spec.SLA); got != "patient" {
		t.Errorf("class %q", got)
	}
	for i := range 3 {
		w.deletePod("ns/" + fmt.Sprint("w-", i))
	}
	w.tellAll()
	if id, named := w.books.world.Job("ns/train"); named && w.books.world.View().Job(id).Known || len(w.books.works) > 0 {
		t.Errorf("the job is still known, works %v", w.books.works)
	}
}

// How work stands is asked of the Job of its name, else of the pods that are part of it.
func TestLookAtWork(t *testing.T) {
	client := fake.NewClientset(
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "done"}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "failed"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}},
	)
	s := New(Config{Client: client})
	for name, want := range map[string]facts.Work{"ns/done": facts.WorkDone, "ns/failed": facts.WorkFailed, "ns/there": facts.WorkThere, "other/there": facts.WorkUnknown} {
		if got, _, _, err := s.lookAtWork(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, want)
		}
	}
}

// Runs that end by themselves are learned from, by template; with how work ended that is
// kept, and the next instance has it.
func TestRunTimesAreLearned(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createNoted("waits", 0, facts.AfterWork, "other")
	run := func(name string, took time.Duration, deleted bool) {
		w.createNoted(name, 1)
		w.tellAll()
		w.decide()
		w.landAll()
		p := w.pods["ns/"+name].DeepCopy()
		p.Spec.NodeName, p.Status.Phase = "n", corev1.PodRunning
		began := metav1.NewTime(w.now)
		p.Status.StartTime = &began
		w.writePod(p)
		w.tellAll()
		w.pass(took)
		if deleted {
			p = p.DeepCopy()
			p.DeletionTimestamp = &began
			w.writePod(p)
		}
		w.deletePod("ns/" + name)
		w.tellAll()
	}
	run("a", time.Hour, false)
	run("b", 2*time.Hour, true) // deleted: nobody knows how long it would have run
	run("c", 3*time.Hour, false)
	w.books.workSeen("ns/other", facts.WorkFailed, 0, w.books.instant())
	w.books.believeRuns()
	kept := w.kept()
	next := newTruth(t)
	next.now = w.now
	next.pass(0)
	if err := next.books.remember(kept); err != nil {
		t.Fatal(err)
	}
	next.books.believeRuns()
	for name, of := range map[string]*truth{"learned": w, "remembered": next} {
		of.putNode("n", 8, 4, "", true)
		of.createNoted("d", 1)
		of.tellAll()
		v := of.books.world.View()
		id, _ := of.books.world.Pod("ns/d")
		if got := v.ExpectedRun(v.Pod(id)); got.Low != moment.Hour || got.High != 3*moment.Hour {
			t.Errorf("%s: a run takes %+v, want 1h to 3h", name, got)
		}
	}
	next.createNoted("waits", 0, facts.AfterWork, "other")
	next.saysOf("waits", "job ns/other, which has failed")
	if again, err := next.books.learned(); err == nil && len(again.Ended) != 1 {
		t.Errorf("kept again: %+v", again.Ended)
	}
}

// When those who wait start is told in reviews, and stands; who is placed in room that is
// reserved says until when on itself, and a new instance goes by that.
func TestStartsAndReservations(t *testing.T) {
	w := newTruth(t)
	config := New(Config{Reserve: engine.ReserveHead, StartTimes: true}).config
	w.books.divide(config.Profiles)
	w.putNode("n", 8, 2, "", true)
	w.createNoted("first", 1, facts.ExpectedDuration, "2h")
	w.tellAll()
	w.decide()
	w.landAll()
	w.createNoted("big", 2, facts.ExpectedDuration, "1h")
	w.tellAll()
	w.books.decide(1)
	p := w.books.pods["ns/big"]
	if p.starts == nil || p.starts.Likely == nil || !p.starts.Likely.Equal(clockTime(w.books.instant()).Add(2*time.Hour)) {
		t.Fatalf("big starts %+v", p.starts)
	}
	if p.reserved == nil || fmt.Sprint(p.reserved.Nodes) != "[n]" {
		t.Fatalf("big has reserved %+v", p.reserved)
	}
	w.createNoted("small", 1, facts.ExpectedDuration, "1h")
	w.tellAll()
	w.decide()
	if len(w.flying) != 1 || w.flying[0].Key != "ns/small" || w.flying[0].GoneBy.IsZero() || p.starts == nil {
		t.Fatalf("binds %+v", w.flying)
	}
	bind := w.flying[0]
	notes := bind.annotations()
	w.landAll()
	next := newTruth(t)
	next.now = w.now
	next.pass(0)
	next.putNode("n", 8, 2, "", true)
	next.createNoted("small", 1, facts.GoneBy, notes[facts.GoneBy], facts.ExpectedDuration, "1h")
	next.pods["ns/small"].Spec.NodeName = "n"
	next.tellAll()
	id, _ := next.books.world.Pod("ns/small")
	if got := next.books.world.View().Pod(id).GoneBy; clockTime(got) != bind.GoneBy {
		t.Errorf("after a restart gone by %v, want %v", clockTime(got), bind.GoneBy)
	}
	if err := next.books.audit(); err != nil {
		t.Error(err)
	}
}

// Classes that a configuration defines are there before the first pod.
func TestConfiguredClasses(t *testing.T) {
	w := newTruth(t)
	if err := w.books.promise([]world.SLADefined{{Name: "nightly"}}); err != nil {
		t.Fatal(err)
	}
	w.createNoted("a", 0, facts.SLAClass, "nightly")
	w.tellAll()
	if got := w.complains(); len(got) > 0 {
		t.Errorf("complaints %q", got)
	}
}
