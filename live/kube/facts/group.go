package facts

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"
)

// Group is what there is to know about a group of pods.
type Group struct {
	Namespace, Name, UID string
	Generation           int64
	// Own says that it is a PodGroup of ours, and not one of Kubernetes.
	Own   bool
	Added world.GroupAdded
	// Why says what it asks for that cannot be judged yet; empty: nothing.
	Why string
	// Scheduled says that its condition is True already, which it stays, and Told
	// what the condition says while it is not.
	Scheduled bool
	Told      string
}

// ownMark tells groups of ours from those of Kubernetes, whose names have no spaces.
const ownMark = " (scheduling.headrace.dev)"

// GroupKey is the name of a group in the world.
func GroupKey(namespace, name string, own bool) string {
	key := namespace + "/" + name
	if own {
		key += ownMark
	}
	return key
}

// GroupOf reads a PodGroup of Kubernetes.
func GroupOf(g *schedulingv1beta1.PodGroup) Group {
	out := groupOf(&g.ObjectMeta, g.Status.Conditions, false)
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Added.Minimum = max(gang.MinCount, 1)
	}
	switch c := g.Spec.SchedulingConstraints; {
	case c != nil && len(c.Topology) > 0:
		out.Why = "a topology for all of the group"
	case len(g.Spec.ResourceClaims) > 0:
		out.Why = "resource claims of the group"
	case g.Spec.ParentCompositePodGroupName != nil:
		out.Why = "a group of groups"
	}
	return out
}

// OwnGroupOf reads a PodGroup of ours.
func OwnGroupOf(g *v1alpha1.PodGroup) Group {
	out := groupOf(&g.ObjectMeta, g.Status.Conditions, true)
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Added.Minimum = max(gang.MinCount, 1)
	}
	if hold := g.Spec.HoldSeconds; hold != nil {
		out.Added.Hold = moment.Span(max(*hold, 0)) * moment.Second
	}
	return out
}

// groupOf reads what both kinds have. Without a gang, one pod is enough.
func groupOf(m *metav1.ObjectMeta, conditions []metav1.Condition, own bool) Group {
	out := Group{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Generation: m.Generation, Own: own,
		Added: world.GroupAdded{Name: GroupKey(m.Namespace, m.Name, own), Minimum: 1},
	}
	for i := range conditions {
		if c := &conditions[i]; c.Type == v1alpha1.PodGroupInitiallyScheduled {
			if out.Scheduled = c.Status == metav1.ConditionTrue; !out.Scheduled {
				out.Told = c.Message
			}
		}
	}
	return out
}

// Key is the name of the group in the world.
func (g *Group) Key() string { return g.Added.Name }

// groupName is the group that a pod belongs to, as the world names it; empty: none.
func groupName(p *corev1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return GroupKey(p.Namespace, *g.PodGroupName, false)
	}
	if name := p.Labels[v1alpha1.PodGroupLabel]; name != "" {
		return GroupKey(p.Namespace, name, true)
	}
	if name := p.Annotations[v1alpha1.PodGroupLabel]; name != "" {
		return GroupKey(p.Namespace, name, true)
	}
	return ""
}
