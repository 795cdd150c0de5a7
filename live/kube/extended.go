package kube

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// extendedClass returns the class behind an extended resource: of several the newest,
// as kube-scheduler takes it; nil without one.
func extendedClass(classes map[string]*resourceapi.DeviceClass, extended string) *resourceapi.DeviceClass {
	var best *resourceapi.DeviceClass
	for _, c := range classes { // order: the newest, then the first name, whatever the order
		if c.Spec.ExtendedResourceName == nil || *c.Spec.ExtendedResourceName != extended {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&c.CreationTimestamp) || best.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < best.Name {
			best = c
		}
	}
	return best
}

// extendedClaim returns the claim that stands for what a pod asks for of an extended
// resource, and which request of it each container uses. A container that has ended
// lends its devices to those behind it.
func extendedClaim(namespace, pod, uid, class, extended string, asked []facts.Asked) (*resourceapi.ResourceClaim, []corev1.ContainerExtendedResourceRequest) {
	name := func(a *facts.Asked) string { return fmt.Sprintf("container-%d-request-%d", a.Index, a.Order) }
	request := func(a *facts.Asked, count int64) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: name(a), Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		}}
	}
	var requests []resourceapi.DeviceRequest
	var uses []corev1.ContainerExtendedResourceRequest
	use := func(a *facts.Asked, request string) {
		uses = append(uses, corev1.ContainerExtendedResourceRequest{ContainerName: a.Container, ResourceName: extended, RequestName: request})
	}
	for i := range asked {
		if a := &asked[i]; !a.Short {
			requests = append(requests, request(a, a.Count))
			use(a, name(a))
		}
	}
	// What those that end need beyond what they are lent, at most; one after another
	// uses it.
	var extra *resourceapi.DeviceRequest
	var beyond []*facts.Asked
	for i := range asked {
		a := &asked[i]
		if !a.Short {
			continue
		}
		lent := int64(0)
		for k := range asked {
			if l := &asked[k]; !l.Short && l.Index > a.Index && lent < a.Count {
				lent += l.Count
				use(a, name(l))
			}
		}
		if lent >= a.Count {
			continue
		}
		beyond = append(beyond, a)
		if own := request(a, a.Count-lent); extra == nil || own.Exactly.Count > extra.Exactly.Count {
			extra = &own
		}
	}
	for _, a := range beyond {
		use(a, extra.Name)
	}
	if extra != nil {
		requests = append(requests, *extra)
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	controller := true
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, GenerateName: pod + "-extended-resources-",
			Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(uid), Controller: &controller}},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}, uses
}
