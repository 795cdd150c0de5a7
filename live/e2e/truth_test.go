package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/headrace-dev/headrace/live/kube"
)

// finished says whether a pod holds nothing any more.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// counted turns an amount into what the ledger counts in.
func counted(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// equals waits until a scheduler's ledger is what the API server says, when
// nothing else is writing: the same pods in the same places, the same amounts
// free on every node, and a reason for every pod that waits.
func (r *rig) equals(ledger func() (*kube.Ledger, error)) {
	r.Helper()
	r.eventually("the ledger equals what the API server says", func() string {
		l, err := ledger()
		if err != nil {
			return err.Error()
		}
		nodes, err := client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		r.ok(err)
		return differs(l, nodes.Items, r.pods())
	})
}

// differs names one difference between a ledger and what the API server says.
func differs(l *kube.Ledger, nodes []corev1.Node, pods []corev1.Pod) string {
	entries := make(map[string]kube.Entry)
	for _, e := range l.Pods {
		entries[e.Pod] = e
	}
	free := make(map[string]map[corev1.ResourceName]int64)
	for _, n := range nodes {
		free[n.Name] = make(map[corev1.ResourceName]int64)
		for name, amount := range n.Status.Allocatable {
			free[n.Name][name] = counted(name, amount)
		}
	}
	for i := range pods {
		p := &pods[i]
		key := p.Namespace + "/" + p.Name
		e, known := entries[key]
		delete(entries, key)
		at := free[p.Spec.NodeName]
		switch {
		case finished(p), p.Spec.NodeName == "" && p.DeletionTimestamp != nil:
			if known {
				return fmt.Sprintf("pod %s is over, in the ledger it is %s", key, e.State)
			}
			continue
		case !known || e.UID != string(p.UID):
			return fmt.Sprintf("pod %s is not in the ledger", key)
		case p.Spec.NodeName == "" && (e.State != "waiting" || e.Reason == ""):
			return fmt.Sprintf("pod %s waits, in the ledger it is %s because %q", key, e.State, e.Reason)
		case p.Spec.NodeName == "":
			continue
		case at == nil && (e.State != "nowhere" || e.Node != ""):
			return fmt.Sprintf("pod %s is bound to %s, which is gone, in the ledger it is %s at %q", key, p.Spec.NodeName, e.State, e.Node)
		case at == nil:
			continue
		case e.State != "bound" || e.Node != p.Spec.NodeName:
			return fmt.Sprintf("pod %s is bound to %s, in the ledger it is %s at %q", key, p.Spec.NodeName, e.State, e.Node)
		}
		for name, amount := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
			at[name] -= counted(name, amount)
		}
		at[corev1.ResourcePods]--
	}
	for key, e := range entries {
		return fmt.Sprintf("pod %s is gone, in the ledger it is %s", key, e.State)
	}
	return freeDiffers(l, free)
}

func freeDiffers(l *kube.Ledger, free map[string]map[corev1.ResourceName]int64) string {
	for _, a := range l.Nodes {
		want := free[a.Node]
		if want == nil {
			return fmt.Sprintf("node %s is in the ledger and gone", a.Node)
		}
		delete(free, a.Node)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if a.Free[name] != want[name] {
				return fmt.Sprintf("node %s has %d %s free, in the ledger %d", a.Node, want[name], name, a.Free[name])
			}
		}
	}
	for name := range free {
		return fmt.Sprintf("node %s is not in the ledger", name)
	}
	return ""
}
