package model

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// A wholeCard run is a day under the scheduling that the scenarios are measured
// against: every share is rounded up to a card, pods are tried in order of arrival
// whenever something ends, those that do not fit are passed by, and a node is
// chosen by the fewest free cards left. It is crude on purpose: no CPU, no
// memory, no models, no priorities.
type wholeCard struct {
	w          trace.Workload
	alwaysCold bool // caches hold nothing
	strict     bool // nobody passes a pod that does not fit

	free    []int
	caches  []Cache
	started []moment.Instant
	node    []int
	startUp []moment.Span
}

// A figures is what such a run comes to.
type figures struct {
	// busy is the part of the time that cards which hold work are busy; held is the
	// part of the capacity that holds work.
	busy, held float64
	// peak is the busiest ten minutes of the cluster, as a part of its capacity,
	// peakOfHeld as a part of the cards that hold work, of windows in which at least
	// half do.
	peak, peakOfHeld float64
	start, wait      float64 // means, seconds
	waitP99, jctP99  float64 // seconds
	cold             float64 // part of the starts that fetch
	slaMet           float64
	offered          [24]float64 // whole cards asked for in each hour, over capacity
}

func (r *wholeCard) run() {
	n := len(r.w.Pods)
	r.started, r.node, r.startUp = make([]moment.Instant, n), make([]int, n), make([]moment.Span, n)
	for i := range r.w.Nodes {
		r.free = append(r.free, r.w.Nodes[i].GPUs)
		r.caches = append(r.caches, NewCache(NodeCache))
	}
	var waiting, running []int
	next := 0
	for next < n || len(running) > 0 {
		now := moment.Never
		if next < n {
			now = r.w.Pods[next].Arrival
		}
		for _, p := range running {
			now = min(now, r.end(p))
		}
		running = slices.DeleteFunc(running, func(p int) bool {
			if r.end(p) > now {
				return false
			}
			r.free[r.node[p]] += r.w.Pods[p].GPUs
			return true
		})
		for ; next < n && r.w.Pods[next].Arrival <= now; next++ {
			waiting = append(waiting, next)
		}
		blocked := false
		waiting = slices.DeleteFunc(waiting, func(p int) bool {
			if blocked || !r.place(p, now) {
				blocked = blocked || r.strict
				return false
			}
			running = append(running, p)
			return true
		})
	}
}

func (r *wholeCard) end(p int) moment.Instant {
	return r.started[p].Add(r.startUp[p] + r.w.Pods[p].Duration)
}

func (r *wholeCard) place(p int, now moment.Instant) bool {
	pod, best := &r.w.Pods[p], -1
	for i, free := range r.free {
		if free >= pod.GPUs && (best < 0 || free < r.free[best]) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	cached := r.caches[best].Holds(pod)
	if r.alwaysCold {
		cached = Cached{}
	}
	r.caches[best].Use(pod)
	r.free[best] -= pod.GPUs
	r.started[p], r.node[p], r.startUp[p] = now, best, StartUp(pod.Use, cached)
	return true
}

const window = 10 * moment.Minute

func (r *wholeCard) figures() figures {
	var f figures
	var waits, jcts []float64
	cards := r.w.GPUCapacity() / 1000
	windows := int(2 * moment.Day / window)
	busyIn, heldIn := make([]float64, windows), make([]float64, windows)
	var busy, held, counted, colds, met float64
	for p := range r.w.Pods {
		pod := &r.w.Pods[p]
		gpus := float64(pod.GPUs)
		hour := min(23, int(pod.Arrival/moment.Instant(moment.Hour)))
		f.offered[hour] += gpus * float64(StartUp(pod.Use, Cached{})+pod.Duration) / float64(moment.Hour) / float64(cards)
		begin := r.started[p].Add(r.startUp[p])
		spread(heldIn, gpus, r.started[p], r.end(p))
		for progress := moment.Span(0); progress < pod.Duration; {
			phase := PhaseAt(pod, progress)
			spread(busyIn, gpus*float64(phase.Busy)/1000, begin.Add(progress), begin.Add(progress+phase.Left))
			progress += phase.Left
		}
		if pod.Arrival < moment.Instant(r.w.WarmUp) {
			continue
		}
		counted++
		held += gpus * float64(r.startUp[p]+pod.Duration)
		busy += gpus * float64(BusyTime(pod))
		f.start += float64(r.startUp[p]) / 1e6
		if r.startUp[p] > pod.Use.WarmUp {
			colds++
		}
		jct := r.end(p).Since(pod.Arrival)
		if jct <= pod.SLA {
			met++
		}
		waits = append(waits, float64(r.started[p].Since(pod.Arrival))/1e6)
		jcts = append(jcts, float64(jct)/1e6)
	}
	for i := range busyIn {
		f.peak = max(f.peak, busyIn[i]/float64(cards))
		if heldIn[i] > float64(cards)/2 {
			f.peakOfHeld = max(f.peakOfHeld, busyIn[i]/heldIn[i])
		}
	}
	for _, h := range heldIn[6:144] {
		f.held += h / float64(cards) / 138
	}
	slices.Sort(waits)
	slices.Sort(jcts)
	for _, w := range waits {
		f.wait += w / counted
	}
	f.busy, f.start, f.cold, f.slaMet = busy/held, f.start/counted, colds/counted, met/counted
	f.waitP99, f.jctP99 = waits[len(waits)*99/100], jcts[len(jcts)*99/100]
	return f
}

// spread adds an amount of cards over a span of time to the windows.
func spread(in []float64, cards float64, from, to moment.Instant) {
	for from < to {
		i := int(from / moment.Instant(window))
		if i >= len(in) {
			return
		}
		end := min(to, moment.Instant(i+1)*moment.Instant(window))
		in[i] += cards * float64(end.Since(from)) / float64(window)
		from = end
	}
}
