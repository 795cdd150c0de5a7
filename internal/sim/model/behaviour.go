// Package model says how work behaves, and makes workloads of it.
//
// Its first half is the behaviour that the simulator asks for: StartUp and Cache
// (how long until a pod does useful work), PhaseAt (how busy it keeps a card),
// Rate (how pods on one card slow each other down) and OutOfMemory. These are
// pure functions of integers; Cache is a value that one node owns. Its second
// half is Scenario, which generates the built-in workloads from a seed.
// docs/scenarios-built-in.md gives every constant with its source or reason.
//
// It knows neither events nor policies, and leaves the clock to the simulator.
package model

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// The standard case: an inference server with the weights of a model of 8 billion
// parameters in half precision. It takes 180 s from nothing and 22 s with image
// and weights on the node.
const (
	// StandardImage is a serving image with CUDA and PyTorch.
	StandardImage quantity.Bytes = 10_000_000_000
	// StandardWeights is what 7.8 billion half-precision parameters take.
	StandardWeights quantity.Bytes = 15_600_000_000
	// StandardWarmUp loads the weights from local disk into the GPU and compiles.
	StandardWarmUp = 22 * moment.Second

	// ImageRate is bytes per second of pulling and unpacking an image. Unpacking
	// binds: 10 GB are reported to take from 40 s to several minutes.
	ImageRate quantity.Bytes = 125_000_000
	// WeightsRate is bytes per second of reading weights from an object store.
	WeightsRate quantity.Bytes = 200_000_000
)

// Cached says what of a pod is on a node already.
type Cached struct{ Image, Weights bool }

// StartUp is the time from the bind to the first useful work: the image is
// pulled, then the weights, then the pod warms up. No card is busy meanwhile.
func StartUp(u trace.Use, c Cached) moment.Span {
	span := u.WarmUp
	if !c.Image {
		span += fetch(u.Image, ImageRate)
	}
	if !c.Weights {
		span += fetch(u.Weights, WeightsRate)
	}
	return span
}

func fetch(size, perSecond quantity.Bytes) moment.Span {
	return moment.Span(quantity.MulDiv(int64(size), int64(moment.Second), int64(perSecond)))
}

// Phase is the part of a run that a pod is in.
type Phase struct {
	Busy quantity.Milli // of each of its GPUs, when it is not slowed down
	Left moment.Span    // progress until the phase ends or the run does
}

// PhaseAt is the phase of a pod after some progress. Progress is measured as run
// time alone: the run is over when it reaches the pod's Duration. A run begins
// with a load phase and alternates. A pod of unknown behaviour is as busy as its
// request allows.
func PhaseAt(p *trace.Pod, progress moment.Span) Phase {
	rest := p.Duration - progress
	u := &p.Use
	period := u.LoadPhase + u.ComputePhase
	if period == 0 {
		return Phase{Busy: quantity.Milli(p.Milli), Left: rest}
	}
	at := progress % period
	if at < u.LoadPhase {
		return Phase{Busy: u.LoadBusy, Left: min(rest, u.LoadPhase-at)}
	}
	return Phase{Busy: u.ComputeBusy, Left: min(rest, period-at)}
}

// BusyTime is how long the run of a pod, alone, keeps each of its GPUs busy, as
// full-speed time.
func BusyTime(p *trace.Pod) moment.Span {
	u := &p.Use
	period := u.LoadPhase + u.ComputePhase
	if period == 0 {
		return part(p.Duration, quantity.Milli(p.Milli))
	}
	rounds, rest := p.Duration/period, p.Duration%period
	load := rounds*u.LoadPhase + min(rest, u.LoadPhase)
	return part(load, u.LoadBusy) + part(p.Duration-load, u.ComputeBusy)
}

func part(s moment.Span, of quantity.Milli) moment.Span {
	return moment.Span(quantity.MulDiv(int64(s), int64(of), int64(quantity.One)))
}

// Penalty is what a pod loses to a busy neighbour on its card beyond the
// neighbour's share of the compute: caches, memory bandwidth, kernel launches. It
// is fitted to 330 measured pairs of training jobs on V100 (Gavel, OSDI 2020):
// root mean square error 0.18 of the speed alone, against 0.20 without a penalty
// and 0.42 if pairs are taken not to interfere at all.
const Penalty quantity.Milli = 355

// Rate is the progress of a pod per time, 1000 alone: own is its busy share at
// present, total that of all pods on the card, its own included.
//
//	rate = min(1, 1/total) × (1 − Penalty × min(1, total − own))
//
// Up to a total of one there is room for all; beyond it they share in proportion.
// A pod on several cards goes at the lowest of its rates.
func Rate(own, total quantity.Milli) quantity.Milli {
	rate := quantity.One
	if total > quantity.One {
		rate = quantity.One * quantity.One / total
	}
	others := min(max(total-own, 0), quantity.One)
	return rate * (quantity.One*quantity.One - Penalty*others) / (quantity.One * quantity.One)
}

// UsedMemory is what a pod really uses on each of its cards: what it declares,
// if more is not known.
func UsedMemory(p *trace.Pod) quantity.Bytes {
	if p.Use.GPUMemory > 0 {
		return p.Use.GPUMemory
	}
	return p.GPUMemory
}

// OutOfMemory says which pod fails when the pods on a card, oldest first, really
// use more than it has: the newest, whose allocation is the one that is refused.
// A card of unknown memory never fails.
func OutOfMemory(card quantity.Bytes, used []quantity.Bytes) (victim int, failed bool) {
	var sum quantity.Bytes
	for _, u := range used {
		sum += u
	}
	return len(used) - 1, card > 0 && sum > card
}
