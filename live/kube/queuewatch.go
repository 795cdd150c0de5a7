package kube

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/internal/core/cluster"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// watchQueues returns the informer of queues, where the cluster serves them.
func (s *Scheduler) watchQueues(ctx context.Context) []watched {
	if s.config.Dynamic == nil || !s.serves(ctx, v1alpha1.GroupVersion.String(), v1alpha1.Queues.Resource) {
		return nil
	}
	s.unable.need(queueAbilities())
	informer := dynamicinformer.NewFilteredDynamicInformer(s.config.Dynamic, v1alpha1.Queues, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
	return []watched{{informer.Informer(), handler(s, ctx,
		func(b *books, o *unstructured.Unstructured) { b.queueSeen(s.queueFacts(o)) },
		func(b *books, o *unstructured.Unstructured) { b.queueGone(o.GetName()) })}}
}

// queueFacts reads a queue. One that has not the form of one is not in force.
func (s *Scheduler) queueFacts(o *unstructured.Unstructured) facts.Queue {
	q, err := queueIn(o)
	if err != nil {
		out := facts.Queue{UID: string(o.GetUID()), Why: err.Error()}
		out.Added.Name = o.GetName()
		return out
	}
	return facts.QueueOf(q, s.config.GPU)
}

func queueIn(o *unstructured.Unstructured) (*v1alpha1.Queue, error) {
	var q v1alpha1.Queue
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &q); err != nil {
		return nil, fmt.Errorf("read queue %s: %w", o.GetName(), err)
	}
	return &q, nil
}

// queueLook is what the owner hands out about queues: everything in it stays as it is.
type queueLook struct {
	view     *cluster.View
	messages map[string]string // by queue that is not in force as it is written
}

// lookAtQueues hands the queues out, to be counted and written beside the owner.
func (o *owner) lookAtQueues() {
	if len(o.books.queues) == 0 && o.books.world.View().Queues.Len() == 0 {
		return
	}
	select {
	case o.looks <- o.books.lookAtQueues():
	default: // the look before is not written
	}
}

func (b *books) lookAtQueues() queueLook {
	out := queueLook{view: &b.world.Snapshot().View, messages: make(map[string]string)}
	for name, q := range b.queues { // order: a map is filled
		if q.refused != "" {
			out.messages[name] = q.refused
		}
	}
	return out
}

// registrar writes how it stands with queues as their status.
type registrar struct {
	*Scheduler
	queues cache.Store
}

// writeAll writes what is handed out until the context ends.
func (r *registrar) writeAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case look := <-r.looks:
			all := look.tenants()
			r.config.Metrics.queues(all)
			if r.mayWrite() != nil {
				continue
			}
			for _, object := range r.queues.List() {
				if o, ok := object.(*unstructured.Unstructured); ok {
					r.write(ctx, o, &look, all)
				}
			}
		}
	}
}

// write writes the status of one queue, where it is another one. After a conflict
// the next look does.
func (r *registrar) write(ctx context.Context, o *unstructured.Unstructured, look *queueLook, all []explain.Tenant) {
	q, err := queueIn(o)
	if err != nil {
		return // its status cannot be compared
	}
	status := v1alpha1.QueueStatus{Message: look.messages[q.Name]}
	for i := range all {
		if t := &all[i]; t.Name == q.Name {
			status.Used, status.Quota, status.FairShare, status.Waiting = listOf(t.Used), listOf(t.Quota), listOf(t.Fair), int32(t.Waiting)
		}
	}
	if sameStatus(&q.Status, &status) {
		return
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err == nil {
		next := o.DeepCopy()
		next.Object["status"] = fields
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_, err = r.config.Dynamic.Resource(v1alpha1.Queues).UpdateStatus(call, next, metav1.UpdateOptions{})
		cancel()
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		r.config.Log.Warn("the status of a queue was not written", "queue", q.Name, "because", err)
	}
}

// sameStatus compares statuses as they are written.
func sameStatus(a, b *v1alpha1.QueueStatus) bool {
	x, errX := runtime.DefaultUnstructuredConverter.ToUnstructured(a)
	y, errY := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// listOf is amounts as Kubernetes writes them.
func listOf(by explain.Amounts) v1alpha1.ResourceList {
	if by == nil {
		return nil
	}
	out := make(v1alpha1.ResourceList, len(by))
	for name, n := range by { // order: into another map
		switch name {
		case v1alpha1.GPUs, "cpu":
			out[name] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		case "memory", "ephemeral-storage":
			out[name] = *resource.NewQuantity(n, resource.BinarySI)
		default:
			out[name] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}
