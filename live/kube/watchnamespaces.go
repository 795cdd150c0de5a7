package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watchNamespaces returns the informer for namespaces, whose labels relations
// between pods may go by.
func (s *Scheduler) watchNamespaces(ctx context.Context) watched {
	return watched{informers.NewNamespaceInformer(s.config.Client, 0, cache.Indexers{}), handler(s, ctx,
		func(b *books, o *corev1.Namespace) { b.namespaceSeen(o.Name, o.Labels) },
		func(b *books, o *corev1.Namespace) { b.namespaceGone(o.Name) })}
}
