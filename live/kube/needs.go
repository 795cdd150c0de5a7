package kube

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// resolution is the reading of one pod's claims in progress. It sets why the pod is
// held, where it is.
type resolution struct {
	books    *books
	pod      *facts.Pod
	requests []world.Request // the first choice, then the others
	plan     plan
}

// take reads one claim; false where the pod cannot be placed because of it.
func (r *resolution) take(ref *facts.Claim) bool {
	b, name := r.books, r.pod.ClaimKey(ref)
	if name == "" {
		r.pod.Waits = fmt.Sprintf("waits for its resource claim %s to be made from the template", ref.Local)
		return false
	}
	object := b.claim(name).object
	switch {
	case object == nil:
		r.pod.Waits = fmt.Sprintf("waits for the resource claim %s, which does not exist", name)
		return false
	case object.DeletionTimestamp != nil:
		r.pod.Waits = fmt.Sprintf("waits for the resource claim %s, which is being deleted", name)
		return false
	case ref.Made && !ownedBy(object, r.pod.UID):
		r.pod.Waits = fmt.Sprintf("the resource claim %s was not made for this pod", name)
		return false
	case object.Status.Allocation != nil:
		return r.confine(name, object)
	}
	need, why := dra.NeedOf(object, func(class string) *resourceapi.DeviceClass { return b.draws.classes[class] }, b.draws.pools)
	if why != "" {
		r.pod.Why = why
		return false
	}
	if len(need.Choices) > 1 && len(r.requests) > 1 {
		r.pod.Why = "two resource claims with firstAvailable"
		return false
	}
	base := r.requests
	r.requests = nil
	for _, request := range base {
		for _, choice := range need.Choices {
			next := request
			next.Devices = slices.Clip(request.Devices)
			for i := range choice {
				next.Devices = append(next.Devices, choice[i].World)
			}
			r.requests = append(r.requests, next)
		}
	}
	for _, choice := range need.Choices {
		for i := range choice {
			b.judge(choice[i].Selector)
		}
	}
	r.plan.steps = append(r.plan.steps, claimStep{name: name, choices: need.Choices})
	return true
}

// confine lets a pod go only where an allocated claim is.
func (r *resolution) confine(name string, object *resourceapi.ResourceClaim) bool {
	reserved := slices.ContainsFunc(object.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return string(c.UID) == r.pod.UID })
	if !reserved && len(object.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize {
		r.pod.Waits = fmt.Sprintf("the resource claim %s is reserved for %d pods, which is the most", name, len(object.Status.ReservedFor))
		return false
	}
	where := facts.NodeSelector(object.Status.Allocation.NodeSelector)
	for i := range r.requests {
		both, ok := facts.Both(r.requests[i].Selector, where)
		if !ok {
			r.pod.Why = "more alternatives of nodes than can be looked at"
			return false
		}
		r.requests[i].Selector = both
	}
	r.plan.steps = append(r.plan.steps, claimStep{name: name})
	return true
}

// ownedBy says whether a claim was made for a pod.
func ownedBy(object *resourceapi.ResourceClaim, uid string) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.Kind == "Pod" && string(owner.UID) == uid
}
