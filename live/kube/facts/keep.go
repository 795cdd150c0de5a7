package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Keep is a bound pod's wish to keep certain pods away from where it is.
type Keep struct {
	namespaces []string // empty: all
	selector   labels.Selector
}

// Off says whether the wish is about a pod.
func (k *Keep) Off(p *Pod) bool {
	if len(k.namespaces) > 0 && !slices.Contains(k.namespaces, p.namespace) {
		return false
	}
	return k.selector.Matches(labels.Set(p.labels))
}

// keeps returns the required anti-affinity of a pod. In doubt it keeps off more
// pods rather than fewer.
func keeps(p *corev1.Pod) []Keep {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	var out []Keep
	terms := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range terms {
		t := &terms[i]
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err != nil {
			selector = labels.Everything()
		}
		k := Keep{selector: selector, namespaces: t.Namespaces}
		switch {
		case t.NamespaceSelector != nil:
			k.namespaces = nil
		case len(t.Namespaces) == 0:
			k.namespaces = []string{p.Namespace}
		}
		out = append(out, k)
	}
	return out
}
