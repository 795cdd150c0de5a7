package kube

import (
	"errors"
	"maps"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// The members of a group whose room others are to leave hold it together: when all of
// it has been left, all are bound in one cycle, each by one write of a worker of its
// own; until then none is. When one of them loses its hold, all do.

// bundles are the members that hold room together.
type bundles struct {
	last uint64
	size map[uint64]int // how many they were at first
}

// mates lists the pods that hold room together with one, by name.
func (b *books) mates(bundle uint64) []string {
	var keys []string
	for _, pods := range b.holds { // order: sorted below
		for key, p := range pods { // order: sorted below
			if p.bundle == bundle {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// breakUp ends the holds of bundles that lost a member. What is left of them waits
// again, and is decided about anew in this very cycle.
func (b *books) breakUp() {
	for _, bundle := range slices.Sorted(maps.Keys(b.bundles.size)) {
		if keys := b.mates(bundle); len(keys) != b.bundles.size[bundle] {
			b.disband(bundle, keys)
		}
	}
}

// disband takes the holds of a bundle back; its pods wait again.
func (b *books) disband(bundle uint64, keys []string) {
	delete(b.bundles.size, bundle)
	for _, key := range keys {
		p := b.pods[key]
		b.log.Warn("room that is made for a group is given back, because one of its members has lost its own", "pod", key, "node", p.node)
		b.withdraw(key, p)
		b.letGo(key, p)
	}
}

// letGo ends the hold of a pod, which waits again.
func (b *books) letGo(key string, p *pod) {
	b.unhold(key, p)
	b.must(world.HoldDropped{Name: key})
	b.toLine(p)
}

// toLine makes a pod wait again, of which the world knows that it does.
func (b *books) toLine(p *pod) {
	p.footing, p.node = waiting, ""
	b.stirred = true
}

// bindBundle returns the binds of pods that hold room together, where all of it has
// been left; nothing, where that is still to come.
func (b *books) bindBundle(bundle uint64) []Bind {
	keys := b.byRank(b.mates(bundle))
	emptying := false
	for _, key := range keys {
		node := b.pods[key].node
		id, _ := b.world.Node(node)
		if b.world.View().Node(id).Overdrawn {
			return nil
		}
		emptying = emptying || b.emptying(node)
	}
	nodes := make([]string, len(keys))
	for i, key := range keys {
		nodes[i] = b.pods[key].node
		b.letGo(key, b.pods[key])
	}
	var binds []Bind
	for i, key := range keys {
		bind, err := b.bindHeld(key, b.pods[key], nodes[i])
		if err == nil {
			binds = append(binds, bind)
			continue
		}
		for j := range binds {
			b.takeBack(&binds[j], err)
		}
		if !emptying {
			b.log.Warn("room that was made for a group is not used", "pod", key, "node", nodes[i], "because", err)
			delete(b.bundles.size, bundle)
			for _, key := range keys {
				b.withdraw(key, b.pods[key])
			}
			return nil
		}
		for i, key := range keys { // it is not room that one of them waits for
			b.hold(key, b.pods[key], nodes[i])
			b.pods[key].bundle = bundle
		}
		return nil
	}
	delete(b.bundles.size, bundle)
	for i := range binds {
		binds[i].bundle = bundle
	}
	return binds
}

// takeBack takes back a bind that nobody has begun to carry out.
func (b *books) takeBack(bind *Bind, why error) {
	p := b.pods[bind.Key]
	if p == nil || p.footing != placing || p.serial != bind.serial {
		return
	}
	b.land(&Outcome{Bind: *bind, Err: why})
	b.must(world.BindRefused{Name: bind.Key, Withdrawn: true})
	b.toLine(p)
}

// errWithout is why a member of a group is not bound.
var errWithout = errors.New("another member of its group cannot be bound, and it does not start without")

// takeBackMates takes back, of binds that nobody has begun to carry out, those of
// groups that would start without enough members, and returns the others. Refused are
// the bundles of which a bind was taken back; release is told of each one that is.
func (b *books) takeBackMates(binds []Bind, refused map[uint64]bool, release func(key string)) []Bind {
	if len(refused) == 0 {
		return binds
	}
	lacking := make([]cluster.GroupID, len(binds)) // by bind: the group that lacks members
	of := make(map[cluster.GroupID]int32)
	for i := range binds {
		lacking[i] = cluster.None
		if refused[binds[i].bundle] {
			lacking[i] = b.lacking(binds[i].Key)
			of[lacking[i]]++
		}
	}
	var doomed []uint64
	for i, group := range lacking {
		// Where some are in place besides, it has started: the others stay, and it is
		// repaired.
		if group != cluster.None && b.world.View().Group(group).TreePlaced <= of[group] {
			doomed = append(doomed, binds[i].serial)
		}
	}
	return slices.DeleteFunc(binds, func(bind Bind) bool {
		if !slices.Contains(doomed, bind.serial) {
			return false
		}
		release(bind.Key)
		b.takeBack(&bind, errWithout)
		return true
	})
}

// lacking returns the group of a pod, or the one above it, that has fewer members in
// place than it needs; None where there is none.
func (b *books) lacking(key string) cluster.GroupID {
	id, known := b.world.Pod(key)
	if !known {
		return cluster.None
	}
	v := b.world.View()
	return v.Unit(v.Pod(id).Spec.Group)
}
