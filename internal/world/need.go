package world

import (
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A share of a device may be charged as what runs of its kind were seen to need instead
// of what it asks for, where beliefs say so: then more of them are on one card. What is
// asked for remains what it may take while the card has it.

const (
	// runsKnown is how many runs of a kind have to have ended before its shares are
	// charged by need.
	runsKnown = 3
	// needStep rounds up what is charged of compute, so that shares stay few sizes.
	needStep = 10
	// needSpare is added to the memory that runs were seen to use, in thousandths: a
	// process that gets no more memory fails.
	needSpare = 50
)

// sized is the shape that a pod which asks for another is charged with.
func (w *World) sized(asked cluster.ShapeID, spec *cluster.PodSpec) cluster.ShapeID {
	b := w.ledger.Beliefs
	if b == nil || b.Needs == nil || b.Needs.Charge == 0 || spec.Protected || spec.Group != cluster.None || len(spec.Alternatives) > 0 {
		return asked
	}
	s := w.ledger.Shape(asked)
	need := b.Needs.Of(s.Kind)
	if !divisible(s) || need.Milli == 0 || need.Runs < runsKnown {
		return asked
	}
	r := &s.Devices[0]
	milli := (quantity.MilliGPU(quantity.MulDiv(int64(need.Milli), int64(b.Needs.Charge), int64(quantity.One))) + needStep - 1) / needStep * needStep
	memory := r.Memory
	if need.Memory > 0 {
		spare := quantity.Bytes(quantity.MulDiv(int64(need.Memory), needSpare, int64(quantity.One)))
		memory = min(memory, (need.Memory+spare+quantity.MiB-1)/quantity.MiB*quantity.MiB)
	}
	return w.resized(asked, min(r.Milli, max(milli, needStep)), memory)
}

// sizedAnew is sized for a pod that asks for something else: one that has a place keeps
// what it is charged with of its device.
func (w *World) sizedAnew(p *cluster.Pod, next *cluster.PodSpec) cluster.ShapeID {
	switch {
	case !p.Phase.Charged():
		return w.sized(next.Asked, next)
	case p.Spec.Shape == p.Spec.Asked || !reflect.DeepEqual(w.ledger.Shape(p.Spec.Asked).Devices, w.ledger.Shape(next.Asked).Devices):
		return next.Asked
	}
	held := &w.ledger.Shape(p.Spec.Shape).Devices[0]
	return w.resized(next.Asked, held.Milli, held.Memory)
}

// divisible says whether a shape asks for a share of one device and for no other.
func divisible(s *cluster.Shape) bool {
	return len(s.Devices) == 1 && s.Devices[0].Count == 1 && !s.Devices[0].Whole() && s.Devices[0].Profile == 0 && !s.Devices[0].Parts
}

// resized interns a shape with another share of its one device.
func (w *World) resized(asked cluster.ShapeID, milli quantity.MilliGPU, memory quantity.Bytes) cluster.ShapeID {
	s := *w.ledger.Shape(asked)
	if r := &s.Devices[0]; r.Milli == milli && r.Memory == memory {
		return asked
	}
	s.Key = chance.Hash(s.Key, 7, uint64(milli), uint64(memory))
	if id, known := w.shapes[s.Key]; known {
		return id
	}
	devices := []cluster.DeviceRequest{s.Devices[0]}
	devices[0].Milli, devices[0].Memory = milli, memory
	s.Devices = devices
	id := w.ledger.AddShape(s)
	w.shapes[s.Key] = id
	return id
}

// sizeWaiting charges those who wait by what is known now.
func (w *World) sizeWaiting() {
	for _, id := range w.ledger.AppendWaiting(nil) {
		spec := w.ledger.Pod(id).Spec
		if shape := w.sized(spec.Asked, spec); shape != spec.Shape {
			next := *spec
			next.Shape = shape
			w.ledger.Respecify(id, &next)
		}
	}
}

// asHeld is the shape of a pod that was charged with a share when beliefs were others.
func (w *World) asHeld(spec *cluster.PodSpec, p *Place) {
	if s := w.ledger.Shape(spec.Asked); p.Choice == 0 && divisible(s) && len(p.Grants) == 1 && p.Grants[0].Profile == "" {
		milli := p.Grants[0].Milli
		if p.Lease != nil && len(p.Lease.Lent) == 1 {
			milli += p.Lease.Lent[0]
		}
		if r := &s.Devices[0]; milli > 0 && milli <= r.Milli && p.Grants[0].Memory <= r.Memory {
			spec.Shape = w.resized(spec.Asked, milli, p.Grants[0].Memory)
		}
	}
}
