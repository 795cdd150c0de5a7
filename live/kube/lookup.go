package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/moment"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// lookWorkers ask how works stand that others wait for.
const lookWorkers = 2

// lookAll asks for works until the context ends.
func (s *Scheduler) lookAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-s.works:
			state, began, ended, err := s.lookAtWork(ctx, name)
			if err != nil {
				if ctx.Err() == nil {
					s.trouble("how it stands with work that others wait for is not known", err)
				}
				continue
			}
			s.send(ctx, message{tell: func(b *books) { b.workSeen(name, state, began, ended) }})
		}
	}
}

// lookAtWork asks how a work stands: the Job of the name, where there is one; else the
// pods of its group, or the pod of the name.
func (s *Scheduler) lookAtWork(ctx context.Context, key string) (facts.Work, moment.Instant, moment.Instant, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespace, name := split(key)
	job, err := s.config.Client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		state, began, ended := facts.JobState(job)
		return state, began, ended, nil
	case !apierrors.IsNotFound(err):
		return 0, 0, 0, fmt.Errorf("ask for the job %s: %w", key, err)
	}
	pods, err := s.config.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("ask for the pods of %s: %w", key, err)
	}
	state, began, ended := facts.PodsState(name, pods.Items)
	return state, began, ended, nil
}

// offerLooks hands out works to be looked at, as far as somebody takes them.
func (o *owner) offerLooks() {
	for _, name := range o.books.awaited() {
		select {
		case o.works <- name:
		default:
			o.books.looked[name] = time.Time{} // the next second
		}
	}
}
