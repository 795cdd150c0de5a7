package model

import (
	"fmt"
	"strings"

	"github.com/headrace-dev/headrace/internal/catalogue"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// A scenario is a built-in workload.
type scenario struct {
	name  string
	nodes func() []trace.Node
	work  func() []family
	pods  int // that arrive in the day, without those of fixed hours
}

func scenarios() []scenario {
	return []scenario{
		{name: "a100-8x8", nodes: a100Nodes, work: a100Work, pods: a100Pods},
		{name: "hetero", nodes: heteroNodes, work: heteroWork, pods: heteroPods},
	}
}

// Names lists the built-in scenarios.
func Names() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return append(names, mixedName)
}

// Scenario generates the built-in workload of a name. Same seed, same workload.
// Cluster and kinds of work do not depend on the seed, except in mixed; what
// arrives, when, and how long it runs does.
func Scenario(name string, seed int64) (trace.Workload, error) {
	return Loaded(name, seed, quantity.One)
}

// Loaded is Scenario with more arrivals, or fewer, in thousandths of those it has; what
// comes at fixed hours stays as it is.
func Loaded(name string, seed int64, load quantity.Milli) (trace.Workload, error) {
	if name == mixedName {
		if load != quantity.One {
			return trace.Workload{}, fmt.Errorf("scenario %s: load %v: it has no times, and is as long as it is", name, load)
		}
		return mixed(seed), nil
	}
	for _, s := range scenarios() {
		if s.name == name {
			s.pods = int(quantity.MulDiv(int64(s.pods), int64(load), int64(quantity.One)))
			return trace.Workload{
				Name: s.name, Nodes: s.nodes(), Pods: generate(s, seed),
				Timed: true, WarmUp: warmUp,
			}, nil
		}
	}
	return trace.Workload{}, fmt.Errorf("there is no scenario %q: did you mean %q? There are %s",
		name, catalogue.Closest(name, Names()), strings.Join(Names(), ", "))
}
