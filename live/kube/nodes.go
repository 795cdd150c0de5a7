package kube

import (
	"maps"
	"reflect"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// nodeSeen takes in what the API server tells of a node. A node that changed in
// more than its readiness is taken out of the world and put back, with all that
// is on it.
func (b *books) nodeSeen(seen facts.Node) {
	name := seen.Added.Name
	n := b.nodes[name]
	switch {
	case n == nil:
		n = &node{seen: seen, over: make(map[string]*pod)}
		b.nodes[name] = n
		b.raise(name, n)
		b.stirred = true
	case !reflect.DeepEqual(n.seen.Added, seen.Added):
		inFlight := b.clear(name)
		n.seen = seen
		b.raise(name, n)
		b.relaunch(name, inFlight)
		b.stirred = true
	default:
		b.stirred = b.stirred || seen.Ready != n.seen.Ready
		n.seen.Ready = seen.Ready
	}
	b.revive(name, n)
}

// nodeGone takes in that a node is deleted. Binds in flight to it will be told
// apart by their outcome; pods bound to it hold nothing any more.
func (b *books) nodeGone(name string) {
	if b.nodes[name] == nil {
		return
	}
	for _, key := range b.clear(name) {
		b.pods[key].node = ""
	}
	delete(b.nodes, name)
	b.stirred = true
}

// clear takes a node out of the world. Its pods are left outside, save those
// with a bind in flight: they wait, and their names are returned.
func (b *books) clear(name string) (inFlight []string) {
	v := b.world.View()
	id, _ := b.world.Node(name)
	var keys []string
	for _, row := range v.Node(id).Pods {
		keys = append(keys, v.Pod(row).Spec.Name)
	}
	b.must(world.NodeRemoved{Name: name})
	for _, key := range keys {
		p := b.pods[key]
		if p.footing == placing {
			p.footing = waiting
			inFlight = append(inFlight, key)
			continue
		}
		b.must(world.PodRemoved{Name: key})
		p.footing, p.node, p.running = outside, "", false
	}
	return inFlight
}

// raise puts a node into the world, with the pods that are bound to it.
func (b *books) raise(name string, n *node) {
	for _, d := range n.seen.Domains {
		if !b.places[d.Name] {
			b.must(d)
			b.places[d.Name] = true
		}
	}
	b.must(n.seen.Added)
	n.life = n.seen.Added.Life
	clear(n.over)
	for _, key := range slices.Sorted(maps.Keys(b.at[name])) {
		b.settle(key, b.at[name][key])
	}
}

// relaunch charges the binds that are in flight to a node which was put back.
func (b *books) relaunch(name string, keys []string) {
	for _, key := range keys {
		p := b.pods[key]
		if err := b.accept(key, name); err != nil {
			// The bind cannot be called back. If it is carried out, the pod is bound
			// here and closes the node; if it is refused, it waits.
			b.log.Warn("a bind in flight does not fit its changed node", "pod", key, "node", name, "because", err)
			p.node = ""
			continue
		}
		p.footing = placing
	}
}

// live moves a node to a station of its life, if it is not there.
func (b *books) live(name string, n *node, life cluster.Life) {
	if n.life != life {
		b.must(world.NodeLife{Name: name, Life: life})
		n.life = life
	}
}

// revive gives a node the life that its readiness and its load ask for.
func (b *books) revive(name string, n *node) {
	life := cluster.LifeDraining
	if n.seen.Ready && len(n.over) == 0 {
		life = cluster.LifeReady
	}
	b.live(name, n, life)
}

// retryOver charges the pods that did not fit, where something has left since.
func (b *books) retryOver() {
	for len(b.retry) > 0 {
		name := b.retry[0]
		b.retry = b.retry[1:]
		n := b.nodes[name]
		if n == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(n.over)) {
			b.settle(key, n.over[key])
		}
		b.revive(name, n)
	}
}
