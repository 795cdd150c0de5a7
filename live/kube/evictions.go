package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// evictWorkers carry out evictions, each those of one node at a time.
	evictWorkers = 4
	// evictTries is how often an eviction is tried that the API server was too busy
	// for.
	evictTries = 5
)

// evictAll carries out evictions until the context ends.
func (s *Scheduler) evictAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.evictions:
			s.evict(ctx, &e)
		}
	}
}

// evict writes the node on the holders, then evicts the victims in turn. When one
// is refused the rest stays.
func (s *Scheduler) evict(ctx context.Context, e *Eviction) {
	held := 0
	var err error
	for _, h := range e.Holders {
		if failed := s.nominate(ctx, h, e.Node); failed == nil {
			held++
		} else if err = failed; !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			s.config.Log.Warn("a node was not written on a pod", "pod", h.Key, "node", e.Node, "because", err)
		}
	}
	if held > 0 {
		err = nil
	}
	if e.Keep != nil && err == nil {
		err = s.keepHeirs(ctx, e.Keep)
	}
	for _, victim := range e.Victims {
		if err == nil {
			err = s.evictOne(ctx, victim, e.Grace[victim.Key])
			s.config.Metrics.evicted(err)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case s.evicted <- EvictOutcome{Victim: victim, Err: err}:
		case <-ctx.Done():
			return
		}
	}
}

// nominate writes on a pod of which node it holds room; empty takes it back.
func (s *Scheduler) nominate(ctx context.Context, r Ref, node string) error {
	namespace, name, _ := strings.Cut(r.Key, "/")
	var value any // null
	if node != "" {
		value = node
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID}, "status": map[string]any{"nominatedNodeName": value},
	})
	if err != nil {
		return fmt.Errorf("write node %s on %s: %w", node, r.Key, err)
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = s.config.Client.CoreV1().Pods(namespace).Patch(call, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write node %s on %s: %w", node, r.Key, err)
	}
	return nil
}

// evictOne evicts one pod through the eviction API, which asks the disruption
// budgets. A pod that is gone or on its way is evicted already. Where there is a
// grace, in seconds, it has so long from the signal to terminate; else its own.
func (s *Scheduler) evictOne(ctx context.Context, r Ref, grace int64) error {
	namespace, name, _ := strings.Cut(r.Key, "/")
	uid := types.UID(r.UID)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if grace > 0 {
		options.GracePeriodSeconds = &grace
	}
	for try := 1; ; try++ {
		if err := s.mayWrite(); err != nil {
			return fmt.Errorf("evict %s: %w", r.Key, err)
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := s.config.Client.PolicyV1().Evictions(namespace).Evict(call, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
			DeleteOptions: &options,
		})
		cancel()
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), definite(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsConflict(err):
			return fmt.Errorf("evict %s: %w", r.Key, err)
		}
		gone, asked := s.askLeaving(ctx, r)
		if asked == nil && gone {
			return nil
		}
		if asked == nil && try >= evictTries {
			return fmt.Errorf("evict %s: %w", r.Key, err)
		}
		if !pause(ctx, lookAgain) {
			return ctx.Err()
		}
	}
}

// askLeaving finds out whether a pod is gone or on its way.
func (s *Scheduler) askLeaving(ctx context.Context, r Ref) (bool, error) {
	namespace, name, _ := strings.Cut(r.Key, "/")
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p, err := s.config.Client.CoreV1().Pods(namespace).Get(call, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", r.Key, err)
	}
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return string(p.UID) != r.UID || p.DeletionTimestamp != nil || finished, nil
}
