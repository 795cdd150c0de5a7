package measure

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// mark is a moment: how many pods were bound, and what the processes had used.
type mark struct {
	at                time.Time
	bound             int
	scheduler, server time.Duration
}

// observation is when the pods of a load were bound, as a watcher saw it.
type observation struct {
	bound []time.Time // by pod; zero: not seen bound
	count int
	last  time.Time
	marks []mark
}

// observer watches the binds of a load.
type observer struct {
	load  *load
	watch watch.Interface
	o     observation
}

// observe begins to watch.
func observe(ctx context.Context, l *load) (*observer, error) {
	w := &observer{load: l, o: observation{bound: make([]time.Time, l.pods)}}
	list, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!=", Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list the bound pods: %w", err)
	}
	if w.watch, err = follow(ctx, l.client, "spec.nodeName!=", list.ResourceVersion); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *observer) stop() { w.watch.Stop() }

// run watches until all pods are bound, or none more within stall. It takes marks
// when the given numbers of pods are bound.
func (w *observer) run(ctx context.Context, scheduler *process, at []int, stall time.Duration) (*observation, error) {
	patience := time.NewTimer(stall)
	defer patience.Stop()
	for w.o.count < len(w.o.bound) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-scheduler.done:
			return nil, scheduler.failure()
		case <-patience.C:
			return &w.o, nil
		case e, open := <-w.watch.ResultChan():
			if !open {
				return nil, fmt.Errorf("watch the bound pods: it cannot go on")
			}
			if !w.see(e) {
				continue
			}
			patience.Reset(stall)
			for len(w.o.marks) < len(at) && w.o.count >= at[len(w.o.marks)] {
				w.mark(scheduler)
			}
		}
	}
	return &w.o, nil
}

// see notes a bind, and says whether it was one of the load.
func (w *observer) see(e watch.Event) bool {
	p, ok := e.Object.(*corev1.Pod)
	if !ok || e.Type == watch.Deleted {
		return false
	}
	number, ours := strings.CutPrefix(p.Name, w.load.run+"-")
	i, err := strconv.Atoi(number)
	if !ours || err != nil || i < 0 || i >= len(w.o.bound) || !w.o.bound[i].IsZero() {
		return false
	}
	w.o.last = time.Now()
	w.o.bound[i] = w.o.last
	w.o.count++
	return true
}

func (w *observer) mark(scheduler *process) {
	m := mark{at: w.o.last, bound: w.o.count, scheduler: scheduler.cpu()}
	if s := w.load.server; s != nil {
		m.server = s.cpu()
	}
	w.o.marks = append(w.o.marks, m)
}

// because returns what a pod that waits says about why.
func because(ctx context.Context, l *load) string {
	list, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=", Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return "no pod is left to say why"
	}
	for _, c := range list.Items[0].Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return "the pods say nothing"
}
