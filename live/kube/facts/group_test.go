package facts_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
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
			spec: schedulingv1beta1.PodGroupSpec{SchedulingConstraints: topology("topology.kubernetes.io/rack")},
			want: with(func(g *facts.Group) {
				g.Added.Topology = []cluster.TopologyWish{{Level: cluster.LevelRack, Required: true}}
			}),
		},
		"odd topology": {
			spec: schedulingv1beta1.PodGroupSpec{SchedulingConstraints: topology("rack")},
			want: with(func(g *facts.Group) {
				g.Why = "a topology by the label rack (kubernetes.io/hostname, topology.headrace.dev/rack, topology.kubernetes.io/rack, topology.kubernetes.io/zone, topology.kubernetes.io/region are known)"
			}),
		},
		"claims": {
			spec: schedulingv1beta1.PodGroupSpec{ResourceClaims: []schedulingv1beta1.PodGroupResourceClaim{{Name: "c", ResourceClaimName: &claim}}},
			want: with(func(g *facts.Group) { g.Why = "resource claims of the group" }),
		},
		"parent": {spec: schedulingv1beta1.PodGroupSpec{ParentCompositePodGroupName: &parent}, want: with(func(g *facts.Group) { g.Added.Parent = "ns/p (composite)" })},
		"waits": {
			status: []metav1.Condition{{Type: v1alpha1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse, Message: "no room"}},
			want:   with(func(g *facts.Group) { g.Told = "no room" }),
		},
		"scheduled": {
			status: []metav1.Condition{{Type: "Other"}, {Type: v1alpha1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Message: "8"}},
			want:   with(func(g *facts.Group) { g.Scheduled = true }),
		},
	} {
		got := facts.GroupOf(&schedulingv1beta1.PodGroup{ObjectMeta: object, Spec: test.spec, Status: schedulingv1beta1.PodGroupStatus{Conditions: test.status}}, facts.DefaultLevels())
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func topology(key string) *schedulingv1beta1.PodGroupSchedulingConstraints {
	return &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
}

// A group of groups of Kubernetes needs as many of them as it says, or any one.
func TestCompositeOf(t *testing.T) {
	parent := "p"
	g := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
	g.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue},
		{Type: "CompositePodGroupInitiallyScheduled", Status: metav1.ConditionFalse, Message: "no room"},
	}
	want := facts.Group{
		Namespace: "ns", Name: "g", UID: "u", Kind: facts.Composite, Told: "no room",
		Added: world.GroupAdded{Name: "ns/g (composite)", Groups: 1},
	}
	if diff := cmp.Diff(want, facts.CompositeOf(g, facts.DefaultLevels())); diff != "" {
		t.Errorf("basic (-want +got):\n%s", diff)
	}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 3}
	g.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: corev1.LabelTopologyZone}}}
	g.Spec.ParentCompositePodGroupName = &parent
	want.Added.Groups, want.Added.Parent = 3, "ns/p (composite)"
	want.Added.Topology = []cluster.TopologyWish{{Level: cluster.LevelZone, Required: true}}
	if diff := cmp.Diff(want, facts.CompositeOf(g, facts.DefaultLevels())); diff != "" {
		t.Errorf("gang (-want +got):\n%s", diff)
	}
}

// What is checked by the API server is taken for the nearest that can be meant where
// it was not, and what nobody can mean is named.
func TestOwnGroupOf(t *testing.T) {
	const own = " (scheduling.headrace.dev)"
	hold, odd, five, two := int32(90), int32(math.MinInt32), int32(5), int32(2)
	gang := func(g v1alpha1.GangPolicy) v1alpha1.SchedulingPolicy { return v1alpha1.SchedulingPolicy{Gang: &g} }
	rack := cluster.TopologyWish{Level: cluster.LevelRack, Required: true}
	for name, test := range map[string]struct {
		spec  v1alpha1.PodGroupSpec
		want  world.GroupAdded
		parts []world.GroupAdded
		why   string
	}{
		"basic":   {want: world.GroupAdded{Minimum: 1}},
		"gang":    {spec: v1alpha1.PodGroupSpec{SchedulingPolicy: gang(v1alpha1.GangPolicy{MinCount: 3, MaxCount: &five}), HoldSeconds: &hold}, want: world.GroupAdded{Minimum: 3, Wished: 5, Hold: 90 * moment.Second}},
		"hostile": {spec: v1alpha1.PodGroupSpec{SchedulingPolicy: gang(v1alpha1.GangPolicy{MinCount: odd, MaxCount: &odd}), HoldSeconds: &odd}, want: world.GroupAdded{Minimum: 1, Wished: 1}},
		"few":     {spec: v1alpha1.PodGroupSpec{SchedulingPolicy: gang(v1alpha1.GangPolicy{MinCount: 3, MaxCount: &two})}, want: world.GroupAdded{Minimum: 3, Wished: 3}},
		"part of another": {
			spec: v1alpha1.PodGroupSpec{SchedulingPolicy: gang(v1alpha1.GangPolicy{MinCount: 3}), Parent: "job", Communication: v1alpha1.Ring},
			want: world.GroupAdded{Minimum: 3, Parent: "ns/job" + own, Comm: cluster.CommRing},
		},
		"groups": {
			spec: v1alpha1.PodGroupSpec{SchedulingPolicy: gang(v1alpha1.GangPolicy{MinGroupCount: &two})},
			want: world.GroupAdded{Groups: 2},
		},
		"sub-groups": {
			spec: v1alpha1.PodGroupSpec{
				SchedulingPolicy:      gang(v1alpha1.GangPolicy{}),
				SchedulingConstraints: &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{{Level: v1alpha1.Zone}, {Level: v1alpha1.Rack, Mode: v1alpha1.Preferred}}},
				SubGroups: []v1alpha1.SubGroup{
					{Name: "prefill", MinCount: 1, Topology: []v1alpha1.TopologyConstraint{{Key: facts.RackLabel}, {Level: v1alpha1.Rack, Mode: v1alpha1.Preferred}}},
					{Name: "decode", MinCount: 2, MaxCount: &five, Communication: v1alpha1.Tree},
				},
			},
			want: world.GroupAdded{Groups: cluster.AllGroups, Topology: []cluster.TopologyWish{{Level: cluster.LevelZone, Required: true}, {Level: cluster.LevelRack}}},
			parts: []world.GroupAdded{
				{Name: "ns/g/prefill" + own, Parent: "ns/g" + own, Minimum: 1, Topology: []cluster.TopologyWish{rack}},
				{Name: "ns/g/decode" + own, Parent: "ns/g" + own, Minimum: 2, Wished: 5, Comm: cluster.CommTree},
			},
		},
		"odd level":   {spec: constrained(v1alpha1.TopologyConstraint{Level: "Shelf"}), want: world.GroupAdded{Minimum: 1}, why: `a topology by the level "Shelf"`},
		"odd pattern": {spec: v1alpha1.PodGroupSpec{Communication: "Gossip"}, want: world.GroupAdded{Minimum: 1}, why: `the communication "Gossip"`},
		"twice": {
			spec:  v1alpha1.PodGroupSpec{SubGroups: []v1alpha1.SubGroup{{Name: "a"}, {Name: "a"}}},
			want:  world.GroupAdded{Minimum: 1},
			parts: []world.GroupAdded{{Name: "ns/g/a" + own, Parent: "ns/g" + own, Minimum: 1}},
			why:   "two sub-groups a",
		},
	} {
		got := facts.OwnGroupOf(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}, Spec: test.spec}, facts.DefaultLevels())
		test.want.Name = "ns/g" + own
		if diff := cmp.Diff(facts.Group{Namespace: "ns", Name: "g", Kind: facts.Own, Added: test.want, Parts: test.parts, Why: test.why}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func constrained(c v1alpha1.TopologyConstraint) v1alpha1.PodGroupSpec {
	return v1alpha1.PodGroupSpec{SchedulingConstraints: &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{c}}}
}

// A pod's rank is what it says, else the index of its Job; what is none is told.
func TestRankOfPod(t *testing.T) {
	group := map[string]string{v1alpha1.PodGroupLabel: "g"}
	with := func(key, value string) map[string]string {
		return map[string]string{v1alpha1.PodGroupLabel: "g", key: value}
	}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		ranked              bool
		rank                int32
		faults              int
	}{
		"none":        {labels: group},
		"own":         {labels: with(v1alpha1.RankLabel, "3"), annotations: with(batchv1.JobCompletionIndexAnnotation, "4"), ranked: true, rank: 3},
		"annotation":  {labels: group, annotations: with(v1alpha1.RankLabel, "0"), ranked: true},
		"index":       {labels: with(batchv1.JobCompletionIndexAnnotation, "7"), ranked: true, rank: 7},
		"not a group": {labels: map[string]string{v1alpha1.RankLabel: "3"}},
		"word":        {labels: with(v1alpha1.RankLabel, "first"), faults: 1},
		"below 0":     {labels: with(v1alpha1.RankLabel, "-1"), faults: 1},
		"too large":   {labels: with(v1alpha1.RankLabel, "2147483648"), faults: 1},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: test.labels, Annotations: test.annotations}, Spec: corev1.PodSpec{SchedulerName: "headrace"}}
		got := facts.PodOf(p, "headrace", gpu)
		if got.Added.Ranked != test.ranked || got.Added.Rank != test.rank || len(got.JobFaults) != test.faults {
			t.Errorf("%s: rank %d (%v), faults %q", name, got.Added.Rank, got.Added.Ranked, got.JobFaults)
		}
	}
}

// A pod names its group by the field, by a label or by an annotation, in this order.
func TestGroupOfPod(t *testing.T) {
	field, own := "field", map[string]string{v1alpha1.PodGroupLabel: "label"}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want string
		of   string // its group, where want is a part of it
	}{
		"none":       {},
		"empty":      {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.PodGroupLabel: ""}}}},
		"field":      {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &field}}}, want: "ns/field"},
		"label":      {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: own, Annotations: map[string]string{v1alpha1.PodGroupLabel: "other"}}}, want: "ns/label (scheduling.headrace.dev)"},
		"annotation": {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: own}}, want: "ns/label (scheduling.headrace.dev)"},
		"part": {
			pod:  corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: own, Annotations: map[string]string{v1alpha1.SubGroupLabel: "part"}}},
			want: "ns/label/part (scheduling.headrace.dev)", of: "ns/label (scheduling.headrace.dev)",
		},
		"part of nothing": {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.SubGroupLabel: "part"}}}},
	} {
		test.pod.Namespace, test.pod.Spec.SchedulerName = "ns", "headrace"
		if test.of == "" {
			test.of = test.want
		}
		if got := facts.PodOf(&test.pod, "headrace", gpu); got.Standing != facts.Waiting || got.Added.Group != test.want || got.Group != test.of {
			t.Errorf("%s: %v in group %q, as %q, want it to wait in %q, as %q", name, got.Standing, got.Group, got.Added.Group, test.of, test.want)
		}
	}
	odd := corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "headrace", SchedulingGroup: &corev1.PodSchedulingGroup{}}}
	if got := facts.PodOf(&odd, "headrace", gpu); got.Standing != facts.Held || got.Why == "" {
		t.Errorf("a group that is not named: %v because %q, want it held", got.Standing, got.Why)
	}
}
