package world

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// DomainAdded makes a place known. Its parent comes first.
type DomainAdded struct {
	Name   string
	Level  cluster.Level
	Parent string // empty at the top
}

func (e DomainAdded) apply(w *World) error {
	if _, dup := w.domains[e.Name]; dup || e.Name == "" {
		return fmt.Errorf("domain: name %q: must be new and not empty", e.Name)
	}
	if e.Level > cluster.LevelCloud {
		return fmt.Errorf("domain %s: level %d: no such level", e.Name, uint8(e.Level))
	}
	parent := cluster.DomainID(cluster.None)
	if e.Parent != "" {
		id, ok := w.domains[e.Parent]
		if !ok {
			return fmt.Errorf("domain %s: parent %q: no such domain", e.Name, e.Parent)
		}
		parent = id
	}
	w.domains[e.Name] = w.ledger.AddDomain(cluster.Domain{Name: e.Name, Key: chance.HashString(e.Name), Level: e.Level, Parent: parent})
	return nil
}

// Device describes one GPU of a node that is added.
type Device struct {
	Name     string // empty: its index
	Model    string
	Memory   quantity.Bytes // 0: unknown
	Island   int32          // -1: none
	NUMA     int32          // -1: unknown
	Sharing  cluster.Sharing
	Counters map[string]int64
	Profiles []Profile
}

// Profile is a partition a device can be cut into.
type Profile struct {
	Name     string
	Milli    quantity.MilliGPU
	Memory   quantity.Bytes
	Consumes map[string]int64 // of the device's counters
}

// Taint keeps pods off a node.
type Taint struct {
	Key, Value string
	Effect     cluster.TaintEffect
}

// NodeAdded makes a node known, with everything on it free.
type NodeAdded struct {
	Name      string
	UID       string // empty: the name
	Domain    string // empty: none
	CPU       quantity.MilliCPU
	Memory    quantity.Bytes
	Pods      int64
	Extended  map[string]int64
	Devices   []Device
	Labels    map[string]string
	Taints    []Taint
	Authority cluster.Authority
	Life      cluster.Life
	// Selective says that only requests with a selector get devices here.
	Selective bool
	// Fixed says that the node's agent cannot change what a running pod holds of a
	// device. Nobody but an agent can.
	Fixed bool `json:",omitempty"`
}

// Alike nodes differ in these labels alone. NameLabel is for rims where a pod may
// ask for a node by its name; no label of a user has such a key.
const (
	hostLabel = "kubernetes.io/hostname"
	NameLabel = "field:metadata.name"
)

// maxDevices bounds the devices of one node, far above any machine sold.
const maxDevices = 64

func (e NodeAdded) apply(w *World) error {
	if _, dup := w.nodes[e.Name]; dup || e.Name == "" {
		return fmt.Errorf("node %s: name %q: must be new and not empty", e.Name, e.Name)
	}
	if err := e.validate(w); err != nil {
		return fmt.Errorf("node %s: %w", e.Name, err)
	}
	spec, devices := w.nodeSpec(&e)
	w.nodes[e.Name] = w.ledger.AddNode(spec, devices, e.Life, w.freeNode(len(devices)))
	return nil
}

// freeNode takes a row that a node with as many devices has left; None without.
func (w *World) freeNode(devices int) cluster.NodeID {
	free := w.freeNodes[int32(devices)]
	if len(free) == 0 {
		return cluster.None
	}
	w.freeNodes[int32(devices)] = free[:len(free)-1]
	return free[len(free)-1]
}

// nodeSpec interns what a node is.
func (w *World) nodeSpec(e *NodeAdded) (cluster.NodeSpec, []*cluster.DeviceSpec) {
	uid := e.UID
	if uid == "" {
		uid = e.Name
	}
	spec := cluster.NodeSpec{Name: e.Name, UID: uid, Domain: cluster.None, Authority: e.Authority, Selective: e.Selective}
	spec.Resizes = e.Authority == cluster.AuthorityAgent && !e.Fixed
	if e.Domain != "" {
		spec.Domain = w.domains[e.Domain]
	}
	spec.Allocatable = w.vector(int64(e.CPU), int64(e.Memory), e.Pods, e.Extended)
	for _, key := range sortedKeys(e.Labels) {
		spec.Labels = append(spec.Labels, cluster.Label{Key: w.Symbol(key), Value: w.Symbol(e.Labels[key])})
	}
	slices.SortFunc(spec.Labels, func(a, b cluster.Label) int { return cmp.Compare(a.Key, b.Key) })
	for _, t := range e.Taints {
		spec.Taints = append(spec.Taints, cluster.Taint{Key: w.Symbol(t.Key), Value: w.Symbol(t.Value), Effect: t.Effect})
	}
	devices := make([]*cluster.DeviceSpec, len(e.Devices))
	for i := range e.Devices {
		devices[i] = w.deviceSpec(&e.Devices[i], i)
	}
	spec.Class = w.class(e)
	return spec, devices
}

func (e *NodeAdded) validate(w *World) error {
	if _, known := w.domains[e.Domain]; e.Domain != "" && !known {
		return fmt.Errorf("domain %q: no such domain", e.Domain)
	}
	if e.CPU < 0 || e.Memory < 0 || e.Pods < 0 {
		return fmt.Errorf("cpu %d, memory %d, pods %d: must not be negative", e.CPU, e.Memory, e.Pods)
	}
	if name, ok := negative(e.Extended); ok {
		return fmt.Errorf("resource %s: %d: must not be negative", name, e.Extended[name])
	}
	if e.Life == cluster.LifeOff || e.Life > cluster.LifeReclaimed {
		return fmt.Errorf("life %d: a node that is added is offered, launching, ready, draining or reclaimed", uint8(e.Life))
	}
	if e.Authority > cluster.AuthorityAgent {
		return fmt.Errorf("authority %d: must be plugin, dra or agent", uint8(e.Authority))
	}
	if len(e.Devices) > maxDevices {
		return fmt.Errorf("%d devices: at most %d", len(e.Devices), maxDevices)
	}
	for i := range e.Devices {
		if err := e.Devices[i].validate(); err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
	}
	return nil
}

func (d *Device) validate() error {
	switch {
	case d.Model == "" || d.Memory < 0:
		return fmt.Errorf("model %q, memory %d: a model is needed, memory not negative", d.Model, d.Memory)
	case d.Island < cluster.None || d.NUMA < cluster.None:
		return fmt.Errorf("island %d, NUMA node %d: must be -1 (none) or above", d.Island, d.NUMA)
	case d.Sharing > cluster.SharingPartition:
		return fmt.Errorf("sharing %d: must be none, slices or partition", d.Sharing)
	}
	if name, ok := negative(d.Counters); ok {
		return fmt.Errorf("counter %s: %d: must not be negative", name, d.Counters[name])
	}
	if len(d.Profiles) > cluster.MaxProfiles {
		return fmt.Errorf("%d profiles: at most %d", len(d.Profiles), cluster.MaxProfiles)
	}
	for i, p := range d.Profiles {
		again := slices.ContainsFunc(d.Profiles[:i], func(q Profile) bool { return q.Name == p.Name })
		switch {
		case p.Name == "" || again:
			return fmt.Errorf("profile name %q: must be new and not empty", p.Name)
		case p.Milli <= 0 || p.Milli > quantity.WholeGPU || p.Memory < 0:
			return fmt.Errorf("profile %s: %d milli-GPU, memory %d: must be 1 to 1000, memory not negative", p.Name, p.Milli, p.Memory)
		}
		for _, name := range sortedKeys(p.Consumes) {
			if _, ok := d.Counters[name]; !ok || p.Consumes[name] < 0 {
				return fmt.Errorf("profile %s consumes %d of %q: the device has no such counter, or it is negative", p.Name, p.Consumes[name], name)
			}
		}
	}
	return nil
}

// negative returns the first name whose amount is below zero.
func negative(amounts map[string]int64) (string, bool) {
	for _, name := range sortedKeys(amounts) {
		if amounts[name] < 0 {
			return name, true
		}
	}
	return "", false
}

func (w *World) deviceSpec(d *Device, index int) *cluster.DeviceSpec {
	spec := &cluster.DeviceSpec{Name: d.Name, Model: w.Symbol(d.Model), Memory: d.Memory, Island: d.Island, NUMA: d.NUMA, Sharing: d.Sharing}
	if spec.Name == "" {
		spec.Name = strconv.Itoa(index)
	}
	for _, name := range sortedKeys(d.Counters) {
		spec.Counters = append(spec.Counters, cluster.Counter{Name: w.Symbol(name), Total: d.Counters[name]})
	}
	for _, p := range d.Profiles {
		profile := cluster.Profile{Name: w.Symbol(p.Name), Milli: p.Milli, Memory: p.Memory}
		for _, name := range sortedKeys(d.Counters) {
			profile.Consumes = append(profile.Consumes, p.Consumes[name])
		}
		spec.Profiles = append(spec.Profiles, profile)
		w.noteProfile(&profile)
	}
	return spec
}

// noteProfile remembers how much of a device a partition takes, and tells the
// shapes that ask for it.
func (w *World) noteProfile(p *cluster.Profile) {
	if known, seen := w.profiles[p.Name]; seen && known >= p.Milli {
		return
	}
	w.profiles[p.Name] = p.Milli
	w.ledger.SetProfileMilli(p.Name, p.Milli)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m { // order: sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// class returns the class of nodes like this one, making it where it is new.
func (w *World) class(e *NodeAdded) cluster.ClassID {
	h := chance.Hash(uint64(e.CPU), uint64(e.Memory), uint64(e.Pods), uint64(e.Authority))
	for _, name := range sortedKeys(e.Extended) {
		h = chance.Hash(h, chance.HashString(name), uint64(e.Extended[name]))
	}
	if e.Selective {
		h = chance.Hash(h, 1)
	}
	if e.Fixed {
		h = chance.Hash(h, 2)
	}
	for i := range e.Devices {
		d := &e.Devices[i]
		h = chance.Hash(h, chance.HashString(d.Model), uint64(d.Memory), uint64(d.Island), uint64(d.NUMA), uint64(d.Sharing))
		for _, name := range sortedKeys(d.Counters) {
			h = chance.Hash(h, chance.HashString(name), uint64(d.Counters[name]))
		}
		for _, p := range d.Profiles {
			h = chance.Hash(h, chance.HashString(p.Name), uint64(p.Milli), uint64(p.Memory))
			for _, name := range sortedKeys(p.Consumes) {
				h = chance.Hash(h, chance.HashString(name), uint64(p.Consumes[name]))
			}
		}
	}
	for _, key := range sortedKeys(e.Labels) {
		if key != hostLabel && key != NameLabel {
			h = chance.Hash(h, chance.HashString(key), chance.HashString(e.Labels[key]))
		}
	}
	for _, t := range e.Taints {
		h = chance.Hash(h, chance.HashString(t.Key), chance.HashString(t.Value), uint64(t.Effect))
	}
	if id, known := w.classes[h]; known {
		return id
	}
	name := fmt.Sprintf("%v, %v", e.CPU, e.Memory)
	if len(e.Devices) > 0 {
		name = fmt.Sprintf("%d × %s, %s", len(e.Devices), e.Devices[0].Model, name)
	}
	id := w.ledger.AddClass(cluster.Class{Key: h, Name: name})
	w.classes[h] = id
	return id
}

// vector builds an amount, interning extended resources.
func (w *World) vector(cpu, memory, pods int64, extended map[string]int64) cluster.Vector {
	v := cluster.MakeVector(cpu, memory, pods)
	for _, name := range sortedKeys(extended) {
		d, known := w.extended[name]
		if !known {
			d = cluster.DimExtended + cluster.Dim(len(w.dimNames))
			w.extended[name] = d
			w.dimNames = append(w.dimNames, w.Symbol(name))
		}
		v = v.With(d, extended[name])
	}
	return v
}

// NodeLife moves a node to another station of its life.
type NodeLife struct {
	Name string
	Life cluster.Life
}

func (e NodeLife) apply(w *World) error {
	id, err := w.nodeNamed(e.Name)
	if err != nil {
		return err
	}
	if e.Life == cluster.LifeOff {
		return fmt.Errorf("node %s: life %q: remove the node instead", e.Name, e.Life)
	}
	if e.Life > cluster.LifeReclaimed {
		return fmt.Errorf("node %s: life %d: no such station", e.Name, uint8(e.Life))
	}
	if e.Life == cluster.LifeReady && w.ledger.Node(id).Life != e.Life {
		w.bringBack(id)
	}
	w.ledger.SetLife(id, e.Life)
	return nil
}

// NodeRemoved takes a node away. Pods charged to it wait again, one attempt
// later.
type NodeRemoved struct{ Name string }

func (e NodeRemoved) apply(w *World) error {
	id, err := w.nodeNamed(e.Name)
	if err != nil {
		return err
	}
	n := w.ledger.Node(id)
	for _, pod := range n.Pods {
		if w.ledger.Pod(pod).Phase.Charged() { // a hold may end with another
			w.lose(pod)
		}
	}
	w.dropClaimsOn(id)
	w.dropTargetsOn(id)
	w.bringBack(id)
	count := n.Spec.DeviceCount
	w.ledger.RemoveNode(id)
	delete(w.nodes, e.Name)
	w.freeNodes[count] = append(w.freeNodes[count], id)
	return nil
}

// DeviceHealth says that a device turned sick or healed. Pods keep what they
// hold of it until they are evicted or lost.
type DeviceHealth struct {
	Node   string
	Device int32
	Health cluster.Health
}

func (e DeviceHealth) apply(w *World) error {
	id, err := w.nodeNamed(e.Node)
	if err != nil {
		return err
	}
	spec := w.ledger.Node(id).Spec
	if e.Device < 0 || e.Device >= spec.DeviceCount {
		return fmt.Errorf("node %s: device %d: it has %d", e.Node, e.Device, spec.DeviceCount)
	}
	if e.Health > cluster.Sick {
		return fmt.Errorf("node %s: device %d: health %d: must be healthy or sick", e.Node, e.Device, e.Health)
	}
	w.ledger.SetHealth(spec.FirstDevice+cluster.DeviceID(e.Device), e.Health)
	return nil
}

func (w *World) nodeNamed(name string) (cluster.NodeID, error) {
	id, ok := w.nodes[name]
	if !ok {
		return cluster.None, fmt.Errorf("node %q: no such node", name)
	}
	return id, nil
}
