package disks

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/headrace-dev/headrace/live/inventory"
)

// A simulated node lists what pods on it needed; when its disk is nearly full, what was used
// longest ago goes, save what a pod there needs. Other nodes are left alone.
func TestSimulatedNodesListImages(t *testing.T) {
	capacity := corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("100")}
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{inventory.Simulated: inventory.SimulatedBy}}, Status: corev1.NodeStatus{Capacity: capacity}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}, Status: corev1.NodeStatus{Capacity: capacity}})
	d := disks{client: client, sizes: map[string]int64{"a": 20, "b": 30, "c": 25, "d": 20}, nodes: make(map[string]*disk)}
	listed := func(node string) (out []string) {
		t.Helper()
		if err := d.tell(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		n, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range n.Status.Images {
			out = append(out, one.Names...)
		}
		return out
	}
	use := func(node string, pod types.UID, ends bool, images ...string) {
		t.Helper()
		if err := d.use(t.Context(), &stay{node: node, pod: pod, needs: images, ends: ends}); err != nil {
			t.Fatal(err)
		}
	}
	use("n", "1", false, "a")
	use("n", "2", false, "b")
	use("n", "2", true, "b")
	use("n", "3", false, "c")
	if got, want := listed("n"), []string{"b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v, the largest first", got, want)
	}
	use("n", "4", false, "d") // 95 of 100 are taken
	if got, want := listed("n"), []string{"c", "a", "d"}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v: b was used longest ago, but for a, which runs", got, want)
	}
	use("real", "5", false, "a")
	if got := listed("real"); got != nil {
		t.Errorf("a node that is not simulated lists %v", got)
	}
}

// A node that is deleted tells of nothing any more.
func TestNodesGo(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{inventory.Simulated: inventory.SimulatedBy}},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("100Gi")}},
	})
	d := disks{client: client, sizes: make(map[string]int64), nodes: make(map[string]*disk)}
	if err := d.use(t.Context(), &stay{node: "n", pod: "1", needs: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.tell(t.Context(), "n"); err != nil || len(d.nodes) != 0 {
		t.Errorf("error %v, %d nodes are remembered, want none", err, len(d.nodes))
	}
}
