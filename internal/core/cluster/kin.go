package cluster

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
)

// Port is a port of the host that a pod takes. IP 0 is every address.
type Port struct {
	IP, Protocol Symbol
	Number       int32
}

// Conflicts says whether two pods cannot have these ports on one node.
func (p Port) Conflicts(q Port) bool {
	return p.Number == q.Number && p.Protocol == q.Protocol && (p.IP == q.IP || p.IP == 0 || q.IP == 0)
}

func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.IP, b.IP))
}

// Crowd is a set of pods that relations go by: those that all its selectors pick.
// Who belongs is the world's to say.
type Crowd struct {
	Key  uint64 // hash of the selectors
	Text Symbol // the selectors, for reasons
	// Shunned says that some pod keeps away from this crowd, so that its members
	// may be kept away.
	Shunned bool
}

// Near asks for a place in one domain, of each topology, with pods of the crowd.
// A topology is a label of nodes; those with one value of it are a domain.
type Near struct {
	Crowd      CrowdID // None: no such wish
	Topologies []Symbol
	Text       Symbol // of the relation, for reasons
}

// Apart keeps pods of the crowd out of the domain that its holder is in.
type Apart struct {
	Crowd    CrowdID
	Topology Symbol
	Text     Symbol
}

func compareApart(a, b Apart) int {
	return cmp.Or(cmp.Compare(a.Crowd, b.Crowd), cmp.Compare(a.Topology, b.Topology), cmp.Compare(a.Text, b.Text))
}

// Spread allows no domain more pods of the crowd than MaxSkew above the one that
// has the fewest.
type Spread struct {
	Crowd      CrowdID // None: counts nobody
	Topology   Symbol
	MaxSkew    int32
	MinDomains int32 // with fewer domains, the fewest counts as none
	Self       bool  // the pod itself adds to what is counted
	// AllNodes counts nodes that the pod's selector rules out; Taints leaves out
	// those with taints it does not tolerate.
	AllNodes, Taints bool
	Text             Symbol
}

// Kin is how a pod stands to other pods: the crowds it belongs to, the ports it
// takes, and where it may be as seen from them. Pods of equal kin get equal
// answers, so kins are interned.
type Kin struct {
	Key    uint64
	Crowds []CrowdID // it belongs to, sorted
	Ports  []Port
	Near   Near
	Apart  []Apart
	Spread []Spread
}

// Wants says whether the kin itself limits where a pod may be.
func (k *Kin) Wants() bool {
	return len(k.Ports) > 0 || k.Near.Crowd != None || len(k.Apart) > 0 || len(k.Spread) > 0
}

// In says whether the kin belongs to a crowd.
func (k *Kin) In(c CrowdID) bool {
	_, found := slices.BinarySearch(k.Crowds, c)
	return found
}

// Minds says whether a pod of this kin may have to wait until one of the other kin
// is gone, wherever that is.
func (k *Kin) Minds(other *Kin) bool {
	shuns := func(a, b *Kin) bool {
		return slices.ContainsFunc(a.Apart, func(x Apart) bool { return b.In(x.Crowd) })
	}
	return shuns(k, other) || shuns(other, k) || slices.ContainsFunc(k.Spread, func(s Spread) bool { return other.In(s.Crowd) })
}

// Company counts the charged pods of a node by what relations ask for. It is
// sorted, never changed in place, and nil where there is nothing to count.
type Company struct {
	Members []Headcount
	Apart   []Grudge
	Ports   []Port // a port that two pods took is there twice
}

// Headcount is how many pods of a crowd are on a node; Staying leaves out those
// that are told to go. Coming are those among them for which room is only reserved:
// they keep others away, and nobody can be near them yet.
type Headcount struct {
	Crowd                CrowdID
	All, Staying, Coming int32
}

// Grudge is how many pods on a node keep a crowd out of their domain.
type Grudge struct {
	Apart
	Count int32
}

// Count returns how many pods of a crowd there are.
func (c *Company) Count(crowd CrowdID) Headcount {
	if c == nil {
		return Headcount{}
	}
	i, found := slices.BinarySearchFunc(c.Members, crowd, func(h Headcount, id CrowdID) int { return cmp.Compare(h.Crowd, id) })
	if !found {
		return Headcount{}
	}
	return c.Members[i]
}

// with returns the company with a pod of a kin added, or taken away: then what it
// counts for is negative.
func (c *Company) with(k *Kin, pod Headcount) *Company {
	out := new(Company)
	if c != nil {
		*out = Company{Members: slices.Clone(c.Members), Apart: slices.Clone(c.Apart), Ports: slices.Clone(c.Ports)}
	}
	for _, crowd := range k.Crowds {
		i, found := slices.BinarySearchFunc(out.Members, crowd, func(h Headcount, id CrowdID) int { return cmp.Compare(h.Crowd, id) })
		if !found {
			out.Members = slices.Insert(out.Members, i, Headcount{Crowd: crowd})
		}
		out.Members[i].All += pod.All
		out.Members[i].Staying += pod.Staying
		out.Members[i].Coming += pod.Coming
	}
	for _, apart := range k.Apart {
		i, found := slices.BinarySearchFunc(out.Apart, apart, func(g Grudge, a Apart) int { return compareApart(g.Apart, a) })
		if !found {
			out.Apart = slices.Insert(out.Apart, i, Grudge{Apart: apart})
		}
		out.Apart[i].Count += pod.All
	}
	for _, port := range k.Ports {
		i, found := slices.BinarySearchFunc(out.Ports, port, comparePorts)
		switch {
		case pod.All > 0:
			out.Ports = slices.Insert(out.Ports, i, port)
		case pod.All < 0 && found:
			out.Ports = slices.Delete(out.Ports, i, i+1)
		}
	}
	out.Members = slices.DeleteFunc(out.Members, func(h Headcount) bool { return h.All == 0 && h.Staying == 0 && h.Coming == 0 })
	out.Apart = slices.DeleteFunc(out.Apart, func(g Grudge) bool { return g.Count == 0 })
	if len(out.Members)+len(out.Apart)+len(out.Ports) == 0 {
		return nil
	}
	return out
}

func (c *Company) equal(d *Company) bool {
	if c == nil || d == nil {
		return c == d
	}
	return slices.Equal(c.Members, d.Members) && slices.Equal(c.Apart, d.Apart) && slices.Equal(c.Ports, d.Ports)
}

// askedFor says which crowds some pod's relations go by. Those that only pods which are
// gone asked about are counted still, and mean nothing.
func (v *View) askedFor() []bool {
	asked := make([]bool, v.Crowds.Len())
	note := func(id CrowdID) {
		if id != None {
			asked[id] = true
		}
	}
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Phase == PhaseGone || p.Kin == 0 {
			continue
		}
		k := v.Kin(p.Kin)
		note(k.Near.Crowd)
		for _, a := range k.Apart {
			note(a.Crowd)
		}
		for _, s := range k.Spread {
			note(s.Crowd)
		}
	}
	return asked
}

// companyDigest hashes a company by names and numbers, of the crowds that are asked for;
// nothing is zero.
func (v *View) companyDigest(c *Company, asked []bool) uint64 {
	if c == nil {
		return 0
	}
	sum := uint64(0)
	for _, h := range c.Members {
		if !asked[h.Crowd] {
			continue
		}
		sum += chance.Hash(8, v.Crowds.At(int32(h.Crowd)).Key, uint64(h.All), uint64(h.Staying))
		if h.Coming != 0 {
			sum += chance.Hash(11, v.Crowds.At(int32(h.Crowd)).Key, uint64(h.Coming))
		}
	}
	for _, g := range c.Apart {
		sum += chance.Hash(9, v.Crowds.At(int32(g.Crowd)).Key, chance.HashString(v.Symbols.Text(g.Topology)), uint64(g.Count))
	}
	for _, p := range c.Ports {
		sum += chance.Hash(10, chance.HashString(v.Symbols.Text(p.IP)), chance.HashString(v.Symbols.Text(p.Protocol)), uint64(p.Number))
	}
	if sum == 0 {
		return 0
	}
	return chance.Mix(sum)
}

// Kin returns a kin for reading.
func (v *View) Kin(id KinID) *Kin { return v.Kins.At(int32(id) - 1) }

// Ties returns the kin of a pod whose place depends on other pods; 0 for one that
// may be beside anybody.
func (v *View) Ties(pod PodID) KinID {
	id := v.Pod(pod).Kin
	if id == 0 {
		return 0
	}
	k := v.Kin(id)
	if k.Wants() {
		return id
	}
	for _, crowd := range k.Crowds {
		if v.Crowds.At(int32(crowd)).Shunned {
			return id
		}
	}
	return 0
}

// AddCrowd adds a crowd; the caller tells which pods belong, by SetKin.
func (l *Ledger) AddCrowd(c Crowd) CrowdID { return CrowdID(l.Crowds.grow(l.owner, c)) }

// AddKin adds a kin; the caller has made sure that it is new, and that its crowds
// are there.
func (l *Ledger) AddKin(k Kin) KinID {
	for _, apart := range k.Apart {
		if !l.Crowds.At(int32(apart.Crowd)).Shunned {
			l.Crowds.own(int32(apart.Crowd), l.owner, l.recording).Shunned = true
		}
	}
	return KinID(l.Kins.grow(l.owner, k) + 1)
}

// SetKin makes a pod one of another kin, wherever it is.
func (l *Ledger) SetKin(id PodID, kin KinID) {
	p := l.pod(id)
	if p.Kin == kin {
		return
	}
	l.recount(p, func() { p.Kin = kin })
}

// headcount is what a charged pod counts for in each of its crowds, with the given
// sign.
func (p *Pod) headcount(sign int32) Headcount {
	h := Headcount{All: sign}
	if p.Phase != PhaseTerminating {
		h.Staying = sign
	}
	if p.Reserved {
		h.Coming = sign
	}
	return h
}

// SetReserved says whether the room that a pod is charged with is only reserved.
func (l *Ledger) SetReserved(id PodID, reserved bool) {
	p := l.pod(id)
	if p.Reserved == reserved {
		return
	}
	l.recount(p, func() { p.Reserved = reserved })
}

// recount changes in a pod what it counts for among the company of its node, if it
// is among one.
func (l *Ledger) recount(p *Pod, change func()) {
	if !p.Phase.Charged() {
		change()
		return
	}
	before := p.Kin
	l.attend(p, -1)
	change()
	l.attend(p, +1)
	if before != 0 || p.Kin != 0 {
		l.logChange(p.Placement.Node)
	}
}

// attend books a pod among the company of its node, with the given sign.
func (l *Ledger) attend(p *Pod, sign int32) {
	if p.Kin != 0 {
		n := l.node(p.Placement.Node)
		n.Company = n.Company.with(l.Kin(p.Kin), p.headcount(sign))
	}
}
