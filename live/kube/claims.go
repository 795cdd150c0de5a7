package kube

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// draws are what the books know of devices that we pick ourselves. Who holds the
// devices of a claim changes hands:
//
//	claim unallocated ─▶ pod placing: the pod's grants ─▶ written ─▶ pod bound: the claim
//	                         └▶ pod gone before the outcome: the claim, as it is in the air
//
// so that at every moment they are charged once.
type draws struct {
	pools   *dra.Pools
	classes map[string]*resourceapi.DeviceClass
	claims  map[string]*claim
	// raws are pods with claims, and nodes, as they were read.
	raws  map[string]facts.Pod
	nodes map[string]facts.Node
	plans map[string]plan // of waiting pods
	dirty map[string]bool // claims whose charge may have to change
	// judged are the selectors that the facts of the world are about, as of a version
	// of the pools; stale says that nodes have come or gone since.
	judged  map[string]*dra.Selector
	version uint64
	stale   bool
}

// claim is what is known of one.
type claim struct {
	object  *resourceapi.ResourceClaim // nil: it is not there
	users   map[string]bool            // the pods that need it
	flight  *flight                    // the allocation that is being written; nil for none
	charged *hold                      // what the world was told
	since   time.Time                  // when it was first seen as it is
}

// flight is an allocation on its way to the API server.
type flight struct {
	pod, uid string
	devices  []world.DeviceRequest // of the pod's row that holds them
	result   *resourceapi.AllocationResult
	landed   bool
}

// hold is what a claim holds in the world.
type hold struct {
	node string
	held []world.Held
}

// plan is how a waiting pod's device requests follow from its claims.
type plan struct {
	own   int // device requests that come from no claim, the first ones
	steps []claimStep
	// bridge is how its extended resources may come from a driver; nil for not at all.
	bridge *bridge
}

// claimStep is one claim of a plan. Without choices the claim is allocated already.
type claimStep struct {
	name    string
	choices [][]dra.Request
}

// Draw is what is written to one claim before a pod that needs it is bound: an
// allocation, or only the reservation where there is one already.
type Draw struct {
	Claim  *resourceapi.ResourceClaim
	Result *resourceapi.AllocationResult
	// Uses says, for a claim that is to be made first, which container uses what of it.
	Uses []corev1.ContainerExtendedResourceRequest
}

// name is what the claim is known by; one that is not made yet by its pod.
func (d *Draw) name() string {
	if len(d.Uses) > 0 {
		return pending(d.Claim.Namespace + "/" + d.Claim.OwnerReferences[0].Name)
	}
	return d.Claim.Namespace + "/" + d.Claim.Name
}

func newDraws() draws {
	return draws{
		pools: dra.NewPools(), classes: make(map[string]*resourceapi.DeviceClass), claims: make(map[string]*claim),
		raws: make(map[string]facts.Pod), nodes: make(map[string]facts.Node), plans: make(map[string]plan), dirty: make(map[string]bool),
		judged: make(map[string]*dra.Selector),
	}
}

// sliceSeen takes in a ResourceSlice.
func (b *books) sliceSeen(s *resourceapi.ResourceSlice) { b.equip(b.draws.pools.Put(s)) }

// sliceGone takes in that a ResourceSlice is deleted.
func (b *books) sliceGone(name string) { b.equip(b.draws.pools.Delete(name)) }

// equip gives nodes the devices that they have now, and looks at claims again.
func (b *books) equip(nodes []string) {
	for _, name := range nodes {
		b.touch(name)
		if raw, known := b.draws.nodes[name]; known {
			b.nodeSeen(raw)
		}
	}
	b.reread()
}

// ruleSeen takes in a rule that taints devices, or that it is gone.
func (b *books) ruleSeen(name string, r *resourceapi.DeviceTaintRule) {
	if r == nil {
		b.draws.pools.DeleteRule(name)
	} else {
		b.draws.pools.PutRule(r)
	}
	b.reread()
}

// classSeen takes in a device class, or that it is gone.
func (b *books) classSeen(name string, c *resourceapi.DeviceClass) {
	if c == nil {
		delete(b.draws.classes, name)
	} else {
		b.draws.classes[name] = c
	}
	b.reread()
}

// reread looks again at all pods that wait with claims.
func (b *books) reread() {
	for _, key := range slices.Sorted(maps.Keys(b.draws.raws)) {
		if raw := b.draws.raws[key]; raw.Standing == facts.Waiting {
			b.podSeen(key, raw)
		}
	}
}

// equipped adds to a node the devices that drivers offer on it. They are the only
// ones it has then: a card has one authority.
func (b *books) equipped(seen facts.Node) facts.Node {
	name := seen.Added.Name
	if old, known := b.draws.nodes[name]; !known || !reflect.DeepEqual(old.Added, seen.Added) {
		b.touch(name)
	}
	b.draws.nodes[name] = seen
	devices, managed := b.draws.pools.Devices(name)
	if !managed && len(devices) == 0 {
		return seen
	}
	seen.Added.Authority, seen.Added.Selective = cluster.AuthorityDRA, true
	seen.Added.Devices = make([]world.Device, len(devices))
	unknown := true // to the drivers, what is linked
	for i, d := range devices {
		seen.Added.Devices[i] = d.World
		unknown = unknown && d.World.Island == cluster.None
	}
	if seen.Linked && unknown {
		for i := range seen.Added.Devices {
			seen.Added.Devices[i].Island = 0
		}
	}
	return seen
}

// unequipped forgets a node.
func (b *books) unequipped(name string) {
	delete(b.draws.nodes, name)
	b.touch(name)
}

// touch marks what is known of the devices of a node, and the claims on it, as out
// of date.
func (b *books) touch(node string) {
	if len(b.draws.claims) == 0 && len(b.draws.judged) == 0 {
		return
	}
	b.draws.stale = true
	for name, c := range b.draws.claims { // order: a set is filled
		if c.charged != nil && c.charged.node == node || c.object != nil && c.object.Status.Allocation != nil {
			b.draws.dirty[name] = true
		}
	}
}

// claimSeen takes in a claim. What is older than what is known is history: the
// answer to a write of our own may come before the watch tells of what was before.
func (b *books) claimSeen(object *resourceapi.ResourceClaim) {
	name := object.Namespace + "/" + object.Name
	c := b.claim(name)
	old := c.object
	if old != nil && old.UID == object.UID && older(object.ResourceVersion, old.ResourceVersion) {
		return
	}
	c.object = object
	b.adopt(c)
	b.draws.dirty[name] = true
	if old == nil || old.UID != object.UID || (old.Status.Allocation == nil) != (object.Status.Allocation == nil) ||
		(old.DeletionTimestamp == nil) != (object.DeletionTimestamp == nil) {
		b.stirred = true
		c.since = b.now
		b.recall(c)
	}
}

// older says whether a resource version comes before another.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// claimGone takes in that a claim is deleted.
func (b *books) claimGone(name string, uid types.UID) {
	c := b.draws.claims[name]
	if c == nil || c.object == nil || c.object.UID != uid {
		return
	}
	c.object = nil
	b.draws.dirty[name] = true
	b.stirred = true
	b.recall(c)
}

func (b *books) claim(name string) *claim {
	c := b.draws.claims[name]
	if c == nil {
		c = &claim{users: make(map[string]bool)}
		b.draws.claims[name] = c
	}
	return c
}

// recall looks again at the pods that need a claim.
func (b *books) recall(c *claim) {
	for _, key := range slices.Sorted(maps.Keys(c.users)) {
		if raw, known := b.draws.raws[key]; known {
			b.podSeen(key, raw)
		}
	}
}

// claimed turns the claims of a pod into what it asks of a node. The claims of a
// bound pod hold its devices themselves.
func (b *books) claimed(key string, seen facts.Pod) facts.Pod {
	b.unclaim(key)
	if len(seen.Claims)+len(seen.Asked) == 0 || seen.Standing == facts.Absent {
		return seen
	}
	b.draws.raws[key] = seen
	for _, c := range seen.Claims {
		if name := seen.ClaimKey(&c); name != "" {
			b.claim(name).users[key] = true
		}
	}
	if seen.Standing != facts.Waiting {
		return seen
	}
	r := resolution{books: b, pod: &seen, requests: []world.Request{seen.Added.Request}}
	r.plan.own = len(seen.Added.Request.Devices)
	for i := range seen.Claims {
		if !r.take(&seen.Claims[i]) {
			seen.Standing = facts.Held
			return seen
		}
	}
	if !r.cross() {
		seen.Standing = facts.Held
		return seen
	}
	seen.Added.Request, seen.Added.Alternatives = r.requests[0], r.requests[1:]
	if len(seen.Added.Alternatives) == 0 {
		seen.Added.Alternatives = nil
	}
	b.draws.plans[key] = r.plan
	return seen
}

// unclaim forgets what a pod needs.
func (b *books) unclaim(key string) {
	raw, known := b.draws.raws[key]
	if !known {
		return
	}
	delete(b.draws.raws, key)
	delete(b.draws.plans, key)
	for _, c := range raw.Claims {
		name := raw.ClaimKey(&c)
		if own := b.draws.claims[name]; own != nil {
			delete(own.users, key)
			b.draws.dirty[name] = true
		}
	}
}

// drawn turns the grants of a decision into what is to be written to the pod's
// claims. It says no where a claim is on its way already, for another pod.
func (b *books) drawn(v *cluster.View, key string, d *decision.Decision) ([]Draw, error) {
	p, needs := b.draws.plans[key]
	if !needs {
		return nil, nil
	}
	choice := 0
	for spec := v.Pod(d.Pod).Spec; ; choice++ {
		if shape, more := spec.Asks(choice); !more || shape == d.Place.Shape {
			break
		}
	}
	bridged := p.bridge != nil && choice >= p.bridge.from
	if bridged {
		p.own, choice = 0, 0
	}
	host := v.Node(d.Place.Node)
	devices, _ := b.draws.pools.Devices(host.Spec.Name)
	next := 0
	for i := range p.own {
		next += int(v.Shape(d.Place.Shape).Devices[i].Count)
	}
	pick := func(requests []dra.Request) (picked []*dra.Device, err error) {
		for k := range requests {
			for range requests[k].World.Count {
				g := &d.Place.Grants[next]
				position := int(g.Device - host.Spec.FirstDevice)
				var unit *dra.Device
				if position < len(devices) {
					unit = devices[position].Unit(v.Symbols.Text(g.Profile))
				}
				if unit == nil {
					return nil, fmt.Errorf("the devices of node %s have changed", host.Spec.Name)
				}
				picked = append(picked, unit)
				next++
			}
		}
		return picked, nil
	}
	var out []Draw
	for i := range p.steps {
		s := &p.steps[i]
		c := b.claim(s.name)
		if c.object == nil || c.flight != nil && !c.flight.landed {
			return nil, fmt.Errorf("the resource claim %s is being written", s.name)
		}
		draw := Draw{Claim: c.object}
		if len(s.choices) > 0 {
			requests := s.choices[choice%len(s.choices)]
			picked, err := pick(requests)
			if err != nil {
				return nil, err
			}
			result, err := dra.Allocate(c.object, requests, host.Spec.Name, picked)
			if err != nil {
				return nil, err
			}
			draw.Result = result
		}
		out = append(out, draw)
	}
	if !bridged {
		return out, nil
	}
	if c := b.draws.claims[pending(key)]; c != nil && c.flight != nil && !c.flight.landed {
		return nil, errors.New("the claim for its extended resources is being written")
	}
	picked, err := pick(p.bridge.choice)
	if err != nil {
		return nil, err
	}
	result, err := dra.Allocate(p.bridge.claim, p.bridge.choice, host.Spec.Name, picked)
	if err != nil {
		return nil, err
	}
	return append(out, Draw{Claim: p.bridge.claim, Result: result, Uses: p.bridge.uses}), nil
}

// takeOff books that allocations are on their way.
func (b *books) takeOff(key string, p *pod, draws []Draw) {
	for i := range draws {
		if draws[i].Result == nil {
			continue
		}
		name := draws[i].name()
		if c := b.claim(name); c.flight != nil && !c.flight.landed {
			continue // of two in one bundle that share a claim, the first to write it wins
		}
		b.claim(name).flight = &flight{pod: key, uid: p.seen.UID, devices: p.entered.Request.Devices, result: draws[i].Result}
	}
}

// land takes in what became of the claims of a bind.
func (b *books) land(o *Outcome) {
	for _, object := range o.Claims {
		b.claimSeen(object)
	}
	names := make([]string, 0, len(o.Bind.Draws)+len(o.Claims)+len(o.Gone))
	for i := range o.Bind.Draws {
		names = append(names, o.Bind.Draws[i].name())
	}
	for _, object := range slices.Concat(o.Claims, o.Gone) {
		names = append(names, object.Namespace+"/"+object.Name)
	}
	for _, name := range names {
		if c := b.draws.claims[name]; c != nil && c.flight != nil && c.flight.uid == o.Bind.UID {
			c.flight.landed = true
			b.draws.dirty[name] = true
		}
	}
	for _, object := range o.Gone {
		b.claimGone(object.Namespace+"/"+object.Name, object.UID)
	}
}

// settleClaims makes the world charge what claims hold, where something may have
// changed.
func (b *books) settleClaims() {
	d := &b.draws
	for name, c := range d.claims { // order: a set is filled
		if c.flight != nil {
			d.dirty[name] = true
		}
	}
	if len(d.dirty) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(d.dirty))
	clear(d.dirty)
	for _, name := range names {
		// A bound pod hands its devices over.
		if f := d.claims[name].flight; f != nil && f.landed {
			if p := b.pods[f.pod]; b.stillOf(f) && p.seen.Standing == facts.Charged {
				b.settle(f.pod, p)
			}
		}
	}
	var charge []string
	for _, name := range names {
		c := d.claims[name]
		if c.flight != nil && c.flight.landed && !b.stillOf(c.flight) {
			c.flight = nil
		}
		want := b.wants(c)
		if b.world.Claim(name) && (want == nil || !reflect.DeepEqual(want, c.charged)) {
			b.must(world.ClaimReleased{Name: name})
			c.charged = nil
			b.stirred = true
		}
		if want != nil && !b.world.Claim(name) {
			c.charged = want
			charge = append(charge, name)
		}
		if c.object == nil && c.flight == nil && len(c.users) == 0 && want == nil {
			delete(d.claims, name)
		}
	}
	for _, name := range charge {
		h := d.claims[name].charged
		b.must(world.ClaimAllocated{Name: name, Node: h.node, Held: h.held})
	}
}

// stillOf says whether the row of the pod that an allocation is written for holds its
// devices.
func (b *books) stillOf(f *flight) bool {
	p := b.pods[f.pod]
	return p != nil && p.seen.UID == f.uid && (p.footing == placing || p.footing == charged) && reflect.DeepEqual(p.entered.Request.Devices, f.devices)
}

// wants returns what a claim should hold in the world; nil for nothing.
func (b *books) wants(c *claim) *hold {
	var allocated *resourceapi.AllocationResult
	if c.object != nil {
		allocated = c.object.Status.Allocation
	}
	switch f := c.flight; {
	case f != nil && b.stillOf(f) && (allocated == nil || dra.Same(allocated, f.result)):
		return nil // the pod holds them
	case allocated == nil && f != nil && !f.landed:
		allocated = f.result
	}
	if allocated == nil {
		return nil
	}
	node, held := b.draws.pools.Held(allocated)
	if _, known := b.world.Node(node); !known || len(held) == 0 {
		return nil
	}
	return &hold{node: node, held: held}
}
