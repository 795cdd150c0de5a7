package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// PodFound says that a known pod is bound to a node, whoever bound it and whether
// it fits there or not. It is charged there from now on, wherever it stood before;
// a decision under way for it is over.
type PodFound struct {
	Name string
	Node string
	// Devices are the positions of those it holds, in the order of its requests.
	// Empty: nobody knows, and some are presumed.
	Devices []int32
	// GoneBy is, of a pod that was said to be in room reserved for others from then on,
	// when that is.
	GoneBy moment.Instant `json:",omitempty"`
}

func (e PodFound) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	node, err := w.nodeNamed(e.Node)
	if err != nil {
		return fmt.Errorf("pod %s: %w", e.Name, err)
	}
	p := w.ledger.Pod(id)
	if e.GoneBy < 0 {
		return fmt.Errorf("pod %s on %s: gone by %v: must not be negative", e.Name, e.Node, e.GoneBy)
	}
	spec := *p.Spec
	if !p.Phase.Charged() {
		spec.Shape = spec.Asked // who bound it gave it all
	}
	place := cluster.Placement{Node: node, Shape: spec.Shape, Identity: cluster.IdentityPresumed}
	if len(e.Devices) > 0 {
		if place.Grants, err = w.held(&e, w.ledger.Shape(place.Shape), w.ledger.Node(node)); err != nil {
			return fmt.Errorf("pod %s on %s: %w", e.Name, e.Node, err)
		}
		place.Identity = cluster.IdentityObserved
	}
	if spec.Shape != p.Spec.Shape {
		w.ledger.Respecify(id, &spec)
		p = w.ledger.Pod(id)
	}
	phase := cluster.PhaseBound
	if p.Phase.Charged() {
		if p.Phase == cluster.PhaseTerminating && p.Placement.Node == node {
			phase = cluster.PhaseTerminating
		}
		w.ledger.Discharge(id, cluster.PhaseHeld)
	}
	if in := w.intentOf(id, cluster.ActionResize); in != nil {
		defer w.stays(in.ID) // found with all it asks for, it lends nothing
	}
	if phase != cluster.PhaseTerminating {
		w.dropIntent(id)
	}
	if place.Grants == nil {
		place.Grants = fit.Presume(&w.ledger.View, w.ledger.Shape(place.Shape), w.ledger.Node(node))
	}
	w.ledger.SetRefused(id, cluster.Refusals{})
	w.ledger.ChargeFound(id, place, phase)
	row := w.ledger.EditPod(id)
	row.Bound, row.Started, row.GoneBy = w.now, 0, e.GoneBy
	return nil
}

// held turns positions into grants.
func (w *World) held(e *PodFound, s *cluster.Shape, n *cluster.Node) ([]cluster.Grant, error) {
	if len(e.Devices) != int(s.DeviceCount()) {
		return nil, fmt.Errorf("%d devices: it asks for %d", len(e.Devices), s.DeviceCount())
	}
	var grants []cluster.Grant
	for i := range s.Devices {
		for range s.Devices[i].Count {
			position := e.Devices[len(grants)]
			if position < 0 || position >= n.Spec.DeviceCount {
				return nil, fmt.Errorf("device %d: the node has %d", position, n.Spec.DeviceCount)
			}
			device := n.Spec.FirstDevice + cluster.DeviceID(position)
			d := w.ledger.Device(device)
			if s.Devices[i].Profile != 0 && d.Spec.Profile(s.Devices[i].Profile) == nil {
				return nil, fmt.Errorf("device %d: it has no profile %s", position, w.ledger.Symbols.Text(s.Devices[i].Profile))
			}
			grants = append(grants, fit.GrantOf(&w.ledger.View, d, device, &s.Devices[i]))
		}
	}
	return grants, nil
}

// NodeChanged replaces what is known of a node: its size, labels, taints, devices.
// Its pods stay, even if they do not fit any more. Devices keep their positions.
type NodeChanged struct{ NodeAdded }

func (e NodeChanged) apply(w *World) error {
	id, err := w.nodeNamed(e.Name)
	if err != nil {
		return err
	}
	if err := e.validate(w); err != nil {
		return fmt.Errorf("node %s: %w", e.Name, err)
	}
	for _, pod := range w.ledger.Node(id).Pods {
		w.withdrawResize(pod)
	}
	w.bringBack(id)
	keep := w.setKeptAside(id)
	spec, devices := w.nodeSpec(&e.NodeAdded)
	before, reuse := w.ledger.Node(id).Spec.DeviceCount, cluster.NodeID(cluster.None)
	if int(before) != len(devices) {
		reuse = w.freeNode(len(devices))
		w.freeNodes[before] = append(w.freeNodes[before], id)
	}
	w.nodes[e.Name] = w.ledger.ChangeNode(id, spec, devices, e.Life, reuse, func(s *cluster.Shape, n *cluster.Node) []cluster.Grant {
		return fit.Presume(&w.ledger.View, s, n)
	})
	keep(w.nodes[e.Name] == id)
	return nil
}
