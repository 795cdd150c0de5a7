package dra

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/world"
)

// Need is what a claim that is not allocated yet asks for: one list of requests, or
// several to choose from, the best first.
type Need struct {
	Choices [][]Request
	// Missed says, where no device meets a request at all, which one.
	Missed string
}

// Request is one request of a claim.
type Request struct {
	// Name is the request's in the claim, with the subrequest's behind a slash.
	Name     string
	World    world.DeviceRequest
	Selector *Selector

	class       *resourceapi.DeviceClass
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
}

// Classes looks a device class up; nil where there is none.
type Classes func(name string) *resourceapi.DeviceClass

// NeedOf reads what a claim asks for. Why names the first thing in it that cannot
// be placed; it is empty where all can.
func NeedOf(c *resourceapi.ResourceClaim, classes Classes, pools *Pools) (need *Need, why string) {
	r := reader{spec: &c.Spec.Devices, classes: classes, pools: pools, need: &Need{}}
	if why := r.constraints(); why != "" {
		return nil, why
	}
	r.need.Choices = [][]Request{nil}
	for i := range r.spec.Requests {
		q := &r.spec.Requests[i]
		var given []Request
		for _, a := range alternatives(q) {
			one, why := r.request(&a)
			if why != "" {
				return nil, why
			}
			given = append(given, one)
		}
		switch {
		case len(given) == 0:
			return nil, fmt.Sprintf("request %s is of a kind that is not known", q.Name)
		case len(given) > 1 && len(r.need.Choices) > 1:
			return nil, "two requests with firstAvailable in one claim"
		}
		base := r.need.Choices
		r.need.Choices = nil
		for _, list := range base {
			for _, one := range given {
				r.need.Choices = append(r.need.Choices, append(slices.Clip(list), one))
			}
		}
	}
	for _, list := range r.need.Choices {
		total := int32(0)
		for i := range list {
			total += list[i].World.Count
		}
		if total > resourceapi.AllocationResultsMaxSize {
			return nil, fmt.Sprintf("%d devices in one claim, where at most %d are allowed", total, resourceapi.AllocationResultsMaxSize)
		}
	}
	return r.need, ""
}

// reader is the reading of one claim in progress.
type reader struct {
	spec    *resourceapi.DeviceClaim
	classes Classes
	pools   *Pools
	need    *Need
	island  map[string][]resourceapi.FullyQualifiedName // by request
	numa    map[string][]resourceapi.FullyQualifiedName
}

// constraints reads those that tie the devices of one request to each other.
func (r *reader) constraints() string {
	r.island, r.numa = make(map[string][]resourceapi.FullyQualifiedName), make(map[string][]resourceapi.FullyQualifiedName)
	for i := range r.spec.Constraints {
		c := &r.spec.Constraints[i]
		if c.MatchAttribute == nil {
			return fmt.Sprintf("constraint %d, which is not matchAttribute", i)
		}
		names := c.Requests
		if len(names) == 0 {
			for k := range r.spec.Requests {
				names = append(names, r.spec.Requests[k].Name)
			}
		}
		var into map[string][]resourceapi.FullyQualifiedName
		switch name := *c.MatchAttribute; {
		case len(names) > 1:
			return fmt.Sprintf("matchAttribute %s over several requests", name)
		case isIsland(name):
			into = r.island
		case isNUMA(name):
			into = r.numa
		default:
			return fmt.Sprintf("matchAttribute %s, where %s and %s are known", name, IslandMatch, NUMAMatch)
		}
		into[names[0]] = append(into[names[0]], *c.MatchAttribute)
	}
	return ""
}

// alternative is a request or subrequest in one form.
type alternative struct {
	name, parent string
	resourceapi.ExactDeviceRequest
}

func alternatives(q *resourceapi.DeviceRequest) []alternative {
	if q.Exactly != nil {
		return []alternative{{name: q.Name, ExactDeviceRequest: *q.Exactly}}
	}
	var out []alternative
	for _, s := range q.FirstAvailable {
		out = append(out, alternative{name: q.Name + "/" + s.Name, parent: q.Name, ExactDeviceRequest: resourceapi.ExactDeviceRequest{
			DeviceClassName: s.DeviceClassName, Selectors: s.Selectors, AllocationMode: s.AllocationMode, Count: s.Count,
			Tolerations: s.Tolerations, Capacity: s.Capacity, DerivedAttributes: s.DerivedAttributes,
		}})
	}
	return out
}

// request reads one request.
func (r *reader) request(a *alternative) (Request, string) {
	class := r.classes(a.DeviceClassName)
	switch {
	case class == nil:
		return Request{}, fmt.Sprintf("device class %s, which does not exist", a.DeviceClassName)
	case a.AllocationMode != resourceapi.DeviceAllocationModeExactCount && a.AllocationMode != "":
		return Request{}, fmt.Sprintf("request %s with allocation mode %s", a.name, a.AllocationMode)
	case a.AdminAccess != nil && *a.AdminAccess:
		return Request{}, fmt.Sprintf("request %s with access for administration", a.name)
	case len(a.DerivedAttributes) > 0:
		return Request{}, fmt.Sprintf("request %s with derived attributes", a.name)
	case a.Count > resourceapi.AllocationResultsMaxSize || a.Count < 0:
		return Request{}, fmt.Sprintf("%d devices in one claim, where at most %d are allowed", a.Count, resourceapi.AllocationResultsMaxSize)
	}
	c := content{Class: class.Spec.Selectors, Request: a.Selectors, Tolerations: a.Tolerations, Capacity: a.Capacity}
	out := Request{Name: a.name, class: class, tolerations: a.Tolerations, capacity: a.Capacity}
	out.World.Count = max(int32(a.Count), 1)
	for _, name := range []string{a.name, a.parent} {
		out.World.SameIsland = out.World.SameIsland || len(r.island[name]) > 0
		out.World.SameNUMA = out.World.SameNUMA || len(r.numa[name]) > 0
		c.Attributes = append(append(c.Attributes, r.island[name]...), r.numa[name]...)
	}
	found := newSelector(c, r.pools)
	s := found.selector
	switch {
	case found.err != nil:
		return Request{}, fmt.Sprintf("request %s, whose %v", a.name, found.err)
	case found.met+found.parts == 0:
		r.need.Missed = a.name
	}
	out.Selector = s
	out.World.Selector, out.World.Milli = s.Name, s.share.Milli
	switch {
	case found.parts > 0:
		out.World.Parts, out.World.Milli = true, found.most
	case !out.whole():
		out.World.Memory = s.share.Memory
	}
	return out, ""
}

func (r *Request) whole() bool { return r.World.Milli >= 1000 }

// split cuts a qualified name into its domain and the rest.
func split(name resourceapi.QualifiedName) (domain, id string) {
	domain, id, ok := strings.Cut(string(name), "/")
	if !ok {
		return "", domain
	}
	return domain, id
}
