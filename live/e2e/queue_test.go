package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/headrace-dev/headrace/api/v1alpha1"
)

// installQueues makes the cluster serve Queues from now on.
func installQueues(r *rig) {
	r.Helper()
	file, err := os.ReadFile("../../charts/headrace/crds/queues.scheduling.headrace.dev.yaml")
	r.ok(err)
	var definition unstructured.Unstructured
	r.ok(yaml.Unmarshal(file, &definition.Object))
	if _, err := objects.Resource(definitions).Create(r.Context(), &definition, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		r.ok(err)
	}
	r.eventually("queues are served", func() string {
		list, err := client.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		if err != nil {
			return err.Error()
		}
		for _, one := range list.APIResources {
			if one.Name == v1alpha1.Queues.Resource {
				_, err = objects.Resource(v1alpha1.Queues).List(r.Context(), metav1.ListOptions{})
				return text(err)
			}
		}
		return "not yet"
	})
}

func (r *rig) createQueue(name string, spec map[string]any) error {
	_, err := objects.Resource(v1alpha1.Queues).Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Queue", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err == nil {
		r.Cleanup(func() {
			_ = objects.Resource(v1alpha1.Queues).Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	return err
}

// held counts the pods of a queue that are bound and were not told to go.
func (r *rig) held(queue string) int {
	n := 0
	for _, p := range r.pods() {
		if p.Labels[v1alpha1.QueueLabel] == queue && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// One tenant borrows the whole cluster; when the other comes, it gets back what it
// deserves and no more. A pod whose queue is not there waits for it, and says so.
func TestQueuesBorrowAndReclaim(t *testing.T) {
	r := newRig(t)
	installQueues(r)
	for field, spec := range map[string]map[string]any{ // order: each is refused by itself
		"weight":   {"weight": int64(-1)},
		"deserved": {"deserved": map[string]any{"gpus": "many"}},
		"parent":   {"parent": "wrong"},
	} {
		if err := r.createQueue("wrong", spec); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a queue of %v: %v", spec, err)
		}
	}
	four := map[string]any{"deserved": map[string]any{"gpus": int64(4)}}
	r.ok(r.createQueue("red", four))
	s, _ := r.preempting()
	r.node("n", 8)
	in := func(queue string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.QueueLabel: queue} }
	}
	for i := range 8 {
		r.create(podOf(fmt.Sprintf("red-%d", i), 1, in("red")))
	}
	r.allBound()
	r.create(podOf("blue-0", 1, in("blue")))
	r.waits("blue-0", `its label headrace.dev/queue names queue "blue", which does not exist`)
	r.ok(r.createQueue("blue", four))
	for i := 1; i < 6; i++ {
		r.create(podOf(fmt.Sprintf("blue-%d", i), 1, in("blue")))
	}
	r.eventually("each tenant has what it deserves", func() string {
		for _, name := range r.leaving() {
			r.gone(name)
		}
		if red, blue := r.held("red"), r.held("blue"); red != 4 || blue != 4 {
			return fmt.Sprintf("red holds %d, blue %d", red, blue)
		}
		return ""
	})
	r.eventually("the status of the queues says so", func() string {
		for _, name := range []string{"red", "blue"} {
			q, err := objects.Resource(v1alpha1.Queues).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			used, _, _ := unstructured.NestedString(q.Object, "status", "used", "gpus")
			fair, _, _ := unstructured.NestedString(q.Object, "status", "fairShare", "gpus")
			if waiting, _, _ := unstructured.NestedInt64(q.Object, "status", "waiting"); used != "4" || fair != "4" || (waiting == 2) != (name == "blue") {
				return fmt.Sprintf("%s: %v", name, q.Object["status"])
			}
		}
		return ""
	})
	if red, blue, going := r.held("red"), r.held("blue"), r.leaving(); red != 4 || blue != 4 || len(going) > 0 {
		t.Errorf("a review later red holds %d, blue %d, and %v leave", red, blue, going)
	}
	top, err := s.ExplainTop(t.Context(), 1)
	r.ok(err)
	why, err := s.ExplainPod(t.Context(), r.namespace, "red-0")
	if err == nil && (len(why.Queues) != 1 || why.Queues[0].Name != "red") {
		t.Errorf("queues of red-0: %+v", why.Queues)
	}
	if len(top.Queues) != 2 || top.Queues[0].Name != "blue" || top.Queues[0].Used["gpus"] != 4000 {
		t.Errorf("top: %+v", top.Queues)
	}
	r.inBounds()
}
