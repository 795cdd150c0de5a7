package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// How long nothing moves on the way to the API server, in a short run and in a
	// long one.
	holeShort, holeLong = 3 * time.Second, 20 * time.Second
	// roughPods are placed on the rough way.
	roughPods = 50
)

func podsOf(name string, count int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range count {
		out = append(out, podOf(fmt.Sprintf("%s-%d", name, i), 1))
	}
	return out
}

func (r *rig) delete(name string) {
	r.Helper()
	if err := client.CoreV1().Pods(r.namespace).Delete(r.Context(), name, *metav1.NewDeleteOptions(0)); err != nil {
		r.Errorf("delete pod %s: %v", name, err)
	}
}

// The API server answers late, turns calls away, loses some before and some after
// they are carried out, and cuts watches; then nothing moves for a while, and what
// was under way never ends. The scheduler goes on: all pods are placed, none is
// lost, no node is overdrawn. It stays healthy, and ready: its world is old, not
// unknown.
func TestRoughWay(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := newRig(t)
	for i := range 20 {
		r.node(fmt.Sprint("n-", i), 8)
	}
	way, path := r.newBumpy(seed)
	way.rough.Store(true)
	p := r.start(path)
	p.ready()
	r.create(podsOf("rough", roughPods)...)
	for i := range 10 {
		r.delete(fmt.Sprint("rough-", i))
	}
	r.allBound()
	way.rough.Store(false)
	r.equals(p.ledger)

	hole := holeShort
	if long() {
		hole = holeLong
	}
	r.create(podsOf("before", 20)...) // some binds are under way when nothing moves
	way.openHole(true)
	for i := range 10 {
		r.delete(fmt.Sprint("rough-", 10+i))
	}
	r.create(podsOf("within", 30)...)
	time.Sleep(hole)
	if !p.good("/healthz") || !p.good("/readyz") {
		t.Errorf("while nothing moves: healthy %v, ready %v, want both", p.good("/healthz"), p.good("/readyz"))
	}
	way.openHole(false)
	started := time.Now()
	r.allBound()
	t.Logf("all bound %.1f s after a hole of %v; of calls on the rough way: %v", time.Since(started).Seconds(), hole, way.counts)
	r.equals(p.ledger)
	if got, want := r.inBounds(), roughPods-20+50; got != want {
		t.Errorf("%d GPUs are held, want %d", got, want)
	}
	p.balanced()
}

// The API server and its etcd are killed while pods are being placed, and start
// again. The scheduler goes on by itself: all pods are placed, no node is
// overdrawn.
func TestServerRestarts(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		r.node(fmt.Sprint("n-", i), 8)
	}
	p := r.start(kubeconfig)
	p.ready()
	r.create(podsOf("before", 60)...)
	theCluster.kill()
	if !p.good("/healthz") || !p.good("/readyz") {
		t.Errorf("without an API server: healthy %v, ready %v, want both", p.good("/healthz"), p.good("/readyz"))
	}
	r.ok(theCluster.start())
	r.create(podsOf("after", 60)...)
	r.allBound()
	r.equals(p.ledger)
	if got := r.inBounds(); got != 120 {
		t.Errorf("%d GPUs are held, want 120", got)
	}
	p.balanced()
}
