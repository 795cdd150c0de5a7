package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The size of the test for leaks, in a short run and in a long one.
const (
	growRoundsShort, growPodsShort = 5, 60
	growRoundsLong, growPodsLong   = 20, 500
	// Between the second round and the last, the scheduler may grow by this much:
	// a few idle connections and their goroutines, and buffers that they keep.
	growGoroutines = 40
	growBytes      = 4 << 20
)

// after returns what follows a word in a text.
func after(text, word string) string {
	_, rest, _ := strings.Cut(text, word)
	return rest
}

// Pods come, are placed and go, round after round. The scheduler does not grow.
func TestDoesNotGrow(t *testing.T) {
	rounds, count := growRoundsShort, growPodsShort
	if long() {
		rounds, count = growRoundsLong, growPodsLong
	}
	r := newRig(t)
	for i := range (count + 7) / 8 {
		r.node(fmt.Sprint("n-", i), 8)
	}
	p := r.start(kubeconfig, "--profiling")
	p.ready()
	var goroutines, bytes float64
	for round := range rounds {
		pods := podsOf(fmt.Sprint("round-", round), count)
		r.create(pods...)
		r.allBound()
		each(pods, func(pod *corev1.Pod) { r.delete(pod.Name) })
		r.equals(p.ledger)
		if round == 1 {
			goroutines, bytes = p.metric("go_goroutines"), p.heap()
		}
	}
	g, b := p.metric("go_goroutines"), p.heap()
	t.Logf("%d rounds of %d pods: goroutines %v, then %v; heap %.1f MiB, then %.1f MiB", rounds, count, goroutines, g, bytes/(1<<20), b/(1<<20))
	if g > goroutines+growGoroutines || b > bytes+growBytes {
		t.Errorf("more than %d goroutines or %d MiB were added", growGoroutines, growBytes>>20)
	}
}

// heap returns what is on the heap after a collection, which the profile of the
// heap brings about.
func (p *process) heap() float64 {
	p.rig.Helper()
	if code, _, err := p.ask("/debug/pprof/heap?gc=1"); err != nil || code != http.StatusOK {
		p.rig.Fatalf("ask for a collection: %d %v", code, err)
	}
	return p.metric("go_memstats_heap_alloc_bytes")
}
