package learn

import (
	"maps"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Needs follows what runs of each kind really used. The zero value has seen
// nothing.
type Needs struct {
	// Charge is what shares are charged with of the compute that their kind needs, in
	// thousandths; 0: what they ask for.
	Charge quantity.Milli
	// After is how many runs of a kind have to have ended before; 0: three.
	After int32
	runs  recent[cluster.Symbol, used]
}

// used is what one run used of each of its devices: the most memory, and how much
// compute it kept busy, as a mean.
type used struct {
	memory quantity.Bytes
	milli  quantity.MilliGPU
}

// Observe takes in a run that has ended. 0 of a thing: that was not measured. It says
// whether the forecast of the kind changed with it.
func (n *Needs) Observe(kind cluster.Symbol, memory quantity.Bytes, milli quantity.MilliGPU) bool {
	if kind == 0 || memory <= 0 && milli <= 0 {
		return false
	}
	before := n.forecast(kind)
	n.runs.add(kind, used{max(memory, 0), max(milli, 0)})
	return n.forecast(kind) != before
}

// forecast is the most that any run in the window used: what one of sixteen runs
// needed, the next may need.
func (n *Needs) forecast(kind cluster.Symbol) cluster.Need {
	need := cluster.Need{Runs: int32(len(n.runs.last[kind]))}
	for _, run := range n.runs.last[kind] {
		need.Memory, need.Milli = max(need.Memory, run.memory), max(need.Milli, run.milli)
	}
	return need
}

// Table returns the forecasts of all kinds.
func (n *Needs) Table() *cluster.Needs {
	out := &cluster.Needs{ByKind: make(map[cluster.Symbol]cluster.Need, len(n.runs.last)), Charge: n.Charge, After: n.After}
	for kind := range maps.Keys(n.runs.last) { // order: a map is filled
		out.ByKind[kind] = n.forecast(kind)
	}
	return out
}
