package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

func levels() []string { return []string{"island", "node", "rack", "zone", "region", "cloud"} }

func (in *interp) addDomain(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("domain", name); err != nil {
		return nil, err
	}
	r := c.reader("domain " + name)
	level := cluster.Level(r.oneOf("level", "", levels()))
	parent := r.name("parent")
	if r.err != nil {
		return nil, r.err
	}
	if at, ok := in.domain(parent); ok && in.view().Domains.At(int32(at)).Level <= level {
		return nil, fmt.Errorf("domain %s: field parent: value %q: a %v is not above a %v", name, parent, in.view().Domains.At(int32(at)).Level, level)
	}
	return nil, in.apply(world.DomainAdded{Name: name, Level: level, Parent: parent})
}

// domain finds a domain by name.
func (in *interp) domain(name string) (cluster.DomainID, bool) {
	v := in.view()
	for i := range v.Domains.Len() {
		if v.Domains.At(int32(i)).Name == name {
			return cluster.DomainID(i), true
		}
	}
	return cluster.None, false
}

// domainOf returns the innermost domain of a node: the one named, or its rack
// and zone, which are made where they are new.
func (in *interp) domainOf(r *reader) (string, error) {
	name, rack, zone := r.name("domain"), r.name("rack"), r.name("zone")
	switch {
	case r.err != nil:
		return "", r.err
	case name != "" && rack+zone != "":
		return "", fmt.Errorf("%s: field domain: value %q: not together with rack or zone", r.of, name)
	case name != "":
		if _, ok := in.domain(name); !ok {
			return "", fmt.Errorf("%s: field domain: value %q: no such domain%s", r.of, name, suggestAny(name, in.domainNames()))
		}
		return name, nil
	}
	if zone != "" {
		if err := in.ensureDomain(zone, cluster.LevelZone, ""); err != nil {
			return "", err
		}
	}
	if rack == "" {
		return zone, nil
	}
	if zone != "" {
		rack = strings.Join([]string{zone, rack}, "/")
	}
	return rack, in.ensureDomain(rack, cluster.LevelRack, zone)
}

func (in *interp) ensureDomain(name string, level cluster.Level, parent string) error {
	id, ok := in.domain(name)
	if !ok {
		return in.apply(world.DomainAdded{Name: name, Level: level, Parent: parent})
	}
	if is := in.view().Domains.At(int32(id)).Level; is != level {
		return fmt.Errorf("domain %s: it is a %v, not a %v", name, is, level)
	}
	return nil
}

func (in *interp) domainNames() []string {
	v := in.view()
	out := make([]string, v.Domains.Len())
	for i := range out {
		out[i] = v.Domains.At(int32(i)).Name
	}
	slices.Sort(out)
	return out
}
