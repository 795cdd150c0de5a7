package e2e

import (
	"math/rand"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// How often the scheduler is killed, in a short run and in a long one.
	killsShort, killsLong = 8, 50
	// killWithin bounds how long a scheduler works before it is killed.
	killWithin = 600 * time.Millisecond
	// churnEvery is the pause between two things that happen.
	churnEvery = 10 * time.Millisecond
)

func long() bool { return os.Getenv("HEADRACE_LONG") != "" }

// The scheduler is killed at random instants, at work and while it starts. Each
// time the next one rebuilds its ledger, which equals what the API server says;
// nothing is lost and no node is overdrawn.
func TestKilled(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	kills := killsShort
	if long() {
		kills = killsLong
	}
	r := newRig(t)
	c := r.newChurn(seed, churnEvery)
	for killed := 0; killed < kills; killed++ {
		pause := c.run()
		p := r.start(kubeconfig)
		if random.Intn(4) == 0 { // while it starts
			time.Sleep(time.Duration(random.Int63n(int64(killWithin / 2))))
			p.kill()
			pause()
			continue
		}
		p.ready()
		pause()
		r.equals(p.ledger)
		r.inBounds()
		p.balanced()
		pause = c.run()
		time.Sleep(time.Duration(random.Int63n(int64(killWithin))))
		p.kill()
		pause()
	}
	p := r.start(kubeconfig)
	p.ready()
	r.equals(p.ledger)
	held := r.inBounds()
	r.eventually("every pod is bound or says why it waits", func() string {
		for _, p := range r.pods() {
			if p.Spec.NodeName == "" && !finished(&p) && reason(&p) == "" {
				return p.Name + " is neither"
			}
		}
		return ""
	})
	p.balanced()
	t.Logf("%d kills, %d GPUs held in the end, of churn: %v", kills, held, c.done)
}

// The terms of a lease that changes hands quickly.
func (r *rig) quickLease() []string {
	return []string{
		"--leader-elect", "--leader-elect-namespace", r.namespace, "--leader-elect-lease-duration", "3s",
		"--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "500ms",
	}
}

// Of two schedulers one leads. When it is killed, told to stop, or frozen for so
// long that it counts as dead, the other takes over: nothing is lost and no node
// is overdrawn, also when the frozen one goes on.
func TestHandOver(t *testing.T) {
	r := newRig(t)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	c := r.newChurn(seed, churnEvery)
	resume := func() func() { return c.run() }
	check := func(p *process, what string) {
		t.Helper()
		started := time.Now()
		p.ready()
		t.Logf("%s: the next one leads after %.1f s", what, time.Since(started).Seconds())
	}
	leader := r.start(kubeconfig, r.quickLease()...)
	leader.ready()
	pause := resume()
	standby := r.start(kubeconfig, r.quickLease()...)
	if !standby.good("/healthz") || standby.good("/readyz") {
		t.Errorf("the standby: healthy %v, ready %v, want healthy and not ready", standby.good("/healthz"), standby.good("/readyz"))
	}
	leader.kill()
	check(standby, "killed")

	leader, standby = standby, r.start(kubeconfig, r.quickLease()...)
	if code := leader.stop(); code != 0 {
		t.Errorf("told to stop, the leader exits with %d:\n%s", code, leader.last())
	}
	check(standby, "told to stop")
	leader.kill()

	leader, standby = standby, r.start(kubeconfig, r.quickLease()...)
	r.ok(leader.command.Process.Signal(syscall.SIGSTOP))
	check(standby, "frozen")
	r.ok(leader.command.Process.Signal(syscall.SIGCONT))
	if code := leader.exit(); code != 1 || !strings.Contains(leader.last(), "the lease is lost") {
		t.Errorf("thawed, the leader exits with %d:\n%s", code, leader.last())
	}
	pause()
	r.equals(standby.ledger)
	r.inBounds()
	standby.balanced()
}

// Two schedulers at work on the same pods, by mistake. The API server binds each
// pod once; that no node gets more than it has is nobody's care then but the
// kubelet's. Both ledgers follow the truth all the same.
func TestTwoAtOnce(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.node(name, 8)
	}
	one, two := r.start(kubeconfig), r.start(kubeconfig)
	one.ready()
	two.ready()
	var pods []*corev1.Pod
	for i := range 60 {
		pods = append(pods, podOf("p-"+string(rune('a'+i%26))+string(rune('a'+i/26)), 1))
	}
	r.create(pods...)
	r.equals(one.ledger)
	r.equals(two.ledger)
	held := 0
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" {
			held++
		}
	}
	t.Logf("%d pods are bound to 32 GPUs", held)
	if held < 32 {
		t.Errorf("%d pods are bound, want all 32 GPUs taken", held)
	}
	one.balanced()
	two.balanced()
}
