package world

import (
	"fmt"
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// A share of a device may be charged as what runs of its kind were seen to need instead
// of what it asks for, where beliefs say so: then more of them are on one card. What is
// asked for remains what it may take while the card has it.

const (
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
	if !divisible(s) || need.Milli == 0 || !b.Needs.Known(need) {
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

// Share is what a pod is charged with of its one device, where that is less than it asks
// for.
type Share struct {
	Milli  quantity.MilliGPU
	Memory quantity.Bytes
}

// shareOf is what a pod that has a place is charged with; nil where it is what it asks for.
func (w *World) shareOf(p *cluster.Pod) *Share {
	if !p.Phase.Charged() || p.Spec.Shape == p.Spec.Asked {
		return nil
	}
	r := &w.ledger.Shape(p.Spec.Shape).Devices[0]
	return &Share{Milli: r.Milli, Memory: r.Memory}
}

// charged is the shape of a pod that is charged with a share; nil: with all that it asks
// for.
func (w *World) charged(asked cluster.ShapeID, s *Share) (cluster.ShapeID, error) {
	if s == nil {
		return asked, nil
	}
	shape := w.ledger.Shape(asked)
	if !divisible(shape) {
		return asked, fmt.Errorf("share of %d milli-GPU: it does not ask for a share of one device", s.Milli)
	}
	r := &shape.Devices[0]
	if s.Milli <= 0 || s.Milli > r.Milli || s.Memory < 0 || s.Memory > r.Memory {
		return asked, fmt.Errorf("share of %d milli-GPU, memory %d: must be 1 to %d, memory 0 to %d", s.Milli, s.Memory, r.Milli, r.Memory)
	}
	return w.resized(asked, s.Milli, s.Memory), nil
}
