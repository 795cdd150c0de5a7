package kube

import (
	"maps"

	"github.com/headrace-dev/headrace/internal/world"
)

// relabel tells the world that a pod's labels changed, which may change who can be
// beside whom.
func (b *books) relabel(key string, p *pod) {
	if p.footing == outside || maps.Equal(p.entered.Labels, p.seen.Added.Labels) {
		return
	}
	b.must(world.PodLabelled{Name: key, Labels: p.seen.Added.Labels})
	p.entered.Labels = p.seen.Added.Labels
	b.stirred = true
}

// namespaceSeen takes in the labels of a namespace, by which relations between
// pods may go.
func (b *books) namespaceSeen(name string, labels map[string]string) {
	known, seen := b.namespaces[name]
	if seen && maps.Equal(known, labels) {
		return
	}
	b.namespaces[name] = labels
	b.must(world.NamespaceKnown{Name: name, Labels: labels})
	b.stirred = true
}

// namespaceGone takes in that a namespace is deleted.
func (b *books) namespaceGone(name string) {
	if _, seen := b.namespaces[name]; !seen {
		return
	}
	delete(b.namespaces, name)
	b.must(world.NamespaceGone{Name: name})
	b.stirred = true
}
