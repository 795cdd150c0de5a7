package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// ArtifactSort is what an artifact is to a pod that starts. What is of one sort is
// fetched at one rate; fetches of different sorts do not slow each other down.
type ArtifactSort uint8

const (
	ArtifactImage   ArtifactSort = iota // pulled and unpacked
	ArtifactWeights                     // read from a store
)

// ArtifactSorts is how many there are.
const ArtifactSorts = 2

var artifactSortNames = [...]string{"image", "weights"} // const: names of the sorts

func (s ArtifactSort) String() string { return artifactSortNames[s] }

// Artifact is something that has to be on a node before a pod that needs it starts:
// an image, the weights of a model.
type Artifact struct {
	Name string
	Key  uint64 // hash of the name
	Sort ArtifactSort
	Size quantity.Bytes
	// Pinned says that it does not go from where it is for another's sake.
	Pinned bool
	// ByPods says that pods which need it fetch it, and nobody else can: nothing is decided
	// about that.
	ByPods bool
	// Nodes are those whose caches hold it, by id. The list never changes in place.
	Nodes []NodeID
	// Ways counts those that it is on its way to.
	Ways int32
}

// Held is an artifact on a node.
type Held struct {
	Artifact ArtifactID
	Used     moment.Instant // last
}

// Fetch is an artifact on its way to a node by a decision that was accepted.
type Fetch struct {
	ID       uint64 // of the decision
	Artifact ArtifactID
	Since    moment.Instant
	// Urgent says that a pod which has its place there waits for it.
	Urgent bool
}

// Cache is what a node keeps on disk for pods to come. It never changes in place.
type Cache struct {
	Disk quantity.Bytes
	// Rates are bytes per second, by sort.
	Rates [ArtifactSorts]quantity.Bytes
	// Held is what is there, what was used longest ago first; Coming what is on its
	// way, in the order in which it was decided. Nothing is twice among them.
	Held   []Held
	Coming []Fetch
	// Taken is the room of all of them. It exceeds Disk only where a node said so.
	Taken quantity.Bytes
}

// Find returns the position of an artifact in Held; None where it is not there.
func (c *Cache) Find(id ArtifactID) int {
	if c != nil {
		for i := range c.Held {
			if c.Held[i].Artifact == id {
				return i
			}
		}
	}
	return None
}

// Awaits returns the position of an artifact in Coming; None where it is not.
func (c *Cache) Awaits(id ArtifactID) int {
	if c != nil {
		for i := range c.Coming {
			if c.Coming[i].Artifact == id {
				return i
			}
		}
	}
	return None
}

// Takes is how long it takes to fetch an artifact to the node.
func (c *Cache) Takes(a *Artifact) moment.Span {
	return moment.Span(quantity.MulDiv(int64(a.Size), int64(moment.Second), int64(max(c.Rates[a.Sort], 1))))
}

// FetchTimes is how long artifacts take that are still to come, by sort.
type FetchTimes [ArtifactSorts]moment.Span

// Total is how long all of them take: those of different sorts side by side, or one after
// the other.
func (t *FetchTimes) Total(beside bool) (span moment.Span) {
	for _, takes := range t {
		if beside {
			span = max(span, takes)
		} else {
			span += takes
		}
	}
	return span
}

// Artifact returns an artifact for reading.
func (v *View) Artifact(id ArtifactID) *Artifact { return v.Artifacts.At(int32(id)) }

// AddArtifact adds an artifact that is nowhere yet.
func (l *Ledger) AddArtifact(a Artifact) ArtifactID {
	return ArtifactID(l.Artifacts.grow(l.owner, a))
}

// ChangeArtifact says how large an artifact is, whether it is pinned, and whether pods alone
// fetch it.
func (l *Ledger) ChangeArtifact(id ArtifactID, size quantity.Bytes, pinned, byPods bool) {
	a := l.Artifacts.own(int32(id), l.owner, l.recording)
	grown := a.Size != size
	a.Size, a.Pinned, a.ByPods = size, pinned, byPods
	if !grown {
		return
	}
	for i := range l.Nodes.Len() {
		if n := l.Node(NodeID(i)); n.Cache.Find(id) >= 0 || n.Cache.Awaits(id) >= 0 {
			c := *n.Cache
			l.SetCache(NodeID(i), &c)
		}
	}
}

// SetCache replaces what is known of a node's cache. Taken is counted here, and so is
// where artifacts are.
func (l *Ledger) SetCache(id NodeID, c *Cache) {
	n := l.node(id)
	old := n.Cache
	n.Cache = c
	if c != nil {
		c.Taken = 0
		for i := range c.Held {
			c.Taken += l.Artifact(c.Held[i].Artifact).Size
			if old.Find(c.Held[i].Artifact) < 0 {
				a := l.Artifacts.own(int32(c.Held[i].Artifact), l.owner, l.recording)
				at, _ := slices.BinarySearch(a.Nodes, id)
				a.Nodes = slices.Insert(slices.Clip(a.Nodes), at, id)
			}
		}
		for i := range c.Coming {
			c.Taken += l.Artifact(c.Coming[i].Artifact).Size
			if old.Awaits(c.Coming[i].Artifact) < 0 {
				l.Artifacts.own(int32(c.Coming[i].Artifact), l.owner, l.recording).Ways++
			}
		}
	}
	if old == nil {
		return
	}
	for i := range old.Coming {
		if c.Awaits(old.Coming[i].Artifact) < 0 {
			l.Artifacts.own(int32(old.Coming[i].Artifact), l.owner, l.recording).Ways--
		}
	}
	for i := range old.Held {
		if c.Find(old.Held[i].Artifact) < 0 {
			a := l.Artifacts.own(int32(old.Held[i].Artifact), l.owner, l.recording)
			a.Nodes = removed(a.Nodes, id)
		}
	}
}

// Uses says whether a pod that has a place on the node needs an artifact: it does not
// go from under it.
func (v *View) Uses(node NodeID, id ArtifactID) bool {
	for _, pod := range v.Node(node).Pods {
		if slices.Contains(v.Pod(pod).Spec.Artifacts, id) {
			return true
		}
	}
	return false
}

// Prefetch is a decision to fetch an artifact to a node, and what goes for it.
type Prefetch struct {
	Node     NodeID
	Artifact ArtifactID
	Drops    []ArtifactID
	Urgent   bool
	// Saves is what it is expected to save, in milliseconds of starts per hour; of an
	// urgent one, of this start alone.
	Saves int64
}

// Fetch begins to fetch what was decided: what goes for it is gone. It refuses,
// changing nothing, what there is no room for, what would drop a pinned artifact or one
// that is in use, and what is there or on its way already.
func (l *Ledger) Fetch(f *Prefetch, id uint64, now moment.Instant) error {
	n := l.Node(f.Node)
	name := l.Artifact(f.Artifact).Name
	switch c := n.Cache; {
	case l.Artifact(f.Artifact).ByPods:
		return fmt.Errorf("prefetch %s to %s: only pods fetch it", name, n.Spec.Name)
	case c == nil:
		return fmt.Errorf("prefetch %s to %s: nothing is known of its cache", name, n.Spec.Name)
	case c.Find(f.Artifact) >= 0:
		return fmt.Errorf("prefetch %s to %s: it is there", name, n.Spec.Name)
	case c.Awaits(f.Artifact) >= 0:
		return fmt.Errorf("prefetch %s to %s: it is on its way", name, n.Spec.Name)
	}
	c := *n.Cache
	c.Held, c.Coming = slices.Clone(c.Held), slices.Clone(c.Coming)
	for _, goes := range f.Drops {
		at := c.Find(goes)
		switch {
		case at < 0:
			return fmt.Errorf("prefetch %s to %s: drops %s: it is not there", name, n.Spec.Name, l.Artifact(goes).Name)
		case l.Artifact(goes).Pinned || l.Uses(f.Node, goes):
			return fmt.Errorf("prefetch %s to %s: drops %s: it is pinned, or in use", name, n.Spec.Name, l.Artifact(goes).Name)
		}
		c.Held = slices.Delete(c.Held, at, at+1)
		c.Taken -= l.Artifact(goes).Size
	}
	if need := c.Taken + l.Artifact(f.Artifact).Size; need > c.Disk {
		return fmt.Errorf("prefetch %s to %s: needs %d bytes of %d on disk", name, n.Spec.Name, need, c.Disk)
	}
	c.Coming = append(c.Coming, Fetch{ID: id, Artifact: f.Artifact, Since: now, Urgent: f.Urgent})
	l.SetCache(f.Node, &c)
	return nil
}

// Prefetch decides to fetch an artifact, or refuses as the world would.
func (t *Txn) Prefetch(f Prefetch) error {
	if err := t.ledger.Fetch(&f, 0, t.now); err != nil {
		return err
	}
	t.fetches = append(t.fetches, f)
	return nil
}

// Prefetches lists what was decided to be fetched, in order.
func (t *Txn) Prefetches() []Prefetch { return t.fetches }

// cacheDigest hashes what is known of a cache, by names; when what is there was used is no
// more than a belief.
func (v *View) cacheDigest(c *Cache, beliefs bool) uint64 {
	if c == nil {
		return 0
	}
	h := chance.Hash(36, uint64(c.Disk), uint64(c.Taken))
	for _, rate := range c.Rates {
		h = chance.Fold(h, uint64(rate))
	}
	for i := range c.Held {
		used := c.Held[i].Used
		if !beliefs {
			used = 0
		}
		h += chance.Hash(37, v.Artifact(c.Held[i].Artifact).Key, uint64(used))
	}
	for i := range c.Coming {
		f := &c.Coming[i]
		own := chance.Hash(38, v.Artifact(f.Artifact).Key, f.ID, uint64(f.Since))
		if f.Urgent {
			own++
		}
		h += own
	}
	return h
}

func (v *View) artifactsDigest() (sum uint64) {
	for i := range v.Artifacts.Len() {
		a := v.Artifacts.At(int32(i))
		h := chance.Hash(39, a.Key, uint64(a.Sort), uint64(a.Size))
		if a.Pinned {
			h++
		}
		if a.ByPods {
			h += 2
		}
		sum += h
	}
	return sum
}

// caches counts anew what caches take, and where artifacts are.
func (a *audit) caches() error {
	v := a.view
	where, ways := make([][]NodeID, v.Artifacts.Len()), make([]int32, v.Artifacts.Len())
	for i := range v.Nodes.Len() {
		n := v.Node(NodeID(i))
		if n.Cache == nil {
			continue
		}
		if n.Life == LifeOff {
			return fmt.Errorf("audit: node %s is off, and has a cache", n.Spec.Name)
		}
		taken, seen := quantity.Bytes(0), make([]ArtifactID, 0, len(n.Cache.Held)+len(n.Cache.Coming))
		for k := range n.Cache.Held {
			h := &n.Cache.Held[k]
			if k > 0 && n.Cache.Held[k-1].Used > h.Used {
				return fmt.Errorf("audit: node %s: cache: %s is out of order", n.Spec.Name, v.Artifact(h.Artifact).Name)
			}
			where[h.Artifact] = append(where[h.Artifact], NodeID(i))
			seen = append(seen, h.Artifact)
		}
		for k := range n.Cache.Coming {
			seen = append(seen, n.Cache.Coming[k].Artifact)
			ways[n.Cache.Coming[k].Artifact]++
		}
		for k, id := range seen {
			if taken += v.Artifact(id).Size; slices.Contains(seen[:k], id) {
				return fmt.Errorf("audit: node %s: cache: %s is there twice", n.Spec.Name, v.Artifact(id).Name)
			}
		}
		if taken != n.Cache.Taken {
			return fmt.Errorf("audit: node %s: cache: %d bytes taken, counted %d", n.Spec.Name, n.Cache.Taken, taken)
		}
	}
	for i, nodes := range where {
		if art := v.Artifact(ArtifactID(i)); !slices.Equal(art.Nodes, nodes) || art.Ways != ways[i] {
			return fmt.Errorf("audit: artifact %s: on nodes %v and on %d ways, counted %v and %d", art.Name, art.Nodes, art.Ways, nodes, ways[i])
		}
	}
	return nil
}
