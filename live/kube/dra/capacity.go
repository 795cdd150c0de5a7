package dra

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type amounts = map[resourceapi.QualifiedName]resource.Quantity

// consumed returns what a request takes of each capacity of a device: what it asks
// for, rounded up as the device says; else the default, else all there is. It is
// false where the device has no such capacity or not as much.
func consumed(d *resourceapi.Device, asked *resourceapi.CapacityRequirements) (amounts, bool) {
	var requests amounts
	if asked != nil {
		requests = asked.Requests
	}
	for name := range requests { // order: all must be there
		if _, has := d.Capacity[name]; !has {
			return nil, false
		}
	}
	out := make(amounts, len(d.Capacity))
	for name := range d.Capacity { // order: each entry has a place of its own
		c := d.Capacity[name]
		amount := c.Value
		if c.RequestPolicy != nil && c.RequestPolicy.Default != nil {
			amount = *c.RequestPolicy.Default
		}
		if request, some := requests[name]; some {
			var ok bool
			if amount, ok = rounded(request, c.RequestPolicy); !ok {
				return nil, false
			}
		}
		if amount.Sign() < 0 || amount.Cmp(c.Value) > 0 {
			return nil, false
		}
		out[name] = amount
	}
	return out, true
}

// rounded returns the least amount that a policy allows and that is enough; false
// where it allows none.
func rounded(request resource.Quantity, p *resourceapi.CapacityRequestPolicy) (resource.Quantity, bool) {
	switch {
	case p == nil:
		return request, true
	case len(p.ValidValues) > 0:
		for _, v := range p.ValidValues { // sorted, as the API server demands
			if v.Cmp(request) >= 0 {
				return v, true
			}
		}
		return request, false
	case p.ValidRange == nil:
		return request, true
	}
	r, amount := p.ValidRange, request
	if r.Min != nil && amount.Cmp(*r.Min) < 0 {
		amount = *r.Min
	} else if r.Step != nil && r.Min != nil {
		var ok bool
		if amount, ok = stepped(amount, *r.Min, *r.Step); !ok {
			return request, false
		}
	}
	return amount, r.Max == nil || amount.Cmp(*r.Max) <= 0
}

// stepped rounds an amount up to a whole number of steps above a minimum. It gives
// up on amounts that are no 64-bit integers: then the device is left out.
func stepped(amount, least, step resource.Quantity) (resource.Quantity, bool) {
	a, ok1 := amount.AsInt64()
	m, ok2 := least.AsInt64()
	s, ok3 := step.AsInt64()
	if !ok1 || !ok2 || !ok3 || s <= 0 || m < 0 || a < m || a > maxAmount {
		return amount, false
	}
	if over := (a - m) % s; over != 0 {
		a += s - over
	}
	return *resource.NewQuantity(a, step.Format), true
}

// maxAmount keeps rounding far from the end of 64 bits.
const maxAmount = 1 << 62
