package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The size of the long test.
const (
	backlogNodes = 1000
	backlogPods  = 5000
)

// Five thousand pods wait when the scheduler starts; it works them off, and says
// how fast. Long: only with HEADRACE_LONG=1.
func TestBacklog(t *testing.T) {
	if os.Getenv("HEADRACE_LONG") == "" {
		t.Skip("long: set HEADRACE_LONG=1")
	}
	r := newRig(t)
	var names []string
	for i := range backlogNodes {
		names = append(names, fmt.Sprintf("n-%04d", i))
	}
	each(names, func(name string) { r.node(name, 8) })
	var pods []*corev1.Pod
	for i := range backlogPods {
		pods = append(pods, podOf(fmt.Sprint("p-", i), 1))
	}
	started := time.Now()
	r.create(pods...)
	created := time.Since(started)

	started = time.Now()
	s, _ := r.schedule()
	r.eventually("all pods are bound", func() string {
		if f := s.Figures(); f.Bound < backlogPods {
			return fmt.Sprintf("%d bound, %d in flight, %d in line", f.Bound, f.Placing, f.Waiting)
		}
		return ""
	})
	bound := time.Since(started)
	if got := r.inBounds(); got != backlogPods {
		t.Errorf("%d GPUs are held, want %d", got, backlogPods)
	}
	f := s.Figures()
	t.Logf("%d nodes: %.0f pods created per second, %.0f bound per second; %d refused, %d cycles",
		backlogNodes, backlogPods/created.Seconds(), backlogPods/bound.Seconds(), f.Refused, f.Cycles)
}
