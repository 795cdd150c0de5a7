package gang

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// Atlas is the tree of places: the cluster, its domains, nodes and, where it was
// asked for, the NVLink islands of nodes. A place lies before all that is in it, and
// so the nodes of one are a range, in the order of names.
type Atlas struct {
	places  []place
	levels  [cluster.LevelCloud + 1][]Place // of each level, in order
	nodes   []cluster.NodeID                // in order
	ofNode  []Place                         // by node; -1 for nodes that are off
	seen    []*cluster.NodeSpec             // by node, when it was drawn
	islands bool
	domains int
}

// Place is an index into an atlas; 0 is the whole cluster.
type Place int32

// Nowhere is no place.
const Nowhere Place = -1

type place struct {
	spot     cluster.Spot
	parent   Place
	end      Place // the first place behind it that is not within it
	from, to int32 // its nodes
	islands  []int32
}

// Top is the whole cluster.
func (a *Atlas) Top() Place { return 0 }

// Islands says whether islands are drawn.
func (a *Atlas) Islands() bool { return a.islands }

// Spot names a place.
func (a *Atlas) Spot(p Place) cluster.Spot { return a.places[p].spot }

// Nodes lists the nodes of a place, of an island its own.
func (a *Atlas) Nodes(p Place) []cluster.NodeID { return a.nodes[a.places[p].from:a.places[p].to] }

// NewAtlas draws the nodes of a view, all that are not off.
func NewAtlas(v *cluster.View, islands bool) *Atlas {
	a := &Atlas{
		islands: islands, domains: v.Domains.Len(), ofNode: make([]Place, v.Nodes.Len()), seen: make([]*cluster.NodeSpec, v.Nodes.Len()),
		places: make([]place, 0, 1+v.Domains.Len()+v.Nodes.Len()), nodes: make([]cluster.NodeID, 0, v.Nodes.Len()),
	}
	d := drawing{atlas: a, view: v, within: make([][]cluster.DomainID, v.Domains.Len()+1), hosts: make([][]cluster.NodeID, v.Domains.Len()+1)}
	for i := range v.Domains.Len() {
		parent := v.Domains.At(int32(i)).Parent
		d.within[parent+1] = append(d.within[parent+1], cluster.DomainID(i))
	}
	for i := range v.Nodes.Len() {
		a.ofNode[i] = Nowhere
		if n := v.Node(cluster.NodeID(i)); n.Life != cluster.LifeOff {
			a.seen[i] = n.Spec
			d.hosts[n.Spec.Domain+1] = append(d.hosts[n.Spec.Domain+1], cluster.NodeID(i))
		}
	}
	d.draw(cluster.None, Nowhere)
	for i := range a.places {
		if s := &a.places[i].spot; s.Set {
			a.levels[s.Level] = append(a.levels[s.Level], Place(i))
		}
	}
	return a
}

// drawing is an atlas in the making. Index 0 of its lists is for what is in no
// domain.
type drawing struct {
	atlas  *Atlas
	view   *cluster.View
	within [][]cluster.DomainID
	hosts  [][]cluster.NodeID
}

func (d *drawing) draw(id cluster.DomainID, parent Place) {
	a, v := d.atlas, d.view
	p := Place(len(a.places))
	own := place{parent: parent, from: int32(len(a.nodes))}
	if id != cluster.None {
		own.spot = cluster.Spot{Set: true, Level: v.Domains.At(int32(id)).Level, Domain: id}
	}
	a.places = append(a.places, own)
	below := d.within[id+1]
	slices.SortFunc(below, func(x, y cluster.DomainID) int {
		return cmp.Or(compareNames(v.Domains.At(int32(x)).Name, v.Domains.At(int32(y)).Name), cmp.Compare(x, y))
	})
	for _, child := range below {
		d.draw(child, p)
	}
	hosts := d.hosts[id+1]
	slices.SortFunc(hosts, func(x, y cluster.NodeID) int {
		return cmp.Or(compareNames(v.Node(x).Spec.Name, v.Node(y).Spec.Name), cmp.Compare(x, y))
	})
	for _, node := range hosts {
		d.drawNode(node, p)
	}
	a.places[p].end, a.places[p].to = Place(len(a.places)), int32(len(a.nodes))
}

func (d *drawing) drawNode(node cluster.NodeID, parent Place) {
	a, n := d.atlas, d.view.Node(node)
	p, at := Place(len(a.places)), int32(len(a.nodes))
	a.nodes = append(a.nodes, node)
	a.ofNode[node] = p
	a.places = append(a.places, place{spot: cluster.Spot{Set: true, Level: cluster.LevelNode, Node: node}, parent: parent, from: at, to: at + 1})
	if a.islands {
		var seen []int32
		for i := range n.Spec.DeviceCount {
			if island := d.view.DeviceOf(n, i).Spec.Island; island != cluster.None && !slices.Contains(seen, island) {
				seen = append(seen, island)
			}
		}
		slices.Sort(seen)
		for _, island := range seen {
			a.places = append(a.places, place{
				spot:   cluster.Spot{Set: true, Level: cluster.LevelIsland, Node: node, Island: island},
				parent: p, end: Place(len(a.places) + 1), from: at, to: at + 1,
			})
		}
		a.places[p].islands = seen
	}
	a.places[p].end = Place(len(a.places))
}

// Shows says whether a node is where the atlas has it, and its devices, too.
func (a *Atlas) Shows(v *cluster.View, node cluster.NodeID) bool {
	if int(node) >= len(a.seen) {
		return false
	}
	n := v.Node(node)
	if n.Life == cluster.LifeOff {
		return a.seen[node] == nil
	}
	return a.seen[node] == n.Spec
}

// Of says whether the atlas has as many nodes and domains as the view.
func (a *Atlas) Of(v *cluster.View) bool {
	return len(a.seen) == v.Nodes.Len() && a.domains == v.Domains.Len()
}

// At returns the place of a level that contains a node, with a device of an island;
// Nowhere without such.
func (a *Atlas) At(level cluster.Level, node cluster.NodeID, island int32) Place {
	p := a.ofNode[node]
	if p == Nowhere {
		return Nowhere
	}
	if level == cluster.LevelIsland {
		if i := slices.Index(a.places[p].islands, island); i >= 0 {
			return p + 1 + Place(i)
		}
		return Nowhere
	}
	for ; p != Nowhere; p = a.places[p].parent {
		if s := &a.places[p].spot; s.Set && s.Level == level {
			return p
		}
	}
	return Nowhere
}

// Find returns the place of a spot; Nowhere where it is not drawn.
func (a *Atlas) Find(s cluster.Spot) Place {
	if !s.Set {
		return a.Top()
	}
	if s.Level <= cluster.LevelNode {
		return a.At(s.Level, s.Node, s.Island)
	}
	for _, p := range a.levels[s.Level] {
		if a.places[p].spot.Domain == s.Domain {
			return p
		}
	}
	return Nowhere
}

// Within lists the places of a level in a place, itself included.
func (a *Atlas) Within(level cluster.Level, in Place) []Place {
	all := a.levels[level]
	from, _ := slices.BinarySearch(all, in)
	to, _ := slices.BinarySearch(all, a.places[in].end)
	return all[from:to]
}

// Contains says whether place p is in q, or is it.
func (a *Atlas) Contains(q, p Place) bool { return q <= p && p < a.places[q].end }

// children calls f for each place right below p.
func (a *Atlas) children(p Place, f func(Place)) {
	for c := p + 1; c < a.places[p].end; c = a.places[c].end {
		f(c)
	}
}

// compareNames compares names as people do: numbers in them by their value.
func compareNames(a, b string) int {
	for i, k := 0, 0; ; {
		if i == len(a) || k == len(b) {
			return cmp.Or(cmp.Compare(len(a)-i, len(b)-k), cmp.Compare(a, b))
		}
		if !digit(a[i]) || !digit(b[k]) {
			if a[i] != b[k] {
				return cmp.Compare(a[i], b[k])
			}
			i, k = i+1, k+1
			continue
		}
		x, y := number(a[i:]), number(b[k:])
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		i, k = skip(a, i), skip(b, k)
	}
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number is the digits at the head of a text, without zeros before them.
func number(s string) string {
	end := skip(s, 0)
	from := 0
	for from < end-1 && s[from] == '0' {
		from++
	}
	return s[from:end]
}

func skip(s string, i int) int {
	for i < len(s) && digit(s[i]) {
		i++
	}
	return i
}
