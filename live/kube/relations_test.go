package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that a bound one keeps away waits until that one has gone, and says so.
func TestKeptAway(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createPod("lonely", "other", 1, 0)
	lonely := w.pods["ns/lonely"].DeepCopy()
	lonely.Spec.NodeName = "n"
	lonely.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"loud": "yes"}}, TopologyKey: corev1.LabelHostname},
	}}}
	w.writePod(lonely)
	for _, name := range []string{"loud", "quiet"} {
		w.createPod(name, DefaultName, 1, 0)
		w.pods["ns/"+name].Labels = map[string]string{name: "yes"}
	}
	w.settleAll()
	if got := w.bound()["n"]; !slices.Equal(got, []string{"ns/lonely", "ns/quiet"}) {
		t.Errorf("bound beside the lonely pod: %v, want only the quiet one", got)
	}
	if got := w.books.remarks(); len(got) != 1 || got[0].Key != "ns/loud" || !strings.Contains(got[0].Message, "pods that keep such as it out of their kubernetes.io/hostname are in 1 of 1") {
		t.Errorf("remarks %+v, want that loud is kept away", got)
	}
	w.deletePod("ns/lonely")
	w.settleAll()
	if got := w.bound()["n"]; !slices.Equal(got, []string{"ns/loud", "ns/quiet"}) {
		t.Errorf("bound after the lonely pod has left: %v, want both", got)
	}
}

// labelled gives a pod of the truth labels, and has the informers tell.
func (w *truth) labelled(key string, labels map[string]string) {
	p := w.pods[key].DeepCopy()
	p.Labels = labels
	w.writePod(p)
}

// needs gives a pod that is not told yet a required affinity or anti-affinity to
// pods with a label, on one host.
func (w *truth) needs(key, app string, apart bool) {
	terms := []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname}}
	p := w.pods[key]
	if apart {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		return
	}
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

// When the labels of a pod change, bound or not, who may be beside whom follows,
// and the pod keeps its place in the line.
func TestLabelsChange(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createPod("db", DefaultName, 1, 0)
	w.settleAll()
	w.createPod("front", DefaultName, 1, 0)
	w.needs("ns/front", "db", false)
	w.settleAll()
	if got := w.bound()["n"]; !slices.Equal(got, []string{"ns/db"}) {
		t.Fatalf("bound before there is a label: %v, want only db", got)
	}
	id, _ := w.books.world.Pod("ns/front")
	row := w.books.world.View().Pod(id).Generation
	w.labelled("ns/front", map[string]string{"app": "front"})
	w.settleAll()
	if id2, _ := w.books.world.Pod("ns/front"); id2 != id || w.books.world.View().Pod(id).Generation != row {
		t.Errorf("a waiting pod whose labels changed got another row")
	}
	w.labelled("ns/db", map[string]string{"app": "db"})
	w.settleAll()
	if got := w.bound()["n"]; !slices.Equal(got, []string{"ns/db", "ns/front"}) {
		t.Errorf("bound after the label is there: %v, want both", got)
	}
	if err := w.books.audit(); err != nil {
		t.Error(err)
	}
}

// A relation that goes by the labels of namespaces is judged on the safe side until
// they are known, and again when they change.
func TestNamespaceLabels(t *testing.T) {
	w := newTruth(t)
	w.putNode("n", 8, 4, "", true)
	w.createPod("there", DefaultName, 1, 0)
	w.pods["ns/there"].Labels = map[string]string{"app": "x"}
	w.settleAll()
	w.createPod("hermit", DefaultName, 1, 0)
	w.needs("ns/hermit", "x", true)
	w.pods["ns/hermit"].Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	w.settleAll()
	if got := w.bound()["n"]; len(got) != 1 {
		t.Errorf("bound while the namespace is not known: %v, want only the one that was there", got)
	}
	for _, labels := range []map[string]string{{"team": "a"}, {"team": "b"}} {
		w.books.namespaceSeen("ns", maps.Clone(labels))
		w.settleAll()
		want := 1
		if labels["team"] == "b" {
			want = 2
		}
		if got := w.bound()["n"]; len(got) != want {
			t.Errorf("bound where the namespace has the labels %v: %v, want %d", labels, got, want)
		}
	}
	w.books.namespaceGone("ns")
	if err := w.books.audit(); err != nil {
		t.Error(err)
	}
}
