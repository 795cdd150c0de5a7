package kube

import (
	"context"
	"encoding/json"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// watchGroups returns the informers of the kinds of groups that the cluster
// serves now: PodGroups of Kubernetes, and of our own.
func (s *Scheduler) watchGroups(ctx context.Context) ([]watched, error) {
	var out []watched
	native, err := s.serves(schedulingv1beta1.SchemeGroupVersion.String())
	if err != nil {
		return nil, err
	}
	if native {
		out = append(out, watched{schedulinginformers.NewPodGroupInformer(s.config.Client, metav1.NamespaceAll, 0, cache.Indexers{}), s.groupHandler(ctx)})
	}
	own := false
	if s.config.Dynamic != nil {
		if own, err = s.serves(v1alpha1.GroupVersion.String()); err != nil {
			return nil, err
		}
	}
	if own {
		informer := dynamicinformer.NewFilteredDynamicInformer(s.config.Dynamic, v1alpha1.PodGroups, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
		out = append(out, watched{informer.Informer(), s.groupHandler(ctx)})
	}
	s.config.Log.Info("groups of pods", "scheduling.k8s.io", native, v1alpha1.GroupVersion.Group, own)
	return out, nil
}

// serves says whether the API server knows pod groups of a version.
func (s *Scheduler) serves(version string) (bool, error) {
	list, err := s.config.Client.Discovery().ServerResourcesForGroupVersion(version)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the resources of %s: %w", version, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == v1alpha1.PodGroups.Resource {
			return true, nil
		}
	}
	return false, nil
}

func (s *Scheduler) groupHandler(ctx context.Context) cache.ResourceEventHandler {
	seen := func(object any) {
		if f, ok := groupFacts(object); ok {
			s.send(ctx, message{tell: func(b *books) { b.groupSeen(f) }})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if f, ok := groupFacts(last(object)); ok {
				s.send(ctx, message{tell: func(b *books) { b.groupGone(f.Key()) }})
			}
		},
	}
}

// groupFacts reads a group of either kind.
func groupFacts(object any) (facts.Group, bool) {
	switch g := object.(type) {
	case *schedulingv1beta1.PodGroup:
		return facts.GroupOf(g), true
	case *unstructured.Unstructured:
		var own v1alpha1.PodGroup
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(g.Object, &own); err == nil {
			return facts.OwnGroupOf(&own), true
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
			Type: v1alpha1.PodGroupInitiallyScheduled, Status: status, Reason: r.Reason, Message: r.Message,
			ObservedGeneration: g.Generation, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("write the condition of group %s: %w", r.Key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if g.Own {
		_, err = s.config.Dynamic.Resource(v1alpha1.PodGroups).Namespace(g.Namespace).Patch(ctx, g.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	} else {
		_, err = s.config.Client.SchedulingV1beta1().PodGroups(g.Namespace).Patch(ctx, g.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("write the condition of group %s: %w", r.Key, err)
	}
	return nil
}
