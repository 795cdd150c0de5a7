package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// bridge is the second way in which a pod may get the GPUs that it asks for as an
// extended resource: from a driver, by a claim that is made for it.
type bridge struct {
	claim  *resourceapi.ResourceClaim
	uses   []corev1.ContainerExtendedResourceRequest
	choice []dra.Request
	from   int // the first of the pod's shapes that goes this way
}

// pending names a claim of a pod that is not made yet. No claim has a blank in its
// name.
func pending(key string) string { return key + " extended resources" }

// cross adds the way over a bridge to what a pod asks for, where a device class stands
// behind the resource.
func (r *resolution) cross() bool {
	b, p := r.books, r.pod
	if len(p.Asked) == 0 {
		return true
	}
	if p.Extended != "" {
		name := p.Namespace() + "/" + p.Extended
		if object := b.claim(name).object; object != nil && object.DeletionTimestamp == nil && object.Status.Allocation != nil && ownedBy(object, p.UID) {
			b.claim(name).users[p.Added.Name] = true
			for i := range r.requests {
				r.requests[i].Devices = slices.Clip(r.requests[i].Devices[r.plan.own:])
			}
			r.plan.own = 0
			return r.confine(name, object)
		}
	}
	class := extendedClass(b.draws.classes, p.Resource)
	if class == nil || len(r.requests) != 1 {
		return true
	}
	_, name, _ := strings.Cut(p.Added.Name, "/")
	claim, uses := extendedClaim(p.Namespace(), name, p.UID, class.Name, p.Resource, p.Asked)
	need, why := dra.NeedOf(claim, func(name string) *resourceapi.DeviceClass { return b.draws.classes[name] }, b.draws.pools)
	if why != "" {
		return true // only the kubelet's device plugin can give them
	}
	other := r.requests[0]
	other.Devices = slices.Clone(r.requests[0].Devices[r.plan.own:])
	for i := range need.Choices[0] {
		other.Devices = append(other.Devices, need.Choices[0][i].World)
		b.judge(need.Choices[0][i].Selector)
	}
	r.plan.bridge = &bridge{claim: claim, uses: uses, choice: need.Choices[0], from: len(r.requests)}
	r.requests = append(r.requests, other)
	return true
}

// adopt hands what is known of a claim that was to be made over to the one that was.
func (b *books) adopt(c *claim) {
	if c.object.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" || c.flight != nil {
		return
	}
	owner := metav1.GetControllerOf(c.object)
	if owner == nil {
		return
	}
	name := pending(c.object.Namespace + "/" + owner.Name)
	if made := b.draws.claims[name]; made != nil && made.flight != nil && made.flight.uid == string(owner.UID) {
		c.flight, made.flight = made.flight, nil
		b.draws.dirty[name] = true
	}
}

// makeClaim makes the claim behind an extended resource, allocates it, and tells the
// pod of it. Where that fails, nothing is left.
func (s *Scheduler) makeClaim(ctx context.Context, b *Bind, d *Draw, user resourceapi.ResourceClaimConsumerReference, fail func(error) error) (*resourceapi.ResourceClaim, error) {
	object := d.Claim.DeepCopy()
	object.Finalizers = []string{resourceapi.Finalizer}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	made, err := s.config.Client.ResourceV1().ResourceClaims(object.Namespace).Create(call, object, metav1.CreateOptions{})
	cancel()
	if err != nil {
		return nil, fail(err) // one that was made after all goes with its pod
	}
	result := named(d.Result)
	made.Status.Allocation = result
	made.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{user}
	allocated, err := s.allocate(ctx, made, result, fail)
	if err != nil {
		s.unmake(ctx, b, made)
		return made, err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": b.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": corev1.PodExtendedResourceClaimStatus{RequestMappings: d.Uses, ResourceClaimName: allocated.Name}},
	})
	if err == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_, err = s.config.Client.CoreV1().Pods(object.Namespace).Patch(call, user.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		cancel()
	}
	if err != nil {
		return allocated, fail(fmt.Errorf("tell the pod of its claim: %w", err))
	}
	return allocated, nil
}

// unmake deletes a claim that was made for a bind.
func (s *Scheduler) unmake(ctx context.Context, b *Bind, object *resourceapi.ResourceClaim) {
	name := object.Namespace + "/" + object.Name
	if _, err := s.putBack(ctx, b, object, true); err != nil {
		s.config.Log.Warn("a claim was not given back", "claim", name, "because", err)
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.config.Client.ResourceV1().ResourceClaims(object.Namespace).Delete(call, object.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.config.Log.Warn("a claim that was made for a bind was not deleted", "claim", name, "because", err)
	}
}
