package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/headrace-dev/headrace/live/kube"
)

// preempting is a scheduler under which pods of lower priority give way.
func (r *rig) preempting() (*kube.Scheduler, func()) {
	r.Helper()
	return r.scheduleAs(kube.Config{Client: client, Preemption: true})
}

// ranked gives a pod the priority class of that name, which it makes where it is
// new.
func (r *rig) ranked(name string, value int32, preempts corev1.PreemptionPolicy) func(*corev1.Pod) {
	r.Helper()
	_, err := client.SchedulingV1().PriorityClasses().Create(r.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &preempts,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.Fatal(err)
	}
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

func (r *rig) urgent() func(*corev1.Pod) {
	return r.ranked("e2e-high", 1000, corev1.PreemptLowerPriority)
}

func (r *rig) polite() func(*corev1.Pod) { return r.ranked("e2e-polite", 1000, corev1.PreemptNever) }

// leaving returns the pods that were told to go.
func (r *rig) leaving() []string {
	r.Helper()
	var out []string
	for _, p := range r.pods() {
		if p.DeletionTimestamp != nil {
			out = append(out, p.Name)
		}
	}
	return out
}

// gone ends a pod that was told to go, as its kubelet would.
func (r *rig) gone(name string) {
	r.Helper()
	r.ok(client.CoreV1().Pods(r.namespace).Delete(r.Context(), name, *metav1.NewDeleteOptions(0)))
}

// oneLeaves waits until exactly one pod was told to go.
func (r *rig) oneLeaves() string {
	r.Helper()
	victim := ""
	r.eventually("one pod is told to go", func() string {
		list := r.leaving()
		if len(list) != 1 {
			return "leaving: " + strings.Join(list, ", ")
		}
		victim = list[0]
		return ""
	})
	return victim
}

// A pod of high priority evicts one of low priority on a full node, no more, and
// gets its room; one of the same priority evicts nobody, nor does one that never
// preempts.
func TestEvictsOne(t *testing.T) {
	r := newRig(t)
	s, _ := r.preempting()
	r.node("n", 4)
	r.create(podOf("low-0", 1), podOf("low-1", 1), podOf("low-2", 1), podOf("low-3", 1))
	r.allBound()
	high := r.urgent()
	r.create(podOf("equal", 1), podOf("polite", 1, r.polite()))
	r.waits("equal", "needs 1 idle device")
	r.waits("polite", "needs 1 idle device")
	if list := r.leaving(); len(list) != 0 {
		t.Fatalf("leaving: %v, want nobody yet", list)
	}
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "polite", metav1.DeleteOptions{}))
	r.create(podOf("high", 1, high))
	victim := r.oneLeaves()
	r.waits("high", "waits for pods of lower priority to leave n")
	if got := r.pod("high").Status.NominatedNodeName; got != "n" {
		t.Errorf("the node on the pod is %q, want n", got)
	}
	r.gone(victim)
	r.bound("high")
	r.counts(s, 4)
	if list := r.leaving(); len(list) != 0 {
		t.Errorf("leaving: %v, want nobody more", list)
	}
	r.inBounds()
	r.waits("equal", "needs 1 idle device")
}

// A disruption budget forbids the eviction: the reason says so and nobody goes.
// When the budget allows one, one goes.
func TestBudgetForbids(t *testing.T) {
	r := newRig(t)
	r.preempting()
	r.node("n", 2)
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }
	r.create(podOf("web-0", 1, labelled), podOf("web-1", 1, labelled))
	r.allBound()
	for _, name := range []string{"web-0", "web-1"} { // as its kubelet would say
		p := r.pod(name)
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		_, err := client.CoreV1().Pods(r.namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		r.ok(err)
	}
	two := intstr.FromInt32(2)
	budget, err := client.PolicyV1().PodDisruptionBudgets(r.namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	r.ok(err)
	t.Cleanup(func() {
		_ = client.PolicyV1().PodDisruptionBudgets(r.namespace).Delete(context.Background(), "web", metav1.DeleteOptions{})
	})
	r.create(podOf("high", 1, r.urgent()))
	r.waits("high", "evicting pods of lower priority would make room on 1 node, budgets and protection keep them")
	if list := r.leaving(); len(list) != 0 {
		t.Fatalf("leaving: %v, want nobody", list)
	}
	// The controller of budgets does not run here.
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2}
	_, err = client.PolicyV1().PodDisruptionBudgets(r.namespace).UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
	r.ok(err)
	r.gone(r.oneLeaves())
	r.bound("high")
	r.inBounds()
}

// The scheduler is stopped between an eviction and the bind: the next instance
// gives the room to the pod it was made for, though another waits longer.
func TestRestartBetweenEvictionAndBind(t *testing.T) {
	r := newRig(t)
	_, stop := r.preempting()
	r.node("n", 2)
	r.create(podOf("low-0", 1), podOf("low-1", 1))
	r.allBound()
	high := r.urgent()
	r.create(podOf("older", 2, r.polite()))
	r.waits("older", "needs 2 idle devices")
	r.create(podOf("heir", 2, high))
	r.eventually("both are told to go", func() string {
		if list := r.leaving(); len(list) != 2 {
			return "leaving: " + strings.Join(list, ", ")
		}
		return ""
	})
	stop()
	r.gone("low-0")
	_, stop = r.preempting()
	r.waits("heir", "waits for pods of lower priority to leave n")
	stop()
	r.gone("low-1")
	s, _ := r.preempting()
	if got := r.bound("heir"); got != "n" {
		t.Errorf("the heir is bound to %s, want n", got)
	}
	r.waits("older", "needs 2 idle devices")
	r.counts(s, 2)
	r.inBounds()
}
