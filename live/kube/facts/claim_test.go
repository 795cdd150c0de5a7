package facts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// A pod's claims are those it names and those made from templates; one that is not
// needed is left out. GPUs that a claim gives are not asked of the kubelet.
func TestClaimsOfAPod(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{
			SchedulerName: "headrace", Containers: []corev1.Container{container("cpu", "1", string(gpu), "2")},
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "own", ResourceClaimName: ptr.To("mine")},
				{Name: "made", ResourceClaimTemplateName: ptr.To("t")},
				{Name: "coming", ResourceClaimTemplateName: ptr.To("t")},
				{Name: "needless", ResourceClaimTemplateName: ptr.To("t")},
			},
		},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: ptr.To("made-x")}, {Name: "needless"}}},
	}
	got := facts.PodOf(p, "headrace", gpu)
	want := []facts.Claim{{Local: "own", Name: "mine"}, {Local: "made", Name: "made-x", Made: true}, {Local: "coming", Made: true}}
	if diff := cmp.Diff(want, got.Claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if key := got.ClaimKey(&got.Claims[1]); key != "ns/made-x" {
		t.Errorf("the claim is known by %q", key)
	}
	if len(got.Asked) != 1 || got.Asked[0].Count != 2 || got.Asked[0].Order != 1 {
		t.Errorf("GPUs are asked for by %+v", got.Asked)
	}
	p.Spec.NodeName = "n"
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: []corev1.ContainerExtendedResourceRequest{{ResourceName: string(gpu)}}}
	if got := facts.PodOf(p, "headrace", gpu); len(got.Added.Request.Devices) != 0 || got.Added.Request.CPU != 1000 {
		t.Errorf("bound with a claim it takes %+v of the node", got.Added.Request)
	}
}

// Two selectors are met together where each is.
func TestBoth(t *testing.T) {
	is := func(key string) []world.Requirement { return []world.Requirement{{Key: key, Op: cluster.OpExists}} }
	a, b := [][]world.Requirement{is("a"), is("b")}, [][]world.Requirement{is("x")}
	got, ok := facts.Both(a, b)
	want := [][]world.Requirement{append(is("a"), is("x")...), append(is("b"), is("x")...)}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("both (-want +got):\n%s", diff)
	}
	if got, ok := facts.Both(nil, b); !ok || !cmp.Equal(got, b) {
		t.Errorf("with any node: %v", got)
	}
	long := make([][]world.Requirement, 100)
	if _, ok := facts.Both(long, long); ok {
		t.Error("10,000 alternatives were written down")
	}
}
