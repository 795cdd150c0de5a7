package engine

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/when"
)

// Foretelling returns the policy with start times in its plans.
func (p *Policy) Foretelling() *Policy {
	out := *p
	out.Foretells = true
	return &out
}

// ForetellingInReviews returns the policy with start times in the plans of review cycles.
func (p *Policy) ForetellingInReviews() *Policy {
	out := p.Foretelling()
	out.InReviews = true
	return out
}

// foretells says whether a cycle looks ahead for start times.
func (r *round) foretells() bool {
	return r.policy.Foretells && (!r.policy.InReviews || r.cycle.Kind == decision.CycleReview)
}

// foretell says of all who wait when they are expected to start.
func (r *round) foretell() {
	var line []cluster.PodID
	for i := range r.waiting {
		if w := &r.waiting[i]; reservable(w.Why.Code) || w.Why.Code == decision.GaveUp {
			line = append(line, w.Pod)
		}
	}
	if len(line) == 0 {
		return
	}
	o := r.lookOut(line, line, Plays)
	asked := make(map[cluster.PodID]int, len(line))
	for i, pod := range line {
		asked[pod] = i
	}
	for i := range r.waiting {
		w := &r.waiting[i]
		at, ok := asked[w.Pod]
		if !ok {
			continue
		}
		told := o.foretold(at)
		window := told.Window
		if r.ahead != nil {
			if of := r.ahead.book.Of(w.Pod); of != nil {
				// That is a promise.
				window = decision.Window{Low: min(window.Low, of.At), Likely: of.At, High: max(window.High, of.At)}
			}
		}
		w.Starts, w.Played = &window, &told.Played
	}
}

// Foretold is what is said of one that waits: when it starts in the plays, and that as
// earlier starts of its like turned out.
type Foretold struct{ Played, Window decision.Window }

func (o *outlook) foretold(i int) Foretold {
	played := o.window(i)
	return Foretold{Played: played, Window: when.Corrected(o.base, o.base.Pod(o.line[i]), o.cycle.Now, played)}
}

// Foretell says of pods that wait when they are expected to start, without deciding
// anything: Decide has, and this is what its plan left. It plays the cluster on so often
// (Plays, unless time is short). Policies that decide whole rounds
// tell nothing.
func Foretell(s *cluster.Snapshot, c decision.Cycle, p *Policy, m *Memo, pods []cluster.PodID, plays int) []Foretold {
	out := make([]Foretold, len(pods))
	if m == nil {
		m = new(Memo)
	}
	never := decision.Window{Low: moment.Never, Likely: moment.Never, High: moment.Never}
	for i := range out {
		out[i] = Foretold{Played: never, Window: never}
	}
	if p.Round != nil || len(pods) == 0 {
		return out
	}
	t := cluster.Begin(s)
	t.At(c.Now)
	m.sync(&s.View, c, p)
	defer m.close(t)
	r := newRound(t, c, p, m)
	line := inLine(&s.View, c)
	r.muster(line)
	o := r.lookOut(line, pods, max(plays, 1))
	for i, pod := range pods {
		if at, waits := o.index[pod]; waits {
			out[i] = o.foretold(at)
		}
	}
	return out
}
