package kube

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// watchBudgets tells the owner of disruption budgets.
func (s *Scheduler) watchBudgets(ctx context.Context) watched {
	seen := func(object any) {
		if p, ok := object.(*policyv1.PodDisruptionBudget); ok {
			f := facts.BudgetOf(p)
			s.send(ctx, message{budget: &f})
		}
	}
	return watched{
		informer: informers.NewPodDisruptionBudgetInformer(s.config.Client, metav1.NamespaceAll, 0, cache.Indexers{}),
		handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    seen,
			UpdateFunc: func(_, object any) { seen(object) },
			DeleteFunc: func(object any) {
				if p, ok := last(object).(*policyv1.PodDisruptionBudget); ok {
					f := facts.BudgetOf(p)
					s.send(ctx, message{budgetGone: &f})
				}
			},
		},
	}
}
