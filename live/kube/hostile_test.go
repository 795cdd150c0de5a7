package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Whoever may write a pod may bind it too, with amounts that no machine has. Their
// sums must not come out as room.
func TestAmountsBeyondAllMachines(t *testing.T) {
	for _, amount := range []string{"8Ei", "9223372036854775807", "9000P"} {
		t.Run(amount, func(t *testing.T) {
			w := newTruth(t)
			w.putNode("n", 8, 4, "", true)
			for _, name := range []string{"a", "b", "c"} {
				w.createPod(name, "other", 1, 0)
				p := w.pods["ns/"+name].DeepCopy()
				for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, DefaultGPU, "example.com/x"} {
					p.Spec.Containers[0].Resources.Requests[r] = resource.MustParse(amount)
				}
				p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
				p.Spec.NodeName = "n"
				w.writePod(p)
			}
			w.createPod("ours", DefaultName, 1, 1)
			w.settleAll()
			w.balanced("such pods")
			if got := w.pods["ns/ours"].Spec.NodeName; got != "" {
				t.Errorf("placed on %s, which three pods overdraw", got)
			}
			for _, name := range []string{"a", "b", "c"} {
				w.deletePod("ns/" + name)
			}
			w.settleAll()
			w.balanced("their end")
			if got := w.pods["ns/ours"].Spec.NodeName; got != "n" {
				t.Errorf("bound to %q after they have gone, want n", got)
			}
		})
	}
}

// What the world refuses ends nothing: a node with a device that cannot be is left
// out, and taken in once it can.
func TestNodeThatCannotBe(t *testing.T) {
	w := newTruth(t)
	bad := facts.Node{Ready: true, Added: world.NodeAdded{Name: "n", CPU: 8000, Pods: 10, Life: 3, Devices: []world.Device{{Model: "x", Memory: -1, Island: -1, NUMA: -1}}}}
	w.books.nodeSeen(bad)
	w.createPod("p", DefaultName, 1, 0)
	w.settleAll()
	w.balanced("a node that cannot be")
	if got := w.pods["ns/p"].Spec.NodeName; got != "" {
		t.Errorf("placed on %s, which cannot be", got)
	}
	w.putNode("n", 8, 1, "", true)
	w.settleAll()
	if got := w.pods["ns/p"].Spec.NodeName; got != "n" {
		t.Errorf("bound to %q once the node can be, want n", got)
	}
	bad.Added.UID = "n"
	w.books.nodeSeen(bad)
	w.createPod("q", DefaultName, 1, 0)
	w.settleAll()
	w.balanced("a change that cannot be")
	if got := w.pods["ns/q"].Spec.NodeName; got != "" {
		t.Errorf("placed on %s after a change that cannot be", got)
	}
}
