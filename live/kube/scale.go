package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// firstToGo is the deletion cost of the pod that goes when a Deployment is scaled down.
const firstToGo = "-2147483648"

// scaleAll carries out steps of surges until the context ends.
func (s *Scheduler) scaleAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-s.steps:
			out := SurgeOutcome{Pod: t.Pod.Key, Step: t.Step}
			out.Replicas, out.Err = s.carrySurge(ctx, &t)
			select {
			case s.surged <- out:
			case <-ctx.Done():
				return
			}
		}
	}
}

// carrySurge carries out one step, after it was written down.
func (s *Scheduler) carrySurge(ctx context.Context, t *SurgeTask) (int32, error) {
	if err := s.mayWrite(); err != nil {
		return 0, err
	}
	if t.Keep != nil {
		if err := s.keepHeirs(ctx, t.Keep); err != nil {
			return 0, err
		}
	}
	switch t.Step {
	case surgeLook:
		scale, err := s.scale(ctx, &t.Surge)
		if err == nil && (scale.Spec.Replicas != scale.Status.Replicas || scale.Spec.Replicas < 1) {
			err = fmt.Errorf("%d of %d replicas are there: it is not settled", scale.Status.Replicas, scale.Spec.Replicas)
		}
		if err != nil {
			return 0, err
		}
		return scale.Spec.Replicas, nil
	case surgeUp:
		return 0, s.rescale(ctx, &t.Surge, t.Replicas, t.Replicas+1)
	case surgeDown:
		if err := s.mark(ctx, t.Pod); err != nil {
			return 0, err
		}
	case surgeUndo:
		if err := s.mark(ctx, t.Heir); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, err
		}
		if err := s.rescale(ctx, &t.Surge, t.Replicas+1, t.Replicas); err != nil && !isOther(err) && !apierrors.IsNotFound(err) {
			return 0, err
		}
		return 0, nil
	}
	return 0, s.rescale(ctx, &t.Surge, t.Replicas+1, t.Replicas)
}

func (s *Scheduler) scale(ctx context.Context, g *Surge) (*autoscalingv1.Scale, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	scale, err := s.config.Client.AppsV1().Deployments(g.Namespace).GetScale(call, g.Deployment, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at the scale of %s/%s: %w", g.Namespace, g.Deployment, err)
	}
	return scale, nil
}

// otherNumber says that somebody else has scaled a Deployment meanwhile.
type otherNumber struct{ has, want int32 }

func (e otherNumber) Error() string {
	return fmt.Sprintf("somebody else has scaled it: to %d, it was left with %d", e.has, e.want)
}

func isOther(err error) bool {
	_, other := err.(otherNumber)
	return other
}

// rescale changes how many replicas there are, where they are as many as expected.
func (s *Scheduler) rescale(ctx context.Context, g *Surge, from, to int32) error {
	scale, err := s.scale(ctx, g)
	if err != nil {
		return err
	}
	if scale.Spec.Replicas != from {
		return otherNumber{has: scale.Spec.Replicas, want: from}
	}
	scale.Spec.Replicas = to
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.config.Client.AppsV1().Deployments(g.Namespace).UpdateScale(call, g.Deployment, scale, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("scale %s/%s from %d to %d: %w", g.Namespace, g.Deployment, from, to, err)
	}
	return nil
}

// mark makes a pod the first to go when its owner is scaled down. The annotation is written
// with the status, which the scheduler may write anyway.
func (s *Scheduler) mark(ctx context.Context, r Ref) error {
	if r.Key == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(r.Key, "/")
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID, "annotations": map[string]string{corev1.PodDeletionCost: firstToGo}},
	})
	if err != nil {
		return fmt.Errorf("mark %s: %w", r.Key, err)
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err = s.config.Client.CoreV1().Pods(namespace).Patch(call, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("mark %s as the first to go: %w", r.Key, err)
	}
	return nil
}
