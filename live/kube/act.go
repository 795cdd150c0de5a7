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

// ErrDisplaced says that another instance may be scheduling by now. As the cause
// of the end of Run's context it makes Run drop what is in flight.
var ErrDisplaced = errors.New("another instance may be scheduling by now")

// bindAll carries out binds until the context ends. Calls under way go on until
// calls ends.
func (s *Scheduler) bindAll(ctx, calls context.Context, binds <-chan Bind) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-binds:
			started := time.Now()
			claims, gone, err := s.bindWithClaims(calls, &b)
			if calls.Err() != nil {
				return
			}
			s.config.Metrics.bind(time.Since(started), time.Since(b.Since), err)
			if err == nil && s.config.Events == EventsAll {
				s.tellOfPod(b.Key, b.UID, corev1.EventTypeNormal, "Scheduled", "placed on "+b.Node)
			}
			select {
			case s.outcomes <- Outcome{Bind: b, Err: err, Claims: claims, Gone: gone}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// bind carries out one bind, and returns when it is known how it ended. Until
// then its room stays charged. A write that nobody answered may still arrive: then
// the pod is asked, and the same bind is written again. That is harmless if the
// first one did arrive, and of two that arrive late both say the same.
func (s *Scheduler) bind(ctx context.Context, b *Bind) error {
	if b.prepare != nil {
		if err := b.prepare(ctx); err != nil {
			return fmt.Errorf("bind %s to %s: %w", b.Key, b.Node, err)
		}
	}
	for again := false; ; again = true {
		err := s.writeBind(ctx, b)
		if err == nil {
			return nil
		}
		cause := fmt.Errorf("bind %s to %s: %w", b.Key, b.Node, err)
		if !again && definite(err) {
			return cause
		}
		node, known, err := s.askPod(ctx, b)
		switch {
		case err != nil:
			return err
		case node == b.Node:
			return nil
		case node != "":
			return fmt.Errorf("bind %s to %s: %w", b.Key, b.Node, errBoundElsewhere)
		case !known || answered(cause):
			return cause
		}
		if !pause(ctx, lookAgain) {
			return ctx.Err()
		}
	}
}

// writeBind writes a bind once, while this instance may write.
func (s *Scheduler) writeBind(ctx context.Context, b *Bind) error {
	namespace, name, _ := strings.Cut(b.Key, "/")
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.mayWrite(); err != nil {
		return err
	}
	if s.config.Term != nil {
		ctx, cancel = context.WithDeadline(ctx, s.config.Term())
		defer cancel()
	}
	return s.config.Client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(b.UID), Annotations: b.annotations()},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.Node},
	}, metav1.CreateOptions{})
}

// mayWrite returns ErrDisplaced when the term of this instance is over. It is
// asked before every write that gives away or takes back what nodes have.
func (s *Scheduler) mayWrite() error {
	if s.config.Term != nil && !time.Now().Before(s.config.Term()) {
		return ErrDisplaced
	}
	return nil
}

// definite says whether an answer means that nothing was written.
func definite(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict, metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonTooManyRequests, metav1.StatusReasonAlreadyExists:
		return true
	}
	return errors.Is(err, ErrDisplaced)
}

// answered says whether an error is the API server's word that it is done with a
// call, so that nothing of it comes later.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// askPod returns where a pod is bound, once the API server answers, and whether
// it is still there to be bound.
func (s *Scheduler) askPod(ctx context.Context, b *Bind) (node string, known bool, err error) {
	namespace, name, _ := strings.Cut(b.Key, "/")
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		p, err := s.config.Client.CoreV1().Pods(namespace).Get(call, name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err), err == nil && string(p.UID) != b.UID:
			return "", false, nil
		case err == nil:
			return p.Spec.NodeName, true, nil
		}
		if !pause(ctx, lookAgain) {
			return "", false, ctx.Err()
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
			if r.release != nil {
				s.release(ctx, &r)
				continue
			}
			err := s.remark(ctx, &r)
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				s.config.Log.Warn("a reason was not written", "pod", r.Key, "because", err)
			}
		}
	}
}

// remark writes why a pod waits as its condition.
func (s *Scheduler) remark(ctx context.Context, r *Remark) error {
	if r.Group != nil {
		return s.remarkGroup(ctx, r)
	}
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
