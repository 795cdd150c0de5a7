package e2e

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/kube"
)

// A pod that is deleted while it waits leaves nothing behind: the next one gets
// the room. One that is being deleted holds its room until it is gone.
func TestDeletedPods(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	r.node("n", 1)
	r.create(podOf("first", 1))
	r.bound("first")
	r.create(podOf("second", 1))
	r.waits("second", "needs 1 idle device")
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "second", metav1.DeleteOptions{}))
	// No kubelet says that it has stopped, so it goes on terminating.
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}))
	r.create(podOf("third", 1))
	r.waits("third", "needs 1 idle device")
	if p := r.pod("first"); p.DeletionTimestamp == nil {
		t.Errorf("the first pod is not being deleted")
	}
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "first", *metav1.NewDeleteOptions(0)))
	r.bound("third")
	r.counts(s, 1)
}

// What was on a node that is removed holds nothing any more, and nothing new goes
// there.
func TestNodeRemoved(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	r.node("stays", 2)
	r.node("goes", 2)
	for i := range 4 {
		r.create(podOf(fmt.Sprint("p-", i), 1))
	}
	r.allBound()
	r.counts(s, 4)
	r.ok(client.CoreV1().Nodes().Delete(t.Context(), "goes", metav1.DeleteOptions{}))
	r.counts(s, 2)
	r.create(podOf("late", 1))
	r.waits("late", "needs 1 idle device on one node, the most idle is 0 (1 of 1 nodes)")
	r.node("comes", 2)
	if got := r.bound("late"); got != "comes" {
		t.Errorf("the late pod is bound to %s, want comes", got)
	}
	r.counts(s, 3)
}

// A node that is not ready takes nothing until it is.
func TestNodeNotReady(t *testing.T) {
	r := newRig(t)
	r.schedule()
	r.node("n", 2, func(n *corev1.Node) { n.Status.Conditions = nil })
	r.create(podOf("p", 1))
	r.waits("p", "the nodes that fit are not ready")
	n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	r.ok(err)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	r.ok(err)
	r.bound("p")
}

// bindTo binds a pod as another writer would.
func (r *rig) bindTo(pod, node string) error {
	return client.CoreV1().Pods(r.namespace).Bind(r.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// Another writer binds the same pods at the same time. Each pod is bound once, and
// the scheduler's figures are right whoever was faster.
func TestAnotherWriter(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	for i := range 20 {
		r.node(fmt.Sprint("ours-", i), 8)
	}
	// Only the other writer uses these.
	for i := range 20 {
		r.node(fmt.Sprint("theirs-", i), 8, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	var pods []*corev1.Pod
	for i := range 160 {
		pods = append(pods, podOf(fmt.Sprint("p-", i), 1))
	}
	var (
		mu   sync.Mutex // guards won and lost
		won  int
		lost int
	)
	each(pods, func(p *corev1.Pod) {
		if _, err := client.CoreV1().Pods(r.namespace).Create(r.Context(), p, metav1.CreateOptions{}); err != nil {
			r.Errorf("create pod %s: %v", p.Name, err)
			return
		}
		mu.Lock()
		node := fmt.Sprint("theirs-", won/8%20)
		won++
		mu.Unlock()
		if err := r.bindTo(p.Name, node); err != nil {
			mu.Lock()
			defer mu.Unlock()
			lost++
			if !apierrors.IsConflict(err) {
				r.Errorf("bind pod %s: %v", p.Name, err)
			}
		}
	})
	r.allBound()
	t.Logf("the other writer bound %d of %d pods", won-lost, len(pods))
	if won == lost {
		t.Log("the other writer was never faster: nothing was shown")
	}
	if got := r.inBounds(); got != len(pods) {
		t.Errorf("%d GPUs are held, want %d", got, len(pods))
	}
	r.counts(s, len(pods))
}

// The scheduler is stopped in the middle of its work, again and again, and a new
// one goes on: nothing is lost, no node is overdrawn.
func TestRestart(t *testing.T) {
	r := newRig(t)
	for i := range 25 {
		r.node(fmt.Sprint("n-", i), 8)
	}
	var s *kube.Scheduler
	total := 0
	for round := range 5 {
		var stop func()
		s, stop = r.schedule()
		var pods []*corev1.Pod
		for i := range 40 {
			pods = append(pods, podOf(fmt.Sprintf("p-%d-%d", round, i), 1))
		}
		total += len(pods)
		r.create(pods...)
		if round == 4 {
			break
		}
		r.eventually("some pods of the round are bound", func() string {
			for _, p := range r.pods() {
				if p.Spec.NodeName != "" && p.Name >= fmt.Sprintf("p-%d", round) {
					return ""
				}
			}
			return "none is"
		})
		stop()
		r.inBounds()
	}
	r.allBound()
	if got := r.inBounds(); got != total {
		t.Errorf("%d GPUs are held, want %d", got, total)
	}
	r.counts(s, total)
}
