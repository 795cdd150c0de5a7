package facts_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// list builds a resource list from name, amount pairs.
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func container(pairs ...string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
}

func TestNodeOf(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{
			facts.ProductLabel: "L4", facts.MemoryLabel: "23034", corev1.LabelTopologyZone: "z", facts.RackLabel: "r",
		}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute},
			{Key: "odd", Effect: "NoSuchEffect"},
		}},
		Status: corev1.NodeStatus{
			Capacity:    list("cpu", "9", string(gpu), "8"),
			Allocatable: list("cpu", "7500m", "memory", "2Gi", "pods", "110", string(gpu), "2", "ephemeral-storage", "10", "example.com/fpga", "3"),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},

			DeclaredFeatures: []string{"UserNamespacesHostNetworkSupport"},
		},
	}
	got := facts.NodeOf(n, gpu, facts.DefaultLevels())
	labels := maps.Clone(n.Labels)
	labels[world.NameLabel], labels["feature:UserNamespacesHostNetworkSupport"] = "n", ""
	card := world.Device{Model: "L4", Memory: 23034 << 20, Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingNone}
	want := facts.Node{
		Ready:   true,
		Domains: []world.DomainAdded{{Name: "/z", Level: cluster.LevelZone}, {Name: "/z/r", Level: cluster.LevelRack, Parent: "/z"}},
		Added: world.NodeAdded{
			Name: "n", UID: "u", Domain: "/z/r", CPU: 7500, Memory: 2 << 30, Pods: 110,
			Extended: map[string]int64{"ephemeral-storage": 10, "example.com/fpga": 3},
			Devices:  []world.Device{card, card}, Labels: labels, Life: cluster.LifeReady, Authority: cluster.AuthorityPlugin,
			Taints: []world.Taint{
				{Key: "a", Value: "b", Effect: cluster.TaintNoExecute},
				{Key: corev1.TaintNodeUnschedulable, Effect: cluster.TaintNoSchedule},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestNodeReady(t *testing.T) {
	now := metav1.Now()
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, c := range []struct {
		name string
		node corev1.Node
		want bool
	}{
		{"ready", corev1.Node{Status: corev1.NodeStatus{Conditions: ready}}, true},
		{"no condition yet", corev1.Node{}, false},
		{"unknown", corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}, false},
		{"being deleted", corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: corev1.NodeStatus{Conditions: ready}}, false},
	} {
		if got := facts.NodeOf(&c.node, gpu, facts.DefaultLevels()).Ready; got != c.want {
			t.Errorf("%s: ready %v, want %v", c.name, got, c.want)
		}
	}
}

// The effective request is the larger of the containers with sidecars and of each
// init container with the sidecars before it, plus overhead.
func TestRequest(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("cpu", "1")
	sidecar.RestartPolicy = &always
	card := func(n int32) []world.DeviceRequest { return []world.DeviceRequest{{Count: n, Milli: 1000}} }
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want world.Request
	}{
		{"nothing", corev1.PodSpec{Containers: []corev1.Container{container()}}, world.Request{}},
		{
			"containers add up",
			corev1.PodSpec{Containers: []corev1.Container{container("cpu", "100m", string(gpu), "1"), container("cpu", "2", "memory", "1Gi", string(gpu), "2")}},
			world.Request{CPU: 2100, Memory: 1 << 30, Devices: card(3)},
		},
		{
			"a large init container",
			corev1.PodSpec{InitContainers: []corev1.Container{container("cpu", "4", string(gpu), "1")}, Containers: []corev1.Container{container("cpu", "1")}},
			world.Request{CPU: 4000, Devices: card(1)},
		},
		{
			"a sidecar runs beside the init containers after it",
			corev1.PodSpec{InitContainers: []corev1.Container{sidecar, container("cpu", "4")}, Containers: []corev1.Container{container("cpu", "2")}},
			world.Request{CPU: 5000},
		},
		{"overhead", corev1.PodSpec{Overhead: list("cpu", "250m"), Containers: []corev1.Container{container("cpu", "1")}}, world.Request{CPU: 1250}},
		{
			"requests of the pod as a whole",
			corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu", "3", "memory", "1Gi")}, Containers: []corev1.Container{container("cpu", "1", string(gpu), "1")}},
			world.Request{CPU: 3000, Memory: 1 << 30, Devices: card(1)},
		},
		{"other resources", corev1.PodSpec{Containers: []corev1.Container{container("example.com/fpga", "2")}}, world.Request{Extended: map[string]int64{"example.com/fpga": 2}}},
		{
			"more cards than a node can have",
			corev1.PodSpec{Containers: []corev1.Container{container(string(gpu), "1000")}},
			world.Request{Devices: []world.DeviceRequest{{Count: 64, Milli: 1000}, {Count: 64, Milli: 1000}}},
		},
	} {
		c.spec.SchedulerName = "headrace"
		got := facts.PodOf(&corev1.Pod{Spec: c.spec}, "headrace", gpu)
		if diff := cmp.Diff(c.want, got.Added.Request); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestStanding(t *testing.T) {
	now := metav1.Now()
	for _, c := range []struct {
		name string
		pod  corev1.Pod
		want facts.Standing
		why  string
	}{
		{"ours", corev1.Pod{}, facts.Waiting, ""},
		{"of another scheduler", corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "other"}}, facts.Absent, ""},
		{"of another scheduler, bound", corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "other", NodeName: "n"}}, facts.Charged, ""},
		{"finished", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, facts.Absent, ""},
		{"being deleted while it waits", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, facts.Absent, ""},
		{"being deleted where it runs", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Spec: corev1.PodSpec{NodeName: "n"}}, facts.Charged, ""},
		{"gated", corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "g"}}}}, facts.Held, ""},
		{"with a claim", corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}}}, facts.Waiting, ""},
		{"with a local volume", corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}, facts.Waiting, ""},
		{
			"with a persistent volume",
			corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}}},
			facts.Waiting, "",
		},
	} {
		if c.pod.Spec.SchedulerName == "" {
			c.pod.Spec.SchedulerName = "headrace"
		}
		got := facts.PodOf(&c.pod, "headrace", gpu)
		if tied := strings.Contains(c.name, "persistent"); (got.Tied != "") != tied || (got.Added.Request.Rim != "") != tied {
			t.Errorf("%s: tied by %q and %q, want %v", c.name, got.Tied, got.Added.Request.Rim, tied)
		}
		if got.Standing != c.want || got.Why != c.why {
			t.Errorf("%s: %v because of %q, want %v because of %q", c.name, got.Standing, got.Why, c.want, c.why)
		}
	}
}

func TestSelector(t *testing.T) {
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	term := func(e ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: e}
	}
	never := world.Requirement{Op: cluster.OpIn}
	is := world.Requirement{Key: "a", Op: cluster.OpIn, Values: []string{"b"}}
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want [][]world.Requirement
	}{
		{"none", corev1.PodSpec{}, nil},
		{"selector", corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}, [][]world.Requirement{{is}}},
		{
			"alternatives, each with the selector",
			corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}, Affinity: affinity(
				term(corev1.NodeSelectorRequirement{Key: "k", Operator: corev1.NodeSelectorOpExists}),
				term(corev1.NodeSelectorRequirement{Key: "n", Operator: corev1.NodeSelectorOpGt, Values: []string{"7"}}))},
			[][]world.Requirement{{is, {Key: "k", Op: cluster.OpExists}}, {is, {Key: "n", Op: cluster.OpGreater, Number: 7}}},
		},
		{"a term without conditions", corev1.PodSpec{Affinity: affinity(term())}, [][]world.Requirement{{never}}},
		{
			"a node by its name, and not by two",
			corev1.PodSpec{Affinity: affinity(
				corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n"}}}},
				corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n", "m"}}}})},
			[][]world.Requirement{{{Key: world.NameLabel, Op: cluster.OpNotIn, Values: []string{"n"}}}, {never}},
		},
		{
			"a feature that the node must declare",
			corev1.PodSpec{HostNetwork: true, HostUsers: new(bool)},
			[][]world.Requirement{{{Key: "feature:UserNamespacesHostNetworkSupport", Op: cluster.OpExists, Feature: true}}},
		},
		{
			"not a number",
			corev1.PodSpec{Affinity: affinity(term(corev1.NodeSelectorRequirement{Key: "n", Operator: corev1.NodeSelectorOpLt, Values: []string{"x"}}))},
			[][]world.Requirement{{never}},
		},
	} {
		c.spec.SchedulerName = "headrace"
		got := facts.PodOf(&corev1.Pod{Spec: c.spec}, "headrace", gpu).Added.Request.Selector
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: selector (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestTolerations(t *testing.T) {
	spec := corev1.PodSpec{SchedulerName: "headrace", Tolerations: []corev1.Toleration{
		{Operator: corev1.TolerationOpExists},
		{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule},
		{Key: "a", Operator: "NoSuchOperator"},
		{Value: "an empty key without Exists"},
	}}
	got := facts.PodOf(&corev1.Pod{Spec: spec}, "headrace", gpu).Added.Request.Tolerations
	want := []world.Toleration{
		{AnyValue: true, AnyEffect: true},
		{Key: "a", Value: "b", Effect: cluster.TaintNoSchedule},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}
