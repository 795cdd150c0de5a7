package facts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

func TestParseLevels(t *testing.T) {
	got, err := facts.ParseLevels([]string{"rack=example.com/rack,topology.kubernetes.io/rack", "region="})
	want := facts.DefaultLevels()
	want.Rack, want.Region = []string{"example.com/rack", "topology.kubernetes.io/rack"}, nil
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := facts.ParseLevels(nil); err != nil || !cmp.Equal(got, facts.DefaultLevels()) {
		t.Errorf("nothing set: %+v, %v", got, err)
	}
	for setting, want := range map[string]string{
		"rack":                             `"rack": must be LEVEL=LABEL, where LEVEL is island, rack, zone or region`,
		"shelf=a":                          `"shelf=a": must be LEVEL=LABEL`,
		"rack=a b":                         `"rack=a b": label "a b": `,
		"rack=a,":                          `label "": `,
		"rack=topology.kubernetes.io/zone": "label topology.kubernetes.io/zone: it cannot be that of the rack and of the zone",
	} {
		if _, err := facts.ParseLevels([]string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: said %v, want it to contain %q", setting, err, want)
		}
	}
	if _, err := facts.ParseLevels([]string{"rack=a", "rack=b"}); err == nil || !strings.Contains(err.Error(), "rack is set twice") {
		t.Errorf("twice: said %v", err)
	}
}

// Where a node is, the first label says that it has, of each level.
func TestPlaceOfNode(t *testing.T) {
	levels, err := facts.ParseLevels([]string{"rack=example.com/rack,topology.kubernetes.io/rack", "island=nvidia.com/gpu.clique"})
	if err != nil {
		t.Fatal(err)
	}
	rack := func(name string) []world.DomainAdded {
		return []world.DomainAdded{{Name: name, Level: cluster.LevelRack}}
	}
	for name, test := range map[string]struct {
		labels  map[string]string
		domains []world.DomainAdded
		linked  bool
	}{
		"nowhere":    {},
		"first":      {labels: map[string]string{"example.com/rack": "a", "topology.kubernetes.io/rack": "b"}, domains: rack("/a")},
		"second":     {labels: map[string]string{"example.com/rack": "", "topology.kubernetes.io/rack": "b"}, domains: rack("/b")},
		"not a rack": {labels: map[string]string{facts.RackLabel: "c"}},
		"linked":     {labels: map[string]string{"nvidia.com/gpu.clique": "7.1"}, linked: true},
	} {
		got := facts.NodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: test.labels}}, gpu, levels)
		inmost := ""
		if n := len(test.domains); n > 0 {
			inmost = test.domains[n-1].Name
		}
		if diff := cmp.Diff(test.domains, got.Domains); diff != "" || got.Added.Domain != inmost || got.Linked != test.linked {
			t.Errorf("%s: in %q, linked %v, want %q, %v (-want +got):\n%s", name, got.Added.Domain, got.Linked, inmost, test.linked, diff)
		}
	}
}
