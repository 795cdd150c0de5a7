package whatif_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/internal/core/engine"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/whatif"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func amounts(cpu, gpus int) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI)}
	if gpus > 0 {
		out[kube.DefaultGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	return out
}

func node(name string, gpus int) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	n.Status.Allocatable = amounts(64, gpus)
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// pod is on a node, or waits where that is empty. A run time of 0 is none.
func pod(name, node string, gpus int, priority int32, run time.Duration) corev1.Pod {
	start := metav1.NewTime(began)
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: start},
		Spec: corev1.PodSpec{
			NodeName: node, SchedulerName: kube.DefaultName, Priority: &priority,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts(1, gpus)}}},
		},
	}
	if node != "" {
		p.Status.StartTime, p.Status.Phase = &start, corev1.PodRunning
	}
	if run > 0 {
		p.Annotations = map[string]string{inventory.RunFor: run.String()}
	}
	return p
}

func ask(c whatif.Cluster, pods ...corev1.Pod) *whatif.Answer {
	c.Now = began.Add(10 * time.Minute)
	var wanted []*corev1.Pod
	for i := range pods {
		pods[i].CreationTimestamp = metav1.Time{} // it comes now
		wanted = append(wanted, &pods[i])
	}
	return whatif.Ask(&c, kube.Config{Name: kube.DefaultName, GPU: kube.DefaultGPU, Policy: engine.Headrace()}, wanted)
}

// With room a pod is placed at once, and nobody is named.
func TestPlacedNow(t *testing.T) {
	got := ask(whatif.Cluster{Nodes: []corev1.Node{node("n", 4)}, Pods: []corev1.Pod{pod("a", "n", 2, 0, 0)}}, pod("new", "", 2, 0, 0)).Pods[0]
	if got.Now == nil || got.Now.Node != "n" || got.Why != "" || got.Starts != nil || got.AsSoonAs != nil || got.Evicts != nil {
		t.Errorf("%+v, want it on n now and nothing else", got)
	}
}

// Without room a pod starts when enough of those who said how long they run have
// ended, those who wait already first.
func TestStartsWhenOthersEnd(t *testing.T) {
	c := whatif.Cluster{Nodes: []corev1.Node{node("n", 2)}, Pods: []corev1.Pod{
		pod("early", "n", 1, 0, 30*time.Minute), pod("late", "n", 1, 0, time.Hour), pod("ahead", "", 1, 0, time.Hour),
	}}
	got := ask(c, pod("new", "", 1, 0, 0))
	o := got.Pods[0]
	if got.Bound != 2 || got.Timed != 2 || got.Waiting != 1 {
		t.Errorf("%d bound, %d timed, %d wait; want 2, 2 and 1", got.Bound, got.Timed, got.Waiting)
	}
	// "ahead" takes the room of "early" at 30 minutes; "late" ends at an hour.
	if o.Now != nil || o.Starts == nil || o.Starts.After != "ns/late" || o.Starts.In != "50m0s" || o.Starts.Node != "n" {
		t.Errorf("%+v, starts %+v; want it on n in 50m0s, after ns/late", o, o.Starts)
	}
	if !strings.Contains(o.Why, "needs 1 idle device") || o.Evicts != nil || o.AsSoonAs != nil {
		t.Errorf("%+v, want the lack of a device and nobody evicted", o)
	}
}

// Where nobody said how long they run, the fewest pods whose end makes room are
// named; daemons never end.
func TestNoRunTimes(t *testing.T) {
	truth := true
	daemon := pod("daemon", "m", 2, 0, 0)
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &truth}}
	c := whatif.Cluster{Nodes: []corev1.Node{node("n", 4), node("m", 2)}, Pods: []corev1.Pod{
		pod("a", "n", 1, 5, 0), pod("b", "n", 1, 5, 0), pod("c", "n", 2, 5, 0), daemon,
	}}
	got := ask(c, pod("new", "", 2, 0, 0), pod("huge", "", 8, 0, 0))
	o := got.Pods[0]
	if o.Starts != nil || o.AsSoonAs == nil || o.AsSoonAs.Node != "n" || o.AsSoonAs.Count > 2 || slices.Contains(o.AsSoonAs.Pods, "ns/daemon") || o.Evicts != nil {
		t.Errorf("%+v, as soon as %+v; want pods of n, no more than needed", o, o.AsSoonAs)
	}
	if o := got.Pods[1]; !strings.Contains(o.Why, "never in this cluster") || o.AsSoonAs != nil || o.Starts != nil {
		t.Errorf("%+v, want never", o)
	}
}

// Under preemption pods of lower priority pay, unless a budget keeps them.
func TestWhoPays(t *testing.T) {
	c := whatif.Cluster{Nodes: []corev1.Node{node("n", 2)}, Pods: []corev1.Pod{pod("low", "n", 1, 0, 0), pod("high", "n", 1, 50, 0)}}
	got := ask(c, pod("new", "", 1, 10, 0)).Pods[0]
	if got.Evicts == nil || got.Evicts.Count != 1 || got.Evicts.Pods[0] != "ns/low" || got.Evicts.Node != "n" {
		t.Errorf("%+v, evicts %+v; want ns/low on n", got, got.Evicts)
	}
	c.Pods[0].Labels = map[string]string{"app": "web"}
	c.Budgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}}
	got = ask(c, pod("new", "", 1, 10, 0)).Pods[0]
	if got.Evicts != nil || !strings.Contains(got.Why, "budgets and protection keep them") {
		t.Errorf("%+v, evicts %+v; want a budget that keeps low", got, got.Evicts)
	}
}

// What is not looked at is said, not guessed.
func TestUnjudged(t *testing.T) {
	p := pod("new", "", 1, 0, 0)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	got := ask(whatif.Cluster{Nodes: []corev1.Node{node("n", 2)}}, p).Pods[0]
	if got.Now != nil || !got.Unjudged || got.Why == "" {
		t.Errorf("%+v, want it unjudged, with the reason", got)
	}
}

const job = `apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  activeDeadlineSeconds: 600
  template:
    spec:
      priorityClassName: urgent
      containers:
      - name: c
        image: i
        resources: {limits: {nvidia.com/gpu: 1}}
`

// A job gives as many pods as it runs at a time, with the priority of its class.
func TestReadJob(t *testing.T) {
	never := corev1.PreemptNever
	s := whatif.Submission{
		Namespace: "team", Scheduler: "headrace", Taken: map[string]bool{"team/train-1": true},
		Classes: []schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 70, PreemptionPolicy: &never}},
	}
	pods, err := s.Read([]byte(job))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pods {
		got = append(got, fmt.Sprint(p.Namespace, "/", p.Name, " ", *p.Spec.Priority, " ", *p.Spec.PreemptionPolicy, " ", *p.Spec.ActiveDeadlineSeconds, " ", p.Spec.SchedulerName))
	}
	want := []string{"team/train-0 70 Never 600 headrace", "team/train-1-new 70 Never 600 headrace", "team/train-2 70 Never 600 headrace"}
	if !slices.Equal(got, want) {
		t.Errorf("pods %q, want %q", got, want)
	}
	// A limit without a request is one.
	if asked := pods[0].Spec.Containers[0].Resources.Requests[kube.DefaultGPU]; asked.Value() != 1 {
		t.Errorf("the pod asks for %v GPUs, want 1", asked.Value())
	}
}

// What cannot be read says which field and why.
func TestBadManifests(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		copies int
		want   string
	}{
		"another kind":     {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", 0, "want a Pod or a Job"},
		"no YAML":          {"{{{", 0, "parse error"},
		"no container":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", 0, "spec.containers is empty"},
		"a bad name":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: X_Y}\nspec: {containers: [{name: c}]}\n", 0, `metadata.name "X_Y"`},
		"an unknown class": {job, 0, `spec.priorityClassName "urgent"`},
		"too many":         {job, 1 << 20, "copies: want 1 to"},
	} {
		s := whatif.Submission{Namespace: "team", Scheduler: "headrace", Copies: c.copies}
		if _, err := s.Read([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: said %v, want it to contain %q", name, err, c.want)
		}
	}
}
