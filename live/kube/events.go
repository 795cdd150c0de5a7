package kube

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
)

// EventMode says which events are written.
type EventMode uint8

const (
	// EventsOnChange writes an event when the reason of a waiting pod becomes
	// another one. A pod that is placed at once costs no event.
	EventsOnChange EventMode = iota
	// EventsAll writes one for each pod that is placed, too.
	EventsAll
	// EventsNone writes none.
	EventsNone
)

// EventModes are the names of the modes, by mode.
func EventModes() []string { return []string{"changes", "all", "none"} }

// EventModeNamed returns a mode.
func EventModeNamed(name string) (EventMode, error) {
	for i, n := range EventModes() {
		if n == name {
			return EventMode(i), nil
		}
	}
	return 0, fmt.Errorf("no event mode %q: there are %s", name, strings.Join(EventModes(), ", "))
}

const (
	// eventsPerSecond is the most events written per second, after a burst: a
	// tenth of what an API server on two cores writes in all.
	eventsPerSecond, eventsBurst = 20, 100
	// eventsKept is how many events wait to be written; those beyond are counted
	// and left out.
	eventsKept = 1000
	// noteMost is the longest note that the API takes.
	noteMost = 1024
)

// event is one to be written.
type event struct {
	regarding    corev1.ObjectReference
	kind         string // Normal or Warning
	action       string // empty: Scheduling
	reason, note string
	at           time.Time
}

// tell queues an event, or leaves it out when too many wait.
func (s *Scheduler) tell(e event) {
	if s.config.Events == EventsNone {
		return
	}
	e.at = time.Now()
	select {
	case s.events <- e:
	default:
		s.config.Metrics.eventDropped()
	}
}

// tellOfPod queues an event about a pod.
func (s *Scheduler) tellOfPod(key, uid, kind, reason, note string) {
	namespace, name := split(key)
	s.tell(event{
		regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)},
		kind:      kind, reason: reason, note: note,
	})
}

// tellOfSelf queues a warning about the scheduler; it belongs to its lease.
func (s *Scheduler) tellOfSelf(reason, note string) {
	s.tell(event{
		regarding: corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: s.config.Namespace, Name: s.config.Name},
		kind:      corev1.EventTypeWarning, reason: reason, note: note,
	})
}

// tellAll writes events until the context ends.
func (s *Scheduler) tellAll(ctx context.Context) {
	limit := flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsBurst)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.events:
			if limit.Wait(ctx) != nil {
				return
			}
			if err := s.write(ctx, &e); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				s.config.Metrics.eventDropped()
				s.config.Log.Warn("an event was not written", "about", e.regarding.Namespace+"/"+e.regarding.Name, "because", err)
			}
		}
	}
}

func (s *Scheduler) write(ctx context.Context, e *event) error {
	note := e.note
	if len(note) > noteMost {
		note = strings.ToValidUTF8(note[:noteMost], "")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespace := cmp.Or(e.regarding.Namespace, metav1.NamespaceDefault)
	_, err := s.config.Client.EventsV1().Events(namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", e.regarding.Name, e.at.UnixNano())},
		EventTime:  metav1.NewMicroTime(e.at), ReportingController: s.config.Name, ReportingInstance: s.config.Name,
		Action: cmp.Or(e.action, "Scheduling"), Reason: e.reason, Regarding: e.regarding, Note: note, Type: e.kind,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("write an event about %s/%s: %w", e.regarding.Namespace, e.regarding.Name, err)
	}
	return nil
}
