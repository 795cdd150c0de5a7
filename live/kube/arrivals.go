package kube

import (
	"fmt"
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/beliefs"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// arriving is what was learned about how often work comes that needs images.
type arriving struct {
	arrivals      learn.Arrivals
	arrivalsStale bool  // the world does not know of the last ones yet
	keptArrivals  int64 // arrivals that what was kept last rests on
}

// arrives counts an arrival of what needs images, once for each pod, whichever instance saw
// it first.
func (b *books) arrives(key string) {
	p := b.pods[key]
	if p.arrived || len(p.entered.Artifacts) == 0 || p.entered.Since != 0 && p.entered.Since <= b.until {
		return
	}
	p.arrived = true
	v := b.world.View()
	id, _ := b.world.Pod(key)
	spec := v.Pod(id).Spec
	b.noteAsk(spec.Shape, p.entered.Request, p.entered.Kind)
	b.arrivalsStale = b.arrivals.Observe(b.instant(), b.kindOf(spec, p.entered.Artifacts), spec.Artifacts, spec.Shape) || b.arrivalsStale
}

// believeArrivals tells the world what is expected, where images are fetched for that.
func (b *books) believeArrivals() {
	if b.fetching.Prefetching == nil {
		return
	}
	later := b.arrivals.Observe(b.instant(), 0, nil, cluster.None) // time has passed
	if !later && !b.arrivalsStale {
		return
	}
	b.arrivalsStale = false
	table := b.arrivals.Table()
	if reflect.DeepEqual(table, b.beliefs.Arrivals) {
		return
	}
	b.beliefs.Arrivals = table
	b.tellBeliefs()
}

// kindOf is what the arrivals of a pod are counted under: its kind, or for one of a service,
// which has none, what it needs.
func (b *books) kindOf(spec *cluster.PodSpec, needs []string) cluster.Symbol {
	if spec.Kind != 0 {
		return spec.Kind
	}
	text := fmt.Sprintf("service of %q", needs)
	b.must(world.Interned{Text: text})
	return b.world.Symbol(text)
}

// keepArrivals adds to what is kept how often work comes that needs images.
func (b *books) keepArrivals(out *beliefs.Beliefs) {
	seen := b.arrivals.Kinds(kindsKept)
	if len(seen.Of) == 0 {
		return
	}
	v, at := b.world.View(), make(map[cluster.ArtifactID]int)
	kept := &beliefs.Arrivals{Epoch: seen.Epoch, Epochs: seen.Epochs}
	for i := range seen.Of {
		k := &seen.Of[i]
		ask := b.asks[k.Shape]
		one := beliefs.Arriving{Kind: v.Symbols.Text(k.Kind), Count: k.Count, Asked: ask.kind, Request: ask.request}
		for _, id := range k.Artifacts {
			if _, there := at[id]; !there {
				im := b.caches.images[v.Artifact(id).Name]
				at[id] = len(kept.Images)
				kept.Images = append(kept.Images, beliefs.Image{Name: im.name, Sort: im.sort, Size: int64(im.size), Private: im.private, Local: im.local})
			}
			one.Images = append(one.Images, at[id])
		}
		kept.Kinds = append(kept.Kinds, one)
	}
	out.Arrivals = kept
}

// rememberArrivals brings back how often work comes that needs images, and the images.
func (b *books) rememberArrivals(kept *beliefs.Arrivals) error {
	if kept == nil || b.caches.Off {
		return nil
	}
	ids := make([]cluster.ArtifactID, len(kept.Images))
	for i := range kept.Images {
		one := &kept.Images[i]
		size := quantity.Bytes(one.Size)
		if facts.ImageName(one.Name) != one.Name || size > facts.MostSize {
			return fmt.Errorf("image %q of %d bytes: must be a whole reference, and at most %d", one.Name, size, facts.MostSize)
		}
		im := b.want(&facts.Need{Name: one.Name, Sort: one.Sort})
		if im == nil {
			return fmt.Errorf("%d images: at most %d", len(kept.Images), mostWanted)
		}
		im.private, im.local = one.Private, one.Local
		if err := b.apply(world.ArtifactKnown{Name: one.Name, Sort: one.Sort, Size: size, ByPods: b.byPodsAlone(im)}); err != nil {
			return err
		}
		im.size, im.known, im.byPods = size, true, b.byPodsAlone(im)
		ids[i], _ = b.world.Artifact(one.Name)
	}
	seen := learn.Kinds{Epoch: kept.Epoch, Epochs: kept.Epochs}
	for i := range kept.Kinds {
		one := &kept.Kinds[i]
		if err := b.apply(world.ShapeKnown{Request: one.Request, Kind: one.Asked}); err != nil {
			return err
		}
		shape, _ := b.world.Shape(&one.Request, one.Asked)
		b.noteAsk(shape, one.Request, one.Asked)
		if one.Kind == "" {
			return fmt.Errorf("arrivals of a kind without a name")
		}
		b.must(world.Interned{Text: one.Kind})
		k := learn.KindArrivals{Kind: b.world.Symbol(one.Kind), Count: one.Count, Shape: shape}
		for _, at := range one.Images {
			if at < 0 || at >= len(ids) {
				return fmt.Errorf("arrivals of %s: image %d: there are %d", one.Kind, at, len(ids))
			}
			k.Artifacts = append(k.Artifacts, ids[at])
		}
		seen.Of = append(seen.Of, k)
	}
	arrivals, err := learn.ArrivalsFrom(seen)
	if err != nil {
		return err
	}
	b.arrivals, b.arrivalsStale = arrivals, true
	return nil
}
