package facts_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

func TestGroupOf(t *testing.T) {
	claim, parent := "c", "p"
	object := metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u", Generation: 2}
	basic := facts.Group{Namespace: "ns", Name: "g", UID: "u", Generation: 2, Added: world.GroupAdded{Name: "ns/g", Minimum: 1}}
	with := func(change func(*facts.Group)) facts.Group {
		g := basic
		change(&g)
		return g
	}
	gang := func(n int32) schedulingv1beta1.PodGroupSchedulingPolicy {
		return schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}}
	}
	for name, test := range map[string]struct {
		spec   schedulingv1beta1.PodGroupSpec
		status []metav1.Condition
		want   facts.Group
	}{
		"no policy": {want: basic},
		"gang":      {spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang(8)}, want: with(func(g *facts.Group) { g.Added.Minimum = 8 })},
		"hostile":   {spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang(math.MinInt32)}, want: basic},
		"topology": {
			spec: schedulingv1beta1.PodGroupSpec{SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}},
			want: with(func(g *facts.Group) { g.Why = "a topology for all of the group" }),
		},
		"claims": {
			spec: schedulingv1beta1.PodGroupSpec{ResourceClaims: []schedulingv1beta1.PodGroupResourceClaim{{Name: "c", ResourceClaimName: &claim}}},
			want: with(func(g *facts.Group) { g.Why = "resource claims of the group" }),
		},
		"parent": {spec: schedulingv1beta1.PodGroupSpec{ParentCompositePodGroupName: &parent}, want: with(func(g *facts.Group) { g.Why = "a group of groups" })},
		"waits": {
			status: []metav1.Condition{{Type: v1alpha1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse, Message: "no room"}},
			want:   with(func(g *facts.Group) { g.Told = "no room" }),
		},
		"scheduled": {
			status: []metav1.Condition{{Type: "Other"}, {Type: v1alpha1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Message: "8"}},
			want:   with(func(g *facts.Group) { g.Scheduled = true }),
		},
	} {
		got := facts.GroupOf(&schedulingv1beta1.PodGroup{ObjectMeta: object, Spec: test.spec, Status: schedulingv1beta1.PodGroupStatus{Conditions: test.status}})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwnGroupOf(t *testing.T) {
	hold, odd := int32(90), int32(math.MinInt32)
	for name, test := range map[string]struct {
		spec v1alpha1.PodGroupSpec
		want world.GroupAdded
	}{
		"basic":   {want: world.GroupAdded{Minimum: 1}},
		"gang":    {spec: v1alpha1.PodGroupSpec{SchedulingPolicy: v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangPolicy{MinCount: 3}}, HoldSeconds: &hold}, want: world.GroupAdded{Minimum: 3, Hold: 90 * moment.Second}},
		"hostile": {spec: v1alpha1.PodGroupSpec{SchedulingPolicy: v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangPolicy{MinCount: odd}}, HoldSeconds: &odd}, want: world.GroupAdded{Minimum: 1}},
	} {
		got := facts.OwnGroupOf(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}, Spec: test.spec})
		test.want.Name = "ns/g (scheduling.headrace.dev)"
		if diff := cmp.Diff(facts.Group{Namespace: "ns", Name: "g", Own: true, Added: test.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A pod names its group by the field, by a label or by an annotation, in this order.
func TestGroupOfPod(t *testing.T) {
	field, own := "field", map[string]string{v1alpha1.PodGroupLabel: "label"}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"none":       {},
		"empty":      {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.PodGroupLabel: ""}}}},
		"field":      {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &field}}}, want: "ns/field"},
		"label":      {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: own, Annotations: map[string]string{v1alpha1.PodGroupLabel: "other"}}}, want: "ns/label (scheduling.headrace.dev)"},
		"annotation": {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: own}}, want: "ns/label (scheduling.headrace.dev)"},
	} {
		test.pod.Namespace, test.pod.Spec.SchedulerName = "ns", "headrace"
		if got := facts.PodOf(&test.pod, "headrace", gpu); got.Standing != facts.Waiting || got.Added.Group != test.want {
			t.Errorf("%s: %v in group %q, want it to wait in %q", name, got.Standing, got.Added.Group, test.want)
		}
	}
	odd := corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "headrace", SchedulingGroup: &corev1.PodSchedulingGroup{}}}
	if got := facts.PodOf(&odd, "headrace", gpu); got.Standing != facts.Held || got.Why == "" {
		t.Errorf("a group that is not named: %v because %q, want it held", got.Standing, got.Why)
	}
}
