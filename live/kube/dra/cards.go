package dra

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// MaxParts is the most parts of a card that are given; those beyond are left out, and
// who holds one of them keeps all others from the card.
const MaxParts = cluster.MaxProfiles

// offer is a device of a pool with the node it belongs to; empty for several.
type offer struct {
	node   string
	object *resourceapi.Device
}

// cardsOf turns the devices of a pool into cards by node. Devices that consume
// counters of one set, or of sets that a third one joins, are one card: the one that
// takes all there is, or nothing of its own, and parts. Cards whose devices belong to
// several nodes are left out.
func (p *Pools) cardsOf(id poolID, offers []offer, sets map[string]*resourceapi.CounterSet) map[string][]*Device {
	joined := make(map[string]string) // a set to one of its card
	var root func(string) string
	root = func(set string) string {
		if up, ok := joined[set]; ok && up != set {
			return root(up)
		}
		return set
	}
	for _, o := range offers {
		for i := range o.object.ConsumesCounters {
			first, own := root(o.object.ConsumesCounters[0].CounterSet), root(o.object.ConsumesCounters[i].CounterSet)
			joined[max(first, own)] = min(first, own)
		}
	}
	out := make(map[string][]*Device)
	members := make(map[string][]offer)
	for _, o := range offers {
		if len(o.object.ConsumesCounters) > 0 {
			set := root(o.object.ConsumesCounters[0].CounterSet)
			members[set] = append(members[set], o)
		} else if o.node != "" {
			out[o.node] = append(out[o.node], newDevice(p, ID{id.driver, id.pool, o.object.Name}, o.object))
		}
	}
	for _, set := range slices.Sorted(maps.Keys(members)) {
		list := members[set]
		node := list[0].node
		if node == "" || slices.ContainsFunc(list, func(o offer) bool { return o.node != node }) {
			continue
		}
		own := make(map[string]*resourceapi.CounterSet)
		for name, s := range sets { // order: a map is filled
			if root(name) == set {
				own[name] = s
			}
		}
		out[node] = append(out[node], p.card(id, list, own))
	}
	for _, devices := range out { // order: each list is sorted by itself
		slices.SortFunc(devices, func(a, b *Device) int { return cmp.Or(natural(a.Name, b.Name), cmp.Compare(a.Name, b.Name)) })
	}
	return out
}

// card puts one card together from the devices that share its counters.
func (p *Pools) card(id poolID, list []offer, sets map[string]*resourceapi.CounterSet) *Device {
	slices.SortFunc(list, func(a, b offer) int { return natural(a.object.Name, b.object.Name) })
	whole := slices.IndexFunc(list, func(o offer) bool { return takesAll(o.object, sets) })
	var c *Device
	if whole >= 0 {
		c = newDevice(p, ID{id.driver, id.pool, list[whole].object.Name}, list[whole].object)
	} else { // it is not offered itself; it is known by a name that no device has
		c = newDevice(p, ID{id.driver, id.pool, list[0].object.Name}, list[0].object)
		c.Name = slices.Min(slices.Collect(maps.Keys(sets))) + "/"
		c.object, c.frame = nil, true
		c.World.Name, c.World.Memory = strings.TrimSuffix(c.Name, "/"), 0
	}
	for i, o := range list {
		if i != whole {
			part := newDevice(p, ID{id.driver, id.pool, o.object.Name}, o.object)
			part.card = c
			c.parts = append(c.parts, part)
		}
	}
	if len(c.parts) > 0 {
		cut(c, sets)
	}
	return c
}

// takesAll says whether a device takes all that counter sets hold.
func takesAll(d *resourceapi.Device, sets map[string]*resourceapi.CounterSet) bool {
	for name, set := range sets { // order: all must hold
		at := slices.IndexFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return c.CounterSet == name })
		for counter, total := range set.Counters { // order: all must hold
			if at < 0 && total.Value.Sign() > 0 {
				return false
			}
			if at >= 0 {
				if taken := d.ConsumesCounters[at].Counters[counter]; taken.Value.Cmp(total.Value) < 0 {
					return false
				}
			}
		}
	}
	return true
}

// supply is one counter of a card, with what each of its parts takes of it.
type supply struct {
	name  string
	kind  string // counters that differ in a number at the end are of one kind
	total int64
	taken []int64
}

// cut turns the parts of a card into profiles over its counters.
func cut(c *Device, sets map[string]*resourceapi.CounterSet) {
	c.parts, c.beyond = c.parts[:min(len(c.parts), MaxParts)], c.parts[min(len(c.parts), MaxParts):]
	supplies := suppliesOf(c.parts, sets)
	milli := sharesOf(supplies, len(c.parts))
	memory := memoryOf(c, supplies)
	c.World.Sharing = cluster.SharingPartition
	c.World.Counters = make(map[string]int64)
	for i := range supplies {
		c.World.Counters[supplies[i].name] = supplies[i].total
	}
	names := profileNames(c)
	for i, part := range c.parts {
		part.profile = world.Profile{Name: names[i], Milli: milli[i], Memory: memory[i], Consumes: make(map[string]int64)}
		once := false
		for k := range supplies {
			s := &supplies[k]
			if s.taken[i] > 0 {
				part.profile.Consumes[s.name] = s.taken[i]
			}
			once = once || 2*s.taken[i] > s.total
		}
		if !once { // its counters would allow it twice, and there is one of it
			c.World.Counters[names[i]+" itself"] = 1
			part.profile.Consumes[names[i]+" itself"] = 1
		}
		c.World.Profiles = append(c.World.Profiles, part.profile)
	}
}

// profileNames are the names of the parts without that of the card, so that cards
// which are alike have the same.
func profileNames(c *Device) []string {
	var short, full []string
	for _, part := range c.parts {
		full = append(full, part.Name)
		short = append(short, strings.TrimPrefix(part.Name, c.Name+"-"))
	}
	if slices.Contains(short, "") || len(slices.Compact(slices.Sorted(slices.Values(short)))) < len(short) {
		return full
	}
	return short
}

// suppliesOf reads the counters of a card, by name.
func suppliesOf(parts []*Device, sets map[string]*resourceapi.CounterSet) []supply {
	var out []supply
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		for _, counter := range slices.Sorted(maps.Keys(sets[set].Counters)) {
			s := supply{name: counter, taken: make([]int64, len(parts))}
			if len(sets) > 1 {
				s.name = set + "/" + counter
			}
			s.kind = strings.TrimRight(s.name, "0123456789")
			total := sets[set].Counters[counter].Value
			amounts := make([]resource.Quantity, len(parts))
			for i, part := range parts {
				for k := range part.object.ConsumesCounters {
					if own := &part.object.ConsumesCounters[k]; own.CounterSet == set {
						amounts[i] = own.Counters[counter].Value
					}
				}
			}
			s.count(&total, amounts)
			out = append(out, s)
		}
	}
	return out
}

// maxCounted keeps sums of counters far from the end of 64 bits: nothing that is
// counted comes near it.
const maxCounted = 1 << 50

// count turns amounts into integers: thousandths where any is no whole number. What is
// no whole thousandth is rounded so that never more is given than there is.
func (s *supply) count(total *resource.Quantity, amounts []resource.Quantity) {
	scale := int64(1)
	for _, a := range append([]resource.Quantity{*total}, amounts...) {
		if n := counted(&a, 1); n <= maxCounted && a.CmpInt64(n) != 0 {
			scale = 1000
		}
	}
	s.total = min(counted(total, scale), maxCounted)
	if s.total < maxCounted && resource.NewMilliQuantity(s.total*(1000/scale), total.Format).Cmp(*total) > 0 {
		s.total--
	}
	for i := range amounts {
		s.taken[i] = min(counted(&amounts[i], scale), s.total+1) // more than there is, all the same
	}
}

// counted is an amount in units of a scale, rounded up.
func counted(q *resource.Quantity, scale int64) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(maxCounted/scale) > 0:
		return maxCounted + 1
	case scale == 1:
		return q.Value()
	}
	return q.MilliValue()
}

// measure is a way to tell how much of a card a part takes, such that parts which fit
// together never come to more than all: the share in one kind of counters.
type measure struct {
	taken []int64 // by part
	total int64
}

func measures(supplies []supply, parts int) []measure {
	byKind := make(map[string]*measure)
	var kinds []string
	for i := range supplies {
		s := &supplies[i]
		m := byKind[s.kind]
		if m == nil {
			m = &measure{taken: make([]int64, parts)}
			byKind[s.kind] = m
			kinds = append(kinds, s.kind)
		}
		m.total += s.total
		for k := range m.taken {
			m.taken[k] += s.taken[k]
		}
	}
	var out []measure
	for _, kind := range kinds {
		if m := byKind[kind]; m.total > 0 {
			out = append(out, *m)
		}
	}
	return out
}

// sharesOf returns how much of the card each part takes, in thousandths: by the kind of
// counters of which all parts together take the most. Parts that fit together never
// come to more than the card.
func sharesOf(supplies []supply, parts int) []quantity.MilliGPU {
	out := make([]quantity.MilliGPU, parts)
	best, most := measure{taken: make([]int64, parts), total: 1}, int64(-1)
	for _, m := range measures(supplies, parts) {
		sum := int64(0)
		for _, taken := range m.taken {
			sum += quantity.MulDiv(min(taken, m.total), int64(quantity.WholeGPU), m.total)
		}
		if sum > most {
			best, most = m, sum
		}
	}
	small := int64(0) // parts of less than a thousandth, which count as one all the same
	for _, taken := range best.taken {
		if quantity.MulDiv(min(taken, best.total), int64(quantity.WholeGPU), best.total) == 0 {
			small++
		}
	}
	for i, taken := range best.taken {
		out[i] = quantity.MilliGPU(max(quantity.MulDiv(min(taken, best.total), int64(quantity.WholeGPU)-small, best.total), 1))
	}
	return out
}

// memoryOf returns the memory of each part: what it is published with, scaled down
// where parts that fit together could come to more than the card has. A card that is
// not offered itself has as much as its parts can come to.
func memoryOf(c *Device, supplies []supply) []quantity.Bytes {
	out := make([]quantity.Bytes, len(c.parts))
	for i, part := range c.parts {
		if out[i] = min(part.World.Memory, maxMemory); c.World.Memory == 0 && !c.frame {
			out[i] = 0
		}
	}
	bound := quantity.Bytes(0)
	for _, b := range out {
		bound += b
	}
	for _, m := range measures(supplies, len(c.parts)) {
		most := quantity.Bytes(0) // if all of the measure were taken at the highest rate of a part
		for i, b := range out {
			switch {
			case b == 0:
			case m.taken[i] == 0:
				most = maxMemory
			default:
				most = max(most, ratio(b, m.total, m.taken[i]))
			}
		}
		bound = min(bound, most)
	}
	if c.frame {
		c.World.Memory = bound
	}
	if bound <= c.World.Memory {
		return out
	}
	for i := range out {
		out[i] = quantity.Bytes(quantity.MulDiv(int64(out[i]), int64(c.World.Memory), int64(bound)))
	}
	return out
}

// ratio is b·total/taken, rounded up.
func ratio(b quantity.Bytes, total, taken int64) quantity.Bytes {
	q := quantity.MulDiv(int64(b), total, taken)
	if q < int64(maxMemory) && quantity.CompareProducts(q, taken, int64(b), total) < 0 {
		q++
	}
	return min(quantity.Bytes(q), maxMemory)
}

// maxMemory is far above the memory of any part.
const maxMemory = quantity.Bytes(1 << 50)
