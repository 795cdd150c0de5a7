package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	alphainformers "k8s.io/client-go/informers/scheduling/v1alpha3"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// compositeGroups is the resource of groups of groups of Kubernetes.
const compositeGroups = "compositepodgroups"

// watchGroups returns the informers of the kinds of groups that the cluster
// serves now: PodGroups and CompositePodGroups of Kubernetes, and PodGroups of our own.
func (s *Scheduler) watchGroups(ctx context.Context) ([]watched, error) {
	var out []watched
	native := s.serves(ctx, schedulingv1beta1.SchemeGroupVersion.String(), v1alpha1.PodGroups.Resource)
	if native {
		s.unable.need(groupAbilities(schedulingv1beta1.GroupName, v1alpha1.PodGroups.Resource))
		out = append(out, watched{schedulinginformers.NewPodGroupInformer(s.config.Client, metav1.NamespaceAll, 0, cache.Indexers{}), s.groupHandler(ctx)})
	}
	composite := s.serves(ctx, schedulingv1alpha3.SchemeGroupVersion.String(), compositeGroups)
	if composite {
		s.unable.need(groupAbilities(schedulingv1alpha3.GroupName, compositeGroups))
		out = append(out, watched{alphainformers.NewCompositePodGroupInformer(s.config.Client, metav1.NamespaceAll, 0, cache.Indexers{}), s.groupHandler(ctx)})
	}
	own := s.config.Dynamic != nil && s.serves(ctx, v1alpha1.GroupVersion.String(), v1alpha1.PodGroups.Resource)
	if own {
		s.unable.need(groupAbilities(v1alpha1.GroupVersion.Group, v1alpha1.PodGroups.Resource))
		informer := dynamicinformer.NewFilteredDynamicInformer(s.config.Dynamic, v1alpha1.PodGroups, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
		out = append(out, watched{informer.Informer(), s.groupHandler(ctx)})
	}
	s.config.Log.Info("groups of pods", "scheduling.k8s.io", native, "composite", composite, v1alpha1.GroupVersion.Group, own)
	return out, nil
}

// serves says whether the API server knows a resource of a version. It asks until
// there is an answer, or the context ends: an API server that cannot be reached
// now may be later.
func (s *Scheduler) serves(ctx context.Context, version, resource string) bool {
	for {
		list, err := s.config.Client.Discovery().ServerResourcesForGroupVersion(version)
		switch {
		case err == nil:
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
		case apierrors.IsNotFound(err):
			return false
		}
		s.config.Log.Warn("it is not known yet what the cluster serves", "resource", resource, "version", version, "because", err)
		if !pause(ctx, lookAgain) {
			return false
		}
	}
}

func (s *Scheduler) groupHandler(ctx context.Context) cache.ResourceEventHandler {
	seen := func(object any) {
		if f, ok := groupFacts(object, s.config.Levels); ok {
			s.send(ctx, message{tell: func(b *books) { b.groupSeen(f) }})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if f, ok := groupFacts(last(object), s.config.Levels); ok {
				s.send(ctx, message{tell: func(b *books) { b.groupGone(f.Key()) }})
			}
		},
	}
}

// groupFacts reads a group of any kind.
func groupFacts(object any, levels *facts.Levels) (facts.Group, bool) {
	switch g := object.(type) {
	case *schedulingv1beta1.PodGroup:
		return facts.GroupOf(g, levels), true
	case *schedulingv1alpha3.CompositePodGroup:
		return facts.CompositeOf(g, levels), true
	case *unstructured.Unstructured:
		var own v1alpha1.PodGroup
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(g.Object, &own); err == nil {
			return facts.OwnGroupOf(&own, levels), true
		}
	}
	return facts.Group{}, false
}

// remarkGroup writes how it stands with a group as its condition.
func (s *Scheduler) remarkGroup(ctx context.Context, r *Remark) error {
	g, status := r.Group, metav1.ConditionFalse
	if g.Scheduled {
		status = metav1.ConditionTrue
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID},
		"status": map[string]any{"conditions": []metav1.Condition{{
			Type: g.Kind.Condition(), Status: status, Reason: r.Reason, Message: r.Message,
			ObservedGeneration: g.Generation, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("write the condition of group %s: %w", r.Key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch g.Kind {
	case facts.Own:
		_, err = s.config.Dynamic.Resource(v1alpha1.PodGroups).Namespace(g.Namespace).Patch(ctx, g.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	case facts.Composite:
		_, err = s.config.Client.SchedulingV1alpha3().CompositePodGroups(g.Namespace).Patch(ctx, g.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	default:
		_, err = s.config.Client.SchedulingV1beta1().PodGroups(g.Namespace).Patch(ctx, g.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("write the condition of group %s: %w", r.Key, err)
	}
	return nil
}
