package kube

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// vetoFor is how long a refusal by the last check keeps pods of a shape off a
	// node, unless the node changes or a pod leaves it before.
	vetoFor = time.Minute
	// vetoesMost is how many refusals a pod gets in a row before it backs off.
	vetoesMost = 8
	// barVisits bounds how many nodes are looked at for volumes in one cycle: a
	// few microseconds each. Pods whose turn does not come stay out of the line.
	barVisits = 50_000
)

// exclusions are what the rim knows of pods and nodes that the world cannot judge.
type exclusions struct {
	vetoes map[string]map[cluster.ShapeID]time.Time // by node: until when
	// tied are the pods with volumes that tie them to nodes, by key.
	tied map[string]*pod
	// turn rises when what is known of volumes may have changed.
	turn uint64
	// judged says that somebody looks at volumes.
	judged bool
	stale  bool // the world knows other facts
}

func newExclusions() exclusions {
	return exclusions{vetoes: make(map[string]map[cluster.ShapeID]time.Time), tied: make(map[string]*pod), turn: 1}
}

// bar is what volumes say about a waiting pod.
type bar struct {
	turn  uint64   // when they were looked at; 0: never
	nodes []string // that they rule out
	why   string   // when these are all
}

// unlooked says whether a pod has volumes that nobody has looked at.
func (p *pod) unlooked() bool { return p.seen.Tied != "" && p.bar.turn == 0 }

// veto takes back a bind that was not tried. Its shape is kept off the node for a
// while.
func (b *books) veto(bind *Bind, why error) {
	p := b.pods[bind.Key]
	if p == nil || p.footing != placing || p.serial != bind.serial {
		return
	}
	shape := b.shapeOf(bind.Key)
	x := &b.exclusions
	if x.vetoes[bind.Node] == nil {
		x.vetoes[bind.Node] = make(map[cluster.ShapeID]time.Time)
	}
	x.vetoes[bind.Node][shape] = b.now.Add(vetoFor)
	x.stale = true
	if p.vetoes++; p.vetoes >= vetoesMost {
		p.vetoes = 0
		b.outcome(&Outcome{Bind: *bind, Err: why})
		return
	}
	b.takeBack(bind, why)
}

func (b *books) shapeOf(key string) cluster.ShapeID {
	id, _ := b.world.Pod(key)
	return b.world.View().Pod(id).Spec.Shape
}

// moved takes in that a node changed or that a pod left it: what was refused
// there may pass now.
func (b *books) moved(node string) {
	if x := &b.exclusions; len(x.vetoes[node]) > 0 {
		delete(x.vetoes, node)
		x.stale, b.stirred = true, true
	}
}

// expire ends the refusals that have stood long enough.
func (b *books) expire() {
	for node, shapes := range b.exclusions.vetoes { // order: each is judged alone
		for shape, until := range shapes { // order: each is judged alone
			if !b.now.Before(until) {
				delete(shapes, shape)
				b.exclusions.stale, b.stirred = true, true
			}
		}
		if len(shapes) == 0 {
			delete(b.exclusions.vetoes, node)
		}
	}
}

// tie books whether a waiting pod has volumes to be looked at.
func (b *books) tie(key string, p *pod) {
	x := &b.exclusions
	if p.seen.Tied != "" && p.seen.Standing == facts.Waiting {
		x.tied[key] = p
	} else if x.tied[key] != nil {
		delete(x.tied, key)
		p.bar = bar{}
		x.stale = true
	}
}

// volumesStirred takes in that answers about volumes may be others now.
func (b *books) volumesStirred() {
	b.exclusions.turn++
	b.stirred = b.stirred || len(b.exclusions.tied) > 0
}

// left takes in that a pod leaves its node: others may have waited for that, or for
// its volumes.
func (b *books) left(p *pod) {
	b.moved(p.node)
	if p.entered.Request.Rim != "" {
		b.volumesStirred()
	}
}

// lookAtVolumes asks about the volumes of waiting pods where answers may be
// others, as many as one cycle may, and lets those into the line that are looked
// at for the first time.
func (b *books) lookAtVolumes(barred func(key string) ([]string, string)) {
	x := &b.exclusions
	x.judged = true
	left := barVisits
	keys := slices.SortedFunc(maps.Keys(x.tied), func(a, c string) int {
		return cmp.Or(cmp.Compare(x.tied[a].bar.turn, x.tied[c].bar.turn), cmp.Compare(a, c))
	})
	for _, key := range keys {
		p := x.tied[key]
		if p.bar.turn == x.turn || p.footing == placing {
			continue
		}
		if left < 0 {
			b.stirred = true // the others come in the next cycle
			return
		}
		left -= len(b.nodes)
		nodes, why := barred(key)
		x.stale = x.stale || !slices.Equal(nodes, p.bar.nodes)
		p.bar = bar{turn: x.turn, nodes: nodes, why: why}
		b.settle(key, p)
	}
}

// publish tells the world what is excluded, if that is news.
func (b *books) publish() {
	x := &b.exclusions
	if !x.stale {
		return
	}
	x.stale = false
	out := make(map[cluster.ShapeID][]uint64)
	exclude := func(shape cluster.ShapeID, node string) {
		id, known := b.world.Node(node)
		if !known {
			return
		}
		word := int(id) / 64
		if set := out[shape]; word >= len(set) {
			out[shape] = append(set, make([]uint64, word+1-len(set))...)
		}
		out[shape][word] |= 1 << (uint(id) % 64)
	}
	for node, shapes := range x.vetoes { // order: sets
		for shape := range shapes { // order: sets
			exclude(shape, node)
		}
	}
	for key, p := range x.tied { // order: sets
		if p.footing == outside {
			continue
		}
		shape := b.shapeOf(key)
		for _, node := range p.bar.nodes {
			exclude(shape, node)
		}
	}
	next := &cluster.Facts{Excluded: out}
	if now := b.world.View().Facts; now != nil {
		next.Selected, next.Parts = now.Selected, now.Parts
	}
	b.must(world.FactsKnown{Facts: next})
}
