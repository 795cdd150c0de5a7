package sim

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// tenants follows what queues deserve, want and use. A queue is entitled to what it
// deserves as far as it wants it; what it has less is not served.
type tenants struct {
	byName   map[string]int32
	list     []tenant
	deserved int64 // of all, milli-GPU
	stale    bool
	unserved int64 // of all now, milli-GPU

	time float64 // microseconds counted
	sum  float64 // milli-GPU × microseconds not served
	most int64
}

type tenant struct {
	name                   string
	deserved, used, demand int64 // milli-GPU; demand is what its jobs that have not ended ask for
	unserved               int64

	usedTime, demandTime, unservedTime float64 // milli-GPU × microseconds
	jobs                               int
	waitS, jctS                        float64
}

func newTenants(load *trace.Workload) tenants {
	t := tenants{byName: make(map[string]int32), stale: true}
	for _, q := range load.Queues {
		t.add(q.Name, int64(q.Deserved))
	}
	for i := range load.Pods {
		if _, known := t.byName[load.Pods[i].Queue]; !known {
			t.add(load.Pods[i].Queue, 0)
		}
	}
	return t
}

func (t *tenants) add(name string, deserved int64) {
	t.byName[name] = int32(len(t.list))
	t.list = append(t.list, tenant{name: name, deserved: deserved})
	t.deserved += deserved
}

func (t *tenants) of(p *trace.Pod) *tenant { return &t.list[t.byName[p.Queue]] }

// recount brings up to date what is not served now.
func (t *tenants) recount() {
	if !t.stale || t.deserved == 0 {
		return
	}
	t.stale, t.unserved = false, 0
	for i := range t.list {
		q := &t.list[i]
		q.unserved = max(min(q.demand, q.deserved)-q.used, 0)
		t.unserved += q.unserved
	}
}

// pass counts a span in which nothing changes.
func (t *tenants) pass(span float64) {
	if t.deserved == 0 {
		return
	}
	t.recount()
	t.time += span
	t.sum += float64(t.unserved) * span
	t.most = max(t.most, t.unserved)
	for i := range t.list {
		q := &t.list[i]
		q.usedTime += float64(q.used) * span
		q.demandTime += float64(q.demand) * span
		q.unservedTime += float64(q.unserved) * span
	}
}

// unservedPct is the part of what queues deserve that they want and do not have.
func (t *tenants) unservedPct() float64 {
	if t.deserved == 0 {
		return 0
	}
	t.recount()
	return 100 * float64(t.unserved) / float64(t.deserved)
}

// ended books the times of a job.
func (t *tenants) ended(p *trace.Pod, wait, jct moment.Span) {
	q := t.of(p)
	q.jobs++
	q.waitS += seconds(wait)
	q.jctS += seconds(jct)
}

func (t *tenants) use() []float64 {
	out := make([]float64, len(t.list))
	for i := range t.list {
		out[i] = float64(t.list[i].used) / 1000
	}
	return out
}

// report fills in the figures, where some queue deserves anything.
func (t *tenants) report(res *meter.Result) {
	if t.deserved == 0 || t.time == 0 {
		return
	}
	res.UnservedMeanPct = percent(t.sum, t.time*float64(t.deserved))
	res.UnservedMaxPct = percent(float64(t.most), float64(t.deserved))
	gpus := func(milliTime float64) float64 { return milliTime / t.time / 1000 }
	for i := range t.list {
		q := &t.list[i]
		out := meter.QueueUse{
			Queue: q.name, DeservedGPU: float64(q.deserved) / 1000, UsedMeanGPU: gpus(q.usedTime),
			DemandMeanGPU: gpus(q.demandTime), UnservedMeanGPU: gpus(q.unservedTime), Jobs: q.jobs,
		}
		if q.jobs > 0 {
			out.WaitMeanS, out.JCTMeanS = pointer(q.waitS/float64(q.jobs)), pointer(q.jctS/float64(q.jobs))
		}
		res.Queues = append(res.Queues, out)
	}
}
