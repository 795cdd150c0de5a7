package facts

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"
)

// GroupKind tells the kinds of groups apart.
type GroupKind uint8

const (
	Native    GroupKind = iota // a PodGroup of Kubernetes
	Composite                  // a CompositePodGroup of Kubernetes: a group of groups
	Own                        // a PodGroup of ours
)

var groupMarks = [...]string{"", " (composite)", " (scheduling.headrace.dev)"} // const: names of Kubernetes have no spaces

// Group is what there is to know about a group of pods.
type Group struct {
	Namespace, Name, UID string
	Generation           int64
	Kind                 GroupKind
	Added                world.GroupAdded
	// Parts are its sub-groups: groups of the world, too.
	Parts []world.GroupAdded
	// Why says what it asks for that cannot be judged yet; empty: nothing.
	Why string
	// Scheduled says that its condition is True already, which it stays, and Told
	// what the condition says while it is not.
	Scheduled bool
	Told      string
}

// GroupKey is the name of a group in the world.
func GroupKey(namespace, name string, kind GroupKind) string {
	return namespace + "/" + name + groupMarks[kind]
}

// partKey is the name of a sub-group in the world. The names of groups have no slashes.
func partKey(namespace, group, part string) string {
	return GroupKey(namespace, group+"/"+part, Own)
}

// GroupOf reads a PodGroup of Kubernetes. Levels say which labels its topology may go by.
func GroupOf(g *schedulingv1beta1.PodGroup, levels *Levels) Group {
	out := groupOf(&g.ObjectMeta, g.Status.Conditions, Native)
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Added.Minimum = max(gang.MinCount, 1)
	}
	if c := g.Spec.SchedulingConstraints; c != nil {
		for i := range c.Topology {
			out.share(&out.Added, c.Topology[i].Key, true, levels)
		}
	}
	if parent := g.Spec.ParentCompositePodGroupName; parent != nil {
		out.Added.Parent = GroupKey(g.Namespace, *parent, Composite)
	}
	if len(g.Spec.ResourceClaims) > 0 {
		out.Why = "resource claims of the group"
	}
	return out
}

// CompositeOf reads a CompositePodGroup of Kubernetes. Where its groups have nothing to
// do with each other, any one of them may start without the rest.
func CompositeOf(g *schedulingv1alpha3.CompositePodGroup, levels *Levels) Group {
	out := groupOf(&g.ObjectMeta, g.Status.Conditions, Composite)
	out.Added.Minimum, out.Added.Groups = 0, 1
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Added.Groups = max(gang.MinGroupCount, 1)
	}
	if c := g.Spec.SchedulingConstraints; c != nil {
		for i := range c.Topology {
			out.share(&out.Added, c.Topology[i].Key, true, levels)
		}
	}
	if parent := g.Spec.ParentCompositePodGroupName; parent != nil {
		out.Added.Parent = GroupKey(g.Namespace, *parent, Composite)
	}
	return out
}

// OwnGroupOf reads a PodGroup of ours. The API server has checked it, when its
// definition is the one that came with this program: what cannot be meant is taken for
// the nearest that can.
func OwnGroupOf(g *v1alpha1.PodGroup, levels *Levels) Group {
	out := groupOf(&g.ObjectMeta, g.Status.Conditions, Own)
	spec := &g.Spec
	if gang := spec.SchedulingPolicy.Gang; gang != nil {
		out.Added.Minimum, out.Added.Wished = counts(gang.MinCount, gang.MaxCount)
		switch {
		case gang.MinGroupCount != nil:
			out.Added.Groups = max(*gang.MinGroupCount, 1)
		case len(spec.SubGroups) > 0:
			out.Added.Groups = cluster.AllGroups
		}
		if out.Added.Groups == 0 {
			out.Added.Minimum = max(out.Added.Minimum, 1)
		}
	}
	if hold := spec.HoldSeconds; hold != nil {
		out.Added.Hold = moment.Span(max(*hold, 0)) * moment.Second
	}
	if spec.Parent != "" {
		out.Added.Parent = GroupKey(g.Namespace, spec.Parent, Own)
	}
	if c := spec.SchedulingConstraints; c != nil {
		out.constrain(&out.Added, c.Topology, levels)
	}
	out.Added.Comm = out.pattern(spec.Communication)
	for i := range spec.SubGroups {
		part := &spec.SubGroups[i]
		added := world.GroupAdded{Name: partKey(g.Namespace, g.Name, part.Name), Parent: out.Added.Name, Hold: out.Added.Hold}
		added.Minimum, added.Wished = counts(max(part.MinCount, 1), part.MaxCount)
		out.constrain(&added, part.Topology, levels)
		added.Comm = out.pattern(part.Communication)
		if again := func(a world.GroupAdded) bool { return a.Name == added.Name }; slices.ContainsFunc(out.Parts, again) {
			out.Why = fmt.Sprintf("two sub-groups %s", part.Name)
			continue
		}
		out.Parts = append(out.Parts, added)
	}
	return out
}

// counts returns a minimum and how many are wished for, 0 for all there are.
func counts(least int32, most *int32) (minimum, wished int32) {
	minimum = max(least, 0)
	if most != nil {
		wished = max(*most, minimum, 1)
	}
	return minimum, wished
}

// constrain adds wishes of topology to a group or to a part of it.
func (g *Group) constrain(to *world.GroupAdded, constraints []v1alpha1.TopologyConstraint, levels *Levels) {
	for i := range constraints {
		c := &constraints[i]
		required := c.Mode != v1alpha1.Preferred
		if c.Key != "" {
			g.share(to, c.Key, required, levels)
			continue
		}
		level := slices.Index(levelNames[:], c.Level)
		if level < 0 {
			g.Why = fmt.Sprintf("a topology by the level %q", c.Level)
			continue
		}
		g.wish(to, cluster.Level(level), required)
	}
}

// levelNames are the names of levels of the core in a PodGroup of ours.
var levelNames = [...]v1alpha1.Level{ // const: by level
	cluster.LevelIsland: v1alpha1.Island, cluster.LevelNode: v1alpha1.Node, cluster.LevelRack: v1alpha1.Rack,
	cluster.LevelZone: v1alpha1.Zone, cluster.LevelRegion: v1alpha1.Region,
}

// share adds the wish to share the value of a label of nodes.
func (g *Group) share(to *world.GroupAdded, label string, required bool, levels *Levels) {
	level, known := levels.of(label)
	if !known {
		g.Why = fmt.Sprintf("a topology by the label %s (%s are known)", label, levels.labels())
		return
	}
	g.wish(to, level, required)
}

// wish adds a wish. Of two for one level, the stricter counts.
func (g *Group) wish(to *world.GroupAdded, level cluster.Level, required bool) {
	for i := range to.Topology {
		if t := &to.Topology[i]; t.Level == level {
			t.Required = t.Required || required
			return
		}
	}
	to.Topology = append(to.Topology, cluster.TopologyWish{Level: level, Required: required})
}

func (g *Group) pattern(c v1alpha1.Communication) cluster.Pattern {
	switch c {
	case "", v1alpha1.None:
		return cluster.CommNone
	case v1alpha1.Ring:
		return cluster.CommRing
	case v1alpha1.Tree:
		return cluster.CommTree
	}
	g.Why = fmt.Sprintf("the communication %q", c)
	return cluster.CommNone
}

// groupOf reads what all kinds have. Without a gang, one pod is enough.
func groupOf(m *metav1.ObjectMeta, conditions []metav1.Condition, kind GroupKind) Group {
	out := Group{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Generation: m.Generation, Kind: kind,
		Added: world.GroupAdded{Name: GroupKey(m.Namespace, m.Name, kind), Minimum: 1},
	}
	for i := range conditions {
		if c := &conditions[i]; c.Type == kind.Condition() {
			if out.Scheduled = c.Status == metav1.ConditionTrue; !out.Scheduled {
				out.Told = c.Message
			}
		}
	}
	return out
}

// compositeScheduled is the type of the condition of a CompositePodGroup.
const compositeScheduled = "CompositePodGroupInitiallyScheduled"

// Condition is the type of the condition that says whether a group of the kind has had
// what it needs bound.
func (k GroupKind) Condition() string {
	if k == Composite {
		return compositeScheduled
	}
	return v1alpha1.PodGroupInitiallyScheduled
}

// Key is the name of the group in the world.
func (g *Group) Key() string { return g.Added.Name }

// membership is the group that a pod belongs to, and as which part of it, as the
// world names them; empty: none.
func membership(p *corev1.Pod) (group, part string) {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		group = GroupKey(p.Namespace, *g.PodGroupName, Native)
		return group, group
	}
	name := marked(p, v1alpha1.PodGroupLabel)
	if name == "" {
		return "", ""
	}
	group = GroupKey(p.Namespace, name, Own)
	if sub := marked(p, v1alpha1.SubGroupLabel); sub != "" {
		return group, partKey(p.Namespace, name, sub)
	}
	return group, group
}

// marked returns what a pod says by a label or, without it, by an annotation.
func marked(p *corev1.Pod, key string) string {
	if value := p.Labels[key]; value != "" {
		return value
	}
	return p.Annotations[key]
}

// rankForm is what a rank must be.
const rankForm = "a whole number from 0 to 2147483647"

// rank reads which rank a pod has in its group: what it says itself, else the index
// that an indexed Job gave it.
func rank(p *corev1.Pod, faults *[]string) (rank int32, ranked bool) {
	key := v1alpha1.RankLabel
	text := marked(p, key)
	if text == "" {
		key = batchv1.JobCompletionIndexAnnotation
		text = marked(p, key)
	}
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		r := annotationReader{faults: *faults}
		r.fault(key, text, rankForm)
		*faults = r.faults
		return 0, false
	}
	return int32(n), true
}
