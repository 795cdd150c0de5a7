package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// leaky loses things on the way to the API server: of every eight binds two are
// carried out and their answers lost, and one never arrives.
type leaky struct {
	under                  http.RoundTripper
	binds, unheard, undone atomic.Int64
}

var errLost = errors.New("the connection was lost")

func (l *leaky) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method != http.MethodPost || !strings.HasSuffix(q.URL.Path, "/binding") {
		return l.under.RoundTrip(q)
	}
	switch l.binds.Add(1) % 8 {
	case 1, 4:
		l.unheard.Add(1)
		answer, err := l.under.RoundTrip(q)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		return nil, errLost
	case 6:
		l.undone.Add(1)
		return nil, errLost
	}
	return l.under.RoundTrip(q)
}

// Answers and requests get lost. A bind of which nothing was heard is not
// forgotten and not done twice: all pods are placed, no node is overdrawn.
func TestLostAnswers(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.node(fmt.Sprint("n-", i), 8)
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	r.ok(err)
	lossy := &leaky{}
	c.ContentType = runtime.ContentTypeProtobuf
	c.QPS, c.Burst = 1000, 1000
	c.Wrap(func(under http.RoundTripper) http.RoundTripper {
		lossy.under = under
		return lossy
	})
	through, err := kubernetes.NewForConfig(c)
	r.ok(err)
	s, _ := r.scheduleBy(through)
	var pods []*corev1.Pod
	for i := range 80 {
		pods = append(pods, podOf(fmt.Sprint("p-", i), 1))
	}
	r.create(pods...)
	r.allBound()
	if got := r.inBounds(); got != len(pods) {
		t.Errorf("%d GPUs are held, want %d", got, len(pods))
	}
	r.counts(s, len(pods))
	t.Logf("of %d binds %d were not heard of and %d never arrived", lossy.binds.Load(), lossy.unheard.Load(), lossy.undone.Load())
	if lossy.unheard.Load() == 0 || lossy.undone.Load() == 0 {
		t.Errorf("nothing was lost, so nothing was shown")
	}
}
