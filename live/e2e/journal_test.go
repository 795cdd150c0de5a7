package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/journal"

	"github.com/headrace-dev/headrace/live/kube"
)

// A thousand pods come, some are deleted, a node goes: the journal of it replays
// digest for digest.
func TestJournalReplays(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "day.jsonl")
	s, stop := r.scheduleAs(kube.Config{Client: client, Record: path, Preemption: true})
	for i := range 40 {
		r.node(fmt.Sprint("n-", i), 8)
	}
	var pods []*corev1.Pod
	for i := range 1000 {
		pods = append(pods, podOf(fmt.Sprint("p-", i), i%3))
	}
	r.create(pods...)
	r.eventually("the nodes are full", func() string {
		if f := s.Figures(); f.GPUsHeld < 310 {
			return fmt.Sprintf("%d GPUs are held, %d wait", f.GPUsHeld, f.Waiting)
		}
		return ""
	})
	each(pods[:100], func(p *corev1.Pod) {
		if err := client.CoreV1().Pods(r.namespace).Delete(t.Context(), p.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Errorf("delete pod %s: %v", p.Name, err)
		}
	})
	r.ok(client.CoreV1().Nodes().Delete(t.Context(), "n-7", metav1.DeleteOptions{}))
	r.eventually("the node has gone", func() string {
		if f := s.Figures(); f.Nodes != 39 || f.Placing > 0 {
			return fmt.Sprintf("%d nodes, %d binds in flight", f.Nodes, f.Placing)
		}
		return ""
	})
	stop()
	file, err := os.Open(path)
	r.ok(err)
	defer file.Close()
	got, err := journal.Replay(path, file, func(h journal.Head) (*engine.Policy, error) { return kube.PolicyNamed(h.Policy) })
	r.ok(err)
	if got.Differing != 0 || got.Cycles < 10 || got.Events < 2000 || got.Torn || got.End != "" {
		t.Errorf("the journal replays to %+v, want many events and cycles, and no difference", got)
	}
	t.Logf("%d events, %d cycles, %d plans differ", got.Events, got.Cycles, got.Differing)
}
