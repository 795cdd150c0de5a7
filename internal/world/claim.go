package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Held is a part of one device that a claim holds. With no share it keeps the device
// from being idle and takes nothing else.
type Held struct {
	Device  int32             // its position on the node
	Milli   quantity.MilliGPU // 0 to 1000
	Memory  quantity.Bytes
	Profile string
}

// ClaimAllocated says that a claim holds devices of a node, whoever allocated it and
// whether they are free or not.
type ClaimAllocated struct {
	Name string
	Node string
	Held []Held
}

func (e ClaimAllocated) apply(w *World) error {
	if _, dup := w.claims[e.Name]; dup || e.Name == "" {
		return fmt.Errorf("claim: name %q: must be new and not empty", e.Name)
	}
	id, err := w.nodeNamed(e.Node)
	if err != nil {
		return fmt.Errorf("claim %s: %w", e.Name, err)
	}
	spec := w.ledger.Node(id).Spec
	c := cluster.Claim{Name: e.Name, Key: chance.HashString(e.Name), Node: id}
	for _, h := range e.Held {
		switch {
		case h.Device < 0 || h.Device >= spec.DeviceCount:
			return fmt.Errorf("claim %s on %s: device %d: the node has %d", e.Name, e.Node, h.Device, spec.DeviceCount)
		case h.Milli < 0 || h.Milli > quantity.WholeGPU || h.Memory < 0:
			return fmt.Errorf("claim %s on %s: %d milli-GPU, memory %d: must be 0 to 1000, memory not negative", e.Name, e.Node, h.Milli, h.Memory)
		}
		g := cluster.Grant{Device: spec.FirstDevice + cluster.DeviceID(h.Device), Milli: h.Milli, Memory: h.Memory, Profile: w.Symbol(h.Profile)}
		if d := w.ledger.Device(g.Device).Spec; g.Profile != 0 && d.Profile(g.Profile) == nil {
			return fmt.Errorf("claim %s on %s: device %d: it has no profile %s", e.Name, e.Node, h.Device, h.Profile)
		}
		c.Grants = append(c.Grants, g)
	}
	reuse := int32(cluster.None)
	if n := len(w.freeClaims); n > 0 {
		reuse = w.freeClaims[n-1]
		w.freeClaims = w.freeClaims[:n-1]
	}
	w.claims[e.Name] = w.ledger.HoldClaim(c, reuse)
	return nil
}

// ClaimReleased says that a claim holds nothing any more.
type ClaimReleased struct{ Name string }

func (e ClaimReleased) apply(w *World) error {
	id, known := w.claims[e.Name]
	if !known {
		return fmt.Errorf("claim %q: no such claim", e.Name)
	}
	w.dropClaim(id)
	return nil
}

func (w *World) dropClaim(id int32) {
	delete(w.claims, w.ledger.Claims.At(id).Name)
	w.ledger.DropClaim(id)
	w.freeClaims = append(w.freeClaims, id)
}

// dropClaimsOn releases all claims of a node that goes.
func (w *World) dropClaimsOn(node cluster.NodeID) {
	for i := range w.ledger.Claims.Len() {
		if w.ledger.Claims.At(int32(i)).Node == node {
			w.dropClaim(int32(i))
		}
	}
}

// Claim says whether a claim is charged.
func (w *World) Claim(name string) bool {
	_, known := w.claims[name]
	return known
}
