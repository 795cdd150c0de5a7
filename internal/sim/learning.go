package sim

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// learner follows what arrives and what runs use, for policies that expect.
type learner struct {
	demand    learn.Demand
	needs     learn.Needs
	arrivals  learn.Arrivals
	durations learn.Durations
	beliefs   cluster.Beliefs
	// looksAhead says that the world is told of run times: where somebody asks for them.
	looksAhead bool
	stale      bool // more is known of them than the world was told
}

// learn tells the learner of an arrival, and the world of what was learned.
func (r *run) learn(pod string) error {
	if r.learner == nil {
		return nil
	}
	v, l := r.world.View(), r.learner
	id, _ := r.world.Pod(pod)
	spec := v.Pod(id).Spec
	grown, later := l.demand.Observe(spec.Shape), l.arrivals.Observe(r.world.Now(), spec.Kind, spec.Artifacts, spec.Shape)
	if grown {
		l.beliefs.Demand, l.beliefs.Worth = l.demand.Table(), learn.Worth(v, &l.demand)
	}
	if later && len(spec.Artifacts) > 0 {
		l.beliefs.Arrivals = l.arrivals.Table()
	}
	if !grown && !(later && l.beliefs.Arrivals != nil) {
		return nil
	}
	return r.tell()
}

// learnNeed tells the learner what a run that ended really used.
func (r *run) learnNeed(p *trace.Pod, ran moment.Span) error {
	l := r.learner
	if l == nil {
		return nil
	}
	l.demand.Leave()
	if !l.needs.Observe(r.world.Symbol(p.Kind), p.Use.GPUMemory, kept(p, ran)) {
		return nil
	}
	l.beliefs.Needs = l.needs.Table()
	return r.tell()
}

// kept is what a run kept busy of each device, as a mean; 0 where that says nothing: its
// behaviour is not known, or the run went on from a saved state.
func kept(p *trace.Pod, ran moment.Span) quantity.MilliGPU {
	if !behaves(p) || ran < p.Duration {
		return 0
	}
	return quantity.MilliGPU(quantity.MulDiv(int64(model.BusyTime(p)), int64(quantity.One), int64(ran)))
}

// learnRun tells the learner how long a job ran in all, and what was said of that.
func (a *actor) learnRun(w *work) {
	l := a.learner
	if l == nil {
		return
	}
	p := a.podOf(w)
	took := w.ran + a.now.Since(w.since)
	l.stale = l.durations.Observe(a.world.Symbol(p.Kind), learn.Run{Began: w.first, Took: took}) || l.stale
	if id, known := a.world.Queue(p.Queue); known && w.said > 0 {
		l.stale = l.durations.Declared(a.world.View().Queue(id).Key, w.said, a.now.Since(w.since)) || l.stale
	}
}

// tellRuns tells the world what is known of run times, before somebody looks at them.
func (c *clock) tellRuns() error {
	l := c.learner
	if l == nil || !l.looksAhead || !l.stale {
		return nil
	}
	going := make(map[cluster.Symbol][]learn.Run)
	for i := range c.actor.jobs {
		if w := &c.actor.jobs[i]; !w.ended && w.placed {
			ran := w.ran
			if w.runs() {
				ran += c.now.Since(w.since)
			}
			kind := c.world.Symbol(c.actor.podOf(w).Kind)
			going[kind] = append(going[kind], learn.Run{Began: w.first, Took: ran})
		}
	}
	l.stale, l.beliefs.Durations = false, l.durations.Table(going)
	return c.tell()
}

// tell replaces the world's beliefs with the learner's.
func (r *run) tell() error {
	r.learner.beliefs.Version++
	beliefs := r.learner.beliefs
	return r.apply(r.world.Now(), world.Learned{Beliefs: &beliefs})
}
