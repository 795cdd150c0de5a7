package kube

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Figures are what a reader wants to see of a running scheduler.
type Figures struct {
	Nodes, NodesReady int
	GPUs, GPUsHeld    int // of all nodes
	Waiting           int // in line
	Paused            int // after a refused bind
	Held              int // not to be placed yet
	Placing           int
	Bound             int // charged to nodes, of whichever scheduler
	Cycles            uint64
	Decisions         uint64
	Refused           uint64
	// Reasons counts waiting pods by what binds them, the most frequent first.
	Reasons []ReasonCount
}

// ReasonCount is how many pods wait for one kind of reason.
type ReasonCount struct {
	Kind  string
	Count int
	Says  string // the sentence of one of them
}

// figures counts. It reads every row, so it is for once a second.
func (b *books) figures() Figures {
	f := Figures{Nodes: len(b.nodes), Paused: len(b.paused), Cycles: b.cycle}
	v := b.world.View()
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if n.Life == cluster.LifeOff {
			continue
		}
		if n.TakesWork() {
			f.NodesReady++
		}
		f.GPUs += int(n.Spec.DeviceCount)
		for k := range n.Spec.DeviceCount {
			if v.DeviceOf(n, k).Holders > 0 {
				f.GPUsHeld++
			}
		}
	}
	reasons := make(map[string]*ReasonCount)
	for _, p := range b.pods { // order: sums, and a sort below
		f.count(p)
		said, _ := b.said(p)
		if said.kind == "" {
			continue
		}
		r := reasons[said.kind]
		if r == nil {
			r = &ReasonCount{Kind: said.kind, Says: said.sentence}
			reasons[said.kind] = r
		}
		r.Count++
		r.Says = min(r.Says, said.sentence)
	}
	for _, r := range reasons { // order: sorted below
		f.Reasons = append(f.Reasons, *r)
	}
	slices.SortFunc(f.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Kind, b.Kind))
	})
	return f
}

func (f *Figures) count(p *pod) {
	switch p.footing {
	case waiting:
		f.Waiting++
	case placing:
		f.Placing++
	case charged:
		f.Bound++
	case outside:
		if p.seen.Standing == facts.Held || p.kept {
			f.Held++
		}
	}
}

// audit recomputes every account from the pods, and says where they differ.
func (b *books) audit() error { return cluster.Audit(b.world.View()) }
