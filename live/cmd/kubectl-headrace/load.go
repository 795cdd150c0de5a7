package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/api/v1alpha1"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/kube"
)

const (
	// creators bounds how many pods are created at the same time.
	creators = 8
	// sweepEvery is how often finished pods are deleted.
	sweepEvery = 5 * time.Second
	// sweepMost bounds one sweep.
	sweepMost = 500
	namespace = metav1.NamespaceDefault
)

// load makes a workload arrive as pods.
type load struct {
	client            kubernetes.Interface
	speed             float64
	from              time.Duration // of the workload's day; what arrives before is left out
	created, finished atomic.Int64
	// pod makes the pod for one of the workload.
	pod func(*trace.Pod, string, time.Duration) *corev1.Pod
}

// run creates the pods when their time has come, and deletes those that have
// finished, until the context ends.
func (l *load) run(ctx context.Context, w *trace.Workload) error {
	pods := w.ByArrival()
	if err := l.priorities(ctx, pods); err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	next := make(chan *corev1.Pod)
	defer close(next)
	for range creators {
		// Ends when next is closed.
		group.Go(func() {
			for p := range next {
				if _, err := l.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err == nil || apierrors.IsAlreadyExists(err) {
					l.created.Add(1)
				}
			}
		})
	}
	group.Go(func() { l.sweep(ctx) }) // ends with ctx
	started := time.Now()
	for i := range pods {
		arrival := int64(pods[i].Arrival) - l.from.Microseconds()
		if arrival < 0 {
			continue
		}
		due := started.Add(l.scaled(arrival))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(due)):
		}
		select {
		case <-ctx.Done():
			return nil
		case next <- l.pod(&pods[i], kube.DefaultName, l.scaled(int64(pods[i].Duration))):
		}
	}
	<-ctx.Done()
	return nil
}

// scaled turns microseconds of the workload into time of this run.
func (l *load) scaled(micros int64) time.Duration {
	return time.Duration(float64(micros)/l.speed) * time.Microsecond
}

// priorities creates a priority class for every queue.
func (l *load) priorities(ctx context.Context, pods []trace.Pod) error {
	made := make(map[string]bool)
	for i := range pods {
		p := &pods[i]
		if p.Queue == "" || made[p.Queue] {
			continue
		}
		made[p.Queue] = true
		_, err := l.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: p.Queue}, Value: p.Priority,
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the priority class %s: %w", p.Queue, err)
		}
	}
	return nil
}

// sweep deletes finished pods now and then.
func (l *load) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		list, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "status.phase=" + string(corev1.PodSucceeded), LabelSelector: v1alpha1.QueueLabel, Limit: sweepMost,
		})
		if err != nil {
			continue // the next sweep tries again
		}
		now := int64(0)
		for i := range list.Items {
			if l.client.CoreV1().Pods(namespace).Delete(ctx, list.Items[i].Name, *metav1.NewDeleteOptions(now)) == nil {
				l.finished.Add(1)
			}
		}
	}
}
