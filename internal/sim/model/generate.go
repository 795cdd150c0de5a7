package model

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// warmUp is the first part of the day, in which the cluster fills.
const warmUp = moment.Hour

// between is a range, both ends included.
type between struct{ from, to int64 }

func (b between) draw(c *chance.Source) int64 { return b.from + c.Below(b.to-b.from+1) }

// gb is a size in units of 1e9 bytes, as images and weights are named.
const gb = 1_000_000_000

// A family is work that resembles each other: many kinds (models, teams) of one
// sort. What a kind is like is drawn once from the name of the kind; what a run is
// like is drawn for each.
type family struct {
	name     string
	queue    string
	priority int32
	kinds    int64   // how many; low numbers are the popular ones
	parts    int64   // of the arrivals
	hours    profile // when it arrives

	// What a kind declares.
	gpus      int
	milli     between // share, in steps of 50; {1000, 1000} is whole cards
	gpuMemory between // GiB on each GPU
	cpu       between // cores for each GPU, or for the pod without GPU
	memory    between // GiB for each GPU, or for the pod
	models    []string
	service   bool // what answers requests: one may come in place of another

	// What a kind really does, in thousandths of what it declares.
	usesMemory    between
	load, compute between // busy share in the phases
	loadPhase     between // seconds
	computePhase  between // seconds
	image         between // GB
	weights       between // GB
	warmUp        between // seconds

	// What a run is like: quarters of the runs are shorter than each of these.
	run [5]moment.Span
	// SLA = sla times the run / 1000 + slack; no promise if both are 0.
	sla   int64
	slack moment.Span

	// at, if not empty, gives the instants of the runs in place of hours and parts.
	at []moment.Span
}

// A profile gives the arrivals of each hour of the day, relative to each other.
type profile [24]int64

// office is interactive and submitted work: a plateau from 9 to 18 h with a dent
// at noon, and a tenth of it at the quietest hour of the night.
func office() profile {
	return profile{
		320, 240, 160, 100, 80, 120, 260, 450, 700, 950, 1000, 1000,
		900, 950, 1000, 1000, 1000, 950, 800, 650, 550, 480, 420, 360,
	}
}

// flat is work that pipelines submit, less of it at night.
func flat() profile {
	return profile{
		800, 700, 500, 300, 300, 400, 700, 900, 1000, 1000, 1000, 1000,
		1000, 1000, 1000, 1000, 1000, 1000, 1000, 900, 900, 900, 800, 800,
	}
}

func (p profile) draw(c *chance.Source) moment.Instant {
	var sum int64
	for _, n := range p {
		sum += n
	}
	at := c.Below(sum)
	for hour, n := range p {
		if at < n {
			return moment.Instant(hour)*moment.Instant(moment.Hour) + moment.Instant(c.Below(int64(moment.Hour)))
		}
		at -= n
	}
	panic(fmt.Sprintf("model: drew %d of %d", at, sum))
}

// generate draws the pods of a day in order of arrival.
func generate(s scenario, seed int64) []trace.Pod {
	work := s.work()
	random := chance.New(seed)
	var parts int64
	for _, f := range work {
		parts += f.parts
	}
	type arrival struct {
		at     moment.Instant
		family int
		number int // of the draw
	}
	var arrivals []arrival
	for range s.pods {
		at, i := random.Below(parts), 0
		for at >= work[i].parts {
			at -= work[i].parts
			i++
		}
		arrivals = append(arrivals, arrival{work[i].hours.draw(random), i, len(arrivals)})
	}
	for i, f := range work {
		for _, at := range f.at {
			arrivals = append(arrivals, arrival{moment.Instant(at), i, len(arrivals)})
		}
	}
	slices.SortFunc(arrivals, func(a, b arrival) int {
		if a.at != b.at {
			return int(max(-1, min(1, a.at.Since(b.at))))
		}
		return a.number - b.number
	})
	pods := make([]trace.Pod, len(arrivals))
	for n, a := range arrivals {
		pods[n] = work[a.family].pod(n, a.at, random)
	}
	return pods
}

// popular draws a kind, the first ones most often: the chance of number n is in
// proportion to 1/(n+4), so that the first of 24 comes five times as often as
// the last.
func (f *family) popular(random *chance.Source) int64 {
	const scale = 1_000_000
	var sum int64
	for n := range f.kinds {
		sum += scale / (n + 4)
	}
	at := random.Below(sum)
	for n := range f.kinds {
		if at < scale/(n+4) {
			return n
		}
		at -= scale / (n + 4)
	}
	return f.kinds - 1
}

func (f *family) pod(number int, at moment.Instant, random *chance.Source) trace.Pod {
	kind := fmt.Sprintf("%s-%02d", f.name, f.popular(random))
	p := f.kind(kind)
	p.Name = fmt.Sprintf("%s-%05d", f.name, number)
	p.Arrival = at
	quarter := random.Below(4)
	p.Duration = f.run[quarter] + moment.Span(random.Below(int64(f.run[quarter+1]-f.run[quarter])+1))
	p.SLA = moment.Span(quantity.MulDiv(int64(p.Duration), f.sla, 1000)) + f.slack
	return p
}

// kind draws what all runs of a kind have in common, from its name alone.
func (f *family) kind(name string) trace.Pod {
	c := chance.New(int64(chance.HashString(name)))
	each := int64(max(f.gpus, 1))
	p := trace.Pod{
		Kind: name, Queue: f.queue, Priority: f.priority,
		CPU:    quantity.MilliCPU(f.cpu.draw(c) * each * 1000),
		Memory: quantity.Bytes(f.memory.draw(c)*each) * quantity.GiB,
		GPUs:   f.gpus, Models: f.models, Service: f.service,
	}
	if f.gpus > 0 {
		p.Milli = quantity.MilliGPU(f.milli.draw(c)+25) / 50 * 50
		p.GPUMemory = quantity.Bytes(f.gpuMemory.draw(c)) * quantity.GiB
		p.Use.GPUMemory = p.GPUMemory / 1000 * quantity.Bytes(f.usesMemory.draw(c))
		p.Use.LoadBusy = quantity.Milli(int64(p.Milli) * f.load.draw(c) / 1000)
		p.Use.ComputeBusy = quantity.Milli(int64(p.Milli) * f.compute.draw(c) / 1000)
		p.Use.LoadPhase = moment.Span(f.loadPhase.draw(c)) * moment.Second
		p.Use.ComputePhase = moment.Span(f.computePhase.draw(c)) * moment.Second
	}
	p.Use.Image = quantity.Bytes(f.image.draw(c)) * gb
	p.Use.Weights = quantity.Bytes(f.weights.draw(c)) * gb
	p.Use.WarmUp = moment.Span(f.warmUp.draw(c)) * moment.Second
	return p
}

func minutes(least, quarter, median, threeQuarters, most moment.Span) [5]moment.Span {
	return [5]moment.Span{
		least * moment.Minute, quarter * moment.Minute, median * moment.Minute, threeQuarters * moment.Minute, most * moment.Minute,
	}
}
