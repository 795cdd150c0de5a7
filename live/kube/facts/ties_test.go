package facts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

func where(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

// TestRelations: what a pod says about others is what the world is told, for a
// waiting pod and for a bound one.
func TestRelations(t *testing.T) {
	always, five := corev1.ContainerRestartPolicyAlways, int32(5)
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	is := world.Requirement{Key: "app", Op: cluster.OpIn, Values: []string{"a"}}
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want world.PodAdded // the relations of it
	}{
		{
			"ports of containers and sidecars",
			corev1.PodSpec{
				InitContainers: []corev1.Container{
					{Ports: []corev1.ContainerPort{{HostPort: 1}}},
					{RestartPolicy: &always, Ports: []corev1.ContainerPort{{HostPort: 2, Protocol: corev1.ProtocolUDP}}},
				},
				Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 9}, {HostPort: 3, HostIP: "10.0.0.1", Protocol: corev1.ProtocolTCP}}}},
			},
			world.PodAdded{Ports: []world.Port{{Protocol: "UDP", Number: 2}, {IP: "10.0.0.1", Protocol: "TCP", Number: 3}}},
		},
		{
			"affinity",
			corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: "zone", LabelSelector: where(map[string]string{"app": "a"}), Namespaces: []string{"m"}},
				{TopologyKey: "zone", NamespaceSelector: where(map[string]string{"app": "a"})},
				{TopologyKey: "zone", LabelSelector: new(metav1.LabelSelector), NamespaceSelector: new(metav1.LabelSelector)},
			}}}},
			world.PodAdded{Near: []world.PodTerm{
				{Topology: "zone", Of: world.PodSelector{Namespaces: []string{"m"}, Labels: []world.Requirement{is}}},
				{Topology: "zone", Of: world.PodSelector{ByLabels: true, Where: []world.Requirement{is}, Nobody: true}},
				{Topology: "zone", Of: world.PodSelector{ByLabels: true}},
			}},
		},
		{
			"anti-affinity",
			corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "host", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"v"}}, {Key: "l", Operator: metav1.LabelSelectorOpDoesNotExist}, {Key: "m", Operator: metav1.LabelSelectorOpExists},
				}}}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1}},
			}}},
			world.PodAdded{Apart: []world.PodTerm{{Topology: "host", Of: world.PodSelector{Labels: []world.Requirement{
				{Key: "k", Op: cluster.OpNotIn, Values: []string{"v"}}, {Key: "l", Op: cluster.OpAbsent}, {Key: "m", Op: cluster.OpExists},
			}}}}},
		},
		{
			"spread",
			corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway},
				{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule},
				{
					MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: new(metav1.LabelSelector), MinDomains: &five,
					NodeAffinityPolicy: &ignore, NodeTaintsPolicy: &honor, MatchLabelKeys: []string{"app", "none"},
				},
			}},
			world.PodAdded{Spread: []world.Spread{
				{Topology: "zone", MaxSkew: 1, Nobody: true},
				{Topology: "zone", MaxSkew: 2, MinDomains: 5, AllNodes: true, Taints: true, Labels: []world.Requirement{is}},
			}},
		},
	} {
		for _, node := range []string{"", "n"} {
			spec := c.spec
			spec.SchedulerName, spec.NodeName = "headrace", node
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"app": "a"}}, Spec: spec}
			f := facts.PodOf(&pod, "headrace", gpu)
			if f.Why != "" {
				t.Errorf("%s on node %q: not judged because of %q", c.name, node, f.Why)
			}
			c.want.Namespace, c.want.Labels = "ns", map[string]string{"app": "a"}
			got := world.PodAdded{Namespace: f.Added.Namespace, Labels: f.Added.Labels, Ports: f.Added.Ports, Near: f.Added.Near, Apart: f.Added.Apart, Spread: f.Added.Spread}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s on node %q (-want +got):\n%s", c.name, node, diff)
			}
			if err := world.New().Apply(0, f.Added); err != nil {
				t.Errorf("%s on node %q: the world refuses it: %v", c.name, node, err)
			}
		}
	}
}

// TestRelationsThatCannotBeRead: a waiting pod with such is held and says why; of
// a bound one the world takes what there is.
func TestRelationsThatCannotBeRead(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: bad}
	many := make([]corev1.PodAffinityTerm, world.MaxTies+1)
	var ports []corev1.ContainerPort
	for i := range world.MaxTies + 1 {
		many[i] = corev1.PodAffinityTerm{TopologyKey: fmt.Sprint("k", i)}
		ports = append(ports, corev1.ContainerPort{HostPort: int32(i + 1)})
	}
	anti := func(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}
	}
	for _, c := range []struct {
		name, want string
		spec       corev1.PodSpec
	}{
		{"an operator", "cannot be read", anti(term)},
		{"no topology", "cannot be read", anti(corev1.PodAffinityTerm{})},
		{"too many", "more than 1024 terms of anti-affinity", anti(many...)},
		{"too many ports", "more than 1024 ports of the host", corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}},
		{"no skew", "topology spread that cannot be read", corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}}},
	} {
		c.spec.SchedulerName = "headrace"
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: c.spec}
		if got := facts.PodOf(&pod, "headrace", gpu); got.Standing != facts.Held || !strings.Contains(got.Why, c.want) {
			t.Errorf("%s: %v because of %q, want held because of %q", c.name, got.Standing, got.Why, c.want)
		}
		pod.Spec.NodeName = "n"
		got := facts.PodOf(&pod, "headrace", gpu)
		if err := world.New().Apply(0, got.Added); err != nil || got.Standing != facts.Charged {
			t.Errorf("%s, bound: %v, and the world says %v", c.name, got.Standing, err)
		}
	}
}
