package sim

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// work is one job: a pod, or the pods of a group, which progress together while
// all of them run, fall back together, and end together.
type work struct {
	name    string
	lives   []int32 // its pods
	running int     // of them, those that run
	seats   int     // of them, those that have a place
	version int32   // rises with every turn of fate; older happenings are void

	progress moment.Span // in run time alone
	debt     moment.Span // of restart: nothing progresses before it is paid
	rate     quantity.Milli
	settled  moment.Instant
	since    moment.Instant // when all of it came to run
	inLine   moment.Instant // when it came to wait
	waited   moment.Span
	first    moment.Instant // when all of it had a place first
	ran      moment.Span    // in earlier attempts
	said     moment.Span    // how long this attempt takes, where that was said
	placed   bool           // all of it had a place once
	evicted  moment.Instant // last, by a decision
	// evictions counts them; pods told to go at one instant are one.
	evictions int
	preempts  bool // its last interruption was one
	ended     bool
}

// pod is any pod of the job: in what the job goes by they are alike.
func (a *actor) podOf(w *work) *trace.Pod { return a.lives[w.lives[0]].pod }

func (w *work) runs() bool { return w.running == len(w.lives) }

// gpus is what the job asks for in all.
func (a *actor) gpus(w *work) quantity.MilliGPU {
	sum := quantity.MilliGPU(0)
	for _, l := range w.lives {
		sum += a.lives[l].pod.GPUDemand()
	}
	return sum
}

// employ makes the jobs of the workload.
func (a *actor) employ() {
	byGroup := make(map[string]int32)
	for i := range a.lives {
		l := &a.lives[i]
		job, known := byGroup[l.pod.Group]
		if !known || l.pod.Group == "" {
			job = int32(len(a.jobs))
			w := work{name: l.pod.Name}
			if l.pod.Group != "" {
				byGroup[l.pod.Group], w.name = job, l.pod.Group
			}
			a.jobs = append(a.jobs, w)
		}
		l.job = job
		a.jobs[job].lives = append(a.jobs[job].lives, int32(i))
	}
}

// told says whether the world is told of the job itself: where there is more to say
// than of its pod.
func told(p *trace.Pod) bool { return p.Group != "" || p.Checkpoint > 0 || p.Save > 0 || p.Restart > 0 }

// announce tells the world of a job, before its first pod.
func (a *actor) announce(w *work) error {
	p := a.podOf(w)
	if !told(p) {
		return nil
	}
	if err := a.apply(a.now, world.JobAdded{Name: w.name, JobFacts: a.facts(w)}); err != nil {
		return err
	}
	if p.Group == "" {
		return nil
	}
	return a.apply(a.now, world.GroupAdded{Name: p.Group, Minimum: int32(len(w.lives)), Queue: p.Queue, Job: w.name})
}

// facts is what a job says of itself. How long it has to run says only one whose
// policy is to know.
func (a *actor) facts(w *work) world.JobFacts {
	p := a.podOf(w)
	f := world.JobFacts{Kind: p.Kind, Queue: p.Queue, Checkpoint: world.Checkpoint{Period: p.Checkpoint, Write: p.Save, Restart: p.Restart}}
	if a.durations {
		f.Expected = max(p.Duration-w.progress, 1) + w.debt
		w.said = f.Expected
	}
	return f
}

// dismiss tells the world that a job is over, after its last pod.
func (a *actor) dismiss(w *work) error {
	p := a.podOf(w)
	if !told(p) {
		return nil
	}
	if p.Group != "" {
		if err := a.apply(a.now, world.GroupRemoved{Name: p.Group}); err != nil {
			return err
		}
	}
	return a.apply(a.now, world.JobRemoved{Name: w.name})
}

// advance books what was done since the last look: first the restart, then
// progress.
func (a *actor) advance(w *work) {
	span := a.now.Since(w.settled)
	w.settled = a.now
	if span <= 0 || !w.runs() {
		return
	}
	paid := min(span, w.debt)
	w.debt -= paid
	if w.preempts {
		a.meter.lostToPreemption(paid, a.gpus(w))
	}
	w.progress += moment.Span(quantity.MulDiv(int64(span-paid), int64(w.rate), int64(quantity.One)))
}

// interrupt sends a job that runs back to its last saved state. The other pods of
// a group stay where they are; nothing of it progresses until all run again. One that
// saves first keeps all it has done, and loses the time that takes.
func (a *actor) interrupt(w *work, byDecision, saves bool) error {
	p := a.podOf(w)
	if byDecision && (w.evicted != a.now || w.evictions == 0) {
		w.evicted = a.now
		w.evictions++
	}
	if !w.runs() {
		return nil
	}
	a.advance(w)
	kept := moment.Span(0)
	if p.Checkpoint > 0 {
		kept = w.progress / p.Checkpoint * p.Checkpoint
	}
	if saves {
		kept = w.progress
		a.meter.lostToPreemption(p.Save, a.gpus(w))
	}
	if byDecision {
		a.meter.lostToPreemption(w.progress-kept, a.gpus(w))
		a.meter.preempted += seconds(a.now.Since(w.since)) * float64(a.gpus(w)) / float64(quantity.WholeGPU)
	}
	w.progress, w.debt, w.preempts = kept, p.Restart, byDecision
	w.ran += a.now.Since(w.since)
	w.version++
	if a.durations && told(p) {
		return a.apply(a.now, world.JobChanged{Name: w.name, JobFacts: a.facts(w)})
	}
	return nil
}

// replan sets the rate of a job that runs, when its phase ends and when its state
// is saved next.
func (a *actor) replan(w *work, index int32) {
	if !w.runs() {
		return
	}
	a.advance(w)
	w.rate = quantity.One
	part := quantity.Milli(quantity.One) // of what its pods asked for, that they hold
	for _, member := range w.lives {
		l := &a.lives[member]
		for _, c := range l.cards {
			// A recorded duration holds the neighbours of its time; only pods whose
			// behaviour is known slow down with those of the simulation.
			if behaves(l.pod) {
				w.rate = min(w.rate, model.Rate(l.busy, a.devices[c].busy))
			}
		}
		part = min(part, l.part)
	}
	w.rate = max(quantity.Milli(quantity.MulDiv(int64(w.rate), int64(part), int64(quantity.One))), 1)
	w.version++
	p := a.podOf(w)
	a.agenda.add(a.after(w, model.PhaseAt(p, w.progress).Left), turns, index, w.version)
	a.planSave(w, index)
}

// after is when a job will have made so much progress. Rounded up, so that it has
// when the time comes.
func (a *actor) after(w *work, progress moment.Span) moment.Instant {
	return a.now.Add(w.debt + moment.Span(quantity.MulDiv(int64(progress), int64(quantity.One), int64(w.rate))+1))
}

// planSave foresees the next checkpoint, for policies that ask what an eviction
// would cost.
func (a *actor) planSave(w *work, index int32) {
	if p := a.podOf(w); a.saves && p.Checkpoint > 0 {
		if left := p.Checkpoint - w.progress%p.Checkpoint; w.progress+left < p.Duration {
			a.agenda.add(a.after(w, left), saves, index, w.version)
		}
	}
}

// saved reports a checkpoint.
func (a *actor) saved(h happening) error {
	w := &a.jobs[h.subject]
	if w.version != h.version {
		return nil
	}
	a.advance(w)
	a.planSave(w, h.subject)
	return a.apply(a.now, world.JobCheckpointed{Name: w.name, At: a.now})
}

// turn ends a phase of a running job, or its work.
func (a *actor) turn(h happening) error {
	w := &a.jobs[h.subject]
	if w.version != h.version {
		return nil
	}
	a.advance(w)
	if w.progress < a.podOf(w).Duration {
		a.rephase(w)
		return nil
	}
	for _, member := range w.lives {
		a.stopWork(member)
		a.release(member)
		l := &a.lives[member]
		l.state = ended
		l.version++
		a.pending--
	}
	w.ended = true
	w.version++
	a.meter.ended(w)
	a.learnRun(w)
	if err := a.learnNeed(a.podOf(w), a.now.Since(w.since)); err != nil {
		return err
	}
	a.planCycle()
	for _, member := range w.lives {
		if err := a.apply(a.now, world.PodRemoved{Name: a.lives[member].pod.Name}); err != nil {
			return err
		}
	}
	return a.dismiss(w)
}
