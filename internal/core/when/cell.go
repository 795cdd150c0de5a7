package when

import (
	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Cell is who is alike when it comes to how true what is foretold of a wait is: how long
// it is to be, and whether the pod is new, has waited for a while, or has run before; in
// its queue, and in any. Base is what corrections are parts of: the wait foretold.
type Cell struct {
	Own, Any uint64
	Base     moment.Span
	Class    int // by Classes: the last is for a wait that nobody knows
}

// Classes are the bounds of foretold waits that are told apart.
func Classes() []moment.Span {
	return []moment.Span{
		5 * moment.Minute, 15 * moment.Minute, moment.Hour, 4 * moment.Hour,
		16 * moment.Hour, 64 * moment.Hour,
	}
}

const (
	// leastBase is the wait that shorter ones are corrected as.
	leastBase = 10 * moment.Second
	// unknownBase stands for a wait that nobody knows.
	unknownBase = moment.Hour
	// awhile is how long one has waited who is not new any more.
	awhile = 30 * moment.Minute
)

// CellOf says where a pod belongs that is foretold to start at an instant.
func CellOf(v *cluster.View, p *cluster.Pod, now, start moment.Instant) Cell {
	c := Cell{Base: unknownBase}
	if start != moment.Never {
		c.Base = max(start.Since(now), leastBase)
		for c.Class = 0; c.Class < len(Classes()) && c.Base > Classes()[c.Class]; c.Class++ {
		}
	} else {
		c.Class = len(Classes()) + 1
	}
	state := uint64(0)
	switch {
	case p.Ran > 0:
		state = 2
	case now.Since(p.Arrived) >= awhile:
		state = 1
	}
	queue := uint64(0)
	if p.Spec.Queue != cluster.None {
		queue = v.Queue(p.Spec.Queue).Key
	}
	c.Own, c.Any = chance.Hash(1, uint64(c.Class), state, queue), chance.Hash(2, uint64(c.Class), state)
	return c
}

// Corrected is a foretold start as earlier ones turned out: the window that holds eight
// of ten, with the likely start as it was where that lies in it. Where nothing is known of earlier ones it is what was foretold.
func Corrected(v *cluster.View, p *cluster.Pod, now moment.Instant, told decision.Window) decision.Window {
	if v.Beliefs == nil || v.Beliefs.Starts == nil {
		return told
	}
	cell := CellOf(v, p, now, told.Likely)
	c, ok := v.Beliefs.Starts.Of(cell.Own, cell.Any)
	if !ok {
		return told
	}
	out := decision.Window{
		Low: now.Add(cluster.Times(cell.Base, c.Low)), Likely: now.Add(cluster.Times(cell.Base, c.Likely)),
		High: now.Add(cluster.Times(cell.Base, c.High)),
	}
	if told.Likely != moment.Never {
		out.Likely = min(max(told.Likely, out.Low), out.High)
	}
	return out
}
