package world

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// ArtifactKnown says what an artifact is, or that it has another size, or is pinned or
// fetched by pods alone from now on, or not.
type ArtifactKnown struct {
	Name   string
	Sort   cluster.ArtifactSort
	Size   quantity.Bytes
	Pinned bool `json:",omitempty"`
	ByPods bool `json:",omitempty"`
}

func (e ArtifactKnown) apply(w *World) error {
	switch {
	case e.Name == "":
		return fmt.Errorf("artifact: name %q: must not be empty", e.Name)
	case e.Sort >= cluster.ArtifactSorts:
		return fmt.Errorf("artifact %s: sort %d: must be %d (image) or %d (weights)", e.Name, uint8(e.Sort), cluster.ArtifactImage, cluster.ArtifactWeights)
	case e.Size <= 0:
		return fmt.Errorf("artifact %s: size %d: must be positive", e.Name, e.Size)
	}
	id, known := w.artifacts[e.Name]
	if !known {
		w.artifacts[e.Name] = w.ledger.AddArtifact(cluster.Artifact{Name: e.Name, Key: chance.HashString(e.Name), Sort: e.Sort, Size: e.Size, Pinned: e.Pinned, ByPods: e.ByPods})
		return nil
	}
	if sort := w.ledger.Artifact(id).Sort; sort != e.Sort {
		return fmt.Errorf("artifact %s: sort %v: it is known as %v", e.Name, e.Sort, sort)
	}
	w.ledger.ChangeArtifact(id, e.Size, e.Pinned, e.ByPods)
	return nil
}

// CacheKnown says what a node keeps on disk for pods to come, and at which rates it
// fetches, in bytes per second. What is known to be there stays.
type CacheKnown struct {
	Node           string
	Disk           quantity.Bytes
	Image, Weights quantity.Bytes
}

func (e CacheKnown) apply(w *World) error {
	id, err := w.nodeNamed(e.Node)
	if err != nil {
		return err
	}
	if e.Disk < 0 || e.Image <= 0 || e.Weights <= 0 {
		return fmt.Errorf("node %s: disk %d, image rate %d, weights rate %d: disk must not be negative, rates must be positive", e.Node, e.Disk, e.Image, e.Weights)
	}
	c := cluster.Cache{}
	if old := w.ledger.Node(id).Cache; old != nil {
		c = *old
	}
	c.Disk, c.Rates = e.Disk, [cluster.ArtifactSorts]quantity.Bytes{e.Image, e.Weights}
	w.ledger.SetCache(id, &c)
	return nil
}

// NodeCached says that a node has artifacts, used now, and has dropped others. It is
// what came of a prefetch of them, too.
type NodeCached struct {
	Node    string
	Has     []string `json:",omitempty"`
	Dropped []string `json:",omitempty"`
}

func (e NodeCached) apply(w *World) error {
	id, c, err := w.cacheOf(e.Node)
	if err != nil {
		return err
	}
	for _, name := range e.Dropped {
		artifact, err := w.artifactNamed(name)
		if err != nil {
			return fmt.Errorf("node %s: %w", e.Node, err)
		}
		if at := c.Find(artifact); at >= 0 { // else it is gone already
			c.Held = slices.Delete(c.Held, at, at+1)
		}
		if at := c.Awaits(artifact); at >= 0 {
			c.Coming = slices.Delete(c.Coming, at, at+1)
		}
	}
	for _, name := range e.Has {
		artifact, err := w.artifactNamed(name)
		if err != nil {
			return fmt.Errorf("node %s: %w", e.Node, err)
		}
		if at := c.Find(artifact); at >= 0 {
			c.Held = slices.Delete(c.Held, at, at+1)
		}
		if at := c.Awaits(artifact); at >= 0 {
			c.Coming = slices.Delete(c.Coming, at, at+1)
		}
		c.Held = append(c.Held, cluster.Held{Artifact: artifact, Used: w.now})
	}
	w.ledger.SetCache(id, c)
	return nil
}

// PrefetchDone says that an artifact has come to a node as decided. That it was used
// says NodeCached.
type PrefetchDone struct{ Node, Artifact string }

func (e PrefetchDone) apply(w *World) error {
	return w.endFetch(e.Node, e.Artifact, true)
}

// PrefetchFailed says that an artifact does not come to a node.
type PrefetchFailed struct{ Node, Artifact string }

func (e PrefetchFailed) apply(w *World) error {
	return w.endFetch(e.Node, e.Artifact, false)
}

// endFetch ends what is on its way to a node: it has come, or will not.
func (w *World) endFetch(node, name string, came bool) error {
	id, c, at, err := w.fetchOf(node, name)
	if err != nil {
		return err
	}
	if artifact := c.Coming[at].Artifact; came {
		c.Held = append(c.Held, cluster.Held{Artifact: artifact, Used: w.now})
	}
	c.Coming = slices.Delete(c.Coming, at, at+1)
	w.ledger.SetCache(id, c)
	return nil
}

// PrefetchRecalled says that an artifact is on its way to a node, as was decided before a
// restart.
type PrefetchRecalled struct {
	Node, Artifact string
	ID             uint64 // of the decision
	Since          moment.Instant
	Urgent         bool `json:",omitempty"`
}

func (e PrefetchRecalled) apply(w *World) error {
	id, c, err := w.cacheOf(e.Node)
	if err != nil {
		return err
	}
	artifact, err := w.artifactNamed(e.Artifact)
	if err != nil {
		return fmt.Errorf("node %s: %w", e.Node, err)
	}
	if c.Find(artifact) >= 0 || c.Awaits(artifact) >= 0 {
		return fmt.Errorf("node %s: artifact %s: it is there, or on its way, already", e.Node, e.Artifact)
	}
	c.Coming = append(c.Coming, cluster.Fetch{ID: e.ID, Artifact: artifact, Since: min(e.Since, w.now), Urgent: e.Urgent})
	w.ledger.SetCache(id, c)
	return nil
}

// fetchOf finds what is under way, in a copy of the cache.
func (w *World) fetchOf(node, artifact string) (cluster.NodeID, *cluster.Cache, int, error) {
	id, c, err := w.cacheOf(node)
	if err != nil {
		return id, nil, 0, err
	}
	of, err := w.artifactNamed(artifact)
	if err != nil {
		return id, nil, 0, fmt.Errorf("node %s: %w", node, err)
	}
	at := c.Awaits(of)
	if at < 0 {
		return id, nil, 0, fmt.Errorf("node %s: artifact %s: it is not on its way there", node, artifact)
	}
	return id, c, at, nil
}

// cacheOf returns a copy of what is known of a node's cache.
func (w *World) cacheOf(node string) (cluster.NodeID, *cluster.Cache, error) {
	id, err := w.nodeNamed(node)
	if err != nil {
		return id, nil, err
	}
	old := w.ledger.Node(id).Cache
	if old == nil {
		return id, nil, fmt.Errorf("node %s: nothing is known of its cache", node)
	}
	c := *old
	c.Held, c.Coming = slices.Clone(c.Held), slices.Clone(c.Coming)
	return id, &c, nil
}

func (w *World) artifactNamed(name string) (cluster.ArtifactID, error) {
	id, known := w.artifacts[name]
	if !known {
		return cluster.None, fmt.Errorf("artifact %q: no such artifact", name)
	}
	return id, nil
}

// Artifact returns the id of an artifact by name.
func (w *World) Artifact(name string) (cluster.ArtifactID, bool) {
	id, ok := w.artifacts[name]
	return id, ok
}

// artifactsNamed looks up what a pod needs, each once.
func (w *World) artifactsNamed(names []string) ([]cluster.ArtifactID, error) {
	var out []cluster.ArtifactID
	for _, name := range names {
		id, err := w.artifactNamed(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// acceptPrefetch commits to a prefetch: its room is taken from now on, until PrefetchDone,
// NodeCached or PrefetchFailed.
func (w *World) acceptPrefetch(d *decision.Decision) error {
	if d.Prefetch == nil || d.Prefetch.Node < 0 || int(d.Prefetch.Node) >= w.ledger.Nodes.Len() ||
		d.Prefetch.Artifact < 0 || int(d.Prefetch.Artifact) >= w.ledger.Artifacts.Len() {
		return fmt.Errorf("accept %v: no such node or artifact", d.Action)
	}
	n := w.ledger.Node(d.Prefetch.Node)
	if d.Host != (cluster.Ref{ID: int32(d.Prefetch.Node), Generation: n.Generation}) || n.Life == cluster.LifeOff {
		return fmt.Errorf("accept %v to %s: the node it was decided for is gone", d.Action, n.Spec.Name)
	}
	if err := w.ledger.Fetch(d.Prefetch, d.ID, w.now); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	return nil
}
