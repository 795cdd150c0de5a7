package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// informers returns a factory that makes our own informers of nodes and pods, and
// those that a checker asks for. Finished pods are not watched: to a watcher they
// are deleted.
func (s *Scheduler) informers() informers.SharedInformerFactory {
	all := informers.NewSharedInformerFactoryWithOptions(s.config.Client, 0, informers.WithTransform(slim))
	unfinished := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	all.InformerFor(&corev1.Node{}, func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredNodeInformer(client, 0, cache.Indexers{}, nil)
	})
	all.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = unfinished.String()
		})
	})
	return all
}

// stir tells the owner that volumes may have changed. It does not wait.
func (s *Scheduler) stir() {
	select {
	case s.stirs <- struct{}{}:
	default: // told already
	}
}

// watch tells the owner of the cluster until the context ends.
func (s *Scheduler) watch(ctx context.Context, all informers.SharedInformerFactory) error {
	nodes, pods := all.Core().V1().Nodes().Informer(), all.Core().V1().Pods().Informer()
	watches := []watched{{nodes, s.nodeHandler(ctx)}, {pods, s.podHandler(ctx)}}
	if s.config.evicts() {
		watches = append(watches, s.watchBudgets(ctx))
	}
	devices, err := s.watchDevices(ctx)
	if err != nil {
		return err
	}
	groups, err := s.watchGroups(ctx)
	if err != nil {
		return err
	}
	queues := s.watchQueues(ctx)
	var told []cache.InformerSynced
	watches = append(watches, s.watchNamespaces(ctx))
	for _, w := range slices.Concat(watches, devices, groups, queues) {
		if err := w.informer.SetTransform(slim); err != nil {
			return fmt.Errorf("prepare an informer: %w", err)
		}
		if err := w.informer.SetWatchErrorHandlerWithContext(s.watchFailed); err != nil {
			return fmt.Errorf("prepare an informer: %w", err)
		}
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("prepare an informer: %w", err)
		}
		told = append(told, registration.HasSynced)
		if w.informer != nodes && w.informer != pods {
			go w.informer.RunWithContext(ctx) // ends with ctx
		}
	}
	all.StartWithContext(ctx)                                 // what it starts ends with ctx
	for _, synced := range all.WaitForCacheSync(ctx.Done()) { // order: all have to be
		if !synced {
			return nil
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), told...) {
		return nil
	}
	a := auditor{Scheduler: s, nodes: nodes.GetStore(), pods: pods.GetStore()}
	go a.auditAll(ctx) // ends with ctx
	for _, w := range queues {
		r := registrar{Scheduler: s, queues: w.informer.GetStore()}
		go r.writeAll(ctx) // ends with ctx
	}
	s.send(ctx, message{synced: true})
	return nil
}

// watched is a kind of object that is watched, and who is told.
type watched struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// watchFailed says which permission is missing, where that is why. The informer
// tries again by itself.
func (s *Scheduler) watchFailed(ctx context.Context, _ *cache.Reflector, err error) {
	if ctx.Err() == nil {
		s.watchTrouble(err)
	}
}

// slim drops what nobody here reads.
func slim(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}

func (s *Scheduler) send(ctx context.Context, m message) {
	select {
	case s.inbox <- m:
	case <-ctx.Done():
	}
}

func (s *Scheduler) nodeHandler(ctx context.Context) cache.ResourceEventHandler {
	seen := func(object any) {
		if n, ok := object.(*corev1.Node); ok {
			f := facts.NodeOf(n, s.config.GPU, s.config.Levels)
			s.send(ctx, message{node: &f, rawNode: n, version: n.ResourceVersion})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if n, ok := last(object).(*corev1.Node); ok {
				s.send(ctx, message{nodeGone: n.Name})
			}
		},
	}
}

func (s *Scheduler) podHandler(ctx context.Context) cache.ResourceEventHandler {
	seen := func(object any) {
		if p, ok := object.(*corev1.Pod); ok {
			f := facts.PodOf(p, s.config.nameFor(p), s.config.GPU)
			f.Added.Policy = s.config.profileOf(p)
			s.send(ctx, message{pod: &f, rawPod: p, podKey: facts.Key(p), version: p.ResourceVersion})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if p, ok := last(object).(*corev1.Pod); ok {
				s.send(ctx, message{podKey: facts.Key(p)})
			}
		},
	}
}

// last unwraps the last known state of an object whose deletion was missed.
func last(object any) any {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return object
}
