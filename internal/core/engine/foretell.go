package engine

import (
	"cmp"
	"slices"

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

const (
	// triesForetold bounds how many placements are tried in one look ahead: those who
	// would come after have no start time.
	triesForetold = 20_000
	// stepsForetold bounds the instants of one look ahead.
	stepsForetold = 2_000
)

// foretell says of all who wait when they are expected to start: it lets runs end one
// after the other and starts others in the order of their turn, three times over.
func (r *round) foretell() {
	line := r.foretold()
	if len(line) == 0 {
		return
	}
	if r.ahead != nil {
		r.ahead.book.Follow()
	}
	var starts [3]map[cluster.PodID]moment.Instant
	for i, of := range [...]func(cluster.RunTime) moment.Span{
		func(t cluster.RunTime) moment.Span { return t.Low },
		func(t cluster.RunTime) moment.Span { return t.Likely },
		func(t cluster.RunTime) moment.Span { return t.High },
	} {
		starts[i] = r.playOn(line, of)
	}
	if r.ahead != nil {
		r.ahead.book.Back()
	}
	asked := make(map[cluster.PodID]bool, len(line))
	for _, pod := range line {
		asked[pod] = true
	}
	for i := range r.waiting {
		w := &r.waiting[i]
		if !asked[w.Pod] {
			continue
		}
		var at [3]moment.Instant
		for k := range starts {
			known := false
			if at[k], known = starts[k][w.Pod]; !known {
				at[k] = moment.Never
			}
		}
		if r.ahead != nil {
			if of := r.ahead.book.Of(w.Pod); of != nil {
				at[1] = of.At // that is a promise
			}
		}
		w.Starts = &decision.Window{Low: min(at[0], at[1], at[2]), Likely: at[1], High: max(at[0], at[1], at[2])}
	}
}

// foretold lists who waits for room, in the order of their turn.
func (r *round) foretold() []cluster.PodID {
	var line []cluster.PodID
	for i := range r.waiting {
		if w := &r.waiting[i]; reservable(w.Why.Code) || w.Why.Code == decision.GaveUp {
			line = append(line, w.Pod)
		}
	}
	r.lineUp(line)
	out := make([]cluster.PodID, 0, len(line))
	for pod, more := r.next(); more; pod, more = r.next() {
		out = append(out, pod)
	}
	r.line = turns{}
	return out
}

// playOn says when pods start if runs are as long as told. Everything is as before
// afterwards.
func (r *round) playOn(line []cluster.PodID, of func(cluster.RunTime) moment.Span) map[cluster.PodID]moment.Instant {
	starts := make(map[cluster.PodID]moment.Instant, len(line))
	base := &r.txn.Base().View
	r.attempt(func() bool {
		ends := &agenda{view: base}
		v := r.txn.View()
		for i := range v.Nodes.Len() {
			for _, id := range v.Node(cluster.NodeID(i)).Pods {
				ends.add(id, when.EndIn(base.Pod(id), of(base.ExpectedRun(base.Pod(id))), r.cycle.Now))
			}
		}
		left, tries := line, triesForetold
		for range stepsForetold {
			at, gone := ends.next()
			if len(gone) == 0 || len(left) == 0 || tries <= 0 {
				break
			}
			r.pass(&when.Step{At: at, Ends: gone})
			if r.ahead != nil {
				r.ahead.book.SetAhead(at)
			}
			clear(r.full)
			r.turnedAway = nil
			mark := r.txn.Mark()
			var rest []cluster.PodID
			for _, pod := range left {
				if r.placed(pod) {
					continue
				}
				if r.waitingUnit(pod) == cluster.None && r.noRoom(pod) {
					rest = append(rest, pod)
					continue
				}
				if tries--; !r.startLater(pod) {
					rest = append(rest, pod)
				}
			}
			for _, id := range r.txn.TouchedSince(mark) {
				if _, known := starts[id]; !known && r.placed(id) {
					starts[id] = at
					lasts := of(base.ExpectedRun(base.Pod(id)))
					if lasts > 0 {
						ends.add(id, at.Add(lasts))
					}
				}
			}
			left = slices.DeleteFunc(rest, r.placed)
		}
		return false
	})
	clear(r.full)
	r.turnedAway = nil
	return starts
}

// startLater is startNow within a look ahead: why a group did not start before does not
// stand any more.
func (r *round) startLater(pod cluster.PodID) bool {
	if unit := r.waitingUnit(pod); unit != cluster.None {
		why := r.squads[unit].why
		defer func() { r.squads[unit].why = why }()
		r.squads[unit].why = nil
	}
	return r.startNow(pod)
}

// agenda is what ends, the earliest first.
type agenda struct {
	view *cluster.View
	all  []ending // sorted from at on
	at   int
}

type ending struct {
	at  moment.Instant
	pod cluster.PodID
}

func (a *agenda) add(pod cluster.PodID, at moment.Instant) {
	if at == moment.Never {
		return
	}
	e := ending{at, pod}
	i, _ := slices.BinarySearchFunc(a.all[a.at:], e, a.compare)
	a.all = slices.Insert(a.all, a.at+i, e)
}

func (a *agenda) compare(x, y ending) int {
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(a.view.Pod(x.pod).Key, a.view.Pod(y.pod).Key), cmp.Compare(x.pod, y.pod))
}

// next takes out all that ends at the next instant.
func (a *agenda) next() (at moment.Instant, gone []cluster.PodID) {
	for ; a.at < len(a.all) && (len(gone) == 0 || a.all[a.at].at == at); a.at++ {
		at = a.all[a.at].at
		gone = append(gone, a.all[a.at].pod)
	}
	return at, gone
}
