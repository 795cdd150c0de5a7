package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func app(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

// term means pods of an app, in one domain of a topology.
func term(name, topology string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, TopologyKey: topology}}
}

func beside(name, topology string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(name, topology)}}
	}
}

func apartFrom(name, topology string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(name, topology)}}
	}
}

// A port of the host is given once per node, and given again when it is free.
func TestHostPorts(t *testing.T) {
	r := newRig(t)
	r.schedule()
	r.node("a", 0)
	r.node("b", 0)
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	r.create(podOf("p-0", 0, port), podOf("p-1", 0, port))
	hosts := []string{r.bound("p-0"), r.bound("p-1")}
	if slices.Sort(hosts); !slices.Equal(hosts, []string{"a", "b"}) {
		t.Errorf("bound to %v, want one on each node", hosts)
	}
	r.create(podOf("p-2", 0, port))
	r.waits("p-2", "host port 8080 is taken (2 of 2 nodes)")
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "p-0", *metav1.NewDeleteOptions(0)))
	r.bound("p-2")
}

// Affinity brings pods together and anti-affinity keeps them apart, also pods that
// do not ask for it, and after labels change.
func TestAffinityToPods(t *testing.T) {
	r := newRig(t)
	r.schedule()
	r.node("a-1", 0, inZone("a"))
	r.node("a-2", 0, inZone("a"))
	r.node("b-1", 0, inZone("b"))
	r.create(podOf("front", 0, app("front"), beside("db", corev1.LabelTopologyZone)))
	r.waits("front", "must be in one topology.kubernetes.io/zone with pods app=db in "+r.namespace+", which are in 0 of 2")
	r.create(podOf("db", 0, app("db"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "b"} }))
	if db, front := r.bound("db"), r.bound("front"); db != "b-1" || front != "b-1" {
		t.Errorf("db is on %s and front on %s, want both in zone b", db, front)
	}
	r.create(podOf("hermit", 0, app("hermit"), apartFrom("db", corev1.LabelTopologyZone)))
	if host := r.bound("hermit"); host == "b-1" {
		t.Errorf("hermit is on %s beside db", host)
	}
	// The hermit keeps pods of db out of zone a, and there is no other zone.
	r.create(podOf("db-2", 0, app("db"), apartFrom("front", corev1.LabelTopologyZone)))
	r.waits("db-2", "of 2")
	patch := []byte(`{"metadata":{"labels":{"app":"retired"}}}`)
	_, err := client.CoreV1().Pods(r.namespace).Patch(t.Context(), "front", types.MergePatchType, patch, metav1.PatchOptions{})
	r.ok(err)
	if host := r.bound("db-2"); host != "b-1" {
		t.Errorf("db-2 is on %s, want b-1", host)
	}
}

// No zone gets more than one pod above the one that has the fewest.
func TestTopologySpread(t *testing.T) {
	r := newRig(t)
	r.schedule()
	zones := map[string]string{"a-1": "a", "a-2": "a", "b-1": "b", "c-1": "c"}
	for _, name := range []string{"a-1", "a-2", "b-1", "c-1"} {
		r.node(name, 0, inZone(zones[name]))
	}
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	var pods []*corev1.Pod
	for i := range 9 {
		pods = append(pods, podOf(fmt.Sprint("web-", i), 0, app("web"), spread))
	}
	r.create(pods...)
	r.allBound()
	count := make(map[string]int)
	for _, p := range r.pods() {
		count[zones[p.Spec.NodeName]]++
	}
	if count["a"] != 3 || count["b"] != 3 || count["c"] != 3 {
		t.Errorf("pods by zone: %v, want three in each", count)
	}
}
