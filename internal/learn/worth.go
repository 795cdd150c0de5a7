package learn

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// The constants of the worth tables, chosen on generated traces (docs/adr/0005).
const (
	nodeGivesUp   = 0.05 // patience of a node in the starvation table
	choosiness    = 0.003
	crumb         = 0.4 // part of the CPU price that a stranded core costs
	priceShare    = 0.5 // part of the fluid prices that enters the score
	softness      = 0.1 // of the fluid prices
	fluidRounds   = 40
	priorRequests = 1.0 // assumed requests for a whole node, per class
	marginPods    = 1.0 // pods to be ready for beyond the expectation
)

// class is a kind of node with what all its nodes have and have free.
type class struct {
	id       cluster.ClassID
	cpu      int64
	memory   int64
	devices  int32
	model    cluster.Symbol
	capacity amounts // of all nodes
	free     amounts // the GPU side in worth of its holes
}

// amounts are cores, GiB and GPUs.
type amounts [3]float64

// mason builds the tables of one epoch.
type mason struct {
	view    *cluster.View
	demand  *Demand
	classes []class
	out     *cluster.Worth
	maxCPU  int64
	maxGPU  int32
}

// Worth returns what room is worth under the demand seen, on the nodes as they
// are. It continues the packing plan of the epoch before.
func Worth(v *cluster.View, d *Demand) *cluster.Worth {
	m := &mason{view: v, demand: d, out: &cluster.Worth{Turnover: d.turnover()}}
	m.holes()
	m.gatherClasses()
	prices := m.fluid()
	rows := v.Classes.Len()
	m.out.CPU, m.out.Memory, m.out.GPU = make([]int64, rows), make([]int64, rows), make([]int64, rows)
	for i := range m.classes {
		id := m.classes[i].id
		m.out.CPU[id] = round(float64(priceShare*prices[i][0]) * 1000)
		m.out.Memory[id] = round(float64(priceShare*prices[i][1]) / 1024 * 1e6)
		m.out.GPU[id] = round(float64(priceShare*prices[i][2]) * 1000)
	}
	m.starvation(prices)
	m.slots()
	m.sizes()
	return m.out
}

// round goes no further than mostRounded: beyond that nothing is told apart any more.
func round(x float64) int64 { return int64(math.Round(min(max(x, -mostRounded), mostRounded))) }

const mostRounded = 1 << 50

// request is a shape as the tables see it.
func (m *mason) request(shape int) (s *cluster.Shape, devices int32, milli int64) {
	s = m.view.Shape(cluster.ShapeID(shape))
	if devices = s.DeviceCount(); devices > 0 {
		milli = int64(s.Milli()) / int64(devices)
	}
	return s, devices, milli
}

// holes fills in what a hole of each size is worth by the packing plan, and the
// room that the pods seen take in it.
func (m *mason) holes() {
	var want [whole + 1]float64
	others := 0.0
	for shape, n := range m.demand.count {
		switch s, devices, milli := m.request(shape); {
		case n == 0:
		case devices == 1 && milli < int64(whole):
			want[milli] += float64(n)
		default:
			others += float64(n * int64(s.Milli()))
		}
	}
	p := &m.demand.packing
	p.plan(&want)
	for g := 1; g <= whole; g++ {
		m.out.Hole[g] = p.worth(g)
	}
	m.out.Seen = quantity.MilliGPU(max(int64(whole), round(others+p.room())))
}

// gatherClasses adds up the nodes that take work.
func (m *mason) gatherClasses() {
	at := make([]int, m.view.Classes.Len())
	for i := range at {
		at[i] = -1
	}
	for i := range m.view.Nodes.Len() {
		n := m.view.Node(cluster.NodeID(i))
		if !n.TakesWork() || n.Spec.Class == cluster.None {
			continue
		}
		if at[n.Spec.Class] < 0 {
			at[n.Spec.Class] = len(m.classes)
			m.classes = append(m.classes, m.newClass(n))
		}
		c := &m.classes[at[n.Spec.Class]]
		c.capacity[0] += float64(c.cpu) / 1000
		c.capacity[1] += float64(c.memory) / float64(quantity.GiB)
		c.capacity[2] += float64(c.devices)
		c.free[0] += float64(n.Free.At(cluster.DimCPU)) / 1000
		c.free[1] += float64(n.Free.At(cluster.DimMemory)) / float64(quantity.GiB)
		holes := int64(0)
		for k := range n.Spec.DeviceCount {
			holes += m.out.Hole[max(0, m.view.DeviceOf(n, k).FreeMilli)]
		}
		c.free[2] += float64(holes) / 1e6
	}
}

func (m *mason) newClass(n *cluster.Node) class {
	c := class{
		id: n.Spec.Class, devices: n.Spec.DeviceCount,
		cpu: n.Spec.Allocatable.At(cluster.DimCPU), memory: n.Spec.Allocatable.At(cluster.DimMemory),
	}
	if c.devices > 0 {
		c.model = m.view.DeviceOf(n, 0).Spec.Model
	}
	m.maxCPU, m.maxGPU = max(m.maxCPU, c.cpu), max(m.maxGPU, c.devices)
	return c
}

// admits says whether an empty node of the class holds the shape.
func (c *class) admits(s *cluster.Shape) bool {
	if s.Need.At(cluster.DimCPU) > c.cpu || s.Need.At(cluster.DimMemory) > c.memory || s.DeviceCount() > c.devices {
		return false
	}
	for i := range s.Devices {
		if models := s.Devices[i].Models; len(models) > 0 && !slices.Contains(models, c.model) {
			return false
		}
	}
	return true
}

// slots lists the requests for several devices seen and, as the prior, one for a
// whole node of each class.
func (m *mason) slots() {
	type candidate struct {
		slot  cluster.Slot
		pods  float64
		first int
	}
	var seen []candidate
	for shape, n := range m.demand.count {
		s, devices, _ := m.request(shape)
		if n > 0 && devices > 1 {
			seen = append(seen, candidate{cluster.Slot{
				Devices: devices, CPU: quantity.MilliCPU(s.Need.At(cluster.DimCPU)), Memory: quantity.Bytes(s.Need.At(cluster.DimMemory)),
				Models: s.Devices[0].Models, Shape: cluster.ShapeID(shape),
			}, float64(n), shape})
		}
	}
	slices.SortFunc(seen, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(float64(a.pods*float64(a.slot.Devices)), float64(b.pods*float64(b.slot.Devices))), cmp.Compare(a.first, b.first))
	})
	var all []candidate
	const mostPriors = cluster.MaxSlots / 2
	for i := range m.classes {
		if c := &m.classes[i]; c.devices > 1 && len(all) < mostPriors {
			all = append(all, candidate{cluster.Slot{
				Devices: c.devices, CPU: quantity.MilliCPU(c.cpu), Memory: quantity.Bytes(c.memory), Models: []cluster.Symbol{c.model}, Shape: cluster.None,
			}, priorRequests, 0})
		}
	}
	all = append(all, seen[:min(len(seen), cluster.MaxSlots-len(all))]...)
	pods := make([]float64, len(all))
	for i := range all {
		m.out.Slots = append(m.out.Slots, all[i].slot)
		pods[i] = all[i].pods
	}
	m.expect(pods)
}

// expect sets how many requests of a slot or larger ones are to come: those of
// larger slots count in proportion to the hosts that both have.
func (m *mason) expect(pods []float64) {
	slots := m.out.Slots
	var shared [cluster.MaxSlots][cluster.MaxSlots]float64
	for i := range m.view.Nodes.Len() {
		set := m.hosts(m.view.Node(cluster.NodeID(i)))
		for a := set; a != 0; a &= a - 1 {
			for b := set; b != 0; b &= b - 1 {
				shared[bits.TrailingZeros64(a)][bits.TrailingZeros64(b)]++
			}
		}
	}
	for i := range slots {
		expected := 0.0
		for k := range slots {
			if slots[k].Devices >= slots[i].Devices && shared[k][k] > 0 && (slots[k].Shape != cluster.None || i == k) {
				expected += float64(pods[k] * float64(slots[k].Devices) / float64(slots[i].Devices) * shared[i][k] / shared[k][k])
			}
		}
		slots[i].Expected = round(expected * 1000)
		if slots[i].Shape != cluster.None {
			slots[i].Margin = round(1000 * marginPods * min(1, pods[i]/3))
		}
	}
}

// hosts says which slots a node can host now.
func (m *mason) hosts(n *cluster.Node) (set uint64) {
	if !n.TakesWork() || n.IdleDevices < 2 {
		return 0
	}
	model := m.view.DeviceOf(n, 0).Spec.Model
	for i := range m.out.Slots {
		if m.out.Slots[i].FitsIn(n.IdleDevices, n.Free.At(cluster.DimCPU), n.Free.At(cluster.DimMemory), model) {
			set |= 1 << i
		}
	}
	return set
}

// sizes lists the requests for more than half a device, the largest demand
// first.
func (m *mason) sizes() {
	var pods [whole + 1]int64
	for shape, n := range m.demand.count {
		if _, devices, milli := m.request(shape); n > 0 && milli > int64(whole)/2 {
			pods[milli] += n * int64(devices)
		}
	}
	taken := make(map[int]bool)
	for len(m.out.Sizes) < cluster.MaxSizes {
		best := 0
		for s := whole/2 + 1; s <= whole; s++ {
			if pods[s] > 0 && !taken[s] && (best == 0 || pods[s]*int64(s) > pods[best]*int64(best)) {
				best = s
			}
		}
		if best == 0 {
			return
		}
		taken[best] = true
		orLarger := int64(0)
		for s := best; s <= whole; s++ {
			orLarger += pods[s]
		}
		m.out.Sizes = append(m.out.Sizes, cluster.Size{Milli: quantity.MilliGPU(best), Expected: orLarger * 1000})
	}
}
