package sim

import (
	"maps"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/when"
	"github.com/headrace-dev/headrace/internal/learn"
)

const (
	// greetEvery is how often at most those are told who have just come: of a burst, a
	// part. The others hear within the hour.
	greetEvery = 5 * moment.Minute
	// lookEvery is how often all who wait are told anew when they start.
	lookEvery = moment.Hour
	// tellEvery is how often the world is told how long runs take, where that decides.
	tellEvery = 10 * moment.Minute
	// lookAgainEvery is how often those are told anew who have run before.
	lookAgainEvery = moment.Day
	// playsEach is how often each look plays the cluster on: what was learned widens the
	// window.
	playsEach = 3
	// countsFrom is the wait from which on it counts whether the start was foretold.
	countsFrom = moment.Minute
)

// seer foretells the starts of those who wait, as a look at the cluster that nothing is
// decided by, and measures how true that was. It learns from that, too.
type seer struct {
	*clock
	memo    engine.Memo
	learned learn.Starts
	fresh   []int32           // jobs that have come to wait since the last cycle
	greeted moment.Instant    // when any of them were told last
	waits   map[int32]*vision // those of which something was foretold
	tally   tally
}

// vision is what was foretold of one wait of a job.
type vision struct {
	since moment.Instant // when it came to wait
	again bool           // it has run before
	told  []prophecy
}

// prophecy is what was said once.
type prophecy struct {
	at    moment.Instant
	first bool // when it came to wait
	told  engine.Foretold
	cell  when.Cell
}

// foresee prepares to look ahead, where the run asks for it.
func (c *clock) foresee() {
	if c.Starts && c.learner != nil {
		c.seer = &seer{clock: c, waits: make(map[int32]*vision)}
	}
	if c.learner != nil {
		c.learner.looksAhead = c.seer != nil || c.decider.Reserve != engine.ReserveOff
	}
	c.planLook()
}

// planLook puts the next look on the agenda.
func (c *clock) planLook() {
	switch {
	case c.learner != nil && c.decider.Reserve != engine.ReserveOff:
		c.agenda.add(c.now.Add(tellEvery), foretells, 0, 0)
	case c.seer != nil:
		c.agenda.add(c.now.Add(lookEvery), foretells, 0, 0)
	}
}

// lookAhead tells the world what was learned, and those who wait when they start.
func (c *clock) lookAhead() error {
	if c.agenda.onlyKeepsTime() {
		return nil
	}
	c.planLook()
	if c.seer == nil || c.now%moment.Instant(lookEvery) != 0 {
		return c.tellRuns()
	}
	return c.seer.look()
}

// joins notes that a job has come to wait.
func (s *seer) joins(job int32) {
	if s != nil {
		s.fresh = append(s.fresh, job)
	}
}

// greet tells those who have just come to wait, and still do, when they start.
func (s *seer) greet() {
	jobs := s.fresh[:0]
	for _, job := range s.fresh {
		if s.waits[job] == nil && s.inLine(job) {
			w := &s.actor.jobs[job]
			s.waits[job] = &vision{since: w.inLine, again: w.placed}
			if !w.placed {
				jobs = append(jobs, job)
			}
		}
	}
	if len(jobs) > 0 && (s.greeted == 0 || s.now.Since(s.greeted) >= greetEvery) {
		s.greeted = s.now
		s.foretell(jobs, true)
	}
	s.fresh = s.fresh[:0]
}

// inLine says whether a job waits, and nothing is under way for it.
func (s *seer) inLine(job int32) bool {
	w := &s.actor.jobs[job]
	id, known := s.world.Pod(s.actor.podOf(w).Name)
	if w.ended || w.seats == len(w.lives) || !known {
		return false
	}
	p := s.world.View().Pod(id)
	return p.Phase == cluster.PhaseWaiting && p.Intent == cluster.None
}

// look tells all who wait anew when they start.
func (s *seer) look() error {
	jobs := slices.Sorted(maps.Keys(s.waits))
	s.learner.beliefs.Starts = s.learned.Table(s.now)
	s.learner.stale = true
	if err := s.tellRuns(); err != nil {
		return err
	}
	all := s.now%moment.Instant(lookAgainEvery) == 0
	s.foretell(slices.DeleteFunc(jobs, func(job int32) bool { return s.waits[job].again && !all || !s.inLine(job) }), false)
	return nil
}

// foretell says of jobs that wait when they start.
func (s *seer) foretell(jobs []int32, first bool) {
	if len(jobs) == 0 {
		return
	}
	pods := make([]cluster.PodID, len(jobs))
	for i, job := range jobs {
		pods[i], _ = s.world.Pod(s.actor.podOf(&s.actor.jobs[job]).Name)
	}
	snapshot := s.world.Snapshot()
	c := decision.Cycle{Number: s.cycle, Now: s.now, Kind: decision.CycleReview, Seed: s.Seed}
	for i, told := range engine.Foretell(snapshot, c, s.decider, &s.memo, pods, playsEach) {
		p := prophecy{at: s.now, first: first, told: told}
		p.cell = when.CellOf(&snapshot.View, snapshot.Pod(pods[i]), s.now, told.Played.Likely)
		v := s.waits[jobs[i]]
		v.told = append(v.told, p)
	}
}

// starts notes that a job starts: what was foretold comes true, or not.
func (s *seer) starts(job int32) {
	if s == nil {
		return
	}
	v := s.waits[job]
	if v == nil {
		return
	}
	delete(s.waits, job)
	if s.now.Since(v.since) <= countsFrom {
		return
	}
	counts := s.actor.lives[s.actor.jobs[job].lives[0]].arrived >= s.meter.from
	for i := range v.told {
		p := &v.told[i]
		s.learned.Over(part(s.now.Since(p.at), p.cell.Base), s.now, p.cell.Own, p.cell.Any)
		if counts {
			s.tally.add(p, v.again, s.now)
		}
	}
}

func part(of, base moment.Span) float64 { return float64(of) / float64(base) }
