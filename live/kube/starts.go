package kube

import (
	"fmt"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// ReserveModes are the names of the ways to reserve room, by engine.Reserve.
func ReserveModes() []string { return []string{"off", "head", "all"} }

// outlook is when a pod is expected to start, and by when it has to be done.
type outlook struct {
	starts   *explain.Starts
	reserved *explain.Reserved
	late     *explain.Deadline // nil: it can be met, or there is none
	warned   moment.Instant    // the deadline that was said to be lost
}

// foresee returns the policy with what the configuration says of times to come.
func (c *Config) foresee(p *engine.Policy) *engine.Policy {
	if p.Round != nil {
		return p // it decides whole rounds, and neither reserves nor foretells
	}
	if c.Reserve != engine.ReserveOff {
		p = p.Reserving(c.Reserve)
	}
	if c.StartTimes {
		p = p.ForetellingInReviews()
	}
	return p
}

// foreseen remembers of a pod that waits when it is expected to start. What was told in a
// review stands until the next one.
func (p *pod) foreseen(v *cluster.View, w *decision.Waiting) {
	if w.Starts != nil {
		p.starts = startsOf(w.Starts)
	}
	p.reserved = nil
	if r := w.Reserved; r != nil {
		p.reserved = &explain.Reserved{At: clockTime(r.At)}
		for _, id := range r.Nodes {
			p.reserved.Nodes = append(p.reserved.Nodes, v.Node(id).Spec.Name)
		}
	}
}

func startsOf(w *decision.Window) *explain.Starts {
	at := func(i moment.Instant) *time.Time {
		if i == moment.Never {
			return nil
		}
		t := clockTime(i)
		return &t
	}
	return &explain.Starts{Low: at(w.Low), Likely: at(w.Likely), High: at(w.High)}
}

func clockTime(at moment.Instant) time.Time { return time.UnixMicro(int64(at)).UTC() }

// judgeDeadline remembers that a pod cannot meet its deadline, and tells its author once.
func (b *books) judgeDeadline(key string, p *pod, deadline, end moment.Instant) {
	if end == 0 {
		p.late = nil
		return
	}
	p.late = &explain.Deadline{At: clockTime(deadline), EarliestEnd: clockTime(end)}
	if p.warned != deadline {
		p.warned = deadline
		b.complain(key, p, "DeadlineCannotBeMet", fmt.Sprintf("annotation %s: its deadline %s cannot be met, the earliest end is %s",
			facts.DeadlineAt, p.late.At.Format(time.RFC3339), p.late.EarliestEnd.Format(time.RFC3339)))
	}
}

// annotations is what a bind writes on its pod: until when it may be in room that is reserved
// for others from then on. A new instance goes by it.
func (b *Bind) annotations() map[string]string {
	if b.GoneBy.IsZero() {
		return nil
	}
	return map[string]string{facts.GoneBy: b.GoneBy.UTC().Format(time.RFC3339Nano)}
}

// inKnot says whether the last review found that the pod waits for what waits for it.
func (p *pod) inKnot() bool {
	return p.why.reason != nil && p.why.reason.Code == decision.Knot && p.asOf > 0
}
