package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// callTimeout bounds one call of the API server, whose own limit is 60 seconds.
	callTimeout = 15 * time.Second
	// lookAgain is the pause between two looks at a pod whose bind went astray.
	lookAgain = time.Second
)

// errBoundElsewhere says that another writer was faster.
var errBoundElsewhere = errors.New("the pod is bound already, by another writer")

// bindAll carries out binds until the context ends.
func (s *Scheduler) bindAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-s.binds:
			started := time.Now()
			claims, err := s.bindWithClaims(ctx, &b)
			if ctx.Err() != nil {
				return
			}
			s.config.Metrics.bind(time.Since(started), time.Since(b.Since), err)
			if err == nil && s.config.Events == EventsAll {
				s.tellOfPod(b.Key, b.UID, corev1.EventTypeNormal, "Scheduled", "placed on "+b.Node)
			}
			select {
			case s.outcomes <- Outcome{Bind: b, Err: err, Claims: claims}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// bind writes one bind. When it is not known whether the write arrived, the pod
// itself is asked.
func (s *Scheduler) bind(ctx context.Context, b *Bind) error {
	namespace, name, _ := strings.Cut(b.Key, "/")
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.config.Client.CoreV1().Pods(namespace).Bind(call, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(b.UID)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.Node},
	}, metav1.CreateOptions{})
	if err == nil || definite(err) {
		if err != nil {
			err = fmt.Errorf("bind %s to %s: %w", b.Key, b.Node, err)
		}
		return err
	}
	return s.askPod(ctx, b, err)
}

// definite says whether an answer means that nothing was written.
func definite(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict, metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonTooManyRequests, metav1.StatusReasonAlreadyExists:
		return true
	}
	return false
}

// askPod finds out whether a bind was carried out after all. Until the pod
// answers, its room stays charged.
func (s *Scheduler) askPod(ctx context.Context, b *Bind, cause error) error {
	namespace, name, _ := strings.Cut(b.Key, "/")
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		p, err := s.config.Client.CoreV1().Pods(namespace).Get(call, name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err), err == nil && string(p.UID) != b.UID, err == nil && p.Spec.NodeName == "":
			return fmt.Errorf("bind %s to %s: %w", b.Key, b.Node, cause)
		case err == nil && p.Spec.NodeName == b.Node:
			return nil
		case err == nil:
			return fmt.Errorf("bind %s to %s: %w", b.Key, b.Node, errBoundElsewhere)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// pause waits for a span; it is false where the context ended before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// remarkAll writes reasons until the context ends.
func (s *Scheduler) remarkAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.remarks:
			err := s.remark(ctx, &r)
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				s.config.Log.Warn("a reason was not written", "pod", r.Key, "because", err)
			}
		}
	}
}

// remark writes why a pod waits as its condition.
func (s *Scheduler) remark(ctx context.Context, r *Remark) error {
	namespace, name, _ := strings.Cut(r.Key, "/")
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: r.Reason, Message: r.Message, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("write the reason of %s: %w", r.Key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = s.config.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the reason of %s: %w", r.Key, err)
	}
	if r.Another {
		s.tellOfPod(r.Key, r.UID, corev1.EventTypeWarning, "FailedScheduling", r.Message)
	}
	return nil
}
