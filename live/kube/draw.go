package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// The ways in which a claim may have moved on before it was written.
var (
	errClaimMoved     = errors.New("the resource claim is another one now, or is being deleted")
	errClaimAllocated = errors.New("the resource claim is allocated already, by another writer")
	errClaimFree      = errors.New("the resource claim is not allocated any more")
)

// reserveTries bounds how often a reservation is tried again after a conflict:
// several pods that share a claim reserve it at the same time.
const reserveTries = 8

// bindWithClaims writes the claims of a pod, then its bind. Where the bind is
// refused, what was written is taken back. It returns the claims as they are then, and
// those that were made and are gone again.
func (s *Scheduler) bindWithClaims(ctx context.Context, b *Bind) (written, gone []*resourceapi.ResourceClaim, _ error) {
	if len(b.Draws) == 0 {
		return nil, nil, s.bind(ctx, b)
	}
	var draws []*Draw // parallel to written
	err := error(nil)
	for i := range b.Draws {
		d := &b.Draws[i]
		var object *resourceapi.ResourceClaim
		if object, err = s.draw(ctx, b, d); object != nil {
			written, draws = append(written, object), append(draws, d)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.bind(ctx, b)
	}
	if err == nil || len(written) == 0 || !s.unbound(ctx, b) {
		return written, nil, err
	}
	var kept []*resourceapi.ResourceClaim
	for i, object := range written {
		if len(draws[i].Uses) > 0 {
			s.unmake(ctx, b, object)
			gone = append(gone, object)
			continue
		}
		back, undone := s.putBack(ctx, b, object, draws[i].Result != nil)
		if undone != nil {
			s.config.Log.Warn("a claim was not given back", "claim", object.Namespace+"/"+object.Name, "because", undone)
		}
		if back == nil {
			back = object
		}
		kept = append(kept, back)
	}
	return kept, gone, err
}

// unbound says whether a pod is not bound, so that what was written for it can be
// taken back. In doubt it is asked again.
func (s *Scheduler) unbound(ctx context.Context, b *Bind) bool {
	node, known, err := s.askPod(ctx, b)
	return err == nil && (!known || node == "")
}

// draw writes one claim: its allocation, where there is none yet, and that it is
// reserved for the pod. The version it was decided on is a precondition.
func (s *Scheduler) draw(ctx context.Context, b *Bind, d *Draw) (*resourceapi.ResourceClaim, error) {
	namespace, pod, _ := strings.Cut(b.Key, "/")
	claims := s.config.Client.ResourceV1().ResourceClaims(namespace)
	user := resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(b.UID)}
	fail := func(err error) error {
		return fmt.Errorf("allocate %s/%s for %s: %w", namespace, d.Claim.Name, b.Key, err)
	}

	if err := s.mayWrite(); err != nil {
		return nil, fail(err)
	}
	if len(d.Uses) > 0 {
		return s.makeClaim(ctx, b, d, user, fail)
	}
	object := d.Claim.DeepCopy()
	if d.Result == nil {
		return s.reserve(ctx, object, user, fail)
	}
	if !slices.Contains(object.Finalizers, resourceapi.Finalizer) {
		object.Finalizers = append(object.Finalizers, resourceapi.Finalizer)
		call, cancel := context.WithTimeout(ctx, callTimeout)
		updated, err := claims.Update(call, object, metav1.UpdateOptions{})
		cancel()
		if err != nil {
			return nil, fail(err)
		}
		object = updated
	}
	result := named(d.Result)
	object.Status.Allocation = result
	object.Status.ReservedFor = append(object.Status.ReservedFor, user)
	return s.allocate(ctx, object, result, fail)
}

// named returns an allocation with names for the parts of devices, and the time.
func named(a *resourceapi.AllocationResult) *resourceapi.AllocationResult {
	out, now := a.DeepCopy(), metav1.Now()
	dra.Name(out, uuid.NewUUID)
	out.AllocationTimestamp = &now
	return out
}

// allocate writes an allocation, and returns when it is known how that ended. A write
// that nobody answered may still arrive, so the same one is written again until an
// answer says that the version has moved on: then none can arrive any more.
func (s *Scheduler) allocate(ctx context.Context, object *resourceapi.ResourceClaim, result *resourceapi.AllocationResult, fail func(error) error) (*resourceapi.ResourceClaim, error) {
	for again := false; ; again = true {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		updated, err := s.config.Client.ResourceV1().ResourceClaims(object.Namespace).UpdateStatus(call, object, metav1.UpdateOptions{})
		cancel()
		switch {
		case err == nil:
			return updated, nil
		case again && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)):
			return s.askClaim(ctx, object, result, fail(err))
		case !again && definite(err):
			return nil, fail(err)
		case !pause(ctx, lookAgain):
			return nil, ctx.Err()
		}
	}
}

// askClaim finds out whether an allocation was written after all.
func (s *Scheduler) askClaim(ctx context.Context, object *resourceapi.ResourceClaim, result *resourceapi.AllocationResult, cause error) (*resourceapi.ResourceClaim, error) {
	for {
		now, err := s.getClaim(ctx, object)
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != object.UID, err == nil && now.Status.Allocation == nil:
			return nil, cause
		case err == nil && dra.Same(now.Status.Allocation, result) && sameNames(now.Status.Allocation, result):
			return now, nil
		case err == nil:
			return nil, fmt.Errorf("%w: %w", errClaimAllocated, cause)
		}
		if !pause(ctx, lookAgain) {
			return nil, ctx.Err()
		}
	}
}

// sameNames says whether two allocations of the same devices are one and the same:
// they were made at the same time, and parts of devices have equal names.
func sameNames(a, b *resourceapi.AllocationResult) bool {
	at := a.AllocationTimestamp != nil && b.AllocationTimestamp != nil && a.AllocationTimestamp.Unix() == b.AllocationTimestamp.Unix()
	return at && slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(x, y resourceapi.DeviceRequestAllocationResult) bool {
		return (x.ShareID == nil) == (y.ShareID == nil) && (x.ShareID == nil || *x.ShareID == *y.ShareID)
	})
}

// reserve adds a pod to those that use an allocated claim. Others may do so at the
// same time, so it is tried again on what they left.
func (s *Scheduler) reserve(ctx context.Context, object *resourceapi.ResourceClaim, user resourceapi.ResourceClaimConsumerReference, fail func(error) error) (*resourceapi.ResourceClaim, error) {
	uid := object.UID
	for try := 0; ; try++ {
		switch {
		case object.UID != uid || object.DeletionTimestamp != nil:
			return nil, fail(errClaimMoved)
		case object.Status.Allocation == nil:
			return nil, fail(errClaimFree)
		case slices.Contains(object.Status.ReservedFor, user):
			return object, nil
		}
		object.Status.ReservedFor = append(object.Status.ReservedFor, user)
		call, cancel := context.WithTimeout(ctx, callTimeout)
		updated, err := s.config.Client.ResourceV1().ResourceClaims(object.Namespace).UpdateStatus(call, object, metav1.UpdateOptions{})
		cancel()
		if err == nil {
			return updated, nil
		}
		if definite(err) && !apierrors.IsConflict(err) || try >= reserveTries {
			return nil, fail(err)
		}
		if object, err = s.getClaim(ctx, object); err != nil {
			return nil, fail(err)
		}
	}
}

// putBack takes a reservation back, and the allocation with it where it was made for
// this bind and nobody else uses it.
func (s *Scheduler) putBack(ctx context.Context, b *Bind, object *resourceapi.ResourceClaim, ours bool) (*resourceapi.ResourceClaim, error) {
	uid, now := object.UID, object.DeepCopy()
	for try := 0; ; try++ {
		now.Status.ReservedFor = slices.DeleteFunc(now.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return string(c.UID) == b.UID })
		if ours && len(now.Status.ReservedFor) == 0 {
			now.Status.Allocation = nil
			now.Status.Devices = nil
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		updated, err := s.config.Client.ResourceV1().ResourceClaims(now.Namespace).UpdateStatus(call, now, metav1.UpdateOptions{})
		cancel()
		switch {
		case err == nil:
			return updated, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case definite(err) && !apierrors.IsConflict(err) || try >= reserveTries:
			return nil, err
		}
		latest, err := s.getClaim(ctx, object)
		switch {
		case apierrors.IsNotFound(err), err == nil && latest.UID != uid:
			return nil, nil
		case err == nil:
			now = latest
		case !pause(ctx, lookAgain):
			return nil, ctx.Err()
		}
	}
}

func (s *Scheduler) getClaim(ctx context.Context, object *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.config.Client.ResourceV1().ResourceClaims(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
}
