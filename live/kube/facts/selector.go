package facts

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// selector returns the node selector, the required node affinity and the features
// that a node has to declare as one list of alternatives. An empty list means any
// node.
func selector(s *corev1.PodSpec) [][]world.Requirement {
	var every []world.Requirement
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		every = append(every, world.Requirement{Key: key, Op: cluster.OpIn, Values: []string{s.NodeSelector[key]}})
	}
	every = append(every, features(s)...)
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		if every == nil {
			return nil
		}
		return [][]world.Requirement{every}
	}
	return alternatives(every, s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
}

// alternatives returns the terms of a selector, each with what must hold in every
// case.
func alternatives(every []world.Requirement, terms []corev1.NodeSelectorTerm) [][]world.Requirement {
	var out [][]world.Requirement
	for i := range terms {
		// A term without conditions matches no node, unlike an empty selector.
		if len(terms[i].MatchExpressions) == 0 && len(terms[i].MatchFields) == 0 {
			continue
		}
		all := slices.Clone(every)
		for k := range terms[i].MatchExpressions {
			all = append(all, requirement(&terms[i].MatchExpressions[k]))
		}
		for k := range terms[i].MatchFields {
			all = append(all, named(&terms[i].MatchFields[k]))
		}
		out = append(out, all)
	}
	if out == nil {
		out = [][]world.Requirement{{nowhere()}}
	}
	return out
}

// nowhere is a requirement that no node meets.
func nowhere() world.Requirement { return world.Requirement{Op: cluster.OpIn} }

// operator returns what the selectors of nodes and of pods have in common.
func operator(name string) (cluster.Operator, bool) {
	switch corev1.NodeSelectorOperator(name) {
	case corev1.NodeSelectorOpIn:
		return cluster.OpIn, true
	case corev1.NodeSelectorOpNotIn:
		return cluster.OpNotIn, true
	case corev1.NodeSelectorOpExists:
		return cluster.OpExists, true
	case corev1.NodeSelectorOpDoesNotExist:
		return cluster.OpAbsent, true
	}
	return 0, false
}

func requirement(e *corev1.NodeSelectorRequirement) world.Requirement {
	r := world.Requirement{Key: e.Key, Values: e.Values}
	if op, known := operator(string(e.Operator)); known {
		r.Op = op
		return r
	}
	switch e.Operator {
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		r.Op = cluster.OpGreater
		if e.Operator == corev1.NodeSelectorOpLt {
			r.Op = cluster.OpLess
		}
		if len(e.Values) != 1 {
			return nowhere()
		}
		n, err := strconv.ParseInt(e.Values[0], 10, 64)
		if err != nil {
			return nowhere()
		}
		r.Number, r.Values = n, nil
	default:
		return nowhere()
	}
	return r
}

// named is a requirement on a field of a node: its name is the only one, and the
// API takes one value for it.
func named(e *corev1.NodeSelectorRequirement) world.Requirement {
	if e.Key != metav1.ObjectNameField || len(e.Values) != 1 {
		return nowhere()
	}
	switch e.Operator {
	case corev1.NodeSelectorOpIn:
		return world.Requirement{Key: world.NameLabel, Op: cluster.OpIn, Values: e.Values}
	case corev1.NodeSelectorOpNotIn:
		return world.Requirement{Key: world.NameLabel, Op: cluster.OpNotIn, Values: e.Values}
	}
	return nowhere()
}

// tolerations leaves out those that compare by an operator it does not know:
// such a pod is kept off the node, which is the safe side.
func tolerations(list []corev1.Toleration) []world.Toleration {
	var out []world.Toleration
	for i := range list {
		t := &list[i]
		r := world.Toleration{Key: t.Key, Value: t.Value}
		switch t.Operator {
		case corev1.TolerationOpExists:
			r.AnyValue, r.Value = true, ""
		case corev1.TolerationOpEqual, "":
			if t.Key == "" {
				continue // an empty key tolerates all only with Exists
			}
		default:
			continue
		}
		effect, known := effectOf(t.Effect)
		switch {
		case t.Effect == "":
			r.AnyEffect = true
		case !known:
			continue
		default:
			r.Effect = effect
		}
		out = append(out, r)
	}
	return out
}
