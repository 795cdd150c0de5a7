package scenario

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// Cards that are offered in parts: what a driver of Dynamic Resource Allocation
// publishes as partitions that share counters. A part is one thing: it is given once.

const (
	maxPlaces = 64
	partName  = "part"
)

// cut reads the lines "part …" of a node: its counters, and its parts as profiles.
func (r *reader) cut(block []blockLine) (map[string]int64, []world.Profile, error) {
	places := r.number("places", 0, 1, maxPlaces)
	counters := r.amounts("counters")
	if len(block) == 0 {
		if r.has("places") || r.has("counters") {
			return nil, nil, fmt.Errorf("%s: places and counters without parts: want lines %q below", r.of, "part NAME …")
		}
		return nil, nil, nil
	}
	if r.has("partitions") {
		return nil, nil, fmt.Errorf("%s: field partitions: value %q: either partitions or parts", r.of, r.text("partitions", ""))
	}
	if counters == nil {
		counters = make(map[string]int64)
	}
	for i := range places {
		counters[placeName(i)] = 1
	}
	var profiles []world.Profile
	for _, line := range block {
		w := split(line.text)
		if w.name != partName {
			return nil, nil, fmt.Errorf("%s: indented line %q: want part NAME …", r.of, line.text)
		}
		if err := w.conform(&form{usage: "NAME at=0,1 …", least: 1, most: 1, fields: []string{"at", "size", "count", "takes", "share", "gpu-memory"}}); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.of, err)
		}
		if err := named(partName, w.args[0]); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.of, err)
		}
		sub := &reader{of: r.of + ", part " + w.args[0], w: &w}
		profiles = append(profiles, sub.partsOf(w.args[0], places, r.gpuMemory(), counters)...)
		if sub.err != nil {
			return nil, nil, sub.err
		}
		if len(profiles) > cluster.MaxProfiles {
			return nil, nil, fmt.Errorf("%s: %d parts: at most %d", r.of, len(profiles), cluster.MaxProfiles)
		}
	}
	return counters, profiles, nil
}

func placeName(i int64) string { return fmt.Sprint("place-", i) }

// partsOf reads one line: so many parts of a kind, each at its places.
func (r *reader) partsOf(kind string, places int64, card quantity.Bytes, counters map[string]int64) (out []world.Profile) {
	size := r.number("size", 1, 1, maxPlaces)
	var starts []int64
	for _, text := range r.list("at") {
		at, ok := unsigned(text)
		if !ok || at+size > places || slices.Contains(starts, at) {
			r.fail("at", text, fmt.Sprintf("places of %d, several with commas, with room for %d from each", places, size))
			return nil
		}
		starts = append(starts, at)
	}
	if r.has("at") == r.has("count") {
		r.fail("count", r.text("count", ""), "either at= or count=")
		return nil
	}
	if !r.has("at") {
		for i := range r.number("count", 1, 1, cluster.MaxProfiles) {
			starts = append(starts, i)
		}
	}
	usual := int64(1)
	if r.has("at") {
		usual = 1000 * size / places
	}
	milli := r.number("share", usual, 1, int64(quantity.WholeGPU))
	memory := r.bytes("gpu-memory", card/quantity.Bytes(quantity.WholeGPU)*quantity.Bytes(milli))
	takes := r.amounts("takes")
	for _, start := range starts {
		p := world.Profile{Name: fmt.Sprint(kind, "-", start), Milli: quantity.MilliGPU(milli), Memory: memory, Consumes: make(map[string]int64)}
		for name, n := range takes { // order: a map is filled
			if _, known := counters[name]; !known {
				r.fail("takes", name, "a counter of the node")
				return nil
			}
			p.Consumes[name] = n
		}
		if r.has("at") {
			for k := range size {
				p.Consumes[placeName(start+k)] = 1
			}
		} else {
			counters[p.Name+" itself"] = 1
			p.Consumes[p.Name+" itself"] = 1
		}
		out = append(out, p)
	}
	return out
}

// amounts reads "name=2,other=5".
func (r *reader) amounts(name string) map[string]int64 {
	var out map[string]int64
	for _, text := range r.list(name) {
		key, digits, _ := strings.Cut(text, "=")
		n, ok := unsigned(digits)
		if !ok || !nameRE.MatchString(key) || n > 1_000_000 {
			r.fail(name, text, "NAME=AMOUNT, several with commas, up to 1000000 each")
			return nil
		}
		if out == nil {
			out = make(map[string]int64)
		}
		out[key] = n
	}
	return out
}

// anyPart and wholeCard are kinds of parts that no card needs to name.
const (
	anyPart   = "any"
	wholeCard = "card"
)

// selector is a condition on cards and parts: the kinds allowed, and the memory that
// each has at least.
type selector struct {
	name  string
	kinds []string
	least quantity.Bytes
}

// partSelector reads "part=1g,2g" of a pod; empty without.
func (in *interp) partSelector(r *reader, least quantity.Bytes) string {
	s := selector{kinds: r.list(partName), least: least}
	if len(s.kinds) == 0 {
		return ""
	}
	for _, kind := range s.kinds {
		if !nameRE.MatchString(kind) {
			r.fail(partName, kind, "names of parts with commas, any, or card")
			return ""
		}
	}
	slices.Sort(s.kinds)
	s.name = fmt.Sprintf("part:%s:%d", strings.Join(s.kinds, ","), least)
	if !slices.ContainsFunc(in.selectors, func(o selector) bool { return o.name == s.name }) {
		in.selectors = append(in.selectors, s)
	}
	return s.name
}

// picked adds to the facts which devices and parts meet the selectors.
func (in *interp) picked(facts *cluster.Facts) error {
	facts.Selected, facts.Parts = make(map[cluster.Symbol][]uint64), make(map[cluster.Symbol][]uint64)
	for i := range in.selectors {
		s := &in.selectors[i]
		if err := in.apply(world.Interned{Text: s.name}); err != nil {
			return err
		}
		v := in.view()
		set, parts := make([]uint64, (v.Devices.Len()+bits.UintSize-1)/bits.UintSize), make([]uint64, v.Devices.Len())
		for k := range v.Devices.Len() {
			d := v.Device(cluster.DeviceID(k)).Spec
			if slices.Contains(s.kinds, wholeCard) && (d.Memory == 0 || d.Memory >= s.least) {
				set[k/64] |= 1 << (k % 64)
			}
			for j := range d.Profiles {
				name := v.Symbols.Text(d.Profiles[j].Name)
				kind := name[:max(strings.LastIndexByte(name, '-'), 0)]
				if (slices.Contains(s.kinds, anyPart) || slices.Contains(s.kinds, kind)) && d.Profiles[j].Memory >= s.least {
					parts[k] |= 1 << j
				}
			}
		}
		facts.Selected[in.world.Symbol(s.name)], facts.Parts[in.world.Symbol(s.name)] = set, parts
	}
	return nil
}
