package kube

import (
	"maps"
	"reflect"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// judge makes sure that the world knows which devices meet a selector.
func (b *books) judge(s *dra.Selector) {
	if b.draws.judged[s.Name] == nil {
		b.draws.judged[s.Name] = s
		b.draws.stale = true
	}
}

// tellFacts tells the world which devices meet which selectors, where that has
// changed. Selectors that no pod asks for any more are left out.
func (b *books) tellFacts() {
	d := &b.draws
	if !d.stale && d.version == d.pools.Version() {
		return
	}
	d.stale, d.version = false, d.pools.Version()
	used := make(map[string]bool)
	for _, p := range b.pods { // order: a set is filled
		for _, r := range append([]world.Request{p.entered.Request, p.seen.Added.Request}, p.seen.Added.Alternatives...) {
			for i := range r.Devices {
				used[r.Devices[i].Selector] = true
			}
		}
	}
	selected, parts := make(map[cluster.Symbol][]uint64), make(map[cluster.Symbol][]uint64)
	for _, name := range slices.Sorted(maps.Keys(d.judged)) {
		if !used[name] {
			delete(d.judged, name)
			continue
		}
		b.must(world.Interned{Text: name})
		symbol := b.world.Symbol(name)
		set, ofParts := b.meeting(d.judged[name])
		if selected[symbol] = set; ofParts != nil {
			parts[symbol] = ofParts
		}
	}
	now := b.world.View().Facts
	if now == nil && len(selected) == 0 || now != nil && reflect.DeepEqual(now.Selected, selected) && maps.EqualFunc(now.Parts, parts, slices.Equal) {
		return
	}
	next := &cluster.Facts{Selected: selected, Parts: parts}
	if now != nil {
		next.Excluded = now.Excluded
	}
	b.must(world.FactsKnown{Facts: next})
	b.stirred = true
}

// meeting returns the set of devices that meet a selector, and by device the profiles
// that do; nil where no part of a device does.
func (b *books) meeting(s *dra.Selector) (set, parts []uint64) {
	v := b.world.View()
	set = make([]uint64, (v.Devices.Len()+63)/64)
	for _, name := range b.draws.pools.Nodes() {
		id, known := b.world.Node(name)
		if !known {
			continue
		}
		devices, _ := b.draws.pools.Devices(name)
		spec := v.Node(id).Spec
		if int(spec.DeviceCount) != len(devices) || !spec.Selective {
			continue
		}
		for i, meets := range s.Devices(devices) {
			if meets {
				device := int(spec.FirstDevice) + i
				set[device/64] |= 1 << (uint(device) % 64)
			}
		}
		for i, picked := range s.Parts(devices) {
			if picked == 0 {
				continue
			}
			if parts == nil {
				parts = make([]uint64, v.Devices.Len())
			}
			parts[int(spec.FirstDevice)+i] = picked
		}
	}
	return set, parts
}
