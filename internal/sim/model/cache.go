package model

import (
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// NodeCache is the disk that a node keeps for images and weights.
const NodeCache quantity.Bytes = 256_000_000_000

// Cache is what a node has on its disk for pods to come, or has begun to fetch. When it
// is full, the kind that was used longest ago goes. The zero value holds nothing, ever;
// use NewCache.
type Cache struct {
	capacity, used quantity.Bytes
	entries        []entry // last used last; few, since entries are large
}

// Part is what of a kind is fetched by itself.
type Part uint8

const (
	PartImage Part = iota
	PartWeights
	parts = 2
)

// PartSize is how large a part of what a pod needs is.
func PartSize(u *trace.Use, part Part) quantity.Bytes {
	return [parts]quantity.Bytes{u.Image, u.Weights}[part]
}

// PartRate is how many bytes of a part are fetched per second.
func PartRate(part Part) quantity.Bytes { return [parts]quantity.Bytes{ImageRate, WeightsRate}[part] }

// Fetches is how long it takes to fetch so much of a part.
func Fetches(size quantity.Bytes, part Part) moment.Span { return fetch(size, PartRate(part)) }

// entry is what is there of one kind.
type entry struct {
	kind string
	size quantity.Bytes // of what is there
	has  [parts]bool
	part [parts]quantity.Bytes
	// ready is from when on a part that is there can be used.
	ready [parts]moment.Instant
}

// Gone is a part of a kind that is not there any more.
type Gone struct {
	Kind string
	Part Part
}

// NewCache returns an empty cache of a capacity.
func NewCache(capacity quantity.Bytes) Cache { return Cache{capacity: capacity} }

// Holds says what of a pod is there, or on its way. Pods without a kind share nothing.
func (c *Cache) Holds(p *trace.Pod) Cached {
	i := c.find(p.Kind)
	if i < 0 {
		return Cached{}
	}
	return Cached{Image: c.entries[i].has[PartImage], Weights: c.entries[i].has[PartWeights]}
}

// Use records that a pod starts, whose image and weights are then there.
func (c *Cache) Use(p *trace.Pod) { c.Start(p, 0) }

// Start is the time from a bind at an instant to the first useful work: what is not there
// is fetched, the image before the weights; what somebody else fetches already is waited
// for. It returns what goes from the cache for it.
func (c *Cache) Start(p *trace.Pod, now moment.Instant) (moment.Span, []Gone) {
	e := entry{kind: p.Kind, size: p.Use.Image + p.Use.Weights, has: [parts]bool{true, true}, part: [parts]quantity.Bytes{p.Use.Image, p.Use.Weights}}
	old, at := entry{}, now
	i := c.find(p.Kind)
	if i >= 0 {
		old = c.entries[i]
	}
	for part := range e.ready {
		if old.has[part] {
			at = max(at, old.ready[part])
			e.ready[part] = old.ready[part]
			continue
		}
		at = at.Add(Fetches(e.part[part], Part(part)))
		e.ready[part] = at
	}
	span := at.Since(now) + p.Use.WarmUp
	if p.Kind == "" || e.size > c.capacity {
		return span, nil
	}
	if i >= 0 {
		c.remove(i)
	}
	var gone []Gone
	for c.used+e.size > c.capacity {
		for part, had := range c.entries[0].has {
			if had {
				gone = append(gone, Gone{c.entries[0].kind, Part(part)})
			}
		}
		c.remove(0)
	}
	c.entries = append(c.entries, e)
	c.used += e.size
	return span, gone
}

// Fetch begins to fetch a part of a kind ahead; it says no where there is no room.
func (c *Cache) Fetch(kind string, part Part, size quantity.Bytes, ready moment.Instant) bool {
	if c.used+size > c.capacity || kind == "" {
		return false
	}
	e := entry{kind: kind}
	if i := c.find(kind); i >= 0 {
		if c.entries[i].has[part] {
			return false
		}
		e = c.entries[i]
		c.entries = slices.Delete(c.entries, i, i+1)
	}
	e.has[part], e.part[part], e.ready[part] = true, size, ready
	e.size += size
	c.used += size
	c.entries = append(c.entries, e)
	return true
}

// Drop lets a part of a kind go.
func (c *Cache) Drop(kind string, part Part) {
	i := c.find(kind)
	if i < 0 || !c.entries[i].has[part] {
		return
	}
	e := &c.entries[i]
	e.has[part] = false
	e.size -= e.part[part]
	c.used -= e.part[part]
	if !e.has[PartImage] && !e.has[PartWeights] {
		c.entries = slices.Delete(c.entries, i, i+1)
	}
}

// Ready is from when on a part that is there, or on its way, can be used.
func (c *Cache) Ready(kind string, part Part) (moment.Instant, bool) {
	i := c.find(kind)
	if i < 0 || !c.entries[i].has[part] {
		return 0, false
	}
	return c.entries[i].ready[part], true
}

// SetReady says when a part that is on its way can be used.
func (c *Cache) SetReady(kind string, part Part, at moment.Instant) {
	if i := c.find(kind); i >= 0 && c.entries[i].has[part] {
		c.entries[i].ready[part] = at
	}
}

func (c *Cache) find(kind string) int {
	for i := range c.entries {
		if c.entries[i].kind == kind && kind != "" {
			return i
		}
	}
	return -1
}

func (c *Cache) remove(i int) {
	c.used -= c.entries[i].size
	c.entries = append(c.entries[:i], c.entries[i+1:]...)
}
