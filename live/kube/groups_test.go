package kube

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// putGroup has the informers tell of a PodGroup of Kubernetes.
func (w *truth) putGroup(name string, minimum int32, change ...func(*schedulingv1beta1.PodGroup)) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("group-" + name)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	for _, c := range change {
		c(g)
	}
	f, _ := groupFacts(g, facts.DefaultLevels())
	w.later(message{tell: func(b *books) { b.groupSeen(f) }})
}

func (w *truth) deleteGroup(name string) {
	w.later(message{tell: func(b *books) { b.groupGone(facts.GroupKey("ns", name, facts.Native)) }})
}

// createMember creates a pod of a group by the label of our own groups.
func (w *truth) createMember(name, group string, gpus int) {
	w.createPod(name, DefaultName, 1, gpus)
	p := w.pods["ns/"+name].DeepCopy()
	p.Labels = map[string]string{v1alpha1.PodGroupLabel: group}
	w.untold = w.untold[:len(w.untold)-1]
	w.writePod(p)
}

// putOwnGroup has the informers tell of a PodGroup of ours, as the dynamic client
// shows it.
func (w *truth) putOwnGroup(name string, minimum int64) {
	g := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "ns", "name": name, "uid": "own-" + name, "generation": int64(4)},
		"spec":     map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": minimum}}, "holdSeconds": int64(60)},
	}}
	f, ok := groupFacts(g, facts.DefaultLevels())
	if !ok {
		w.Fatalf("group %s could not be read", name)
	}
	w.later(message{tell: func(b *books) { b.groupSeen(f) }})
}

func (w *truth) deleteOwn(name string) {
	w.later(message{tell: func(b *books) { b.groupGone(facts.GroupKey("ns", name, facts.Own)) }})
}

func (w *truth) tellAll() {
	for len(w.untold) > 0 {
		w.tell()
	}
}

// The pods of a group wait for it, for each other and for room, say so, and are
// bound together; the group's condition follows.
func TestGroupIsBoundWhole(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 2, "", true)
	for i := range 3 {
		w.createMember(fmt.Sprint("p-", i), "g", 1)
	}
	says := func(want string) {
		t.Helper()
		w.tellAll()
		w.decide()
		w.pass(tellAgain)
		if said, _ := w.books.said(w.books.pods["ns/p-0"]); len(w.flying) > 0 || !strings.HasPrefix(said.sentence, want) {
			t.Fatalf("%d binds, and the pod says %q; want it to wait because %q", len(w.flying), said.sentence, want)
		}
	}
	says("group ns/g (scheduling.headrace.dev) does not exist yet")
	w.putOwnGroup("g", 4)
	says("3 of 4 members of its group have arrived")
	w.createMember("p-3", "g", 1)
	says("needs room for 4 members of its group at once, the cluster holds 2 when empty; never in this cluster")
	remarks := w.books.groupRemarks()
	if len(remarks) != 1 || remarks[0].Group.Scheduled || remarks[0].Group.Kind != facts.Own || remarks[0].Group.Generation != 4 || remarks[0].Reason != "Unschedulable" || !strings.HasPrefix(remarks[0].Message, "needs room for 4 members of its group") {
		t.Errorf("remarks %+v", remarks)
	}
	if again := w.books.groupRemarks(); len(again) > 0 {
		t.Errorf("the same was to be written again: %+v", again)
	}
	w.putNode("m", 8, 2, "", true)
	w.tellAll()
	w.decide()
	if len(w.flying) != 4 {
		t.Fatalf("%d binds, want 4", len(w.flying))
	}
	w.settleAll()
	remarks = w.books.groupRemarks()
	if len(remarks) != 1 || !remarks[0].Group.Scheduled || remarks[0].Reason != "Scheduled" || remarks[0].Message != "4 pods are bound, of 4 that start together" {
		t.Errorf("remarks %+v", remarks)
	}
	w.pass(time.Hour)
	if again := w.books.groupRemarks(); len(again) > 0 {
		t.Errorf("written twice: %+v", again)
	}
	w.balanced("the group is bound")
}

// A member whose bind is refused comes back before anybody else, and the others
// stay.
func TestRefusedMemberComesBackFirst(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 2, "", true)
	w.putOwnGroup("g", 2)
	w.createMember("p-0", "g", 1)
	w.createMember("p-1", "g", 1)
	w.tellAll()
	w.decide()
	w.land(0, true)
	w.land(0, false)
	w.createPod("important", DefaultName, 1, 1)
	p := w.pods["ns/important"].DeepCopy()
	priority := int32(9)
	p.Spec.Priority = &priority
	w.writePod(p)
	w.tellAll()
	// While the member pauses its room is anybody's; taken, the group stays broken.
	w.pass(pauseFirst + pauseFirst/4)
	w.books.resume()
	w.decide()
	if len(w.flying) != 1 || w.flying[0].Key == "ns/important" {
		t.Fatalf("binds %+v, want that of the group's member", w.flying)
	}
	w.settleAll()
	w.balanced("the group is whole again")
}

// What a group asks for beyond a number of pods is named, and its pods wait.
func TestGroupWithTopologyWaits(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 2, "", true)
	w.putGroup("g", 1, func(g *schedulingv1beta1.PodGroup) {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
	})
	w.createPod("p", DefaultName, 1, 1)
	p := w.pods["ns/p"].DeepCopy()
	p.Spec.SchedulingGroup = schedulingGroup("g")
	w.untold = w.untold[:len(w.untold)-1]
	w.writePod(p)
	w.tellAll()
	w.decide()
	w.pass(DefaultBeat)
	want := "asks for a group with a topology by the label rack (kubernetes.io/hostname, topology.headrace.dev/rack, topology.kubernetes.io/rack, topology.kubernetes.io/zone, topology.kubernetes.io/region are known), which Headrace does not place yet"
	if said, reason := w.books.said(w.books.pods["ns/p"]); len(w.flying) > 0 || said.sentence != want || reason != "SchedulerError" {
		t.Errorf("%d binds, the pod says %s: %q", len(w.flying), reason, said.sentence)
	}
	if r := w.books.groupRemarks(); len(r) != 1 || r[0].Reason != "SchedulerError" {
		t.Errorf("remarks %+v", r)
	}
	w.putGroup("g", 1)
	w.tellAll()
	w.decide()
	if len(w.flying) != 1 {
		t.Errorf("without the topology %d binds, want 1", len(w.flying))
	}
}

// putOwn has the informers tell of a PodGroup of ours with a spec, as the dynamic
// client shows it.
func (w *truth) putOwn(name string, spec map[string]any) {
	w.Helper()
	f, ok := groupFacts(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "ns", "name": name, "uid": "own-" + name}, "spec": spec,
	}}, facts.DefaultLevels())
	if !ok {
		w.Fatalf("group %s could not be read", name)
	}
	w.later(message{tell: func(b *books) { b.groupSeen(f) }})
}

// createPart creates a pod of a sub-group.
func (w *truth) createPart(name, group, part string, gpus int) {
	w.createMember(name, group, gpus)
	p := w.pods["ns/"+name].DeepCopy()
	p.Annotations = map[string]string{v1alpha1.SubGroupLabel: part}
	w.untold = w.untold[:len(w.untold)-1]
	w.writePod(p)
}

// says looks at what a pod is told, and that nothing is bound.
func (w *truth) says(pod, want string) {
	w.Helper()
	w.tellAll()
	w.decide()
	w.pass(tellAgain)
	if said, _ := w.books.said(w.books.pods["ns/"+pod]); len(w.flying) > 0 || !strings.HasPrefix(said.sentence, want) {
		w.Fatalf("%d binds, and pod %s says %q; want it to wait because %q", len(w.flying), pod, said.sentence, want)
	}
}

// The sub-groups of a group start together, each in a rack of its own where one does
// not hold both; a change of the group is heeded, and so is a change of a rack.
func TestSubGroupsInRacks(t *testing.T) {
	w := newTruth(t)
	for i, rack := range []string{"a", "a", "b"} {
		w.putNodeIn(fmt.Sprint("n-", i), 2, rack)
	}
	group := func(prefill int64) map[string]any {
		rack := []any{map[string]any{"level": "Rack"}}
		return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{}}, "subGroups": []any{
			map[string]any{"name": "prefill", "minCount": prefill, "topology": rack},
			map[string]any{"name": "decode", "minCount": int64(4), "topology": rack},
		}}
	}
	w.putOwn("g", group(3))
	for i := range 4 {
		w.createPart(fmt.Sprint("decode-", i), "g", "decode", 1)
	}
	w.says("decode-0", "0 of 3 members of group ns/g/prefill (scheduling.headrace.dev) have arrived")
	for i := range 3 {
		w.createPart(fmt.Sprint("prefill-", i), "g", "prefill", 1)
	}
	w.says("decode-0", "needs room for 7 members of group ns/g (scheduling.headrace.dev) at once, the cluster holds 6 when empty; never in this cluster")
	if r := w.books.groupRemarks(); len(r) != 1 || r[0].Group.Scheduled || !strings.HasPrefix(r[0].Message, "needs room for 7 members") {
		t.Errorf("remarks %+v", r)
	}
	w.putOwn("g", group(2))
	w.tellAll()
	w.decide()
	if len(w.flying) != 6 {
		t.Fatalf("%d binds, want 6", len(w.flying))
	}
	for i := range w.flying {
		b := &w.flying[i]
		if inB := b.Node == "n-2"; inB != strings.HasPrefix(b.Key, "ns/prefill") {
			t.Errorf("%s is bound to %s", b.Key, b.Node)
		}
	}
	w.settleAll()
	if r := w.books.groupRemarks(); len(r) != 1 || !r[0].Group.Scheduled || r[0].Message != "6 pods are bound, with those of 2 sub-groups" {
		t.Errorf("remarks %+v", r)
	}
	w.balanced("the group is bound")

	// A rack that gets a node that ran elsewhere has room for a group that needs it.
	w.putNodeIn("n-3", 1, "c")
	w.putOwn("h", map[string]any{
		"schedulingPolicy":      map[string]any{"gang": map[string]any{"minCount": int64(2)}},
		"schedulingConstraints": map[string]any{"topology": []any{map[string]any{"key": facts.RackLabel}}},
	})
	w.createMember("h-0", "h", 1)
	w.createMember("h-1", "h", 1)
	w.putNodeIn("n-4", 1, "d")
	w.says("h-0", "rack /")
	w.putNodeIn("n-4", 1, "c")
	w.tellAll()
	w.decide()
	if len(w.flying) != 2 {
		t.Fatalf("%d binds with a rack of two nodes, want 2", len(w.flying))
	}
	w.settleAll()
	w.balanced("a rack has changed")
}

// Groups that are parts of another start with it or not at all, whatever comes first;
// a circle of them is refused with its name, and one that is broken up is placed.
func TestGroupOfGroups(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	part := func(parent string) map[string]any {
		return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}, "parent": parent}
	}
	w.putOwn("a", part("job"))
	w.putOwn("b", part("job"))
	for _, name := range []string{"a", "b"} {
		w.createMember(name+"-0", name, 1)
		w.createMember(name+"-1", name, 1)
	}
	w.says("a-0", "group ns/job (scheduling.headrace.dev), which is above its group, does not exist yet")
	job := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minGroupCount": int64(2)}}}
	circle := map[string]any{"schedulingPolicy": job["schedulingPolicy"], "parent": "a"}
	w.putOwn("job", circle)
	w.says("b-0", "asks for a group with what cannot be: group ns/job (scheduling.headrace.dev): parent")
	if r := w.books.groupRemarks(); len(r) != 3 || r[2].Reason != "SchedulerError" || !strings.Contains(r[2].Message, "a group cannot be above itself") {
		t.Errorf("remarks %+v", r)
	}
	w.putOwn("a", part(""))
	w.putOwn("job", job)
	w.putOwn("a", part("job"))
	w.deletePod("ns/b-1")
	w.says("a-0", "1 of 2 members of group ns/b (scheduling.headrace.dev) have arrived")
	w.createMember("b-1", "b", 1)
	w.tellAll()
	w.decide()
	if len(w.flying) != 4 {
		t.Fatalf("%d binds, want 4", len(w.flying))
	}
	for range 3 {
		w.land(0, false)
	}
	w.pass(tellAgain)
	for _, r := range w.books.groupRemarks() {
		if r.Key == "ns/job (scheduling.headrace.dev)" && r.Group.Scheduled {
			t.Errorf("it is said to be bound whole with 3 of 4 pods: %+v", r)
		}
	}
	w.settleAll()
	w.pass(tellAgain)
	if r := w.books.groupRemarks(); len(r) == 0 || !r[len(r)-1].Group.Scheduled || r[len(r)-1].Message != "4 pods are bound, with those of 2 sub-groups" {
		t.Errorf("remarks %+v", r)
	}
	w.balanced("the tree is bound")
	w.deleteOwn("job")
	w.deleteOwn("a")
	w.tellAll()
	w.balanced("groups are gone")
}

// A group that was refused for a circle is taken in when another one opens it.
func TestCircleIsOpened(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	group := func(parent string) map[string]any {
		return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(1)}}, "parent": parent}
	}
	w.putOwn("a", group("b"))
	w.putOwn("b", group("a"))
	w.createMember("b-0", "b", 1)
	w.createMember("a-0", "a", 1)
	w.says("b-0", "asks for a group with what cannot be: group ns/b")
	w.putOwn("a", group(""))
	w.tellAll()
	w.decide()
	if len(w.flying) != 2 {
		t.Fatalf("%d binds, want 2", len(w.flying))
	}
	w.settleAll()
	w.balanced("the circle is open")
}

// Two places of one name, on different levels or in different ones, are two.
func TestPlacesOfOneName(t *testing.T) {
	w := newTruth(t)
	region, rack, zone := corev1.LabelTopologyRegion, facts.RackLabel, corev1.LabelTopologyZone
	for i, labels := range []map[string]string{
		{region: "x"}, {rack: "x"}, {zone: "x"}, {region: "x", rack: "y"}, {zone: "x", rack: "y"}, {rack: "x"},
	} {
		w.putLabelled(fmt.Sprint("n-", i), 1, labels)
	}
	w.tellAll()
	v := w.books.world.View()
	var got []string
	for i := range 6 {
		id, _ := w.books.world.Node(fmt.Sprint("n-", i))
		var path []string
		for d := v.Node(id).Spec.Domain; d != cluster.None; d = v.Domains.At(int32(d)).Parent {
			path = append(path, v.Domains.At(int32(d)).Level.String()+" "+v.Domains.At(int32(d)).Name)
		}
		got = append(got, strings.Join(path, " in "))
	}
	want := []string{"region /x", "rack /x (rack)", "zone /x (zone)", "rack /x/y in region /x", "rack /x/y (rack) in zone /x (zone)", "rack /x (rack)"}
	if !slices.Equal(got, want) {
		t.Errorf("places %q, want %q", got, want)
	}
}

// Whatever happens in whatever order, no plan leaves a group that the world knows
// with fewer members than its minimum, and the books balance.
func TestGroupsFollowTheTruth(t *testing.T) {
	for seed := range int64(40) {
		w, r := newTruth(t), rand.New(rand.NewSource(seed))
		for i := range 3 {
			w.putNodeIn(fmt.Sprint("node-", i), 4, fmt.Sprint(i/2))
		}
		for range 300 {
			w.pass(time.Duration(r.Intn(400)) * time.Millisecond)
			switch name := fmt.Sprint("g-", r.Intn(4)); r.Intn(12) {
			case 0:
				w.putGroup(name, int32(1+r.Intn(4)))
			case 1:
				w.deleteGroup(name)
			case 2, 3, 4:
				if pod := fmt.Sprint("pod-", r.Intn(30)); w.pods["ns/"+pod] == nil {
					w.createPod(pod, DefaultName, 1, r.Intn(3))
					p := w.pods["ns/"+pod].DeepCopy()
					p.Spec.SchedulingGroup = schedulingGroup(name)
					w.untold = w.untold[:len(w.untold)-1]
					w.writePod(p)
				}
			case 5:
				if pods := slices.Sorted(maps.Keys(w.pods)); len(pods) > 0 {
					w.deletePod(pods[r.Intn(len(pods))])
				}
			case 6:
				w.books.resume()
				w.decideWhole()
			case 7:
				w.putOwn(name, drawnGroup(r))
			case 8:
				w.deleteOwn(name)
			case 9:
				if pod := fmt.Sprint("own-", r.Intn(20)); w.pods["ns/"+pod] == nil {
					w.createPart(pod, name, []string{"", "x", "y"}[r.Intn(3)], r.Intn(3))
				}
			default:
				w.tell()
				if len(w.flying) > 0 {
					w.land(r.Intn(len(w.flying)), r.Intn(4) == 0)
				}
			}
			w.balanced(fmt.Sprint("a step of seed ", seed))
		}
		w.settleAll()
		w.equal()
	}
}

// drawnGroup draws the spec of a PodGroup of ours: with parts, parents, circles.
func drawnGroup(r *rand.Rand) map[string]any {
	gang := map[string]any{"minCount": int64(r.Intn(3))}
	if r.Intn(3) == 0 {
		gang["minGroupCount"] = int64(1 + r.Intn(2))
	}
	out := map[string]any{"schedulingPolicy": map[string]any{"gang": gang}}
	if r.Intn(2) == 0 {
		out["parent"] = fmt.Sprint("g-", r.Intn(4))
	}
	topology := []any{map[string]any{"level": []string{"Node", "Rack", "Zone"}[r.Intn(3)], "mode": []string{"Required", "Preferred"}[r.Intn(2)]}}
	if r.Intn(2) == 0 {
		out["schedulingConstraints"] = map[string]any{"topology": topology}
	}
	var parts []any
	for _, name := range []string{"x", "y"}[:r.Intn(3)] {
		parts = append(parts, map[string]any{"name": name, "minCount": int64(1 + r.Intn(2)), "topology": topology[:r.Intn(2)]})
	}
	out["subGroups"] = parts
	return out
}

// decideWhole runs a cycle and looks at the groups of what it binds.
func (w *truth) decideWhole() {
	w.Helper()
	binds := w.books.decide(decision.CycleArrival)
	w.flying = append(w.flying, binds...)
	v := w.books.world.View()
	for i := range binds {
		id, ok := w.books.world.Pod(binds[i].Key)
		if !ok {
			w.Fatalf("bind of %s, which the world does not know", binds[i].Key)
		}
		group := v.Pod(id).Spec.Group
		if group == cluster.None {
			continue
		}
		if g := v.Group(group); !g.Whole() {
			w.Fatalf("pod %s is bound with %d of at least %d members of group %s", binds[i].Key, g.Placed, g.Minimum, g.Name)
		}
	}
}

func schedulingGroup(name string) *corev1.PodSchedulingGroup {
	return &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// A group of which nothing has run gives its room back when its time to hold is
// over, though nobody is told to have it.
func TestStuckGroupGivesItsRoomBack(t *testing.T) {
	e := newEvictor(t)
	e.putNode("n", 8, 2, "", true)
	e.putOwnGroup("g", 2)
	e.createMember("p-0", "g", 1)
	e.createMember("p-1", "g", 1)
	e.tellAll()
	e.decide()
	lost := e.flying[0].Key
	kept := e.flying[1].Key
	e.land(0, true)
	e.land(0, false)
	e.deletePod(lost)
	e.tellAll()
	review := func() int {
		e.books.decide(decision.CycleReview)
		e.leaving = append(e.leaving, e.books.takeEvictions()...)
		return len(e.leaving)
	}
	e.pass(time.Minute - time.Second)
	if n := review(); n > 0 {
		t.Fatalf("a second early: evictions %+v", e.leaving)
	}
	e.pass(2 * time.Second)
	if n := review(); n != 1 || len(e.leaving[0].Victims) != 1 || e.leaving[0].Victims[0].Key != kept {
		t.Fatalf("evictions %+v, want that of %s", e.leaving, kept)
	}
	e.carry(true)
	e.balanced("a refused eviction")
	if n := review(); n > 0 {
		t.Errorf("evicted again at once: %+v", e.leaving)
	}
	e.pass(time.Minute + time.Second)
	if n := review(); n != 1 {
		t.Fatalf("evictions %+v when the time is over again, want one", e.leaving)
	}
	e.carry(false)
	e.tellAll()
	e.deletePod(kept)
	e.settleAll()
	e.equal()
}
