package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// scripted is an API server of one pod, which answers binds as it is told.
type scripted struct {
	mu    sync.Mutex // guards the rest
	binds []string   // what becomes of the next binds
	node  string     // where the pod is bound
	calls []string
}

// The ways a scripted bind can end.
const (
	carriedOut = "carried out"
	unheard    = "carried out, the answer lost"
	undone     = "never arrived"
	fault      = "fault" // an answer of 500
	conflict   = "conflict"
	elsewhere  = "elsewhere" // somebody else binds it just before
)

func (s *scripted) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb := "get"
	answer := any(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{UID: "uid", Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: s.node},
	})
	code := http.StatusOK
	if strings.HasSuffix(q.URL.Path, "/binding") {
		verb = s.binds[0]
		s.binds = s.binds[1:]
		switch {
		case verb == elsewhere:
			s.node = "other"
		case (verb == carriedOut || verb == unheard) && s.node == "":
			s.node = "n"
			code = http.StatusCreated
		}
		status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
		switch {
		case verb == fault:
			code, status.Reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
		case code != http.StatusCreated:
			code, status.Reason = http.StatusConflict, metav1.StatusReasonConflict
		}
		if code >= http.StatusBadRequest {
			status.Status, status.Code = metav1.StatusFailure, int32(code)
		}
		answer = &status
	}
	s.calls = append(s.calls, verb)
	if verb == unheard || verb == undone {
		panic(http.ErrAbortHandler) // closes the connection
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

// A bind ends when it is known how it ended, and what nobody answered is written
// again rather than given up.
func TestBind(t *testing.T) {
	for _, c := range []struct {
		name  string
		binds []string
		want  error  // nil: bound
		says  string // of another error
		calls []string
	}{
		{name: "plain", binds: []string{carriedOut}, calls: []string{carriedOut}},
		{name: "refused", binds: []string{conflict}, says: "bind ns/p to n", calls: []string{conflict}},
		{name: "the answer is lost", binds: []string{unheard}, calls: []string{unheard, "get"}},
		{name: "it never arrived", binds: []string{undone, carriedOut}, calls: []string{undone, "get", carriedOut}},
		{name: "nor did the second", binds: []string{undone, undone, carriedOut}, calls: []string{undone, "get", undone, "get", carriedOut}},
		{name: "the first arrives late", binds: []string{undone, conflict}, says: "bind ns/p to n", calls: []string{undone, "get", conflict, "get"}},
		{name: "somebody else was faster", binds: []string{undone, elsewhere}, want: errBoundElsewhere, calls: []string{undone, "get", elsewhere, "get"}},
		{name: "a fault that was answered", binds: []string{fault}, says: "bind ns/p to n", calls: []string{fault, "get"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script := &scripted{binds: c.binds}
			s := schedulerAt(t, script)
			err := s.bind(t.Context(), &Bind{Key: "ns/p", UID: "uid", Node: "n"})
			if c.says == "" && !errors.Is(err, c.want) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got error %v, want %v %s", err, c.want, c.says)
			}
			if !slices.Equal(script.calls, c.calls) {
				t.Errorf("calls %v, want %v", script.calls, c.calls)
			}
		})
	}
}

// schedulerAt returns a scheduler whose API server is a handler. The connection
// is a new one for every call, so that no transport repeats what was lost.
func schedulerAt(t *testing.T, h http.Handler) *Scheduler {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return &http.Transport{DisableKeepAlives: true}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Client: client})
}

// An instance whose term is over writes nothing, and a write under way is dropped
// when the term ends.
func TestBindWithinTerm(t *testing.T) {
	script := &scripted{}
	s := schedulerAt(t, script)
	s.config.Term = func() time.Time { return time.Now().Add(-time.Second) }
	if err := s.bind(t.Context(), &Bind{Key: "ns/p", UID: "uid", Node: "n"}); !errors.Is(err, ErrDisplaced) || len(script.calls) > 0 {
		t.Errorf("after the term: error %v after calls %v, want %v and no call", err, script.calls, ErrDisplaced)
	}
	if err := s.evictOne(t.Context(), Ref{Key: "ns/p", UID: "uid"}, 0); !errors.Is(err, ErrDisplaced) || len(script.calls) > 0 {
		t.Errorf("after the term: evicting: error %v after calls %v, want %v and no call", err, script.calls, ErrDisplaced)
	}
	claim := Draw{Claim: &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}}
	if _, err := s.draw(t.Context(), &Bind{Key: "ns/p", UID: "uid", Node: "n"}, &claim); !errors.Is(err, ErrDisplaced) || len(script.calls) > 0 {
		t.Errorf("after the term: allocating: error %v after calls %v, want %v and no call", err, script.calls, ErrDisplaced)
	}
	gone := make(chan struct{})
	s = schedulerAt(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // the end of a connection shows after that
		<-q.Context().Done()
		close(gone)
	}))
	s.config.Term = func() time.Time { return time.Now().Add(100 * time.Millisecond) }
	if err := s.writeBind(t.Context(), &Bind{Key: "ns/p", UID: "uid", Node: "n"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the end of the term: error %v, want %v", err, context.DeadlineExceeded)
	}
	select {
	case <-gone:
	case <-time.After(callTimeout):
		t.Errorf("the call goes on after the end of the term")
	}
}
