package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// What the cluster refuses is not tried again at once: that would be the same answer,
// and keep others waiting. From one refusal to the next the time doubles; a little of
// chance, which goes by the pod, keeps those apart that were refused together.
//
//	waiting ─▶ placing ─▶ BindRefused ─▶ backing off ─▶ waiting …
//	                                          │
//	                     refused too often ─▶ set aside, until the pod or the node changes
const (
	firstBackOff = moment.Second
	mostBackOff  = 5 * moment.Minute
	// mostRefusals is after how many refused binds in a row a pod is set aside: some 25
	// minutes, longer than an API server, or a webhook, is away for a new version.
	mostRefusals = 12
	// jitterThousandths is up to how much longer it may take.
	jitterThousandths = 250
)

// backOff is for how long something is not tried again that was refused so many times
// in a row, in whole milliseconds.
func backOff(key uint64, refusals int32) moment.Span {
	span := firstBackOff
	for n := int32(1); n < refusals && span < mostBackOff; n++ {
		span *= 2
	}
	span = min(span, mostBackOff)
	more := moment.Span(chance.Hash(key, uint64(refusals)) % (jitterThousandths + 1))
	return (span + span/1000*more) / moment.Millisecond * moment.Millisecond
}

// BindRefused says that a bind was not carried out. The pod waits again, and backs off;
// after too many refusals in a row it is set aside.
type BindRefused struct {
	Name string
	// Withdrawn says that it was not tried: nobody has refused anything.
	Withdrawn bool `json:",omitempty"`
}

func (e BindRefused) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhasePlacing)
	if err != nil {
		return err
	}
	last, node := w.ledger.Pod(id).LastNode, w.ledger.Pod(id).Placement.Node
	w.dropIntent(id)
	w.ledger.Discharge(id, cluster.PhaseWaiting)
	p := w.ledger.EditPod(id)
	p.Attempt++
	p.LastNode = last
	w.ledger.Disinherit(id, w.now)
	if e.Withdrawn {
		return nil
	}
	r := cluster.Refusals{Count: p.Refused.Count + 1, Node: node, Until: moment.Never}
	if r.Count < mostRefusals {
		r.Until = w.now.Add(backOff(p.Key, r.Count))
	}
	w.ledger.SetRefused(id, r)
	return nil
}

// EvictRefused says that an eviction was not carried out; the pod stays as it was, and
// nobody holds the room any more that it was to leave. It is not told to go again for a
// while.
type EvictRefused struct {
	Name string
	// Withdrawn says that it was not tried: nobody has refused anything.
	Withdrawn bool `json:",omitempty"`
}

func (e EvictRefused) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhaseTerminating)
	if err != nil {
		return err
	}
	decided := uint64(0)
	if in := w.ledger.Pod(id).Intent; in != cluster.None {
		decided = w.ledger.Intents.At(int32(in)).ID
	}
	w.dropIntent(id)
	phase := cluster.PhaseBound
	if p := w.ledger.Pod(id); p.Started != 0 && p.Started >= p.Bound {
		phase = cluster.PhaseRunning
	}
	w.ledger.SetPhase(id, phase)
	if !e.Withdrawn {
		p := w.ledger.EditPod(id)
		p.Kept.Count++
		p.Kept.Node, p.Kept.Until = p.Placement.Node, w.now.Add(backOff(p.Key, p.Kept.Count))
	}
	if decided != 0 {
		w.stays(decided)
	}
	return nil
}

// mayTry refuses the bind of a pod that backs off, or whose job waits for others.
func (w *World) mayTry(p *cluster.Pod) error {
	switch {
	case w.ledger.BacksOffIn(p.Spec.Group, w.now) != cluster.None:
		return fmt.Errorf("accept bind %s: its group has given its room back, and backs off", p.Spec.Name)
	case w.ledger.AwaitsJobs(p):
		return fmt.Errorf("accept bind %s: its job waits for others", p.Spec.Name)
	case !p.BacksOff(w.now):
		return nil
	case p.Refused.Until == moment.Never:
		return fmt.Errorf("accept bind %s: it is set aside after %d refused binds", p.Spec.Name, p.Refused.Count)
	}
	return fmt.Errorf("accept bind %s: it backs off until %v", p.Spec.Name, p.Refused.Until)
}

// bringBack gives the pods their turn again that a node has set aside.
func (w *World) bringBack(node cluster.NodeID) {
	for _, id := range w.ledger.Refused() {
		if r := w.ledger.Pod(id).Refused; r.Node == node && r.Until == moment.Never {
			w.ledger.SetRefused(id, cluster.Refusals{})
		}
	}
}
