package learn

import (
	"maps"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// window is how many of the last runs of a kind a forecast rests on.
const window = 16

// Needs follows what runs of each kind really used. The zero value has seen
// nothing.
type Needs struct {
	runs map[cluster.Symbol][]quantity.Bytes // the last ones, a ring
	seen map[cluster.Symbol]int
}

// Observe takes in a run that has ended: the most device memory it used, per
// device. It says whether the forecast of the kind changed with it.
func (n *Needs) Observe(kind cluster.Symbol, memory quantity.Bytes) bool {
	if kind == 0 || memory <= 0 {
		return false
	}
	if n.runs == nil {
		n.runs, n.seen = make(map[cluster.Symbol][]quantity.Bytes), make(map[cluster.Symbol]int)
	}
	before := n.forecast(kind)
	if ring := n.runs[kind]; len(ring) < window {
		n.runs[kind] = append(ring, memory)
	} else {
		ring[n.seen[kind]%window] = memory
	}
	n.seen[kind]++
	return n.forecast(kind).Memory != before.Memory
}

// forecast is the most that any run in the window used: what one of sixteen runs
// needed, the next may need.
func (n *Needs) forecast(kind cluster.Symbol) cluster.Need {
	need := cluster.Need{Runs: int32(len(n.runs[kind]))}
	for _, memory := range n.runs[kind] {
		need.Memory = max(need.Memory, memory)
	}
	return need
}

// Table returns the forecasts of all kinds.
func (n *Needs) Table() *cluster.Needs {
	out := &cluster.Needs{ByKind: make(map[cluster.Symbol]cluster.Need, len(n.runs))}
	for kind := range maps.Keys(n.runs) { // order: a map is filled
		out.ByKind[kind] = n.forecast(kind)
	}
	return out
}
