package fit

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// Bonds is what the pods on all nodes come to for pods of one kin that ask for
// one shape: how many of each crowd are in each domain. It follows nodes as they
// change, so that Check needs to look at one node alone.
//
// The rules are those of Kubernetes 1.37: terminating pods count for affinity and
// anti-affinity and not for spread; a pod that belongs to the crowd it must be
// near to may be the first of it.
type Bonds struct {
	kin   cluster.KinID
	shape cluster.ShapeID
	// near, apart and spread are parallel to what the kin asks for; shun has a
	// strand per topology that placed pods keep this kin out of, sorted by it.
	near, apart, spread, shun []strand
	seen                      []sight
	version                   uint64
}

// sight is what a node was when it was counted. Specs and companies never change
// in place, so equal pointers say that nothing has.
type sight struct {
	spec    *cluster.NodeSpec
	company *cluster.Company
	present bool // there already and still, ready or not
}

// NewBonds counts over all nodes of the view.
func NewBonds(v *cluster.View, kin cluster.KinID, shape cluster.ShapeID) *Bonds {
	k := v.Kin(kin)
	b := &Bonds{kin: kin, shape: shape}
	for _, topology := range k.Near.Topologies {
		b.near = append(b.near, newStrand(topology))
	}
	for i := range k.Apart {
		b.apart = append(b.apart, newStrand(k.Apart[i].Topology))
	}
	for i := range k.Spread {
		b.spread = append(b.spread, newStrand(k.Spread[i].Topology))
	}
	b.FollowAll(v)
	return b
}

// Version rises whenever a node is counted anew.
func (b *Bonds) Version() uint64 { return b.version }

// FollowAll counts every node that is not what it was, or is not there any more.
func (b *Bonds) FollowAll(v *cluster.View) {
	for i := v.Nodes.Len(); i < len(b.seen); i++ {
		before := b.seen[i]
		b.seen[i] = sight{}
		b.book(v, before, -1)
	}
	for i := range v.Nodes.Len() {
		b.Follow(v, cluster.NodeID(i))
	}
}

// Follow counts a node anew if it is not what it was.
func (b *Bonds) Follow(v *cluster.View, node cluster.NodeID) {
	if int(node) >= v.Nodes.Len() {
		return
	}
	for int(node) >= len(b.seen) {
		b.seen = append(b.seen, sight{})
	}
	n := v.Node(node)
	now := sight{spec: n.Spec, company: n.Company}
	switch n.Life {
	case cluster.LifeOff:
		now = sight{}
	case cluster.LifeReady, cluster.LifeDraining, cluster.LifeReclaimed:
		now.present = true
	}
	if b.seen[node] == now {
		return
	}
	before := b.seen[node]
	b.seen[node] = sight{}
	b.book(v, before, -1)
	b.book(v, now, +1)
	b.seen[node] = now
	b.version++
}

// book adds what a node counts for, or takes it away.
func (b *Bonds) book(v *cluster.View, s sight, sign int32) {
	if s.spec == nil {
		return
	}
	k, nodes := v.Kin(b.kin), int32(0)
	if s.present {
		nodes = sign
	}
	if len(b.near) > 0 {
		heads := s.company.Count(k.Near.Crowd)
		count := heads.All - heads.Coming
		for i := range b.near {
			b.near[i].book(s.spec, nodes, sign*count)
		}
	}
	for i := range b.apart {
		b.apart[i].book(s.spec, nodes, sign*s.company.Count(k.Apart[i].Crowd).All)
	}
	if s.company != nil {
		for i := range s.company.Apart {
			if g := &s.company.Apart[i]; k.In(g.Crowd) {
				b.shunned(g.Topology).book(s.spec, 0, sign*g.Count)
			}
		}
	}
	for i := range b.shun {
		b.shun[i].book(s.spec, nodes, 0)
	}
	if s.present {
		b.bookSpread(v, k, s, sign)
	}
}

// shunned returns the strand of a topology that placed pods keep the kin out of. A
// new one learns which nodes there are.
func (b *Bonds) shunned(topology cluster.Symbol) *strand {
	i, found := slices.BinarySearchFunc(b.shun, topology, func(s strand, t cluster.Symbol) int { return cmp.Compare(s.topology, t) })
	if !found {
		b.shun = slices.Insert(b.shun, i, newStrand(topology))
		for k := range b.seen {
			if s := &b.seen[k]; s.present {
				b.shun[i].book(s.spec, 1, 0)
			}
		}
	}
	return &b.shun[i]
}

// bookSpread counts a node for each spread that it is eligible for: it has all the
// labels that spreads go by, and the policies do not leave it out.
func (b *Bonds) bookSpread(v *cluster.View, k *cluster.Kin, s sight, sign int32) {
	for i := range k.Spread {
		if _, has := s.spec.Label(k.Spread[i].Topology); !has {
			return
		}
	}
	shape := v.Shape(b.shape)
	for i := range k.Spread {
		rule := &k.Spread[i]
		if !rule.AllNodes && !affine(v, shape, s.spec) || rule.Taints && !tolerated(shape, s.spec) {
			continue
		}
		b.spread[i].book(s.spec, sign, sign*s.company.Count(rule.Crowd).Staying)
	}
}

// Check says which relation to other pods keeps the kin off the node. The zero
// Reason means that none does.
func (b *Bonds) Check(v *cluster.View, node cluster.NodeID) decision.Reason {
	k, n := v.Kin(b.kin), v.Node(node)
	if topology, lacks := lackedLabel(k, n.Spec); lacks {
		return decision.Reason{Code: decision.TopologyLabel, About: topology}
	}
	if r := b.checkNear(k, n); !r.None() {
		return r
	}
	if r := checkPorts(k, n); !r.None() {
		return r
	}
	for i := range b.apart {
		if s := &b.apart[i]; s.at(n.Spec) > 0 {
			return decision.Reason{Code: decision.PodAntiAffinity, Need: int64(s.inhabited), Have: int64(s.filled), About: k.Apart[i].Text}
		}
	}
	for i := range b.shun {
		if s := &b.shun[i]; s.at(n.Spec) > 0 {
			return decision.Reason{Code: decision.PodShunned, Need: int64(s.inhabited), Have: int64(s.filled), About: s.topology}
		}
	}
	return b.checkSpread(k, n)
}

// lackedLabel returns a label that the kin's place must have and the node has not.
func lackedLabel(k *cluster.Kin, spec *cluster.NodeSpec) (cluster.Symbol, bool) {
	for _, topology := range k.Near.Topologies {
		if _, has := spec.Label(topology); !has {
			return topology, true
		}
	}
	for i := range k.Spread {
		if _, has := spec.Label(k.Spread[i].Topology); !has {
			return k.Spread[i].Topology, true
		}
	}
	return 0, false
}

func (b *Bonds) checkNear(k *cluster.Kin, n *cluster.Node) decision.Reason {
	all, none := true, true
	for i := range b.near {
		all = all && b.near[i].at(n.Spec) > 0
		none = none && b.near[i].filled == 0
	}
	if all || none && k.In(k.Near.Crowd) {
		return decision.Reason{}
	}
	first := slices.IndexFunc(b.near, func(s strand) bool { return s.at(n.Spec) == 0 })
	lacking := &b.near[max(first, 0)]
	return decision.Reason{Code: decision.PodAffinity, Need: int64(lacking.inhabited), Have: int64(lacking.filled), About: k.Near.Text}
}

func checkPorts(k *cluster.Kin, n *cluster.Node) decision.Reason {
	if n.Company == nil {
		return decision.Reason{}
	}
	for _, want := range k.Ports {
		for _, taken := range n.Company.Ports {
			if want.Conflicts(taken) {
				return decision.Reason{Code: decision.NodePorts, Need: int64(want.Number)}
			}
		}
	}
	return decision.Reason{}
}

// checkSpread compares the node's domain, with the pod in it, to the one that has
// the fewest.
func (b *Bonds) checkSpread(k *cluster.Kin, n *cluster.Node) decision.Reason {
	for i := range k.Spread {
		rule, s := &k.Spread[i], &b.spread[i]
		fewest := int32(0)
		if s.inhabited > 0 && s.inhabited >= rule.MinDomains {
			fewest = s.fewest()
		}
		skew := s.at(n.Spec) - fewest
		if rule.Self {
			skew++
		}
		if skew > rule.MaxSkew {
			return decision.Reason{Code: decision.TopologySpread, Need: int64(rule.MaxSkew), Have: int64(rule.MaxSkew) - int64(skew), About: rule.Text}
		}
	}
	return decision.Reason{}
}

// Explain says why no node takes the kin and its shape; a zero Reason where one
// does. shape returns what keeps a pod of the shape off a node.
func (b *Bonds) Explain(v *cluster.View, shape func(cluster.NodeID) decision.Reason) decision.Reason {
	var t Tally
	for i := range v.Nodes.Len() {
		node := cluster.NodeID(i)
		if v.Node(node).Life == cluster.LifeOff {
			continue
		}
		why := b.Beside(v, node, shape(node))
		if why.None() {
			return decision.Reason{}
		}
		t.Set(node, why)
	}
	return t.Reason()
}

// ExplainPod says why no node of the view takes a shape of the pod; a zero Reason
// where one does.
func ExplainPod(v *cluster.View, pod cluster.PodID, shape cluster.ShapeID) decision.Reason {
	kin := v.Ties(pod)
	if kin == 0 {
		return Explain(v, shape)
	}
	return NewBonds(v, kin, shape).Explain(v, func(node cluster.NodeID) decision.Reason { return Check(v, shape, node) })
}

// CheckPod says why a shape of the pod cannot be placed on the node now.
func CheckPod(v *cluster.View, pod cluster.PodID, shape cluster.ShapeID, node cluster.NodeID) decision.Reason {
	own, kin := Check(v, shape, node), v.Ties(pod)
	if kin == 0 {
		return own
	}
	return NewBonds(v, kin, shape).Beside(v, node, own)
}

// Beside says what binds on a node, where the node's own answer is known: that, or
// the pods that are there, whichever comes first in the order of codes.
func (b *Bonds) Beside(v *cluster.View, node cluster.NodeID, own decision.Reason) decision.Reason {
	if tie := b.Check(v, node); own.None() || !tie.None() && tie.Code < own.Code {
		return tie
	}
	return own
}

// MayJoin says whether relations to other pods allow a pod a place. A place that
// does not exist is not theirs to refuse.
func MayJoin(v *cluster.View, pod cluster.PodID, place *cluster.Placement) bool {
	kin := v.Ties(pod)
	return kin == 0 || place.Node < 0 || int(place.Node) >= v.Nodes.Len() || place.Shape < 0 || int(place.Shape) >= v.Shapes.Len() ||
		NewBonds(v, kin, place.Shape).Check(v, place.Node).None()
}
