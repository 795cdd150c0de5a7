package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/headrace-dev/headrace/api/v1alpha1"
)

// groupKind is one of the two kinds of PodGroup: how one is made, how a pod names
// it and what its condition says.
type groupKind struct {
	name      string
	create    func(r *rig, name string, minimum int32)
	join      func(p *corev1.Pod, group string)
	condition func(r *rig, name string) *metav1.Condition
}

var groupKinds = []groupKind{
	{
		name: "kubernetes",
		create: func(r *rig, name string, minimum int32) {
			r.Helper()
			g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
			g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
			_, err := client.SchedulingV1beta1().PodGroups(r.namespace).Create(r.Context(), g, metav1.CreateOptions{})
			r.ok(err)
		},
		join: func(p *corev1.Pod, group string) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		},
		condition: func(r *rig, name string) *metav1.Condition {
			g, err := client.SchedulingV1beta1().PodGroups(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
			r.ok(err)
			for i := range g.Status.Conditions {
				if c := &g.Status.Conditions[i]; c.Type == schedulingv1beta1.PodGroupInitiallyScheduled {
					return c
				}
			}
			return nil
		},
	},
	{
		name: "own",
		create: func(r *rig, name string, minimum int32) {
			r.Helper()
			r.ok(createOwnGroup(r, name, map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(minimum)}}}))
		},
		join: func(p *corev1.Pod, group string) { p.Labels = map[string]string{v1alpha1.PodGroupLabel: group} },
		condition: func(r *rig, name string) *metav1.Condition {
			g, err := objects.Resource(v1alpha1.PodGroups).Namespace(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
			r.ok(err)
			list, _, _ := unstructured.NestedSlice(g.Object, "status", "conditions")
			for i := range list {
				if c, ok := list[i].(map[string]any); ok && c["type"] == v1alpha1.PodGroupInitiallyScheduled {
					return &metav1.Condition{Status: metav1.ConditionStatus(c["status"].(string)), Reason: c["reason"].(string), Message: c["message"].(string)}
				}
			}
			return nil
		},
	},
}

func createOwnGroup(r *rig, name string, spec map[string]any) error {
	_, err := objects.Resource(v1alpha1.PodGroups).Namespace(r.namespace).Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PodGroup", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	return err
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installOwnGroups makes the cluster serve our own PodGroups from now on.
func installOwnGroups(t *testing.T) {
	t.Helper()
	file, err := os.ReadFile("../../charts/headrace/crds/podgroups.scheduling.headrace.dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(file, &definition.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Resource(definitions).Create(t.Context(), &definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	r := &rig{T: t}
	r.eventually("our own PodGroups are served", func() string {
		_, err := client.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		if err == nil {
			_, err = objects.Resource(v1alpha1.PodGroups).List(t.Context(), metav1.ListOptions{})
		}
		return text(err)
	})
}

// members returns the pods of a group, of one card each.
func (k *groupKind) members(group string, n int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		out = append(out, podOf(fmt.Sprintf("%s-%d", group, i), 1, func(p *corev1.Pod) { k.join(p, group) }))
	}
	return out
}

// says waits until a group's condition has a status and says something.
func (k *groupKind) says(r *rig, group string, status metav1.ConditionStatus, want string) {
	r.Helper()
	r.eventually(fmt.Sprintf("group %s is %s because %q", group, status, want), func() string {
		switch c := k.condition(r, group); {
		case c == nil:
			return "it has no condition"
		case c.Status != status || !strings.Contains(c.Message, want):
			return fmt.Sprintf("it is %s, %s: %q", c.Status, c.Reason, c.Message)
		}
		return ""
	})
}

// boundOf counts the bound pods by group.
func (r *rig) boundOf() map[string]int {
	r.Helper()
	out := make(map[string]int)
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" {
			out[p.Name[:strings.LastIndex(p.Name, "-")]]++
		}
	}
	return out
}

// A group of eight for which there is room for seven waits whole and says why; with
// room for all of it, all of it is bound.
func TestGroupAllOrNone(t *testing.T) {
	installOwnGroups(t)
	for _, k := range groupKinds {
		t.Run(k.name, func(t *testing.T) {
			r := newRig(t)
			s, _ := r.schedule()
			for i := range 7 {
				r.node(fmt.Sprint("n-", i), 1)
			}
			pods := k.members("g", 8)
			r.create(pods[:3]...)
			r.waits("g-0", "does not exist yet")
			k.create(r, "g", 8)
			r.waits("g-0", "3 of 8 members of its group have arrived")
			r.create(pods[3:]...)
			r.waits("g-7", "needs room for 8 members of its group at once, the cluster holds 7 when empty")
			k.says(r, "g", metav1.ConditionFalse, "needs room for 8 members of its group")
			if bound := r.boundOf(); len(bound) > 0 {
				t.Fatalf("%v are bound, want none", bound)
			}
			r.create(podOf("single", 1))
			r.bound("single") // the room of the group is not held from others
			r.node("n-7", 1)
			r.node("n-8", 1)
			r.allBound()
			r.counts(s, 9)
			k.says(r, "g", metav1.ConditionTrue, "8 pods are bound")
			r.inBounds()
		})
	}
}

// Of ten groups of eight with room for five, exactly five are bound whole; when one
// of them goes, the next one comes, whole too.
func TestGroupsCompete(t *testing.T) {
	installOwnGroups(t)
	for _, k := range groupKinds {
		t.Run(k.name, func(t *testing.T) {
			r := newRig(t)
			s, _ := r.schedule()
			for i := range 5 {
				r.node(fmt.Sprint("n-", i), 8)
			}
			var pods []*corev1.Pod
			for i := range 8 { // all first members before all second ones
				for g := range 10 {
					pods = append(pods, k.members(fmt.Sprint("g-", g), 8)[i])
				}
			}
			for g := range 10 {
				k.create(r, fmt.Sprint("g-", g), 8)
			}
			r.create(pods...)
			whole := func(groups int) []string {
				t.Helper()
				r.eventually(fmt.Sprintf("%d whole groups are bound", groups), func() string {
					if n := len(r.boundOf()); n != groups || r.inBounds() != 40 {
						return fmt.Sprintf("%v", r.boundOf())
					}
					return ""
				})
				for name, n := range r.boundOf() {
					if n != 8 {
						t.Errorf("group %s has %d pods bound, want 8", name, n)
					}
				}
				return slices.Sorted(maps.Keys(r.boundOf()))
			}
			first := whole(5)
			r.counts(s, 40)
			time.Sleep(time.Second) // nothing more comes, unasked
			if after := whole(5); !slices.Equal(first, after) {
				t.Errorf("groups %v were bound, then %v", first, after)
			}
			for i := range 8 {
				r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), fmt.Sprintf("%s-%d", first[0], i), *metav1.NewDeleteOptions(0)))
			}
			if second := whole(5); slices.Contains(second, first[0]) {
				t.Errorf("group %s is gone, and bound: %v", first[0], second)
			}
		})
	}
}

// Our own PodGroup refuses what it cannot mean, and fills in what is left out.
func TestOwnGroupIsValidated(t *testing.T) {
	installOwnGroups(t)
	r := newRig(t)
	gang := map[string]any{"gang": map[string]any{"minCount": int64(2)}}
	with := func(more map[string]any) map[string]any {
		more["schedulingPolicy"] = gang
		return more
	}
	parts := func(parts ...any) map[string]any { return with(map[string]any{"subGroups": parts}) }
	level := func(name string) map[string]any { return map[string]any{"level": name} }
	for name, test := range map[string]struct {
		spec map[string]any
		want string
	}{
		"neither": {map[string]any{"schedulingPolicy": map[string]any{}}, "set exactly one of basic and gang"},
		"both":    {map[string]any{"schedulingPolicy": map[string]any{"basic": map[string]any{}, "gang": map[string]any{"minCount": int64(2)}}}, "set exactly one of basic and gang"},
		"none":    {map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(0)}}}, "minCount must be at least 1 in a group without minGroupCount and subGroups"},
		"below":   {map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(-1)}}}, "greater than or equal to 0"},
		"most":    {map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(3), "maxCount": int64(2)}}}, "maxCount must be at least minCount"},
		"groups":  {map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minGroupCount": int64(0)}}}, "greater than or equal to 1"},
		"endless": {with(map[string]any{"holdSeconds": int64(86401)}), "less than or equal to 86400"},
		"nothing": {map[string]any{}, "schedulingPolicy"},
		"shelf":   {with(topology(level("Shelf"))), "supported values: "},
		"twice":   {with(topology(level("Rack"), level("Zone"), level("Rack"))), "each level once"},
		"unclear": {with(topology(map[string]any{"level": "Rack", "key": "a"})), "set exactly one of level and key"},
		"empty":   {with(topology(map[string]any{"mode": "Preferred"})), "set exactly one of level and key"},
		"perhaps": {with(topology(map[string]any{"level": "Rack", "mode": "Perhaps"})), "supported values: "},
		"gossip":  {with(map[string]any{"communication": "Gossip"}), "supported values: "},
		"parent":  {with(map[string]any{"parent": "A B"}), "spec.parent"},
		"basic":   {map[string]any{"schedulingPolicy": map[string]any{"basic": map[string]any{}}, "parent": "p"}, "a basic group has neither subGroups nor a parent"},
		"unnamed": {parts(map[string]any{"minCount": int64(1)}), "name"},
		"same":    {parts(map[string]any{"name": "a", "minCount": int64(1)}, map[string]any{"name": "a", "minCount": int64(2)}), "Duplicate value"},
		"no pods": {parts(map[string]any{"name": "a", "minCount": int64(0)}), "greater than or equal to 1"},
	} {
		if err := createOwnGroup(r, name, test.spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: said %v, want it to contain %q", name, err, test.want)
		}
	}
	r.ok(createOwnGroup(r, "parts", map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{}}, "subGroups": []any{map[string]any{"name": "a", "minCount": int64(1)}}}))
	r.ok(createOwnGroup(r, "good", with(topology(level("Rack")))))
	g, err := objects.Resource(v1alpha1.PodGroups).Namespace(r.namespace).Get(t.Context(), "good", metav1.GetOptions{})
	r.ok(err)
	if hold, _, _ := unstructured.NestedInt64(g.Object, "spec", "holdSeconds"); hold != 300 {
		t.Errorf("holdSeconds is %d where it was left out, want 300", hold)
	}
	constraints, _, _ := unstructured.NestedSlice(g.Object, "spec", "schedulingConstraints", "topology")
	if len(constraints) != 1 || constraints[0].(map[string]any)["mode"] != "Required" {
		t.Errorf("topology %v, want a mode that is filled in", constraints)
	}
}
