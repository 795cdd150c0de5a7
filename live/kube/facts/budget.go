package facts

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget is what there is to know about a disruption budget.
type Budget struct {
	// Key names it; its pods are in the same namespace.
	Key, Namespace string
	Left           int32 // evictions that it allows now
	selector       labels.Selector
}

// BudgetOf reads a disruption budget. One whose latest form its controller has not
// looked at yet allows nothing, as in the eviction API.
func BudgetOf(p *policyv1.PodDisruptionBudget) Budget {
	out := Budget{Key: p.Namespace + "/" + p.Name, Namespace: p.Namespace, Left: max(p.Status.DisruptionsAllowed, 0)}
	if p.Status.ObservedGeneration < p.Generation {
		out.Left = 0
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // the eviction API passes over it, too
	}
	out.selector = selector
	return out
}

// Covers says whether the eviction of a pod counts against the budget.
func (b *Budget) Covers(p *Pod) bool {
	return p.namespace == b.Namespace && b.selector.Matches(labels.Set(p.labels))
}

// Selects returns the selector as text, to be compared.
func (b *Budget) Selects() string { return b.selector.String() }

// Namespace returns the namespace of a pod.
func (p *Pod) Namespace() string { return p.namespace }
