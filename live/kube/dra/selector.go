package dra

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Selector is the part of a device request that only the rim can judge, device by
// device.
type Selector struct {
	// Name stands for it in the world: the same for the same conditions.
	Name string

	key     string
	content content
	share   share
}

// content is all that decides which devices meet a selector.
type content struct {
	Class       []resourceapi.DeviceSelector
	Request     []resourceapi.DeviceSelector
	Tolerations []resourceapi.DeviceToleration
	Capacity    *resourceapi.CapacityRequirements
	// Attributes must be there: constraints compare them.
	Attributes []resourceapi.FullyQualifiedName
}

// share is what one device gives to the request.
type share struct {
	Milli  quantity.MilliGPU
	Memory quantity.Bytes
}

// verdict is what was found of a device under some content.
type verdict struct {
	meets bool
	share share
	err   error
}

// expressions is how many compiled CEL expressions are kept; a cluster has a few
// dozen.
const expressions = 512

// compiled keeps CEL programs. The cache is safe for all uses at once.
var compiled = cel.NewCache(expressions, cel.Features{EnableConsumableCapacity: true}) // const: a cache of pure values

// hash names some content.
func hash(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("dra: hash %v: %v", parts, err))
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:hashBytes])
}

// hashBytes is enough that two contents never meet.
const hashBytes = 12

// newSelector resolves a selector against the devices there are: of each it takes
// the share that most of those who meet it would give, and leaves out the others.
// The answer is kept until a device changes.
func newSelector(c content, pools *Pools) resolved {
	key := hash(c)
	if r, known := pools.resolved[key]; known {
		return r
	}
	r := resolve(key, c, pools)
	pools.resolved[key] = r
	return r
}

// resolved is a selector with how many devices, and parts of cards, it picks, the most
// compute that one of these takes, and what was amiss with an expression where it picks
// none.
type resolved struct {
	selector   *Selector
	met, parts int
	most       quantity.MilliGPU
	err        error
}

func resolve(key string, c content, pools *Pools) (out resolved) {
	votes := make(map[share]int)
	parts, largest := 0, quantity.MilliGPU(0)
	for _, node := range pools.Nodes() {
		for _, d := range pools.nodes[node].devices {
			for _, one := range append([]*Device{d}, d.parts...) {
				v := one.judge(key, &c)
				if v.err != nil {
					out.err = v.err
				}
				if !v.meets {
					continue
				}
				votes[v.share]++
				if one.card == nil {
					out.met++
				} else {
					parts++
					largest = max(largest, one.profile.Milli)
				}
			}
		}
	}
	if len(votes) > 0 {
		out.err = nil // what the expression cannot be asked of is not meant
	}
	s := &Selector{key: key, content: c, share: asked(&c)}
	out.selector = s
	best := 0
	for given, n := range votes { // order: ties go to the larger share, then to more memory
		if n > best || n == best && (given.Milli > s.share.Milli || given.Milli == s.share.Milli && given.Memory > s.share.Memory) {
			best, s.share = n, given
		}
	}
	s.Name = "device:" + hash(key, s.share)
	if whole := (share{Milli: quantity.WholeGPU}); s.share == whole && parts > 0 {
		if out.parts, out.most = parts, largest; votes[whole] > parts {
			out.most = quantity.WholeGPU
		}
	}
	return out
}

// asked is the share that a request names itself, where no device is there to say.
func asked(c *content) share {
	out := share{Milli: quantity.WholeGPU}
	if c.Capacity == nil {
		return out
	}
	for name, amount := range c.Capacity.Requests { // order: at most one of each
		switch _, id := split(name); id {
		case computeCapacity:
			if n := amount.Value(); n > 0 && n < int64(quantity.WholeGPU) {
				out.Milli = quantity.MilliGPU(n)
			}
		case memoryCapacity:
			out.Memory = quantity.Bytes(max(amount.Value(), 0))
		}
	}
	if out.Milli == quantity.WholeGPU {
		out.Memory = 0
	}
	return out
}

// Devices returns, for each device of a node, whether it may serve the request.
func (s *Selector) Devices(devices []*Device) []bool {
	out := make([]bool, len(devices))
	for i, d := range devices {
		v := d.judge(s.key, &s.content)
		out[i] = v.meets && v.share == s.share
	}
	return out
}

// Parts returns, for each card of a node, the set of its profiles that may serve the
// request; nil where there are none. Parts are given as they are, so only a request
// that takes whole devices gets them.
func (s *Selector) Parts(devices []*Device) []uint64 {
	if s.share != (share{Milli: quantity.WholeGPU}) {
		return nil
	}
	var out []uint64
	for i, d := range devices {
		for k, part := range d.parts {
			if part.judge(s.key, &s.content).meets {
				if out == nil {
					out = make([]uint64, len(devices))
				}
				out[i] |= 1 << k
			}
		}
	}
	return out
}

// judge says what a device gives under some content, or remembers it.
func (d *Device) judge(key string, c *content) verdict {
	if d.object == nil {
		return verdict{}
	}
	if v, known := d.verdicts[key]; known {
		return v
	}
	if len(d.verdicts) >= expressions {
		clear(d.verdicts)
	}
	v := verdict{}
	if d.free(c) {
		v = d.answer(key, c)
	}
	d.verdicts[key] = v
	return v
}

// free says whether nothing about the device itself keeps a request off it: no taint, no
// condition that would have to be waited for, no attribute that it lacks to be compared.
func (d *Device) free(c *content) bool {
	o := d.object
	if len(o.BindingConditions) > 0 || blocked(d.pools.taints(d), c.Tolerations) {
		return false
	}
	for _, name := range c.Attributes {
		own, has := attribute(o, d.Driver, string(name))
		if !has {
			return false
		}
		// Parts are linked as their card is.
		if d.card != nil {
			if of, known := attribute(d.card.face(), d.Driver, string(name)); !known || !equality.Semantic.DeepEqual(own, of) {
				return false
			}
		}
	}
	return true
}

func (d *Device) weigh(c *content) verdict {
	o := d.object
	input := cel.Device{Driver: d.Driver, AllowMultipleAllocations: o.AllowMultipleAllocations, Attributes: o.Attributes, Capacity: o.Capacity}
	for _, list := range [][]resourceapi.DeviceSelector{c.Class, c.Request} {
		for i := range list {
			if list[i].CEL == nil {
				return verdict{err: fmt.Errorf("selector %d is of a kind that is not known", i)}
			}
			program := compiled.GetOrCompile(list[i].CEL.Expression)
			if program.Error != nil {
				return verdict{err: fmt.Errorf("selector %q: %w", list[i].CEL.Expression, program.Error)}
			}
			ok, _, err := program.DeviceMatches(context.Background(), input)
			if err != nil {
				return verdict{err: fmt.Errorf("selector %q on device %s: %w", list[i].CEL.Expression, d.ID, err)}
			}
			if !ok {
				return verdict{}
			}
		}
	}
	taken, ok := consumed(o, c.Capacity)
	if !ok {
		return verdict{}
	}
	whole := share{Milli: quantity.WholeGPU}
	if !d.shared {
		return verdict{meets: true, share: whole}
	}
	compute, exact := quantityOf(taken, d.compute)
	memory, exactMemory := quantityOf(taken, d.memory)
	switch {
	case !exact || !exactMemory || compute <= 0:
		return verdict{} // a part of a milli-GPU or of a byte, or none
	case compute >= int64(quantity.WholeGPU):
		return verdict{meets: true, share: whole}
	}
	return verdict{meets: true, share: share{Milli: quantity.MilliGPU(compute), Memory: quantity.Bytes(memory)}}
}

func quantityOf(taken amounts, name resourceapi.QualifiedName) (int64, bool) {
	amount, has := taken[name]
	if !has {
		return 0, true
	}
	return amount.AsInt64()
}

// blocked says whether a taint keeps a request off a device.
func blocked(taints []resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) bool {
	for _, t := range taints {
		if t.Effect != resourceapi.DeviceTaintEffectNoSchedule && t.Effect != resourceapi.DeviceTaintEffectNoExecute {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(o resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(o, t) }) {
			return true
		}
	}
	return false
}
