package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// moving is a scheduler under which pods move for those who wait.
func (r *rig) moving(change ...func(*kube.Config)) (*kube.Scheduler, func()) {
	r.Helper()
	rules, err := kube.TidyNamed("waiting", true)
	r.ok(err)
	config := kube.Config{Client: client, Tidy: rules, Namespace: r.namespace}
	for _, c := range change {
		c(&config)
	}
	return r.scheduleAs(config)
}

// apart makes two nodes of two GPUs, with a pod of one on one of them, and what make makes,
// of one GPU, on the other: nobody who needs two has a place.
func (r *rig) apart(make func()) {
	r.Helper()
	r.node("n1", 2)
	r.node("n2", 2)
	r.create(podOf("a", 1))
	free := map[string]string{"n1": "n2", "n2": "n1"}[r.bound("a")]
	r.create(podOf("beside", 1, func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: r.pod("a").Spec.NodeName}
	}))
	r.bound("beside")
	make()
	r.eventually("all is bound", func() string {
		for _, p := range r.pods() {
			if p.Spec.NodeName == "" {
				return p.Name + " waits: " + reason(&p)
			}
			if p.Name != "a" && p.Name != "beside" && p.Spec.NodeName != free {
				r.Fatalf("%s is on %s, want %s", p.Name, p.Spec.NodeName, free)
			}
		}
		return ""
	})
	r.gone("beside")
}

// of lists the pods that a name begins, by name.
func (r *rig) of(prefix string) map[string]*corev1.Pod {
	r.Helper()
	out := make(map[string]*corev1.Pod)
	for _, p := range r.pods() {
		if strings.HasPrefix(p.Name, prefix) {
			out[p.Name] = &p
		}
	}
	return out
}

// another waits until there is a pod of a prefix beside one, and returns it.
func (r *rig) another(prefix, beside string) *corev1.Pod {
	r.Helper()
	var found *corev1.Pod
	r.eventually("another "+prefix+" comes beside "+beside, func() string {
		for name, p := range r.of(prefix) {
			if name != beside {
				found = p
				return ""
			}
		}
		return fmt.Sprint("there is only ", len(r.of(prefix)))
	})
	return found
}

// serves says that a pod runs and is ready, as its kubelet would.
func (r *rig) serves(name string) {
	r.Helper()
	p := r.pod(name)
	now := metav1.Now()
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	_, err := client.CoreV1().Pods(r.namespace).UpdateStatus(r.Context(), p, metav1.UpdateOptions{})
	r.ok(err)
}

// template is what an owner makes pods of.
func template(notes map[string]string) corev1.PodTemplateSpec {
	p := podOf("", 1)
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: notes}, Spec: p.Spec}
}

// replicas makes a ReplicaSet of one pod, and returns the pod.
func (r *rig) replicas() string {
	r.Helper()
	one := int32(1)
	_, err := client.AppsV1().ReplicaSets(r.namespace).Create(r.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template(nil)},
	}, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() { r.dissolve() })
	return r.another("set-", "").Name
}

// service makes a Deployment of one pod that may be scaled up for a while, and returns the
// pod.
func (r *rig) service() string {
	r.Helper()
	one := int32(1)
	_, err := client.AppsV1().Deployments(r.namespace).Create(r.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template(map[string]string{facts.Surge: "true"}),
		},
	}, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() { r.dissolve() })
	name := r.another("web-", "").Name
	r.bound(name)
	r.serves(name)
	return name
}

// dissolve takes owners away, so that they make no more pods.
func (r *rig) dissolve() {
	ctx := context.Background() // that of the test has ended
	_ = client.AppsV1().Deployments(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_ = client.AppsV1().ReplicaSets(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// scaled waits until the Deployment has so many replicas.
func (r *rig) scaled(to int32) {
	r.Helper()
	r.eventually(fmt.Sprintf("the Deployment is scaled to %d", to), func() string {
		d, err := client.AppsV1().Deployments(r.namespace).Get(r.Context(), "web", metav1.GetOptions{})
		r.ok(err)
		if *d.Spec.Replicas != to {
			return fmt.Sprintf("it is at %d", *d.Spec.Replicas)
		}
		return ""
	})
}

// A pod of a ReplicaSet is evicted for one that needs a whole node. Its place is kept for
// the pod that comes under another name, though others wait for it.
func TestHeirGetsThePlace(t *testing.T) {
	r := newRig(t)
	r.moving()
	old := ""
	r.apart(func() { old = r.replicas() })
	r.create(podOf("wide", 2))
	if victim := r.oneLeaves(); victim != old {
		t.Fatalf("%s is told to go, want %s", victim, old)
	}
	heir := r.another("set-", old)
	if got, want := r.bound(heir.Name), r.pod("a").Spec.NodeName; got != want {
		t.Errorf("the heir is bound to %s, want %s", got, want)
	}
	r.gone(old)
	r.bound("wide")
	r.inBounds()
}

// The scheduler is stopped while the pod is leaving: the next one keeps the place for the
// heir, though another waits longer.
func TestHeirAfterRestart(t *testing.T) {
	r := newRig(t)
	_, stop := r.moving()
	old := ""
	r.apart(func() { old = r.replicas() })
	r.create(podOf("wide", 2))
	r.oneLeaves()
	stop()
	heir := r.another("set-", old)
	if heir.Spec.NodeName != "" {
		t.Skipf("the heir was bound before the scheduler was stopped: nothing is left to be recalled")
	}
	r.create(podOf("older", 1, r.urgent()))
	r.moving()
	if got, want := r.bound(heir.Name), r.pod("a").Spec.NodeName; got != want {
		t.Errorf("the heir is bound to %s, want %s", got, want)
	}
	r.gone(old)
	r.inBounds()
}

// A service is replaced: its Deployment is scaled up by one, the next pod goes to the place
// that is kept, and the old one is told to go when that is ready, and by the Deployment.
func TestServiceIsReplaced(t *testing.T) {
	r := newRig(t)
	r.moving()
	r.replaces()
}

// So it is with the permissions and flags of the chart, and no others.
func TestChartPermissionsSufficeForSurges(t *testing.T) {
	r := newRig(t)
	space, values := r.space(), map[string]any{"scheduler": map[string]any{"tidy": "waiting", "surge": true}}
	r.grant(space, values)
	r.runChart(space, values)
	r.replaces()
}

// replaces goes through the replacement of a service.
func (r *rig) replaces() {
	r.Helper()
	old := ""
	r.apart(func() { old = r.service() })
	r.create(podOf("wide", 2))
	r.scaled(2)
	heir := r.another("web-", old)
	if got, want := r.bound(heir.Name), r.pod("a").Spec.NodeName; got != want {
		r.Errorf("the heir is bound to %s, want %s", got, want)
	}
	if list := r.leaving(); len(list) != 0 {
		r.Errorf("leaving: %v, want nobody before the heir is ready", list)
	}
	r.serves(heir.Name)
	r.scaled(1)
	if victim := r.oneLeaves(); victim != old {
		r.Fatalf("%s is told to go, want %s", victim, old)
	}
	r.gone(old)
	r.bound("wide")
	if n := len(r.of("web-")); n != 1 {
		r.Errorf("%d pods of the service, want 1", n)
	}
	r.inBounds()
}

// The next pod of a service does not become ready in time: it goes, and the old one stays.
func TestSurgeIsUndone(t *testing.T) {
	r := newRig(t)
	r.moving(func(c *kube.Config) { c.Tidy.Start = 3 * moment.Second })
	old := ""
	r.apart(func() { old = r.service() })
	r.create(podOf("wide", 2))
	r.scaled(2)
	heir := r.another("web-", old)
	r.bound(heir.Name)
	r.scaled(1)
	if victim := r.oneLeaves(); victim != heir.Name {
		t.Fatalf("%s is told to go, want %s", victim, heir.Name)
	}
	r.gone(heir.Name)
	r.waits("wide", "needs 2 idle devices")
	r.inBounds()
}

// The scheduler is stopped in the middle of a surge: the next one takes it back.
func TestSurgeAfterRestart(t *testing.T) {
	r := newRig(t)
	_, stop := r.moving()
	old := ""
	r.apart(func() { old = r.service() })
	r.create(podOf("wide", 2))
	r.scaled(2)
	heir := r.another("web-", old)
	r.bound(heir.Name)
	stop()
	r.moving()
	r.scaled(1)
	if victim := r.oneLeaves(); victim != heir.Name {
		t.Fatalf("%s is told to go, want %s", victim, heir.Name)
	}
	r.gone(heir.Name)
	r.inBounds()
}
