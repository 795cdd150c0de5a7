package kube

import (
	"maps"
	"reflect"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// nodeSeen takes in what the API server tells of a node. What is on it stays, and
// so do binds in flight.
func (b *books) nodeSeen(seen facts.Node) {
	seen = b.equipped(seen)
	seen.Images = nil // imagesSeen looks at them
	name := seen.Added.Name
	n := b.nodes[name]
	life := cluster.LifeDraining
	if seen.Ready {
		life = cluster.LifeReady
	}
	b.locate(&seen)
	told := seen.Added
	told.Life = life
	switch {
	case n == nil:
		if err := b.apply(told); err != nil {
			b.log.Error("a node cannot be taken in, and nothing is placed there", "node", name, "because", err)
			return
		}
		b.nodes[name] = &node{seen: seen, life: life}
		for _, key := range slices.Sorted(maps.Keys(b.at[name])) {
			b.settle(key, b.at[name][key])
		}
	case !reflect.DeepEqual(n.seen.Added, seen.Added):
		if err := b.apply(world.NodeChanged{NodeAdded: told}); err != nil {
			b.log.Error("a change of a node cannot be taken in; it takes nothing new", "node", name, "because", err)
			life = cluster.LifeDraining
			b.must(world.NodeLife{Name: name, Life: life})
		}
		n.seen, n.life = seen, life
	case n.life != life:
		b.must(world.NodeLife{Name: name, Life: life})
		n.seen, n.life = seen, life
	default:
		return
	}
	b.moved(name)
	b.volumesStirred()
	b.stirred = true
}

// locate tells the world of the domains that a node is in. One of a name that
// another place has, on another level or elsewhere, gets a name of its own.
func (b *books) locate(seen *facts.Node) {
	parent := ""
	for _, d := range seen.Domains {
		d.Parent = parent
		for old, known := b.places[d.Name]; known && old != d; old, known = b.places[d.Name] {
			d.Name += " (" + d.Level.String() + ")"
		}
		if _, known := b.places[d.Name]; !known {
			b.must(d)
			b.places[d.Name] = d
		}
		parent = d.Name
	}
	seen.Added.Domain = parent
}

// nodeGone takes in that a node is deleted. Pods bound to it hold nothing any more.
// Binds in flight to it wait again, and will be told apart by their outcome.
func (b *books) nodeGone(name string) {
	b.unequipped(name)
	b.imagesGone(name)
	if b.nodes[name] == nil {
		return
	}
	v := b.world.View()
	id, _ := b.world.Node(name)
	var keys []string
	for _, row := range v.Node(id).Pods {
		keys = append(keys, v.Pod(row).Spec.Name)
	}
	b.must(world.NodeRemoved{Name: name})
	for _, key := range keys {
		p := b.pods[key]
		b.unhold(key, p)
		if p.footing == placing || p.footing == holding {
			p.footing, p.node = waiting, ""
			continue
		}
		b.drop(key, p)
	}
	delete(b.nodes, name)
	b.moved(name)
	b.volumesStirred()
	b.stirred = true
}
