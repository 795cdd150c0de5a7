package sim

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

const (
	// peakWindow is over how long the peak of utilisation is a mean.
	peakWindow = 10 * moment.Minute
	// samplesWanted is about how many samples a run's curves have.
	samplesWanted = 400
	// framesWanted is about how many frames the map has.
	framesWanted = 48
)

// account reads the meters of a timed run. Utilisation is counted from the end
// of the warm-up to the last arrival; waiting and completion times for pods that
// arrive after the warm-up.
type account struct {
	*clock
	busy    int64 // milli-GPU at work now
	held    int64 // cards that hold at least one pod now
	asked   int64 // milli-GPU that the placed pods asked for
	waiting int
	arrived int64

	every             moment.Span
	from, to          moment.Instant
	last              moment.Instant
	busyTime, held1k  float64 // milli-GPU × microseconds
	askedTime         float64
	fragSum           float64 // % of capacity, over the samples of the window
	fragCount         int
	windowEnd         moment.Instant
	windowBusy, wHeld float64
	peak              float64
	behaves           bool // the workload says how its pods behave
	nextFrame         moment.Instant

	waitsS, startsS, jctsS []float64
	slaMet, slaDue         int

	tenants tenants
	sizes   []sizeTimes // by trace.SizeClasses
	told    bool        // some jobs say more than their pods
	// Preemption: GPU-seconds of work thrown away and of restarts, and those that the
	// runs had had which it ended.
	lost, preempted float64
}

// sizeTimes are the times of jobs of one class.
type sizeTimes struct{ waitsS, jctsS []float64 }

func newAccount(c *clock) *account {
	m := &account{
		clock: c, from: moment.Instant(c.Workload.WarmUp), tenants: newTenants(c.Workload),
		sizes: make([]sizeTimes, len(trace.SizeClasses())),
	}
	for i := range c.Workload.Pods {
		m.behaves = m.behaves || behaves(&c.Workload.Pods[i])
		m.told = m.told || told(&c.Workload.Pods[i])
		m.to = max(m.to, c.Workload.Pods[i].Arrival)
	}
	m.every = max(moment.Span(m.to)/samplesWanted, moment.Second)
	m.windowEnd = m.from.Add(peakWindow)
	return m
}

// settle brings the integrals up to an instant.
func (m *account) settle(at moment.Instant) {
	for m.last < at {
		step := at
		if m.last < m.from {
			step = min(step, m.from)
		} else {
			step = min(step, m.windowEnd)
		}
		span := float64(step.Since(m.last))
		if m.last >= m.from && m.last < m.to {
			m.busyTime += float64(m.busy) * span
			m.held1k += float64(m.held*1000) * span
			m.askedTime += float64(m.asked) * span
			m.windowBusy += float64(m.busy) * span
			m.wHeld += float64(m.held*1000) * span
			m.tenants.pass(span)
		}
		m.last = step
		if m.last == m.windowEnd {
			m.closeWindow()
		}
	}
}

func (m *account) closeWindow() {
	if m.wHeld > 0 && m.windowEnd <= m.to {
		m.peak = max(m.peak, m.windowBusy/m.wHeld)
	}
	m.windowBusy, m.wHeld = 0, 0
	m.windowEnd = m.windowEnd.Add(peakWindow)
}

func (m *account) counts(l *life) bool { return l.arrived >= m.from }

// started books how long a pod's start took; every start counts.
func (m *account) started(l *life) {
	if m.counts(l) {
		m.startsS = append(m.startsS, seconds(l.startedAt.Since(l.boundAt)))
	}
}

// hold books that a pod takes its place, or leaves it; demand that it wants one, or
// has ended.
func (m *account) hold(p *trace.Pod, sign int64) {
	m.asked += sign * int64(p.GPUDemand())
	m.tenants.of(p).used += sign * int64(p.GPUDemand())
	m.tenants.stale = true
}

func (m *account) demand(p *trace.Pod, sign int64) {
	m.tenants.of(p).demand += sign * int64(p.GPUDemand())
	m.tenants.stale = true
}

// lostToPreemption books work or restarts that an eviction makes necessary again.
func (m *account) lostToPreemption(span moment.Span, gpus quantity.MilliGPU) {
	m.lost += seconds(span) * float64(gpus) / float64(quantity.WholeGPU)
}

// ended books a job's times.
func (m *account) ended(w *work) {
	p := m.actor.podOf(w)
	for _, member := range w.lives {
		m.demand(m.actor.lives[member].pod, -1)
	}
	arrived := m.actor.lives[w.lives[0]].arrived
	if arrived < m.from {
		return
	}
	took := m.now.Since(arrived)
	m.waitsS = append(m.waitsS, seconds(w.first.Since(arrived)))
	m.jctsS = append(m.jctsS, seconds(took))
	m.tenants.ended(p, w.waited, took)
	if gpus := int((m.actor.gpus(w) + quantity.WholeGPU - 1) / quantity.WholeGPU); gpus > 0 {
		i := slices.IndexFunc(trace.SizeClasses(), func(c trace.Size) bool { return gpus <= c.Most })
		m.sizes[i].waitsS = append(m.sizes[i].waitsS, seconds(w.waited))
		m.sizes[i].jctsS = append(m.sizes[i].jctsS, seconds(took))
	}
	if p.SLA > 0 {
		m.slaDue++
		if took <= p.SLA {
			m.slaMet++
		}
	}
}

// sample adds one point to the curves.
func (m *account) sample() {
	c := float64(m.capacity)
	if c == 0 || m.now > m.to.Add(m.every) {
		return
	}
	v := m.world.View()
	fragments := 0.0
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if n.Life == cluster.LifeOff {
			continue
		}
		fragments += rivals.Fragment(v, cluster.NodeID(i), m.target)
	}
	s := meter.Sample{
		AtS: seconds(moment.Span(m.now)), ArrivedPct: 100 * float64(m.arrived) / c,
		GPUAllocPct: 100 * float64(m.asked) / c, FragPct: 100 * fragments / c, Waiting: m.waiting,
		UnservedPct: m.tenants.unservedPct(),
	}
	if m.tenants.deserved > 0 {
		s.QueueGPU = m.tenants.use()
	}
	if m.behaves {
		s.GPUBusyPct = 100 * float64(m.busy) / c
	}
	if m.now >= m.from && m.now <= m.to {
		m.fragSum += s.FragPct
		m.fragCount++
	}
	detail := m.result.Detail
	detail.Series = append(detail.Series, s)
	if m.now >= m.nextFrame {
		m.nextFrame = m.now.Add(max(moment.Span(m.to)/framesWanted, m.every))
		detail.Heat.Frames = append(detail.Heat.Frames, heatFrame(v, m.Workload, moment.Span(m.now).String()))
	}
}

// report fills in the figures of a timed run.
func (m *account) report(res *meter.Result) {
	res.Pods = len(m.Workload.Pods)
	for i := range m.actor.jobs {
		w := &m.actor.jobs[i]
		if w.ended {
			continue
		}
		res.Unfinished += len(w.lives)
		// A promise whose time is up was broken.
		if p := m.actor.podOf(w); p.Arrival >= m.from && p.SLA > 0 && m.now.Since(p.Arrival) > p.SLA {
			m.slaDue++
		}
	}
	if m.behaves && m.held1k > 0 {
		res.GPUUtilMeanPct = percent(m.busyTime, m.held1k)
		res.GPUUtilPeakPct = percent(m.peak, 1)
	}
	if time := float64(m.capacity) * float64(m.to.Since(m.from)); time > 0 {
		res.GPUAllocMeanPct = percent(m.askedTime, time)
		if m.behaves {
			res.GPUBusyPct = percent(m.busyTime, time)
		}
	}
	if m.fragCount > 0 && m.capacity > 0 {
		res.FragMeanPct = pointer(m.fragSum / float64(m.fragCount))
	}
	if m.behaves && len(m.startsS) > 0 {
		res.StartMeanS = pointer(mean(m.startsS))
	}
	if m.learner != nil && m.learner.needs.Charge > 0 && m.behaves {
		res.MemoryFailures = pointer(float64(m.actor.memoryFailures))
	}
	if m.slaDue > 0 {
		res.SLAMetPct = percent(float64(m.slaMet), float64(m.slaDue))
	}
	slices.Sort(m.waitsS)
	slices.Sort(m.jctsS)
	if len(m.jctsS) > 0 {
		res.WaitMeanS, res.WaitP99S = pointer(mean(m.waitsS)), pointer(quantile(m.waitsS, 99))
		res.JCTMeanS, res.JCTP50S, res.JCTP99S = pointer(mean(m.jctsS)), pointer(quantile(m.jctsS, 50)), pointer(quantile(m.jctsS, 99))
	}
	m.tenants.report(res)
	reportCurves(res)
	m.reportSizes(res)
	m.reportPreemption(res)
	res.Detail.WaitsS, res.Detail.JCTsS = m.waitsS, m.jctsS
}

// reportCurves gives the use of queues over time, where it is told of.
func reportCurves(res *meter.Result) {
	if len(res.Queues) == 0 {
		return
	}
	for _, s := range res.Detail.Series {
		res.SampledS = append(res.SampledS, s.AtS)
		res.UnservedPct = append(res.UnservedPct, math.Round(100*s.UnservedPct)/100)
		for i, used := range s.QueueGPU {
			res.Queues[i].UsedGPU = append(res.Queues[i].UsedGPU, used)
		}
	}
}

// reportSizes tells the times by size of job.
func (m *account) reportSizes(res *meter.Result) {
	for i, class := range trace.SizeClasses() {
		t := &m.sizes[i]
		if len(t.jctsS) == 0 {
			continue
		}
		slices.Sort(t.waitsS)
		slices.Sort(t.jctsS)
		res.Sizes = append(res.Sizes, meter.SizeWait{
			Size: class.Name, Jobs: len(t.jctsS),
			WaitMeanS: mean(t.waitsS), WaitP50S: quantile(t.waitsS, 50), WaitP99S: quantile(t.waitsS, 99),
			JCTMeanS: mean(t.jctsS), JCTP50S: quantile(t.jctsS, 50),
		})
	}
}

// reportPreemption tells what evictions cost, where jobs say what they save.
func (m *account) reportPreemption(res *meter.Result) {
	if !m.told {
		return
	}
	evictions, most := 0, 0
	for i := range m.actor.jobs {
		evictions += m.actor.jobs[i].evictions
		most = max(most, m.actor.jobs[i].evictions)
	}
	res.Jobs = pointer(float64(len(m.actor.jobs)))
	res.Evictions, res.EvictionsMost = pointer(float64(evictions)), pointer(float64(most))
	res.EvictionsPerJob = pointer(float64(evictions) / float64(len(m.actor.jobs)))
	res.PreemptedGPUH, res.LostGPUH = pointer(m.preempted/3600), pointer(m.lost/3600)
	if m.preempted > 0 {
		res.LostPerPreempted = pointer(m.lost / m.preempted)
	}
}

func seconds(s moment.Span) float64 { return float64(s) / float64(moment.Second) }

func percent(part, of float64) *float64 { return pointer(100 * part / of) }

func pointer(x float64) *float64 { return &x }

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
