package dra

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// MaxDevices is the most devices of a node that the world takes; those beyond are
// left out.
const MaxDevices = 64

// Pools are the devices of all nodes, put together from ResourceSlices. A pool
// counts when all slices of its newest generation are there. Devices that are not
// tied to one node are left out.
type Pools struct {
	slices map[string]*resourceapi.ResourceSlice // by name
	pools  map[poolID]map[string]bool            // names of slices
	nodes  map[string]*nodeDevices
	spots  map[ID]Spot
	rules  map[string]*resourceapi.DeviceTaintRule
	// version rises whenever a device changes; then what was resolved is void.
	version  uint64
	resolved map[string]resolved
	reads    map[string]reads // by content
	kinds    map[string]int64
	numbered int64
	alike    map[likeness]verdict
}

type poolID struct{ driver, pool string }

// nodeDevices are those of one node. A device keeps its position while it may be
// meant by somebody: one that goes leaves a gap, which cannot be selected.
type nodeDevices struct {
	devices []*Device
	pools   map[poolID]bool
}

// Spot is where a device is: on which node, at which position. A part of a card is
// at the card's.
type Spot struct {
	Node     string
	Position int32
	Device   *Device // the one at the position, or a part of it
}

// NewPools returns empty ones.
func NewPools() *Pools {
	return &Pools{
		slices: make(map[string]*resourceapi.ResourceSlice), pools: make(map[poolID]map[string]bool),
		nodes: make(map[string]*nodeDevices), spots: make(map[ID]Spot), rules: make(map[string]*resourceapi.DeviceTaintRule),
		resolved: make(map[string]resolved), reads: make(map[string]reads), kinds: make(map[string]int64), alike: make(map[likeness]verdict),
	}
}

// Put takes in a slice and returns the nodes whose devices changed.
func (p *Pools) Put(s *resourceapi.ResourceSlice) []string {
	touched := p.take(s.Name)
	id := poolID{s.Spec.Driver, s.Spec.Pool.Name}
	p.slices[s.Name] = s
	if p.pools[id] == nil {
		p.pools[id] = make(map[string]bool)
	}
	p.pools[id][s.Name] = true
	return p.rebuild(append(touched, id))
}

// Delete takes in that a slice is gone.
func (p *Pools) Delete(name string) []string { return p.rebuild(p.take(name)) }

// take removes a slice from its pool, which is returned.
func (p *Pools) take(name string) []poolID {
	s := p.slices[name]
	if s == nil {
		return nil
	}
	id := poolID{s.Spec.Driver, s.Spec.Pool.Name}
	delete(p.slices, name)
	delete(p.pools[id], name)
	if len(p.pools[id]) == 0 {
		delete(p.pools, id)
	}
	return []poolID{id}
}

// Devices returns the devices of a node by position; managed is false where no
// driver has said anything about the node.
func (p *Pools) Devices(node string) (devices []*Device, managed bool) {
	n := p.nodes[node]
	if n == nil {
		return nil, false
	}
	return n.devices, len(n.pools) > 0
}

// Nodes lists the nodes with devices, sorted.
func (p *Pools) Nodes() []string { return slices.Sorted(maps.Keys(p.nodes)) }

// Find returns where a device is.
func (p *Pools) Find(id ID) (Spot, bool) {
	s, ok := p.spots[id]
	return s, ok
}

// Version rises whenever a device changes.
func (p *Pools) Version() uint64 { return p.version }

// PutRule takes in a rule that taints devices, and DeleteRule that one is gone. All
// devices may then be judged otherwise.
func (p *Pools) PutRule(r *resourceapi.DeviceTaintRule) {
	p.rules[r.Name] = r
	p.forget()
}

// DeleteRule takes in that a rule is gone.
func (p *Pools) DeleteRule(name string) {
	delete(p.rules, name)
	p.forget()
}

func (p *Pools) forget() {
	for _, s := range p.spots { // order: all are cleared
		clear(s.Device.verdicts)
	}
	p.version++
	clear(p.resolved)
}

// taints returns those of a device, from its driver and from rules.
func (p *Pools) taints(d *Device) []resourceapi.DeviceTaint {
	out := d.object.Taints
	for _, r := range p.rules { // order: all that match are taken
		s := r.Spec.DeviceSelector
		if s == nil || (s.Driver == nil || *s.Driver == d.Driver) && (s.Pool == nil || *s.Pool == d.Pool) && (s.Device == nil || *s.Device == d.Name) {
			out = append(slices.Clip(out), r.Spec.Taint)
		}
	}
	return out
}

// rebuild reads pools again and returns the nodes whose devices changed.
func (p *Pools) rebuild(pools []poolID) []string {
	changed := make(map[string]bool)
	for _, id := range slices.Compact(pools) {
		fresh := p.read(id)
		for name, n := range p.nodes { // order: each node has a place of its own
			if n.pools[id] && fresh[name] == nil {
				p.place(name, id, nil)
				changed[name] = true
			}
		}
		for name, devices := range fresh { // order: each node has a place of its own
			p.place(name, id, devices)
			changed[name] = true
		}
	}
	p.version++
	clear(p.resolved)
	return slices.Sorted(maps.Keys(changed))
}

// read returns the devices of a pool by node, in order; a pool that is not complete
// has none, but keeps its nodes.
func (p *Pools) read(id poolID) map[string][]*Device {
	newest := int64(0)
	for name := range p.pools[id] { // order: the largest does not depend on it
		newest = max(newest, p.slices[name].Spec.Pool.Generation)
	}
	out := make(map[string][]*Device)
	var current []*resourceapi.ResourceSlice
	for _, name := range slices.Sorted(maps.Keys(p.pools[id])) {
		s := p.slices[name]
		if s.Spec.NodeName != nil && out[*s.Spec.NodeName] == nil {
			out[*s.Spec.NodeName] = []*Device{}
		}
		if s.Spec.Pool.Generation == newest {
			current = append(current, s)
		}
	}
	if len(current) == 0 || int64(len(current)) != current[0].Spec.Pool.ResourceSliceCount {
		return out
	}
	offers, sets, ok := sound(current)
	if !ok {
		return out
	}
	for node, devices := range p.cardsOf(id, offers, sets) { // order: a map is filled
		out[node] = devices
	}
	return out
}

// sound gathers the devices and counter sets of a pool. It says no to a pool that
// Kubernetes takes for an invalid one, and to one in which parts are told to get on
// with some others only (compatibility groups).
func sound(pool []*resourceapi.ResourceSlice) (offers []offer, sets map[string]*resourceapi.CounterSet, ok bool) {
	sets = make(map[string]*resourceapi.CounterSet)
	for _, s := range pool {
		for i := range s.Spec.SharedCounters {
			set := &s.Spec.SharedCounters[i]
			if sets[set.Name] != nil {
				return nil, nil, false
			}
			sets[set.Name] = set
		}
	}
	names := make(map[string]bool)
	for _, s := range pool {
		for i := range s.Spec.Devices {
			object, node := &s.Spec.Devices[i], s.Spec.NodeName
			if s.Spec.PerDeviceNodeSelection != nil && *s.Spec.PerDeviceNodeSelection {
				node = object.NodeName
			}
			if names[object.Name] {
				return nil, nil, false
			}
			names[object.Name] = true
			for k := range object.ConsumesCounters {
				c := &object.ConsumesCounters[k]
				set := sets[c.CounterSet]
				if set == nil || len(c.CompatibilityGroups) > 0 {
					return nil, nil, false
				}
				for counter := range c.Counters { // order: all must be there
					if _, known := set.Counters[counter]; !known {
						return nil, nil, false
					}
				}
			}
			o := offer{object: object}
			if node != nil {
				o.node = *node
			}
			offers = append(offers, o)
		}
	}
	return offers, sets, true
}

// place puts the devices of one pool on a node. Those that are there already keep
// their positions.
func (p *Pools) place(name string, id poolID, fresh []*Device) {
	n := p.nodes[name]
	if n == nil {
		n = &nodeDevices{pools: make(map[poolID]bool)}
		p.nodes[name] = n
	}
	if fresh == nil {
		delete(n.pools, id)
	} else {
		n.pools[id] = true
	}
	at := make(map[ID]int)
	for i, d := range n.devices {
		if d.Driver == id.driver && d.Pool == id.pool {
			at[d.ID] = i
			for _, one := range slices.Concat([]*Device{d}, d.parts, d.beyond) {
				if p.spots[one.ID].Node == name {
					delete(p.spots, one.ID)
				}
			}
			gone := *d
			gone.object, gone.frame, gone.parts, gone.beyond = nil, false, nil, nil
			n.devices[i] = &gone
		}
	}
	for _, d := range fresh {
		i, known := at[d.ID]
		switch {
		case known:
			n.devices[i] = d
		case len(n.devices) < MaxDevices:
			n.devices = append(n.devices, d)
		default:
			if i = slices.IndexFunc(n.devices, (*Device).Gone); i < 0 {
				continue
			}
			n.devices[i] = d
		}
	}
	p.index(name, n)
	if len(n.pools) == 0 && !slices.ContainsFunc(n.devices, func(d *Device) bool { return !d.Gone() }) {
		delete(p.nodes, name)
	}
}

// index remembers where the devices of a node are, and links what is linked.
func (p *Pools) index(name string, n *nodeDevices) {
	islands := make(map[string]int32)
	for i, d := range n.devices {
		if d.Gone() {
			continue
		}
		spot := Spot{Node: name, Position: int32(i), Device: d}
		if !d.frame {
			p.spots[d.ID] = spot
		}
		for _, part := range slices.Concat(d.parts, d.beyond) {
			spot.Device = part
			p.spots[part.ID] = spot
		}
		d.World.Island = cluster.None
		if island := islandOf(d); island != "" {
			island = d.Driver + "/" + island
			if _, known := islands[island]; !known {
				islands[island] = int32(len(islands))
			}
			d.World.Island = islands[island]
		}
	}
}

// natural compares names so that gpu-2 comes before gpu-10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Held says what an allocation holds on the node that its first known device is on.
// Devices that no slice tells of are not among it, and neither is what was given
// for administration.
func (p *Pools) Held(a *resourceapi.AllocationResult) (node string, held []world.Held) {
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		spot, known := p.Find(ID{r.Driver, r.Pool, r.Device})
		if !known || node != "" && spot.Node != node {
			continue
		}
		node = spot.Node
		held = append(held, heldOf(&spot, r))
	}
	return node, held
}

// heldOf is what one result holds. Where that cannot be counted, the card is held
// without a share: nobody gets it whole, and it has no shares to give. A part that is
// not among those that can be given keeps all of its card from others.
func heldOf(s *Spot, r *resourceapi.DeviceRequestAllocationResult) world.Held {
	h, d := world.Held{Device: s.Position}, s.Device
	switch {
	case d.card != nil && d.profile.Name != "":
		h.Milli, h.Memory, h.Profile = d.profile.Milli, d.profile.Memory, d.profile.Name
	case d.card != nil:
		h.Milli, h.Memory = quantity.WholeGPU, d.card.World.Memory
	case d.shared && r.ShareID != nil:
		if c, ok := r.ConsumedCapacity[d.compute]; ok {
			h.Milli = quantity.MilliGPU(min(max(c.Value(), 0), int64(quantity.WholeGPU)))
		}
		if c, ok := r.ConsumedCapacity[d.memory]; ok && d.memory != "" {
			h.Memory = quantity.Bytes(max(c.Value(), 0))
		}
	default:
		h.Milli, h.Memory = quantity.WholeGPU, d.World.Memory
	}
	return h
}
