package kube

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"

	"github.com/headrace-dev/headrace/live/explain"
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
	At                time.Time
	// PerSecond is how many decisions were made per second, lately.
	PerSecond float64
	// Models are the GPUs by model, by name.
	Models []explain.Supply
	// Fragmentation is the part of all GPUs that is free and of no use to what is
	// expected to come, 0 to 1; nil before anything is expected. It is as old as the
	// last review.
	Fragmentation *float64
	// DemandPods is how many arrivals the expectations rest on, and DemandDigest a
	// hash of them: equal ones have equal hashes, whichever instance learned them.
	DemandPods   int64
	DemandDigest uint64
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
	f := Figures{Nodes: len(b.nodes), Cycles: b.cycle, At: b.now, DemandPods: b.demand.Seen(), DemandDigest: b.demandDigest()}
	v := b.world.View()
	models := make(map[cluster.Symbol]*explain.Supply)
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
			d := v.DeviceOf(n, k)
			m := models[d.Spec.Model]
			if m == nil {
				m = &explain.Supply{Name: v.Symbols.Text(d.Spec.Model)}
				models[d.Spec.Model] = m
			}
			m.GPUs++
			if d.Holders > 0 {
				m.Held++
				f.GPUsHeld++
			}
		}
	}
	for _, m := range models { // order: sorted below
		f.Models = append(f.Models, *m)
	}
	slices.SortFunc(f.Models, func(a, b explain.Supply) int { return cmp.Compare(a.Name, b.Name) })
	reasons := make(map[string]*ReasonCount)
	for _, p := range b.pods { // order: sums, and a sort below
		if held := b.backsOff(p); held.None() {
			f.count(p)
		} else {
			f.Paused++
		}
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
	case waiting, holding:
		f.Waiting++
	case placing:
		f.Placing++
	case charged:
		f.Bound++
	case outside:
		if p.seen.Standing == facts.Held || p.aside() {
			f.Held++
		}
	}
}

// audit recomputes every account from the pods, and says where they differ.
func (b *books) audit() error { return cluster.Audit(b.world.View()) }
