package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	stormNodes = 200
	stormPods  = 1000
)

// A thousand pods come in one go. A fifth is deleted at once, most of them while
// their binds are under way; another writer binds a fifth; nodes fail and go with
// what is on them and on its way to them. In the end everything is where the
// scheduler believes it to be.
func TestStorm(t *testing.T) {
	r := newRig(t)
	var names []string
	for i := range stormNodes {
		names = append(names, fmt.Sprintf("n-%03d", i))
	}
	each(names, func(name string) { r.node(name, 8) })
	for i := range 25 {
		r.node(fmt.Sprint("theirs-", i), 8, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	p := r.start(kubeconfig)
	p.ready()
	var numbers []int
	for i := range stormPods {
		numbers = append(numbers, i)
	}
	var deleted, won, lost atomic.Int64
	each(numbers, func(i int) {
		pod := podOf(fmt.Sprint("p-", i), 1)
		if _, err := client.CoreV1().Pods(r.namespace).Create(r.Context(), pod, metav1.CreateOptions{}); err != nil {
			r.Errorf("create pod %s: %v", pod.Name, err)
			return
		}
		switch {
		case i%5 == 1:
			deleted.Add(1)
			if err := client.CoreV1().Pods(r.namespace).Delete(r.Context(), pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
				r.Errorf("delete pod %s: %v", pod.Name, err)
			}
		case i%5 == 2:
			err := r.bindTo(pod.Name, fmt.Sprint("theirs-", i/5/8))
			switch {
			case err == nil:
				won.Add(1)
			case apierrors.IsConflict(err):
				lost.Add(1)
			default:
				r.Errorf("bind pod %s: %v", pod.Name, err)
			}
		case i%100 == 3:
			if err := setReady(names[i/100], corev1.ConditionUnknown); err != nil {
				r.Errorf("let node %s fail: %v", names[i/100], err)
			}
		case i%100 == 53:
			if err := client.CoreV1().Nodes().Delete(r.Context(), names[i/100], metav1.DeleteOptions{}); err != nil {
				r.Errorf("delete node %s: %v", names[i/100], err)
			}
		}
	})
	r.allBound()
	r.equals(p.ledger)
	r.inBounds()
	p.balanced()
	refused := 0.0
	if _, body, err := p.ask("/metrics"); err == nil {
		_, _ = fmt.Sscanf(after(string(body), `headrace_schedule_attempts_total{result="refused"} `), "%g", &refused)
	}
	t.Logf("%d pods: %d deleted at once, %d bound by the other writer, who came too late for %d; %v binds were refused", stormPods, deleted.Load(), won.Load(), lost.Load(), refused)
}
