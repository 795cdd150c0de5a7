package sim

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/world"
)

// store is what the nodes have on their disks, and what the world is told of it: where
// the policy looks at caches.
type store struct {
	told   bool // the world is told
	caches []model.Cache
	lanes  [][2]lane // per node and part
	pulls  []pull
	parts  map[string]model.Gone // by name of the artifact
}

// pull is a part that is on its way to a node, whoever fetches it.
type pull struct {
	node    int32
	kind    string
	part    model.Part
	version int32 // rises when it is put off; older happenings are void
}

// lane is what is fetched ahead to a node, at most one of each part at a time. It stands
// still while pods pull such parts.
type lane struct {
	pull  int32 // -1: nothing is
	left  moment.Span
	since moment.Instant // goes on, or will
	busy  moment.Instant // until when pods pull
}

func newStore(c *clock) store {
	s := store{parts: make(map[string]model.Gone)}
	for i := range c.Workload.Pods {
		p := &c.Workload.Pods[i]
		s.told = s.told || c.decider.Warms != nil && p.Kind != "" && p.Use.Image+p.Use.Weights > 0
	}
	for range c.Workload.Nodes {
		s.caches = append(s.caches, model.NewCache(model.NodeCache))
		s.lanes = append(s.lanes, [2]lane{{pull: -1}, {pull: -1}})
	}
	return s
}

// equip tells the world what a node keeps on disk.
func (a *actor) equip(node string) error {
	if !a.store.told {
		return nil
	}
	return a.apply(a.now, world.CacheKnown{Node: node, Disk: model.NodeCache, Image: model.ImageRate, Weights: model.WeightsRate})
}

// artifactName names a part of a kind.
func artifactName(kind string, part model.Part) string {
	return kind + [...]string{"/image", "/weights"}[part]
}

// declare tells the world what a pod needs, when a pod of its kind is seen first, and
// returns the names.
func (a *actor) declare(p *trace.Pod) ([]string, error) {
	if !a.store.told || p.Kind == "" {
		return nil, nil
	}
	var out []string
	for _, part := range [...]model.Part{model.PartImage, model.PartWeights} {
		size := model.PartSize(&p.Use, part)
		if size == 0 {
			continue
		}
		name := artifactName(p.Kind, part)
		out = append(out, name)
		if _, known := a.store.parts[name]; known {
			continue
		}
		a.store.parts[name] = model.Gone{Kind: p.Kind, Part: part}
		if err := a.apply(a.now, world.ArtifactKnown{Name: name, Sort: cluster.ArtifactSort(part), Size: size}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fetchFor begins what a pod that was bound fetches, and says how long until it works.
func (a *actor) fetchFor(index int32) (moment.Span, error) {
	l := &a.lives[index]
	s, cache := &a.store, &a.store.caches[l.node]
	had := cache.Holds(l.pod)
	if !s.told {
		cache.Use(l.pod) // as calibrated: who comes while another fetches does not wait for it
		return model.StartUp(l.pod.Use, had), nil
	}
	for part, there := range [...]bool{had.Image, had.Weights} {
		if there {
			a.promote(l.node, l.pod.Kind, model.Part(part))
		}
	}
	span, gone := cache.Start(l.pod, a.now)
	e := world.NodeCached{Node: a.Workload.Nodes[l.node].Name}
	for _, g := range gone {
		e.Dropped = append(e.Dropped, artifactName(g.Kind, g.Part))
	}
	for part, there := range [...]bool{had.Image, had.Weights} {
		ready, kept := cache.Ready(l.pod.Kind, model.Part(part))
		switch {
		case !kept || model.PartSize(&l.pod.Use, model.Part(part)) == 0:
		case there && ready <= a.now:
			e.Has = append(e.Has, artifactName(l.pod.Kind, model.Part(part)))
		case !there:
			a.pulled(l.node, l.pod.Kind, model.Part(part), ready)
			a.yieldLane(l.node, model.Part(part), ready)
		}
	}
	if len(e.Has)+len(e.Dropped) == 0 {
		return span, nil
	}
	return span, a.apply(a.now, e)
}

// pulled plans to say that a part has come.
func (a *actor) pulled(node int32, kind string, part model.Part, ready moment.Instant) int32 {
	id := int32(len(a.store.pulls))
	a.store.pulls = append(a.store.pulls, pull{node: node, kind: kind, part: part})
	a.agenda.add(ready, fetched, id, 0)
	return id
}

// yieldLane puts off what is fetched ahead to a node while a pod pulls.
func (a *actor) yieldLane(node int32, part model.Part, until moment.Instant) {
	l := &a.store.lanes[node][part]
	if l.pull >= 0 {
		l.left -= max(a.now.Since(l.since), 0)
	}
	l.busy = max(l.busy, until)
	a.goOn(node, part)
}

// goOn plans the end of what is fetched ahead.
func (a *actor) goOn(node int32, part model.Part) {
	l := &a.store.lanes[node][part]
	if l.pull < 0 {
		return
	}
	p := &a.store.pulls[l.pull]
	l.since = max(a.now, l.busy)
	p.version++
	end := l.since.Add(l.left)
	a.store.caches[node].SetReady(p.kind, part, end)
	a.agenda.add(end, fetched, l.pull, p.version)
}

// promote fetches at full rate what was fetched ahead, since a pod waits for it.
func (a *actor) promote(node int32, kind string, part model.Part) {
	l := &a.store.lanes[node][part]
	if l.pull < 0 || a.store.pulls[l.pull].kind != kind {
		return
	}
	left := l.left - max(a.now.Since(l.since), 0)
	p := &a.store.pulls[l.pull]
	p.version++
	end := a.now.Add(left)
	a.store.caches[node].SetReady(kind, part, end)
	a.agenda.add(end, fetched, l.pull, p.version)
	l.pull = -1
	a.yieldLane(node, part, end)
}

// prefetch carries out what was decided to be fetched.
func (a *actor) prefetch(d *decision.Decision) error {
	v, s := a.world.View(), &a.store
	node := a.nodes[v.Node(d.Prefetch.Node).Spec.Name]
	cache := &s.caches[node]
	for _, id := range d.Prefetch.Drops {
		g := s.parts[v.Artifact(id).Name]
		cache.Drop(g.Kind, g.Part)
	}
	artifact := v.Artifact(d.Prefetch.Artifact)
	what, size := s.parts[artifact.Name], artifact.Size
	takes := model.Fetches(size, what.Part)
	l := &s.lanes[node][what.Part]
	if !d.Prefetch.Urgent && l.pull >= 0 || !cache.Fetch(what.Kind, what.Part, size, a.now.Add(takes)) {
		return a.apply(a.now, world.PrefetchFailed{Node: a.Workload.Nodes[node].Name, Artifact: artifact.Name})
	}
	if d.Prefetch.Urgent {
		a.pulled(node, what.Kind, what.Part, a.now.Add(takes))
		a.yieldLane(node, what.Part, a.now.Add(takes))
		return nil
	}
	l.left, l.pull = takes, int32(len(s.pulls))
	s.pulls = append(s.pulls, pull{node: node, kind: what.Kind, part: what.Part})
	a.goOn(node, what.Part)
	return nil
}

// fetched says that a part has come to a node, or that it did not.
func (a *actor) fetched(h happening) error {
	p := &a.store.pulls[h.subject]
	if p.version != h.version {
		return nil
	}
	if l := &a.store.lanes[p.node][p.part]; l.pull == h.subject {
		l.pull = -1
	}
	host, name := a.Workload.Nodes[p.node].Name, artifactName(p.kind, p.part)
	id, up := a.world.Node(host)
	if !up {
		return nil
	}
	artifact, _ := a.world.Artifact(name)
	awaited := a.world.View().Node(id).Cache.Awaits(artifact) >= 0
	ready, there := a.store.caches[p.node].Ready(p.kind, p.part)
	switch {
	case there && ready <= a.now && awaited:
		a.reconsider()
		return a.apply(a.now, world.PrefetchDone{Node: host, Artifact: name})
	case there && ready <= a.now:
		return a.apply(a.now, world.NodeCached{Node: host, Has: []string{name}})
	case awaited && !there:
		return a.apply(a.now, world.PrefetchFailed{Node: host, Artifact: name})
	}
	return nil
}

// emptied forgets what a broken node had on its disk.
func (a *actor) emptied(node int32) {
	a.store.caches[node] = model.NewCache(model.NodeCache)
	for part := range a.store.lanes[node] {
		if l := &a.store.lanes[node][part]; l.pull >= 0 {
			a.store.pulls[l.pull].version++
			l.pull = -1
		}
	}
}

// reconsider plans a review: what is believed, or cached, has changed.
func (c *clock) reconsider() {
	if c.decider.Warms != nil && c.actor.store.told {
		c.idle = false
		c.planReview()
	}
}
