package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod is placed, and with one write: the bind is all that was changed about it.
func TestPod(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	r.node("n", 2)
	r.create(podOf("p", 1))
	if node := r.bound("p"); node != "n" {
		t.Errorf("pod is bound to %q, want n", node)
	}
	p := r.pod("p")
	if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Type != corev1.PodScheduled || p.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v, want only PodScheduled=True", p.Status.Conditions)
	}
	r.counts(s, 1)
}

// A thousand pods fill a hundred nodes to the last GPU, and none beyond.
func TestThousandPods(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("n-%02d", i))
	}
	each(names, func(name string) { r.node(name, 8) })
	var whole, single, none []*corev1.Pod
	for i := range 20 {
		whole = append(whole, podOf(fmt.Sprint("whole-", i), 8))
	}
	for i := range 640 {
		single = append(single, podOf(fmt.Sprint("single-", i), 1))
	}
	for i := range 340 {
		none = append(none, podOf(fmt.Sprint("none-", i), 0))
	}
	// Whole nodes first: later there is none left.
	r.create(whole...)
	r.allBound()
	r.create(append(single, none...)...)
	r.allBound()
	if got := r.inBounds(); got != 800 {
		t.Errorf("%d GPUs are held, want all 800", got)
	}
	r.counts(s, 800)
	r.create(podOf("late", 1))
	r.waits("late", "needs 1 idle device on one node, the most idle is 0")
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "single-7", *metav1.NewDeleteOptions(0)))
	r.bound("late")
	r.inBounds()
}

// Selectors, affinity, taints and cordons are held.
func TestSelectorsAndTaints(t *testing.T) {
	r := newRig(t)
	r.schedule()
	r.node("plain", 4)
	r.node("labelled", 4, func(n *corev1.Node) { n.Labels["disk"] = "fast" })
	r.node("tainted", 4, func(n *corev1.Node) {
		n.Labels["pool"] = "reserved"
		n.Spec.Taints = []corev1.Taint{{Key: "reserved", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	})
	r.node("cordoned", 4, func(n *corev1.Node) { n.Labels["pool"] = "closed"; n.Spec.Unschedulable = true })
	reserved := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "reserved"} }
	r.create(
		podOf("selects", 1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }),
		podOf("avoids", 1, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "disk", Operator: corev1.NodeSelectorOpDoesNotExist},
				}}},
			}}}
		}),
		podOf("tolerates", 1, reserved, func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
		}),
		podOf("intolerant", 1, reserved),
		podOf("closed-out", 1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "closed"} }),
		podOf("nowhere", 1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "slow"} }),
	)
	for pod, want := range map[string]string{"selects": "labelled", "avoids": "plain", "tolerates": "tainted"} {
		if got := r.bound(pod); got != want {
			t.Errorf("pod %s is bound to %s, want %s", pod, got, want)
		}
	}
	r.waits("intolerant", "taints that are not tolerated")
	r.waits("closed-out", "taints that are not tolerated")
	r.waits("nowhere", "no node has the labels asked for")
	// What keeps them away changes, and they go.
	patch := func(node, what string) {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(what), metav1.PatchOptions{})
		r.ok(err)
	}
	patch("tainted", `{"spec":{"taints":null}}`)
	patch("cordoned", `{"spec":{"unschedulable":false}}`)
	patch("plain", `{"metadata":{"labels":{"disk":"slow"}}}`)
	for pod, want := range map[string]string{"intolerant": "tainted", "closed-out": "cordoned", "nowhere": "plain"} {
		if got := r.bound(pod); got != want {
			t.Errorf("after the change pod %s is bound to %s, want %s", pod, got, want)
		}
	}
	r.inBounds()
}

// A pod that can never be placed says why, in numbers, and is told once.
func TestUnschedulableSaysWhy(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	r.node("n", 4)
	r.create(podOf("large", 16))
	r.waits("large", "Unschedulable: needs 16 devices on one node, the largest node has 4 (1 of 1 nodes); never in this cluster")
	before := r.pod("large").ResourceVersion
	for i := range 3 { // each makes a cycle, in which the large one is looked at again
		name := fmt.Sprint("small-", i)
		r.create(podOf(name, 1))
		r.bound(name)
	}
	r.counts(s, 3) // figures are taken after reasons are written
	if after := r.pod("large").ResourceVersion; after != before {
		t.Errorf("the pod was written again (%s, then %s) although nothing changed", before, after)
	}
	r.create(podOf("claims", 0, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	}))
	r.waits("claims", `Unschedulable: VolumeRestrictions: persistentvolumeclaim "c" not found`)
}
