package world

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// Port is a port of the host that a pod takes.
type Port struct {
	IP       string // empty or 0.0.0.0: every address
	Protocol string // empty: TCP
	Number   int32
}

// PodTerm is a relation to the pods that a selector picks, over the domains of a
// topology: the nodes that have one value of that label.
type PodTerm struct {
	Topology string
	Of       PodSelector
}

// Spread allows no domain more than MaxSkew pods above the one that has the
// fewest. It counts pods of the pod's own namespace.
type Spread struct {
	Topology   string
	MaxSkew    int32
	MinDomains int32 // 0: 1
	Labels     []Requirement
	Nobody     bool // counts no pods
	AllNodes   bool // also nodes that the pod's selector rules out
	Taints     bool // leave out nodes with taints that it does not tolerate
}

// PodSelector picks pods by namespace and labels.
type PodSelector struct {
	// Namespaces are taken by name and, where ByLabels is set, by their labels.
	// Without either it is the namespace of the pod that selects.
	Namespaces []string
	ByLabels   bool
	Where      []Requirement // on labels of namespaces; with none, all are taken
	Labels     []Requirement // with none, all pods are picked
	Nobody     bool          // picks no pods
}

// maxTies bounds each list of what a pod says about others, far above what a
// sensible one has.
const maxTies = 1024

// MaxTies is how many ports, terms or spreads a pod may have.
const MaxTies = maxTies

func (e *PodAdded) validateTies() error {
	for _, list := range []struct {
		name string
		long int
	}{{"ports", len(e.Ports)}, {"near", len(e.Near)}, {"apart", len(e.Apart)}, {"spread", len(e.Spread)}} {
		if list.long > maxTies {
			return fmt.Errorf("%s: %d entries: at most %d", list.name, list.long, maxTies)
		}
	}
	for i := range e.Ports {
		if p := &e.Ports[i]; p.Number < 1 || p.Number > 65535 {
			return fmt.Errorf("port %d: number %d: must be 1 to 65535", i, p.Number)
		}
	}
	for i := range e.Near {
		if err := e.Near[i].validate(); err != nil {
			return fmt.Errorf("near %d: %w", i, err)
		}
	}
	for i := range e.Apart {
		if err := e.Apart[i].validate(); err != nil {
			return fmt.Errorf("apart %d: %w", i, err)
		}
	}
	for i := range e.Spread {
		if err := e.Spread[i].validate(); err != nil {
			return fmt.Errorf("spread %d: %w", i, err)
		}
	}
	return nil
}

func (t *PodTerm) validate() error {
	if t.Topology == "" {
		return fmt.Errorf("topology %q: must name a label of nodes", t.Topology)
	}
	return validateConditions(slices.Concat(t.Of.Where, t.Of.Labels))
}

func (s *Spread) validate() error {
	switch {
	case s.Topology == "":
		return fmt.Errorf("topology %q: must name a label of nodes", s.Topology)
	case s.MaxSkew < 1:
		return fmt.Errorf("max skew %d: must be 1 or more", s.MaxSkew)
	case s.MinDomains < 0:
		return fmt.Errorf("min domains %d: must not be negative", s.MinDomains)
	}
	return validateConditions(s.Labels)
}

// validateConditions refuses what labels of pods and namespaces are not compared
// by.
func validateConditions(list []Requirement) error {
	for i := range list {
		if list[i].Op > cluster.OpAbsent {
			return fmt.Errorf("label %s: operator %d: must be in, not in, exists or absent", list[i].Key, uint8(list[i].Op))
		}
	}
	return nil
}

func (w *World) port(p *Port) cluster.Port {
	out := cluster.Port{Protocol: w.Symbol(p.Protocol), Number: p.Number}
	if p.Protocol == "" {
		out.Protocol = w.Symbol("TCP")
	}
	if addr, err := netip.ParseAddr(p.IP); p.IP != "" && (err != nil || addr != netip.IPv4Unspecified()) {
		out.IP = w.Symbol(p.IP)
	}
	return out
}

// PodLabelled replaces the labels of a pod. How it and others stand to each other
// follows, wherever they are.
type PodLabelled struct {
	Name   string
	Labels map[string]string
}

func (e PodLabelled) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	who := w.person(id)
	who.labels = w.labels(e.Labels)
	w.know(id, who)
	w.ledger.SetKin(id, w.kinOf(&who))
	w.ledger.SetRefused(id, cluster.Refusals{}) // what was refused may pass now
	return nil
}

// NamespaceKnown makes the labels of a namespace known, or replaces them. Before,
// relations that select namespaces by labels are judged on the safe side.
type NamespaceKnown struct {
	Name   string
	Labels map[string]string
}

func (e NamespaceKnown) apply(w *World) error {
	if e.Name == "" {
		return fmt.Errorf("namespace: name %q: must not be empty", e.Name)
	}
	w.society.namespaces[w.Symbol(e.Name)] = namespace{known: true, labels: w.labels(e.Labels)}
	w.rejudge(w.Symbol(e.Name))
	return nil
}

// NamespaceGone forgets the labels of a namespace.
type NamespaceGone struct{ Name string }

func (e NamespaceGone) apply(w *World) error {
	delete(w.society.namespaces, w.Symbol(e.Name))
	w.rejudge(w.Symbol(e.Name))
	return nil
}
