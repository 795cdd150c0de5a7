package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// The labels of our own for the place of a node.
const (
	RackLabel = "topology.headrace.dev/rack"
	// IslandLabel says that all cards of a node are linked by NVLink, whatever its value.
	IslandLabel = "topology.headrace.dev/nvlink-island"
)

// Levels are the labels of nodes that say where they are, by level; of several, the
// first that a node has counts. The label of the island says that all cards of a node
// are of one.
type Levels struct{ Island, Rack, Zone, Region []string }

// DefaultLevels are those that nodes commonly have.
func DefaultLevels() *Levels {
	return &Levels{
		Island: []string{IslandLabel}, Rack: []string{RackLabel, "topology.kubernetes.io/rack"},
		Zone: []string{corev1.LabelTopologyZone}, Region: []string{corev1.LabelTopologyRegion},
	}
}

// ParseLevels reads settings of the form LEVEL=LABEL, or LEVEL=LABEL,LABEL; levels that
// are not set keep their defaults. LEVEL= leaves a level out.
func ParseLevels(settings []string) (*Levels, error) {
	out := DefaultLevels()
	set := make(map[string]bool)
	for _, text := range settings {
		level, labels, valid := strings.Cut(text, "=")
		into := out.named(level)
		switch {
		case !valid || into == nil:
			return nil, fmt.Errorf("%q: must be LEVEL=LABEL, where LEVEL is island, rack, zone or region", text)
		case set[level]:
			return nil, fmt.Errorf("%q: %s is set twice; several labels are given as %s=LABEL,LABEL", text, level, level)
		}
		set[level], *into = true, nil
		if labels == "" {
			continue
		}
		for label := range strings.SplitSeq(labels, ",") {
			if faults := validation.IsQualifiedName(label); len(faults) > 0 {
				return nil, fmt.Errorf("%q: label %q: %s", text, label, faults[0])
			}
			*into = append(*into, label)
		}
	}
	if err := out.apart(); err != nil {
		return nil, err
	}
	return out, nil
}

func (l *Levels) named(level string) *[]string {
	switch level {
	case "island":
		return &l.Island
	case "rack":
		return &l.Rack
	case "zone":
		return &l.Zone
	case "region":
		return &l.Region
	}
	return nil
}

// apart says whether some label stands for two levels.
func (l *Levels) apart() error {
	level := make(map[string]string)
	for _, name := range []string{"rack", "zone", "region"} {
		for _, label := range *l.named(name) {
			if other := level[label]; other != "" {
				return fmt.Errorf("label %s: it cannot be that of the %s and of the %s", label, other, name)
			}
			level[label] = name
		}
	}
	return nil
}

// of returns the level that a label of nodes stands for.
func (l *Levels) of(label string) (cluster.Level, bool) {
	switch {
	case label == corev1.LabelHostname:
		return cluster.LevelNode, true
	case slices.Contains(l.Rack, label):
		return cluster.LevelRack, true
	case slices.Contains(l.Zone, label):
		return cluster.LevelZone, true
	case slices.Contains(l.Region, label):
		return cluster.LevelRegion, true
	}
	return 0, false
}

// labels lists the labels that stand for a level, for people to read.
func (l *Levels) labels() string {
	return strings.Join(slices.Concat([]string{corev1.LabelHostname}, l.Rack, l.Zone, l.Region), ", ")
}

// valueOf returns the value of the first of some labels that an object has.
func valueOf(have map[string]string, labels []string) string {
	for _, label := range labels {
		if value := have[label]; value != "" {
			return value
		}
	}
	return ""
}

// linked says whether all cards of a node are of one NVLink island.
func (l *Levels) linked(n *corev1.Node) bool { return valueOf(n.Labels, l.Island) != "" }

// domains returns the region, zone and rack of a node, as far as it has labels
// for them. A name holds the names of the wider ones: racks of two zones are two.
func (l *Levels) domains(n *corev1.Node) []world.DomainAdded {
	var out []world.DomainAdded
	name, parent := "", ""
	for _, d := range []struct {
		labels []string
		level  cluster.Level
	}{
		{l.Region, cluster.LevelRegion},
		{l.Zone, cluster.LevelZone},
		{l.Rack, cluster.LevelRack},
	} {
		value := valueOf(n.Labels, d.labels)
		if value == "" {
			continue
		}
		name += "/" + value
		out = append(out, world.DomainAdded{Name: name, Level: d.level, Parent: parent})
		parent = name
	}
	return out
}
