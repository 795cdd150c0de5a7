package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// newOracle returns a checker over objects that an API server would hold.
func newOracle(t testing.TB) (*Checker, *fake.Clientset) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	all := informers.NewSharedInformerFactory(client, 0)
	c, err := New(ctx, client, all)
	if err != nil {
		t.Fatal(err)
	}
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	return c, client
}

func nodeOf(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("20"),
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func podOf(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

func alone(p *corev1.Pod) {
	p.Labels = map[string]string{"app": "a"}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: corev1.LabelHostname},
	}}}
}

// Each filter refuses what it is there to refuse, and lets the rest pass.
func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string // the filter that refuses; empty for none
	}{
		{name: "fits", pod: podOf("p", "4")},
		{name: "too large", pod: podOf("p", "5"), want: "NodeResourcesFit"},
		{name: "named elsewhere", pod: podOf("p", "1", on("other")), want: "NodeName"},
		{name: "other labels", pod: podOf("p", "1", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }), want: "NodeAffinity"},
		{name: "port taken", pod: podOf("p", "1", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		}), want: "NodePorts"},
		{name: "port free", pod: podOf("p", "1", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 81}}
		})},
		{name: "kept away", pod: podOf("p", "1", alone), want: "InterPodAffinity"},
		{name: "spread over nowhere", pod: podOf("p", "1", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
			}}
		}), want: "PodTopologySpread"},
		{name: "a claim that is not there", pod: podOf("p", "1", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}), want: "VolumeRestrictions"},
		{name: "a feature that no node declares", pod: podOf("p", "1", func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}), want: "NodeDeclaredFeatures"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := newOracle(t)
			c.NodeIs("n", nodeOf("n"))
			c.PodIs("ns/old", podOf("old", "4", on("n"), alone, func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
			}))
			ok, why := c.Verdict(test.pod, "n")
			if ok != (test.want == "") || !strings.HasPrefix(why, test.want) {
				t.Errorf("verdict %v, %q, want a refusal by %q", ok, why, test.want)
			}
			if got := len(c.Feasible(test.pod)); got != map[bool]int{true: 1}[ok] {
				t.Errorf("%d feasible nodes for a verdict of %v", got, ok)
			}
		})
	}
}

// Taints and cordons are read from the node as it is now.
func TestNodeChanges(t *testing.T) {
	c, _ := newOracle(t)
	p := podOf("p", "1")
	for _, test := range []struct {
		node *corev1.Node
		want string
	}{
		{node: nodeOf("n")},
		{node: nodeOf("n", func(n *corev1.Node) { n.Spec.Unschedulable = true }), want: "NodeUnschedulable"},
		{node: nodeOf("n", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}} }), want: "TaintToleration"},
		{node: nil, want: "node n is not known"},
		{node: nodeOf("n")},
	} {
		c.NodeIs("n", test.node)
		if ok, why := c.Verdict(p, "n"); ok != (test.want == "") || !strings.HasPrefix(why, test.want) {
			t.Errorf("verdict %v, %q, want a refusal by %q", ok, why, test.want)
		}
	}
}

// A promise is charged until it is taken back or told as bound, and a pod is
// never charged twice.
func TestReserve(t *testing.T) {
	c, _ := newOracle(t)
	c.PodIs("ns/early", podOf("early", "1", on("n"))) // before its node
	c.NodeIs("n", nodeOf("n"))
	for _, name := range []string{"a", "b"} {
		c.PodIs("ns/"+name, podOf(name, "4"))
	}
	fits := func(cpu string) bool { ok, _ := c.Verdict(podOf("probe", cpu), "n"); return ok }
	if _, err := c.Reserve("ns/a", "n"); err != nil || !fits("3") || fits("4") {
		t.Errorf("after a promise of 4 beside 1 of 8: %v, 3 fit %v, 4 fit %v", err, fits("3"), fits("4"))
	}
	if _, err := c.Reserve("ns/b", "n"); err == nil || !strings.HasPrefix(err.Error(), "NodeResourcesFit") {
		t.Errorf("a promise of 4 with 3 left: %v, want a refusal by NodeResourcesFit", err)
	}
	c.PodIs("ns/a", podOf("a", "4", func(p *corev1.Pod) { p.Labels = map[string]string{"k": "v"} })) // not bound yet
	c.PodIs("ns/a", podOf("a", "4", on("n")))
	c.Release("ns/a") // late: it is bound
	if !fits("3") || fits("4") {
		t.Errorf("after the bind: 3 fit %v, 4 fit %v", fits("3"), fits("4"))
	}
	c.PodIs("ns/a", nil)
	if _, err := c.Reserve("ns/b", "n"); err != nil || fits("4") {
		t.Errorf("after a is gone: %v, 4 fit %v", err, fits("4"))
	}
	c.Release("ns/b")
	if !fits("7") {
		t.Error("after the promise was taken back 7 do not fit")
	}
	c.NodeIs("n", nil)
	c.NodeIs("n", nodeOf("n"))
	if !fits("7") || fits("8") {
		t.Errorf("after the node came back: 7 fit %v, 8 fit %v", fits("7"), fits("8"))
	}
}

// The lists of nodes follow what is charged, in whatever order it comes and goes.
func TestLineups(t *testing.T) {
	c, _ := newOracle(t)
	for i := range 5 {
		c.NodeIs(fmt.Sprint("n", i), nodeOf(fmt.Sprint("n", i)))
		c.PodIs(fmt.Sprint("ns/p", i), podOf(fmt.Sprint("p", i), "1", on(fmt.Sprint("n", i)), alone))
	}
	c.PodIs("ns/p1", nil)
	c.NodeIs("n3", nil)
	c.PodIs("ns/p4", nil)
	var got []string
	for _, n := range c.snapshot.antiAffinity.list {
		got = append(got, n.Node().Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"n0", "n2"}) {
		t.Errorf("nodes with anti-affinity: %v, want n0 and n2", got)
	}
	if got := c.Feasible(podOf("p", "1", alone)); !slices.Equal(got, []string{"n1", "n4"}) {
		t.Errorf("feasible: %v, want n1 and n4", got)
	}
}

// BenchmarkReserve is one last check: a verdict on one node, a promise, and its
// end.
func BenchmarkReserve(b *testing.B) {
	for _, nodes := range []int{100, 5000} {
		for _, kind := range []struct {
			name   string
			change func(*corev1.Pod)
		}{{"plain", func(*corev1.Pod) {}}, {"selector", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n0"}
		}}, {"anti-affinity", alone}} {
			b.Run(fmt.Sprintf("nodes=%d/%s", nodes, kind.name), func(b *testing.B) {
				c, _ := newOracle(b)
				for i := range nodes {
					name := fmt.Sprint("n", i)
					c.NodeIs(name, nodeOf(name))
					for k := range 4 {
						key := fmt.Sprintf("%s-%d", name, k)
						c.PodIs("ns/"+key, podOf(key, "1", on(name)))
					}
				}
				c.PodIs("ns/p", podOf("p", "1", kind.change))
				for b.Loop() {
					if _, err := c.Reserve("ns/p", "n0"); err != nil {
						b.Fatal(err)
					}
					c.Release("ns/p")
				}
			})
		}
	}
}
