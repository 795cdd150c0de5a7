package kube

import (
	"fmt"
	"maps"
	"math/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/headrace-dev/headrace/internal/core/cluster"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

func gpusOf(n string) v1alpha1.ResourceList {
	return v1alpha1.ResourceList{v1alpha1.GPUs: resource.MustParse(n)}
}

// putQueue has the informers tell of a queue.
func (w *truth) putQueue(name, parent, deserved string) {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: parent, Deserved: gpusOf(deserved)}}
	w.later(message{tell: func(b *books) { b.queueSeen(facts.QueueOf(q, DefaultGPU)) }})
}

func (w *truth) deleteQueue(name string) {
	w.later(message{tell: func(b *books) { b.queueGone(name) }})
}

// deliver tells everything and carries out what is decided, in no time.
func (w *truth) deliver() {
	for range 3 {
		w.told()
		for len(w.flying) > 0 {
			w.land(0, false)
		}
	}
}

func (w *truth) createIn(queue, name string, gpus int) {
	w.createPod(name, DefaultName, 1, gpus)
	w.untold = w.untold[:len(w.untold)-1]
	p := w.pods["ns/"+name]
	p.Labels = map[string]string{v1alpha1.QueueLabel: queue}
	w.writePod(p)
}

// queueOf is the queue that the world has a pod in; empty: none.
func (w *truth) queueOf(key string) string {
	w.Helper()
	id, known := w.books.world.Pod(key)
	if !known {
		w.Fatalf("the world does not know %s", key)
	}
	v := w.books.world.View()
	if q := v.Pod(id).Spec.Queue; q != cluster.None {
		return v.Queue(q).Name
	}
	return ""
}

// Without any queue the label is only a label; with one, a pod whose queue is not
// there waits and says so, until the queue comes; a bound one is moved.
func TestPodsWaitForTheirQueue(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 8, "", true)
	w.createIn("blue", "before", 1)
	w.deliver()
	if w.pods["ns/before"].Spec.NodeName != "n" || w.queueOf("ns/before") != "" {
		t.Fatalf("without queues: on %q in queue %q", w.pods["ns/before"].Spec.NodeName, w.queueOf("ns/before"))
	}
	w.putQueue("red", "", "4")
	w.createIn("blue", "after", 1)
	w.deliver()
	w.pass(2 * time.Second)
	e := w.explained("ns/after")
	want := `its label headrace.dev/queue names queue "blue", which does not exist`
	if w.pods["ns/after"].Spec.NodeName != "" || e.Verdict != explain.AfterChange || e.Reason.Code != "NoQueue" || e.Reason.Says != want {
		t.Fatalf("with another queue: %+v", e.Reason)
	}
	remarks := w.books.remarks()
	if len(remarks) != 1 || remarks[0].Message != want || !remarks[0].Another || remarks[0].Reason != corev1.PodReasonUnschedulable {
		t.Fatalf("remarks %+v", remarks)
	}
	w.putQueue("blue", "", "4")
	w.deliver()
	for _, key := range []string{"ns/before", "ns/after"} {
		if w.pods[key].Spec.NodeName != "n" || w.queueOf(key) != "blue" {
			t.Errorf("%s on %q in queue %q", key, w.pods[key].Spec.NodeName, w.queueOf(key))
		}
	}
	w.balanced("the queue came")
}

// Parents come first, whatever the order; a queue that is in use stays until it is
// not; what cannot be taken leaves what was in force.
func TestQueuesComeAndGo(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 8, "", true)
	w.putQueue("child", "top", "2")
	w.createIn("child", "p", 1)
	w.deliver()
	if q := w.books.queues["child"]; q.known || q.refused != `waits for its parent, queue "top", which does not exist` {
		t.Fatalf("without its parent: %+v", q)
	}
	w.putQueue("top", "", "4")
	w.deliver()
	if got := w.queueOf("ns/p"); got != "child" || w.pods["ns/p"].Spec.NodeName == "" {
		t.Fatalf("pod in %q", got)
	}
	w.putQueue("top", "child", "4")
	w.deliver()
	if q := w.books.queues["top"]; !strings.Contains(q.refused, "a queue cannot be below itself") || q.entered.Parent != "" {
		t.Errorf("a circle: %+v", q)
	}
	w.putQueue("top", "", "-1")
	w.deliver()
	if q := w.books.queues["top"]; q.refused != `deserved gpus: "-1": must not be negative` || q.entered.DeservedMilli != 4000 {
		t.Errorf("a negative amount: %+v", q)
	}
	w.deleteQueue("top")
	w.deleteQueue("child")
	w.deliver()
	if w.queueOf("ns/p") != "child" || len(w.books.queues) != 2 {
		t.Errorf("in use and deleted: %v", w.books.queues)
	}
	w.deletePod("ns/p")
	w.deliver()
	w.books.retireQueues()
	if len(w.books.queues) != 0 {
		t.Errorf("not in use and deleted: %v", w.books.queues)
	}
	w.balanced("the queues are gone")
}

// A waiting pod leaves the line when its queue is deleted, and an epoch closes every
// ten minutes; what was used is kept and restored.
func TestQueueUsageIsKept(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.putQueue("a", "", "4")
	w.putQueue("b", "", "0")
	w.createIn("a", "p", 4)
	w.deliver()
	w.createIn("b", "late", 2)
	w.deliver()
	w.deleteQueue("b")
	w.deliver()
	if _, known := w.books.world.Pod("ns/late"); known {
		t.Error("a pod is in line for a deleted queue")
	}
	w.books.beginEpoch()
	w.pass(9 * time.Minute)
	w.books.beginEpoch()
	usage := func(b *books) cluster.Usage {
		id, _ := b.world.Queue("a")
		return b.world.View().Queue(id).Usage
	}
	if u := usage(w.books); u.LastHour() != 0 {
		t.Errorf("before the first epoch is over: %+v", u)
	}
	w.pass(time.Minute)
	w.books.beginEpoch()
	u := usage(w.books)
	if u.LastHour() != 4000*600 {
		t.Errorf("after an epoch of four GPUs: %+v", u)
	}
	kept := w.kept()
	next := newTruth(t)
	next.pass(w.now.Sub(next.now))
	if err := next.books.remember(kept); err != nil {
		t.Fatal(err)
	}
	next.putQueue("a", "", "4")
	next.deliver()
	if got := usage(next.books); got != u {
		t.Errorf("restored %+v, kept %+v", got, u)
	}
	next.pass(5 * time.Minute)
	next.books.beginEpoch()
	if got := usage(next.books); got != u {
		t.Errorf("an epoch of five minutes: %+v", got)
	}
	next.pass(5 * time.Minute)
	next.books.beginEpoch()
	if got := usage(next.books); got.Hour[0] != 0 || got.Hour[1] != u.Hour[0] {
		t.Errorf("the epoch of before is not continued: %+v", got)
	}
}

// A pod's annotations become its job; what cannot be read is told once.
func TestAnnotationsBecomeJobs(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	say := func(name string, annotations map[string]string) {
		p := w.pods["ns/"+name].DeepCopy()
		p.Annotations = annotations
		w.writePod(p)
		w.deliver()
	}
	w.createPod("p", DefaultName, 1, 1)
	w.deliver()
	job := func() *cluster.Job {
		v := w.books.world.View()
		id, _ := w.books.world.Pod("ns/p")
		return v.JobOf(v.Pod(id))
	}
	if job() != nil {
		t.Fatal("a pod without annotations has a job")
	}
	say("p", map[string]string{facts.Preemptible: "false", facts.RestartSeconds: "soon"})
	if j := job(); j == nil || j.Preemptible || w.pods["ns/p"].Spec.NodeName != "n" {
		t.Fatalf("not preemptible: %+v", j)
	}
	told := w.books.takeComplaints()
	if len(told) != 1 || told[0].key != "ns/p" || !strings.Contains(told[0].says, facts.RestartSeconds) {
		t.Errorf("told %+v", told)
	}
	at := w.now.UTC().Format(time.RFC3339)
	say("p", map[string]string{facts.CheckpointedAt: at, facts.CheckpointPeriod: "1m"})
	w.pass(time.Hour)
	at = w.now.UTC().Format(time.RFC3339)
	say("p", map[string]string{facts.CheckpointedAt: at, facts.CheckpointPeriod: "1m"})
	if j := job(); !j.Preemptible || int64(j.Checkpoint.Last) != w.now.UnixMicro() {
		t.Errorf("checkpointed %+v", j)
	}
	say("p", map[string]string{facts.CheckpointedAt: w.now.Add(time.Hour).UTC().Format(time.RFC3339), facts.CheckpointPeriod: "1m"})
	if told := w.books.takeComplaints(); len(told) != 1 || !strings.Contains(told[0].says, "lies ahead of now") || job().Checkpoint.Last != 0 {
		t.Errorf("of an hour ahead: %+v", told)
	}
	say("p", nil)
	if job() != nil {
		t.Error("the job outlived its annotations")
	}
	w.deletePod("ns/p")
	w.deliver()
	if _, known := w.books.world.Job("ns/p"); known {
		t.Error("the job outlived its pod")
	}
	w.balanced("all is gone")
}

// What is said of a queue: what it holds, can count on and may take back.
func TestStandingOfQueues(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 8, "", true)
	w.putQueue("top", "", "6")
	w.putQueue("child", "top", "6")
	w.putQueue("other", "", "2")
	w.createIn("child", "p", 3)
	w.createIn("child", "more", 9)
	w.deliver()
	look := w.books.lookAtQueues()
	all := look.tenants()
	names := ""
	for i := range all {
		names += all[i].Name + " "
	}
	if names != "other top child " {
		t.Fatalf("queues %s", names)
	}
	path := w.explained("ns/more").Queues
	if len(path) != 2 || path[0].Name != "child" || path[1].Name != "top" || path[0].Parent != "top" {
		t.Fatalf("path %+v", path)
	}
	if c := path[0]; c.Used["gpus"] != 3000 || c.Quota["gpus"] == 0 || c.Fair["gpus"] < 6000 || c.Deserved["gpus"] != 6000 || c.Limit != nil || c.Waiting != 1 {
		t.Errorf("child %+v", c)
	}
	if path[1].Used["gpus"] != 3000 || path[1].Waiting != 1 {
		t.Errorf("top %+v", path[1])
	}
	w.putQueue("child", "nowhere", "6")
	w.deliver()
	look = w.books.lookAtQueues()
	if got := pathOf(look.tenants(), "child")[0]; !strings.Contains(got.Message, `"nowhere"`) || got.Parent != "top" {
		t.Errorf("of a queue whose change is not in force: %+v", got)
	}
}

// The status of a queue is written when it is another one, and only then.
func TestStatusIsWrittenOnChange(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 8, "", true)
	w.putQueue("q", "", "4")
	w.createIn("q", "p", 3)
	w.deliver()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Queue", "metadata": map[string]any{"name": "q"},
		"spec": map[string]any{"deserved": map[string]any{"gpus": int64(4)}},
	}}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{v1alpha1.Queues: "QueueList"}, object)
	r := registrar{Scheduler: New(Config{Dynamic: client})}
	look := w.books.lookAtQueues()
	for range 3 {
		now, err := client.Resource(v1alpha1.Queues).Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.write(t.Context(), now, &look, look.tenants())
	}
	writes := 0
	for _, a := range client.Actions() {
		if a.Matches("update", "queues/status") {
			writes++
		}
	}
	now, err := client.Resource(v1alpha1.Queues).Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := queueIn(now)
	if err != nil {
		t.Fatal(err)
	}
	used := q.Status.Used[v1alpha1.GPUs]
	if writes != 1 || used.String() != "3" || q.Status.Quota == nil || q.Status.FairShare == nil {
		t.Errorf("%d writes, status %+v", writes, q.Status)
	}
	if f := r.queueFacts(now); f.Why != "" || f.Added.DeservedMilli != 4000 {
		t.Errorf("it reads as %+v", f)
	}
	now.Object["spec"] = "nothing"
	if f := r.queueFacts(now); f.Why == "" || f.Added.Name != "q" {
		t.Errorf("what is no queue reads as %+v", f)
	}
}

// Queues, pods and their jobs come, change and go in whatever order: the books
// balance after every step, and in the end every pod is in the queue it names, or
// waits for it.
func TestQueuesInAnyOrder(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for seed := range int64(40) {
		w, r := newTruth(t), rand.New(rand.NewSource(seed))
		there := make(map[string]bool)
		w.putNode("n", 64, 12, "", true)
		for step := range 120 {
			name, pod := names[r.Intn(len(names))], fmt.Sprint("p", r.Intn(8))
			switch r.Intn(9) {
			case 0, 1:
				w.putQueue(name, append(names, "", "", "")[r.Intn(len(names)+3)], fmt.Sprint(r.Intn(4)-1))
				there[name] = true
			case 2:
				w.deleteQueue(name)
				delete(there, name)
			case 3, 4:
				if w.pods["ns/"+pod] == nil {
					w.createIn(name, pod, r.Intn(3))
				}
			case 5:
				w.deletePod("ns/" + pod)
			case 6:
				if p := w.pods["ns/"+pod]; p != nil {
					p = p.DeepCopy()
					p.Labels = map[string]string{v1alpha1.QueueLabel: name}
					p.Annotations = []map[string]string{nil, {facts.Preemptible: "false"}, {facts.CheckpointedAt: w.now.UTC().Format(time.RFC3339)}}[r.Intn(3)]
					w.writePod(p)
				}
			case 7:
				w.tell()
				w.decide()
			case 8:
				if len(w.flying) > 0 {
					w.land(r.Intn(len(w.flying)), r.Intn(3) == 0)
				}
				w.pass(time.Duration(r.Intn(300)) * time.Second)
				w.books.beginEpoch()
				w.books.retireQueues()
				w.books.resume()
			}
			w.balanced(fmt.Sprint("seed ", seed, " step ", step))
		}
		w.settleAll()
		w.books.retireQueues()
		w.equal()
		for key, p := range w.pods {
			name := p.Labels[v1alpha1.QueueLabel]
			q := w.books.queues[name]
			id, inWorld := w.books.world.Pod(key)
			switch force := there[name] && q != nil && q.known; {
			case force && (!inWorld || w.queueOf(key) != name):
				t.Errorf("seed %d: %s is not in its queue %s", seed, key, name)
			case !force && len(there) > 0 && p.Spec.NodeName == "" && inWorld:
				t.Errorf("seed %d: %s is in line (%d) without queue %s", seed, key, id, name)
			}
		}
	}
}

// A tenant that holds more than its fair share gives way to one that waits with
// less, until each has what it deserves.
func TestTenantReclaims(t *testing.T) {
	w := newEvictor(t)
	w.putNode("n", 64, 8, "", true)
	w.putQueue("red", "", "4")
	w.putQueue("blue", "", "4")
	for i := range 8 {
		w.createIn("red", fmt.Sprint("red-", i), 1)
	}
	w.deliver()
	for i := range 6 {
		w.createIn("blue", fmt.Sprint("blue-", i), 1)
	}
	for range 10 {
		w.deliver()
		w.leaving = append(w.leaving, w.books.takeEvictions()...)
		for len(w.leaving) > 0 {
			w.carry(false)
		}
		for key, p := range maps.Clone(w.pods) { // order: each by itself
			if p.DeletionTimestamp != nil {
				w.deletePod(key)
			}
		}
		w.pass(time.Second)
	}
	held := map[string]int{}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" {
			held[p.Labels[v1alpha1.QueueLabel]]++
		}
	}
	if held["red"] != 4 || held["blue"] != 4 {
		t.Errorf("held %v", held)
	}
	w.balanced("the tenant has reclaimed")
}
