package whatif_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/live/whatif"
)

// What people read says when, where and who pays, and says plainly what is not
// known.
func TestWrite(t *testing.T) {
	c := whatif.Cluster{Nodes: []corev1.Node{node("n", 2), node("m", 1)}, Pods: []corev1.Pod{
		pod("a", "n", 1, 0, 30*time.Minute), pod("b", "n", 1, 0, 0), pod("c", "m", 1, 50, 0),
	}}
	got := ask(c, pod("soon", "", 1, 0, 0), pod("later", "", 2, 10, 0), pod("cpu", "", 0, 0, 0), pod("huge", "", 8, 0, 0))
	for i := range got.Pods {
		if p := got.Pods[i].Now; p != nil {
			p.Score = 500_000
		}
		if p := got.Pods[i].Starts; p != nil {
			p.Score = 250_000
		}
	}
	var text strings.Builder
	got.Write(&text)
	want := `read: 2 nodes, 3 pods bound (1 of them say how long they run), 0 other waiting; policy headrace
ns/soon: not now: needs 1 idle device on one node, the most idle is 0 (2 of 2 nodes); waiting for room
  starts in 20m0s (2026-01-02T03:30:00Z), on n (score 0.250), when ns/a has ended, by the run times declared
  nobody would be evicted for it
ns/later: not now: needs 2 idle devices on one node, the most idle is 0 (1 of 2 nodes); waiting for room
  when: run times do not tell (1 of 3 bound pods declare one); as soon as 2 pods of n end: ns/a, ns/b
  under preemption now, in place of 2 pods on n: ns/a, ns/b
ns/cpu: now, on n (score 0.500)
ns/huge: not now: needs 8 devices on one node, the largest node has 2 (2 of 2 nodes); never in this cluster
  nobody would be evicted for it
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
