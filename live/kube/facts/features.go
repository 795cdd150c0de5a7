package facts

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// featureLabel begins the labels by which the world knows what features a node
// declares. No label of a user has such a key.
const featureLabel = "feature:"

// release is the Kubernetes release whose features are looked for. Later ones may
// take some for granted.
var release = version.MustParse("1.37.0") // const: the release

// features returns what a node has to declare for a pod to run there, as
// Kubernetes infers it.
func features(s *corev1.PodSpec) []world.Requirement {
	known := nodedeclaredfeatures.DefaultFramework
	set, err := known.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: s}, release)
	if err != nil || set.IsEmpty() {
		return nil // it fails without a release only
	}
	names, err := known.Unmap(set)
	if err != nil {
		return []world.Requirement{nowhere()}
	}
	var out []world.Requirement
	for _, name := range names {
		out = append(out, world.Requirement{Key: featureLabel + name, Op: cluster.OpExists, Feature: true})
	}
	return out
}

// traits returns the labels of a node, and what else a pod may ask of it: its
// name and the features that it declares.
func traits(n *corev1.Node) map[string]string {
	out := make(map[string]string, len(n.Labels)+1+len(n.Status.DeclaredFeatures))
	for key, value := range n.Labels { // order: a copy
		out[key] = value
	}
	out[world.NameLabel] = n.Name
	for _, name := range n.Status.DeclaredFeatures {
		out[featureLabel+name] = ""
	}
	return out
}
