package cluster

import "slices"

// Claim is a hold on devices of one node that is not a single pod's: an allocated
// ResourceClaim, which several pods may share and which may outlive them. It is a
// fact, charged whether it fits or not.
type Claim struct {
	Name   string
	Key    uint64 // hash of the name
	Node   NodeID // None in a free row
	Grants []Grant
}

// HoldClaim charges a claim, in a free row where there is one.
func (l *Ledger) HoldClaim(c Claim, reuse int32) int32 {
	id := reuse
	if reuse == None {
		id = l.Claims.grow(l.owner, c)
	} else {
		*l.Claims.own(id, l.owner, l.recording) = c
	}
	l.applyClaim(&c, +1)
	l.excuse(c.Node)
	return id
}

// DropClaim gives back what a claim holds and frees its row.
func (l *Ledger) DropClaim(id int32) {
	c := *l.Claims.At(id)
	*l.Claims.own(id, l.owner, l.recording) = Claim{Node: None}
	l.applyClaim(&c, -1)
}

// applyClaim books a claim with the given sign.
func (l *Ledger) applyClaim(c *Claim, sign int64) {
	before := *l.Node(c.Node)
	for i := range c.Grants {
		l.applyGrant(&c.Grants[i], sign)
	}
	l.restate(c.Node, &before)
}

// claimsOf lists the rows of the claims on a node.
func (v *View) claimsOf(id NodeID) []int32 {
	var out []int32
	for i := range v.Claims.Len() {
		if v.Claims.At(int32(i)).Node == id {
			out = append(out, int32(i))
		}
	}
	return out
}

// reseatClaims books claims on the node that their own has become. What was on a
// position that is gone is held no more.
func (l *Ledger) reseatClaims(rows []int32, to NodeID, old *Node) {
	n := l.Node(to)
	for _, id := range rows {
		c := l.Claims.own(id, l.owner, l.recording)
		c.Node, c.Grants = to, slices.Clone(c.Grants)
		c.Grants = slices.DeleteFunc(c.Grants, func(g Grant) bool { return int32(g.Device-old.Spec.FirstDevice) >= n.Spec.DeviceCount })
		for i := range c.Grants {
			g := &c.Grants[i]
			g.Device = n.Spec.FirstDevice + g.Device - old.Spec.FirstDevice
			if d := l.Device(g.Device).Spec; g.Profile != 0 && d.Profile(g.Profile) == nil {
				g.Profile = 0
			}
		}
		moved := *c
		l.applyClaim(&moved, +1)
	}
}
