package world

import (
	"fmt"
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// PodChanged says what a pod is from now on, of what may change while it is there. One
// that waits may ask for anything else; one that has a place, for other CPU and memory
// of its node: it gets them, whether there is room or not, since the kubelet said so.
// Labels have an event of their own.
type PodChanged struct {
	Name         string
	Priority     int32
	SLATotal     moment.Span
	Expected     moment.Span
	Protected    bool
	PreemptNever bool
	Request      Request
	Alternatives []Request
}

// Change is what a pod that is added could become another of.
func (e PodAdded) Change() PodChanged {
	return PodChanged{
		Name: e.Name, Priority: e.Priority, SLATotal: e.SLATotal, Expected: e.Expected, Protected: e.Protected, PreemptNever: e.PreemptNever,
		Request: e.Request, Alternatives: e.Alternatives,
	}
}

func (e PodChanged) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	if e.SLATotal < 0 || e.Expected < 0 {
		return fmt.Errorf("pod %s: SLA %v, expected %v: must not be negative", e.Name, e.SLATotal, e.Expected)
	}
	for _, r := range append([]Request{e.Request}, e.Alternatives...) {
		if err := r.validate(); err != nil {
			return fmt.Errorf("pod %s: %w", e.Name, err)
		}
	}
	p := w.ledger.Pod(id)
	spec := *p.Spec
	kind := w.interner.Symbols().Text(w.ledger.Shape(spec.Shape).Kind)
	spec.Asked, spec.Alternatives = w.shape(&e.Request, kind), nil
	for i := range e.Alternatives {
		spec.Alternatives = append(spec.Alternatives, w.shape(&e.Alternatives[i], kind))
	}
	own := &spec.Own
	own.Priority, own.SLATotal, own.Expected, own.Protected = e.Priority, e.SLATotal, e.Expected, e.Protected
	w.inherit(&spec)
	spec.Shape = w.sizedAnew(p, &spec)
	if p.Phase.Charged() && p.Placement.Shape != p.Spec.Shape && !spec.AsksFor(p.Placement.Shape) {
		return fmt.Errorf("pod %s: request: alternatives: it runs as one that would be gone", e.Name)
	}
	reshaped := p.Phase.Charged() && spec.Shape != p.Spec.Shape
	if reshaped {
		if err := w.mayReshape(p, spec.Shape); err != nil {
			return fmt.Errorf("pod %s: %w", e.Name, err)
		}
	}
	spec.PreemptNever = e.PreemptNever
	if p.Phase.Charged() {
		spec.Queue = p.Spec.Queue
	}
	if reshaped {
		w.withdrawResize(id)
		w.withdrawReplace(id)
	}
	w.ledger.Respecify(id, &spec)
	if reshaped {
		w.ledger.Reshape(id, spec.Shape)
	}
	if t := w.targetOf(id); t != nil && !spec.AsksFor(t.Place.Shape) {
		w.ledger.Unkeep(p.Intent) // it would not take that any more
	}
	w.ledger.SetRefused(id, cluster.Refusals{}) // what was refused may pass now
	return nil
}

// mayReshape says whether a pod that has a place may take what another shape asks for.
func (w *World) mayReshape(p *cluster.Pod, to cluster.ShapeID) error {
	old, next := w.ledger.Shape(p.Spec.Shape), w.ledger.Shape(to)
	switch {
	case p.Phase == cluster.PhasePlacing:
		return fmt.Errorf("request: it is %v: what it asks for cannot change before it is bound", p.Phase)
	case p.Placement.Shape != p.Spec.Shape:
		return fmt.Errorf("request: it runs as one of its alternatives: what it asks for cannot change")
	case !reflect.DeepEqual(old.Devices, next.Devices):
		return fmt.Errorf("request: devices: it is %v: only CPU and memory can change", p.Phase)
	case !reflect.DeepEqual(old.Selector, next.Selector):
		return fmt.Errorf("request: selector: it is %v: only CPU and memory can change", p.Phase)
	}
	for d := cluster.DimMemory + 1; d < max(old.Need.Dims(), next.Need.Dims()); d++ {
		if old.Need.At(d) != next.Need.At(d) {
			return fmt.Errorf("request: %s: it is %v: only CPU and memory can change", w.ledger.DimName(d), p.Phase)
		}
	}
	return nil
}
