package sim

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals"
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
}

func newAccount(c *clock) *account {
	m := &account{clock: c, from: moment.Instant(c.Workload.WarmUp)}
	for i := range c.Workload.Pods {
		m.behaves = m.behaves || behaves(&c.Workload.Pods[i])
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

// ended books a pod's times.
func (m *account) ended(l *life) {
	if !m.counts(l) {
		return
	}
	m.waitsS = append(m.waitsS, seconds(l.firstBound.Since(l.arrived)))
	m.jctsS = append(m.jctsS, seconds(l.endedAt.Since(l.arrived)))
	if l.pod.SLA > 0 {
		m.slaDue++
		if l.endedAt.Since(l.arrived) <= l.pod.SLA {
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
	for i := range m.actor.lives {
		l := &m.actor.lives[i]
		if l.state == ended {
			continue
		}
		res.Unfinished++
		// A promise whose time is up was broken.
		if m.counts(l) && l.pod.SLA > 0 && m.now.Since(l.pod.Arrival) > l.pod.SLA {
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
	if m.slaDue > 0 {
		res.SLAMetPct = percent(float64(m.slaMet), float64(m.slaDue))
	}
	slices.Sort(m.waitsS)
	slices.Sort(m.jctsS)
	if len(m.jctsS) > 0 {
		res.WaitMeanS, res.WaitP99S = pointer(mean(m.waitsS)), pointer(quantile(m.waitsS, 99))
		res.JCTMeanS, res.JCTP99S = pointer(mean(m.jctsS)), pointer(quantile(m.jctsS, 99))
	}
	res.Detail.WaitsS, res.Detail.JCTsS = m.waitsS, m.jctsS
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
