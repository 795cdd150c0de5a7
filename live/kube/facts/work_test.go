package facts_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/moment"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

func at(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

// A pod is part of its group, else of the Job that made it, else it stands for itself.
func TestWorkOf(t *testing.T) {
	group, yes := "native", true
	owner := func(version, kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "owner", Controller: &yes}}
	}
	for want, p := range map[string]corev1.Pod{
		"ns/native":  {Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &group}}},
		"ns/mine":    {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.PodGroupLabel: "mine"}, OwnerReferences: owner("batch/v1", "Job")}},
		"ns/owner":   {ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner("batch/v1", "Job")}},
		"ns/replica": {ObjectMeta: metav1.ObjectMeta{Name: "replica", OwnerReferences: owner("apps/v1", "ReplicaSet")}},
		"ns/other":   {ObjectMeta: metav1.ObjectMeta{Name: "other", OwnerReferences: owner("example.com/v1", "Job")}},
		"ns/alone":   {ObjectMeta: metav1.ObjectMeta{Name: "alone"}},
	} {
		p.Namespace, p.Spec.SchedulerName = "ns", "headrace"
		p.Annotations = map[string]string{facts.AfterWork: "x"}
		got := facts.PodOf(&p, "headrace", "nvidia.com/gpu")
		if got.Work != want || len(got.Job.After) != 1 || got.Job.After[0].Job != "ns/x" {
			t.Errorf("work %s, after %v; want %s, after ns/x", got.Work, got.Job.After, want)
		}
	}
}

// Run times are known by what is run, and not by when or where.
func TestRunsAs(t *testing.T) {
	pod := func(change func(*corev1.Pod)) string {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{SchedulerName: "headrace", Containers: []corev1.Container{{Image: "i", Args: []string{"x", "y"}}}}}
		change(p)
		return facts.PodOf(p, "headrace", "nvidia.com/gpu").Added.RunsAs
	}
	first, yes := pod(func(*corev1.Pod) {}), true
	if again := pod(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "b", "n" }); again != first || first == "" {
		t.Errorf("alike: %q and %q", first, again)
	}
	for what, change := range map[string]func(*corev1.Pod){
		"namespace": func(p *corev1.Pod) { p.Namespace = "other" },
		"image":     func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" },
		"arguments": func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"xy"} },
		"service": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Controller: &yes}}
		},
	} {
		if other := pod(change); other == first || (other == "") != (what == "service") {
			t.Errorf("another %s: %q, and %q without", what, other, first)
		}
	}
}

func TestJobState(t *testing.T) {
	began := at(10)
	job := func(s batchv1.JobStatus) *batchv1.Job { return &batchv1.Job{Status: s} }
	ended := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: kind, Status: status, LastTransitionTime: at(20)}}
	}
	for name, c := range map[string]struct {
		job          *batchv1.Job
		state        facts.Work
		began, ended moment.Instant
	}{
		"new":      {job(batchv1.JobStatus{StartTime: &began}), facts.WorkThere, 0, 0},
		"running":  {job(batchv1.JobStatus{StartTime: &began, Active: 1}), facts.WorkThere, 10, 0},
		"complete": {job(batchv1.JobStatus{StartTime: &began, Succeeded: 1, Conditions: ended(batchv1.JobComplete, corev1.ConditionTrue)}), facts.WorkDone, 10, 20},
		"failed":   {job(batchv1.JobStatus{StartTime: &began, Failed: 1, Conditions: ended(batchv1.JobFailed, corev1.ConditionTrue)}), facts.WorkFailed, 10, 20},
		"not yet":  {job(batchv1.JobStatus{Conditions: ended(batchv1.JobComplete, corev1.ConditionFalse)}), facts.WorkThere, 0, 0},
	} {
		state, b, e := facts.JobState(c.job)
		if state != c.state || b != c.began*moment.Instant(moment.Second) || e != c.ended*moment.Instant(moment.Second) {
			t.Errorf("%s: state %d, began %v, ended %v", name, state, b, e)
		}
	}
}

func TestPodsState(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase) corev1.Pod {
		started := at(10)
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.PodGroupLabel: "g"}}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: phase, StartTime: &started}}
		if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(30)}}}}
		}
		return p
	}
	alone := pod("alone", corev1.PodSucceeded)
	alone.Labels = nil
	for name, c := range map[string]struct {
		work  string
		pods  []corev1.Pod
		state facts.Work
		ended moment.Instant
	}{
		"nothing":     {"g", []corev1.Pod{alone}, facts.WorkUnknown, 0},
		"one runs":    {"g", []corev1.Pod{pod("a", corev1.PodSucceeded), pod("b", corev1.PodRunning)}, facts.WorkThere, 0},
		"all over":    {"g", []corev1.Pod{alone, pod("a", corev1.PodSucceeded), pod("b", corev1.PodSucceeded)}, facts.WorkDone, 30},
		"one failed":  {"g", []corev1.Pod{pod("a", corev1.PodFailed), pod("b", corev1.PodSucceeded)}, facts.WorkFailed, 30},
		"a pod alone": {"alone", []corev1.Pod{alone, pod("a", corev1.PodRunning)}, facts.WorkDone, 30},
	} {
		if state, _, ended := facts.PodsState(c.work, c.pods); state != c.state || ended != c.ended*moment.Instant(moment.Second) {
			t.Errorf("%s: state %d, ended %v", name, state, ended)
		}
	}
}
