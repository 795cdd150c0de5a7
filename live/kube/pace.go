package kube

import (
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/rivals"
)

// paceBeats is over how many beats a rate is taken: ten seconds.
const paceBeats = 10

// pace is how fast decisions were made lately.
type pace struct {
	at    [paceBeats + 1]time.Time
	count [paceBeats + 1]uint64
	next  int
}

// beat takes a count down and returns the rate per second since the oldest one.
func (p *pace) beat(now time.Time, count uint64) float64 {
	p.at[p.next], p.count[p.next] = now, count
	p.next = (p.next + 1) % len(p.at)
	oldest := p.next
	if p.at[oldest].IsZero() {
		oldest = 0
	}
	span := now.Sub(p.at[oldest]).Seconds()
	if span <= 0 {
		return 0
	}
	return float64(count-p.count[oldest]) / span
}

// fragmentation is the part of all GPUs that is free and of no use to the
// expected demand, as the fragmentation study counts it (package rivals); nil
// where nothing is expected or there is no GPU.
func (b *books) fragmentation() *float64 {
	if b.beliefs.Demand == nil {
		return nil
	}
	v := b.world.View()
	var typical []rivals.Typical
	weights := int64(0)
	for _, row := range b.beliefs.Demand.Rows {
		weights += row.Weight
	}
	for _, row := range b.beliefs.Demand.Rows {
		s := v.Shape(row.Shape)
		t := rivals.Typical{CPU: s.Need.At(cluster.DimCPU), Share: float64(row.Weight) / float64(max(weights, 1))}
		if len(s.Devices) > 0 {
			r := &s.Devices[0]
			t.Count, t.Milli, t.Models = int64(r.Count), int64(r.Milli), r.Models
		}
		typical = append(typical, t)
	}
	lost, milli := 0.0, 0.0
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if n.Life == cluster.LifeOff {
			continue
		}
		milli += 1000 * float64(n.Spec.DeviceCount)
		lost += rivals.Fragment(v, cluster.NodeID(i), typical)
	}
	if milli == 0 {
		return nil
	}
	part := lost / milli
	return &part
}
