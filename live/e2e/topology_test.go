package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// commonRack is a label that many clusters have for the rack of a node.
const commonRack = "topology.kubernetes.io/rack"

func inRack(rack string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[commonRack] = rack }
}

// ownGroup creates a PodGroup of ours that starts so many pods, with more to its spec.
func (r *rig) ownGroup(name string, minimum int, more map[string]any) {
	r.Helper()
	spec := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(minimum)}}}
	for key, value := range more { // order: into another map
		spec[key] = value
	}
	r.ok(createOwnGroup(r, name, spec))
}

func topology(constraints ...map[string]any) map[string]any {
	var list []any
	for _, c := range constraints {
		list = append(list, c)
	}
	return map[string]any{"schedulingConstraints": map[string]any{"topology": list}}
}

// racks returns the racks that bound pods with a prefix are in.
func (r *rig) racks(prefix string) map[string]int {
	r.Helper()
	out := make(map[string]int)
	for _, p := range r.pods() {
		if strings.HasPrefix(p.Name, prefix+"-") && p.Spec.NodeName != "" {
			n, err := client.CoreV1().Nodes().Get(r.Context(), p.Spec.NodeName, metav1.GetOptions{})
			r.ok(err)
			out[n.Labels[commonRack]]++
		}
	}
	return out
}

// boundIn waits until all pods with a prefix are bound, in one rack.
func (r *rig) boundIn(prefix string, pods int) {
	r.Helper()
	r.eventually(fmt.Sprintf("the %d pods of %s are bound in one rack", pods, prefix), func() string {
		racks := r.racks(prefix)
		for _, n := range racks { // order: one is enough
			if n == pods && len(racks) == 1 {
				return ""
			}
		}
		return fmt.Sprint(racks)
	})
}

// A group that needs a rack is bound within one, or waits and says which came closest;
// one that no rack can hold is told so; a node that changes its rack is seen there.
func TestGroupInOneRack(t *testing.T) {
	installOwnGroups(t)
	r := newRig(t)
	t.Setenv("KUBECONFIG", kubeconfig)
	s := r.served(kube.Config{Dynamic: objects})
	own := &groupKinds[1]
	for _, rack := range []string{"ra", "rb"} {
		r.node(rack+"-0", 2, inRack(rack))
		r.node(rack+"-1", 2, inRack(rack))
	}
	required := map[string]any{"level": "Rack"}
	r.ownGroup("first", 3, topology(required))
	r.create(own.members("first", 3)...)
	r.boundIn("first", 3)
	r.ownGroup("second", 3, topology(map[string]any{"key": commonRack}))
	r.create(own.members("second", 3)...)
	r.boundIn("second", 3)
	r.counts(s, 6)

	// Two cards are left, of two racks.
	r.ownGroup("third", 2, topology(required))
	r.create(own.members("third", 2)...)
	r.says("has room for 1 of 2 members; the next one needs 1 idle device on one node, the most idle is 0", "explain", "pod/third-0", "-n", r.namespace)
	r.ownGroup("large", 5, topology(required))
	r.create(own.members("large", 5)...)
	r.says("needs room for 5 members of its group in one rack, the largest, rack /r", "explain", "pod/large-0", "-n", r.namespace)
	r.says("holds 4 when empty", "explain", "pod/large-0", "-n", r.namespace)
	r.says("can never be placed in this cluster", "explain", "pod/large-0", "-n", r.namespace)
	own.says(r, "large", metav1.ConditionFalse, "in one rack, the largest, rack /r")
	r.ownGroup("content", 2, topology(map[string]any{"level": "Rack", "mode": "Preferred"}))
	r.create(own.members("content", 2)...)
	r.eventually("the group that prefers a rack is bound across two", func() string {
		if racks := r.racks("content"); racks["ra"] == 1 && racks["rb"] == 1 {
			return ""
		}
		return fmt.Sprint(r.racks("content"))
	})

	r.node("rc-0", 1, inRack("rc"))
	r.node("stray", 1)
	r.says("has room for 1 of 2 members", "explain", "pod/third-0", "-n", r.namespace)
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"rc"}}}`, commonRack)
	_, err := client.CoreV1().Nodes().Patch(t.Context(), "stray", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	r.ok(err)
	r.boundIn("third", 2)
	r.counts(s, 10)
	r.inBounds()
}

// The label of racks is a setting; labels that are not set mean nothing.
func TestLabelOfRacks(t *testing.T) {
	installOwnGroups(t)
	r := newRig(t)
	levels, err := facts.ParseLevels([]string{"rack=example.com/switch"})
	r.ok(err)
	r.scheduleAs(kube.Config{Client: client, Levels: levels})
	own := &groupKinds[1]
	for _, name := range []string{"n-0", "n-1"} {
		r.node(name, 1, inRack("ra"))
	}
	r.ownGroup("g", 2, topology(map[string]any{"level": "Rack"}))
	r.ownGroup("h", 2, topology(map[string]any{"key": commonRack}))
	r.create(append(own.members("g", 2), own.members("h", 2)...)...)
	r.waits("g-0", "the members of its group must share one rack, and no node is in one")
	r.waits("h-0", "a topology by the label "+commonRack+" (kubernetes.io/hostname, example.com/switch, ")
	for _, name := range []string{"n-0", "n-1"} {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"example.com/switch":"s1"}}}`), metav1.PatchOptions{})
		r.ok(err)
	}
	r.boundIn("g", 2)
}

// A tree of groups starts whole: parts with minima of their own, by sub-groups and by
// groups that name a parent.
func TestGroupOfGroups(t *testing.T) {
	installOwnGroups(t)
	r := newRig(t)
	t.Setenv("KUBECONFIG", kubeconfig)
	s := r.served(kube.Config{Dynamic: objects})
	own := &groupKinds[1]
	r.node("n-0", 2, inRack("ra"))
	r.node("n-1", 3, inRack("rb"))
	r.ok(createOwnGroup(r, "job", map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minGroupCount": int64(2)}}}))
	rack := topology(map[string]any{"level": "Rack"})["schedulingConstraints"]
	r.ok(createOwnGroup(r, "model", map[string]any{
		"parent":           "job",
		"schedulingPolicy": map[string]any{"gang": map[string]any{}},
		"subGroups": []any{
			map[string]any{"name": "prefill", "minCount": int64(2), "topology": rack.(map[string]any)["topology"]},
			map[string]any{"name": "decode", "minCount": int64(3), "maxCount": int64(3)},
		},
	}))
	part := func(name string, n int) (out []*corev1.Pod) {
		for i := range n {
			out = append(out, podOf(fmt.Sprint(name, "-", i), 1, func(p *corev1.Pod) {
				p.Labels = map[string]string{v1alpha1.PodGroupLabel: "model", v1alpha1.SubGroupLabel: name}
			}))
		}
		return out
	}
	r.create(part("prefill", 2)...)
	r.create(part("decode", 4)...)
	r.waits("decode-0", "1 of 2 sub-groups of group "+r.namespace+"/job (scheduling.headrace.dev) have arrived")
	r.ownGroup("server", 1, map[string]any{"parent": "job"})
	r.create(own.members("server", 1)...)
	r.says("needs room for 6 members of", "explain", "pod/server-0", "-n", r.namespace)
	own.says(r, "job", metav1.ConditionFalse, "needs room for 6 members of")
	if bound := r.boundOf(); len(bound) > 0 {
		t.Fatalf("%v are bound, want none", bound)
	}
	r.node("n-2", 2, inRack("rb"))
	r.eventually("the tree is bound", func() string {
		if b := r.boundOf(); b["prefill"] == 2 && b["decode"] == 3 && b["server"] == 1 {
			return ""
		}
		return fmt.Sprint(r.boundOf())
	})
	r.counts(s, 6)
	r.boundIn("prefill", 2)
	own.says(r, "job", metav1.ConditionTrue, "6 pods are bound, with those of 4 sub-groups")
	own.says(r, "model", metav1.ConditionTrue, "5 pods are bound, with those of 2 sub-groups")
	r.eventually("the fourth of three waits", func() string {
		for _, p := range r.pods() {
			if p.Spec.NodeName == "" {
				return text(r.conditionOf(p.Name, "has the 3 members that it wished for"))
			}
		}
		return "all are bound"
	})
	r.inBounds()
}

// conditionOf says whether a pod is told something about why it waits.
func (r *rig) conditionOf(name, want string) error {
	for _, c := range r.pod(name).Status.Conditions {
		if c.Type == corev1.PodScheduled && strings.Contains(c.Message, want) {
			return nil
		}
	}
	return fmt.Errorf("pod %s: %+v", name, r.pod(name).Status.Conditions)
}

// Groups of Kubernetes start together under a CompositePodGroup, each in one rack, and
// all in one zone.
func TestCompositeGroup(t *testing.T) {
	r := newRig(t)
	s, _ := r.schedule()
	native := &groupKinds[0]
	inZone := func(zone string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
	}
	composite := &schedulingv1alpha3.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: schedulingv1alpha3.CompositePodGroupSpec{
			WorkloadRef:           &schedulingv1alpha3.WorkloadReference{WorkloadName: "w", TemplateName: "job"},
			SchedulingPolicy:      schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}},
			SchedulingConstraints: &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: corev1.LabelTopologyZone}}},
		},
	}
	_, err := client.SchedulingV1alpha3().CompositePodGroups(r.namespace).Create(t.Context(), composite, metav1.CreateOptions{})
	r.ok(err)
	parent := "job"
	for _, name := range []string{"a", "b"} {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Spec.ParentCompositePodGroupName = &parent
		g.Spec.WorkloadRef = &schedulingv1beta1.WorkloadReference{WorkloadName: "w", TemplateName: name}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: commonRack}}}
		_, err := client.SchedulingV1beta1().PodGroups(r.namespace).Create(t.Context(), g, metav1.CreateOptions{})
		r.ok(err)
		r.create(native.members(name, 2)...)
	}
	r.node("x-0", 2, inZone("zx"), inRack("r1"))
	r.node("x-1", 1, inZone("zx"), inRack("r2"))
	r.node("y-0", 2, inZone("zy"), inRack("r1"))
	r.node("y-1", 1, inZone("zy"), inRack("r2"))
	r.waits("a-0", "needs room for 4 members of group "+r.namespace+"/job (composite) in one zone, the largest, zone /z")
	r.node("y-2", 1, inZone("zy"), inRack("r2"))
	r.allBound()
	r.counts(s, 4)
	r.boundIn("a", 2)
	r.boundIn("b", 2)
	for _, p := range r.pods() {
		if !strings.HasPrefix(p.Spec.NodeName, "y-") {
			t.Errorf("%s is on %s, want zone zy", p.Name, p.Spec.NodeName)
		}
	}
	r.eventually("the composite group is said to be scheduled", func() string {
		g, err := client.SchedulingV1alpha3().CompositePodGroups(r.namespace).Get(t.Context(), "job", metav1.GetOptions{})
		r.ok(err)
		for _, c := range g.Status.Conditions {
			if c.Type == facts.Composite.Condition() && c.Status == metav1.ConditionTrue && c.Message == "4 pods are bound, with those of 2 sub-groups" {
				return ""
			}
		}
		return fmt.Sprint(g.Status.Conditions)
	})
}

// A group that others on two nodes give way to is bound when both have left, and not
// before.
func TestGroupEvictsTogether(t *testing.T) {
	installOwnGroups(t)
	r := newRig(t)
	s, _ := r.preempting()
	own := &groupKinds[1]
	r.node("n-0", 1)
	r.node("n-1", 1)
	r.create(podOf("low-0", 1), podOf("low-1", 1))
	r.allBound()
	r.ownGroup("g", 2, nil)
	members := own.members("g", 2)
	high := r.urgent()
	for _, p := range members {
		high(p)
	}
	r.create(members...)
	r.eventually("both are told to go", func() string { return strings.Join(r.missing("low-0", "low-1"), ", ") })
	r.gone("low-0")
	r.create(podOf("late", 1))
	r.waits("late", "needs 1 idle device")
	if bound := r.boundOf(); bound["g"] != 0 {
		t.Fatalf("%v are bound with half of the room, want none of the group", bound)
	}
	r.gone("low-1")
	r.bound("g-0")
	r.bound("g-1")
	r.counts(s, 2)
	r.inBounds()
}

// missing lists those of some pods that were not told to go.
func (r *rig) missing(names ...string) []string {
	r.Helper()
	leaving := r.leaving()
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(leaving, name) })
}
