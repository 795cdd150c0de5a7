package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group with its version.
var GroupVersion = schema.GroupVersion{Group: "scheduling.headrace.dev", Version: "v1alpha1"} // const: never changed

// PodGroups is the resource of pod groups.
var PodGroups = GroupVersion.WithResource("podgroups") // const: never changed

// Queues is the resource of queues.
var Queues = GroupVersion.WithResource("queues") // const: never changed

// AddToScheme makes the objects of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PodGroup{}, &PodGroupList{}, &Queue{}, &QueueList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
