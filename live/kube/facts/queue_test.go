package facts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

func amounts(pairs ...string) v1alpha1.ResourceList {
	out := v1alpha1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestQueueOf(t *testing.T) {
	none, much := int32(0), int32(2_000_000)
	for _, c := range []struct {
		spec v1alpha1.QueueSpec
		want world.QueueAdded
		why  string
	}{
		{v1alpha1.QueueSpec{}, world.QueueAdded{Name: "q", Weight: 1000}, ""},
		{
			v1alpha1.QueueSpec{Parent: "p", Weight: &none, Deserved: amounts("gpus", "2500m", "cpu", "4", "memory", "1Gi"), Limit: amounts("nvidia.com/gpu", "8")},
			world.QueueAdded{Name: "q", Parent: "p", DeservedMilli: 2500, Deserved: map[string]int64{"cpu": 4000, "memory": 1 << 30}, LimitMilli: 8000},
			"",
		},
		{v1alpha1.QueueSpec{Weight: &much}, world.QueueAdded{Name: "q", Weight: 2_000_000_000}, "weight 2000000: must be from 0 to 1000000"},
		{v1alpha1.QueueSpec{Deserved: amounts("cpu", "-1")}, world.QueueAdded{Name: "q", Weight: 1000}, `deserved cpu: "-1": must not be negative`},
		{v1alpha1.QueueSpec{Limit: amounts("gpus", "0")}, world.QueueAdded{Name: "q", Weight: 1000}, `limit gpus: "0": must be more than 0; leave it out for no limit`},
		{v1alpha1.QueueSpec{Limit: amounts("gpus", "1", "nvidia.com/gpu", "1")}, world.QueueAdded{Name: "q", Weight: 1000}, "limit names GPUs twice, as gpus and as nvidia.com/gpu: leave one out"},
	} {
		got := facts.QueueOf(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q", UID: "u"}, Spec: c.spec}, "nvidia.com/gpu")
		if diff := cmp.Diff(facts.Queue{UID: "u", Added: c.want, Why: c.why}, got); diff != "" {
			t.Errorf("%+v: (-want +got)\n%s", c.spec, diff)
		}
	}
}
