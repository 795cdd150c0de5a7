package learn

import (
	"maps"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Needs follows what runs of each kind really used. The zero value has seen
// nothing.
type Needs struct {
	runs recent[cluster.Symbol, quantity.Bytes]
}

// Observe takes in a run that has ended: the most device memory it used, per
// device. It says whether the forecast of the kind changed with it.
func (n *Needs) Observe(kind cluster.Symbol, memory quantity.Bytes) bool {
	if kind == 0 || memory <= 0 {
		return false
	}
	before := n.forecast(kind)
	n.runs.add(kind, memory)
	return n.forecast(kind).Memory != before.Memory
}

// forecast is the most that any run in the window used: what one of sixteen runs
// needed, the next may need.
func (n *Needs) forecast(kind cluster.Symbol) cluster.Need {
	need := cluster.Need{Runs: int32(len(n.runs.last[kind]))}
	for _, memory := range n.runs.last[kind] {
		need.Memory = max(need.Memory, memory)
	}
	return need
}

// Table returns the forecasts of all kinds.
func (n *Needs) Table() *cluster.Needs {
	out := &cluster.Needs{ByKind: make(map[cluster.Symbol]cluster.Need, len(n.runs.last))}
	for kind := range maps.Keys(n.runs.last) { // order: a map is filled
		out.ByKind[kind] = n.forecast(kind)
	}
	return out
}
