package v1alpha1

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// full is a group in which every field is set; the test fails when one is added
// that is not.
func full() *PodGroup {
	hold, most, groups := int32(7), int32(8), int32(2)
	rack := []TopologyConstraint{{Level: Rack, Key: "k", Mode: Preferred}}
	return &PodGroup{
		TypeMeta:   metav1.TypeMeta{Kind: "PodGroup", APIVersion: GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: "g", Labels: map[string]string{"a": "b"}},
		Spec: PodGroupSpec{
			SchedulingPolicy:      SchedulingPolicy{Basic: &BasicPolicy{}, Gang: &GangPolicy{MinCount: 3, MaxCount: &most, MinGroupCount: &groups}},
			SchedulingConstraints: &SchedulingConstraints{Topology: rack},
			SubGroups:             []SubGroup{{Name: "s", MinCount: 1, MaxCount: &most, Topology: slices.Clone(rack), Communication: Ring}},
			Parent:                "p", Communication: Tree, HoldSeconds: &hold,
		},
		Status: PodGroupStatus{Conditions: []metav1.Condition{{Type: PodGroupInitiallyScheduled, Message: "m"}}},
	}
}

// A copy is equal, and a change of the copy leaves the first as it was.
func TestCopySharesNothing(t *testing.T) {
	spec := full().Spec
	for _, fields := range []any{spec, spec.SchedulingPolicy, *spec.SchedulingPolicy.Gang, *spec.SchedulingConstraints, spec.SubGroups[0], spec.SubGroups[0].Topology[0], full().Status} {
		for i, v := 0, reflect.ValueOf(fields); i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%T.%s is not set: it is not tested", fields, v.Type().Field(i).Name)
			}
		}
	}
	list := &PodGroupList{Items: []PodGroup{*full()}}
	c := list.DeepCopyObject().(*PodGroupList)
	if !reflect.DeepEqual(c, list) {
		t.Fatalf("copy %+v, want %+v", c, list)
	}
	c.Items[0].Labels["a"] = "c"
	changed := &c.Items[0].Spec
	*changed.HoldSeconds, changed.SchedulingPolicy.Gang.MinCount = 9, 9
	*changed.SchedulingPolicy.Gang.MaxCount, *changed.SchedulingPolicy.Gang.MinGroupCount = 9, 9
	changed.SchedulingConstraints.Topology[0].Mode = Required
	*changed.SubGroups[0].MaxCount, changed.SubGroups[0].Topology[0].Mode, changed.SubGroups[0].Name = 9, Required, "t"
	c.Items[0].Status.Conditions[0].Message = "n"
	if !reflect.DeepEqual(&list.Items[0], full()) {
		t.Errorf("after a change of the copy: %+v", list.Items[0])
	}
}

// fullQueue is a queue in which every field is set.
func fullQueue() *Queue {
	weight := int32(2)
	some := func(n int64) ResourceList { return ResourceList{GPUs: *resource.NewQuantity(n, resource.DecimalSI)} }
	return &Queue{
		TypeMeta:   metav1.TypeMeta{Kind: "Queue", APIVersion: GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: "q", Labels: map[string]string{"a": "b"}},
		Spec:       QueueSpec{Parent: "p", Deserved: some(1), Limit: some(2), Weight: &weight},
		Status:     QueueStatus{Used: some(3), Quota: some(4), FairShare: some(5), Waiting: 6, Message: "m"},
	}
}

func TestCopyOfQueueSharesNothing(t *testing.T) {
	for _, fields := range []any{fullQueue().Spec, fullQueue().Status} {
		for i, v := 0, reflect.ValueOf(fields); i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%T.%s is not set: it is not tested", fields, v.Type().Field(i).Name)
			}
		}
	}
	list := &QueueList{Items: []Queue{*fullQueue()}}
	c := list.DeepCopyObject().(*QueueList)
	if !reflect.DeepEqual(c, list) {
		t.Fatalf("copy %+v, want %+v", c, list)
	}
	q := &c.Items[0]
	q.Labels["a"], *q.Spec.Weight = "c", 9
	for _, l := range []ResourceList{q.Spec.Deserved, q.Spec.Limit, q.Status.Used, q.Status.Quota, q.Status.FairShare} {
		delete(l, GPUs)
	}
	if !reflect.DeepEqual(&list.Items[0], fullQueue()) {
		t.Errorf("after a change of the copy: %+v", list.Items[0])
	}
}

// A scheme knows the objects by their kinds.
func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if o, err := s.New(GroupVersion.WithKind("PodGroup")); err != nil || reflect.TypeOf(o) != reflect.TypeFor[*PodGroup]() {
		t.Errorf("kind PodGroup is %T, %v", o, err)
	}
	if o, err := s.New(GroupVersion.WithKind("Queue")); err != nil || reflect.TypeOf(o) != reflect.TypeFor[*Queue]() {
		t.Errorf("kind Queue is %T, %v", o, err)
	}
}
