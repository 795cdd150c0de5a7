package kube

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/live/explain"
)

// docs/metrics.md lists every metric there is, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	part := 0.5
	f := Figures{Reasons: []ReasonCount{{Kind: "k", Count: 1}}, Fragmentation: &part}
	f.Models = append(f.Models, nodeSupply("m"))
	m.figures(&f)
	m.cycle(decision.CycleReview, time.Second)
	m.bind(time.Second, time.Second, nil)
	m.evicted(nil)
	m.queues([]explain.Tenant{{Name: "q", Used: explain.Amounts{"gpus": 1500}}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, there []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "| `headrace_"); ok {
			name, _, _ = strings.Cut(name, "`")
			documented = append(documented, "headrace_"+name)
		}
	}
	for _, family := range families {
		there = append(there, family.GetName())
	}
	slices.Sort(documented)
	if !slices.Equal(documented, there) {
		t.Errorf("docs/metrics.md lists\n%v\nthere are\n%v", documented, there)
	}
}

// An event names its pod and is written once; more than the API server should
// bear wait, and what does not fit in the queue is left out.
func TestEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		s := New(Config{Client: client})
		for range eventsKept + 50 {
			s.tellOfPod("ns/p", "uid", corev1.EventTypeWarning, "FailedScheduling", strings.Repeat("ä", noteMost))
			time.Sleep(time.Microsecond) // names carry the time
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.tellAll(ctx)
		list, err := client.EventsV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, most := len(list.Items), eventsBurst+10*eventsPerSecond; n > most || n < most-2 {
			t.Errorf("%d events in ten seconds, want about %d", n, most)
		}
		e := list.Items[0]
		if e.Regarding.UID != "uid" || e.Regarding.Name != "p" || e.Reason != "FailedScheduling" || len(e.Note) > noteMost || e.ReportingController != DefaultName {
			t.Errorf("event %+v", e)
		}
		none := New(Config{Client: client, Events: EventsNone})
		if none.tellOfSelf("R", "n"); len(none.events) != 0 {
			t.Error("an event was queued although none are to be written")
		}
	})
}

// A missing permission is named, in the log once and by readiness, until it is
// given.
func TestMissingPermissionIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var allowed atomic.Bool
		client.PrependReactor("create", "selfsubjectaccessreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
			review := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			a := review.Spec.ResourceAttributes
			review.Status.Allowed = allowed.Load() || a.Resource != "pods" || a.Subresource != "binding" && a.Verb != "watch"
			return true, review, nil
		})
		log := &lines{}
		s := New(Config{Client: client, Log: log.logger()})
		s.synced.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.checkAbilities(ctx) // ends with ctx
		time.Sleep(5 * lookAtAbilities)
		want := "permission is missing to watch pods, create pods/binding"
		if got := s.unready(); got != want {
			t.Errorf("readiness says %q, want %q", got, want)
		}
		if n := log.count("permission is missing"); n != 1 {
			t.Errorf("the log names it %d times, want once: %s", n, log.text())
		}
		allowed.Store(true)
		time.Sleep(2 * lookAtAbilities)
		if got := s.unready(); got != "" {
			t.Errorf("after it was given readiness says %q", got)
		}
	})
}

// Trouble with watching is logged when it is news, and readiness names it until
// the world is rebuilt.
func TestTroubleIsNews(t *testing.T) {
	log := &lines{}
	s := New(Config{Client: fake.NewClientset(), Log: log.logger()})
	for range 5 {
		s.watchTrouble(errors.New("connection refused"))
	}
	if n := log.count("connection refused"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if got := s.unready(); !strings.Contains(got, "connection refused") {
		t.Errorf("readiness says %q", got)
	}
	s.synced.Store(true)
	if got := s.unready(); got != "" {
		t.Errorf("when the world is rebuilt readiness says %q", got)
	}
}

func TestSkew(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	date := at.Format("Mon, 02 Jan 2006 15:04:05 GMT")
	for _, c := range []struct{ asked, heard, want time.Duration }{
		{500 * time.Millisecond, 500 * time.Millisecond, 0},
		{8 * time.Second, 9 * time.Second, 8 * time.Second},
		{-8 * time.Second, -7 * time.Second, -8 * time.Second},
	} {
		if got, err := skewOf(date, at.Add(c.asked), at.Add(c.heard)); err != nil || got != c.want {
			t.Errorf("asked %v, heard %v: %v (%v), want %v", c.asked, c.heard, got, err, c.want)
		}
	}
	if _, err := skewOf("yesterday", at, at); err == nil {
		t.Error("a date that is none was read")
	}
}

// The rate is over the last ten beats.
func TestPace(t *testing.T) {
	var p pace
	now, rate := time.Unix(100, 0), 0.0
	for i := range 40 {
		count := uint64(min(i, 20) * 30)
		rate = p.beat(now, count)
		now = now.Add(time.Second)
		if i == 15 && rate != 30 {
			t.Errorf("at 30 per second: %v", rate)
		}
	}
	if rate != 0 {
		t.Errorf("after twenty idle seconds: %v", rate)
	}
}

// The event of a review's imbalance belongs to the lease.
func TestEventsOfSelf(t *testing.T) {
	s := New(Config{Client: fake.NewClientset(), Name: "x", Namespace: "spot"})
	s.tellOfSelf("BooksUnbalanced", "why")
	e := <-s.events
	if err := s.write(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	list, err := s.config.Client.EventsV1().Events("spot").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d events, %v", len(list.Items), err)
	}
	if got := list.Items[0]; got.Regarding.Kind != "Lease" || got.Regarding.Name != "x" || got.Type != corev1.EventTypeWarning {
		t.Errorf("event %+v", got)
	}
}
