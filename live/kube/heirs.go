package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// A pod that is moved is gone when it has left, and its owner makes another. What is kept
// for that one is written to a ConfigMap before the pod is told to go, so that a new
// instance keeps it, too.

// Kept is what is kept for heirs at one instant, as it is written.
type Kept struct {
	Legacies []KeptLegacy `json:"legacies,omitempty"`
	Surges   []Surge      `json:"surges,omitempty"`
	// Moves are when pods were told to move within the last hour, and Rests who is not to
	// move again before an hour is over.
	Moves   []moment.Instant `json:"moves,omitempty"`
	Rests   []KeptRest       `json:"rests,omitempty"`
	version uint64           // rises with every change
}

// KeptLegacy is room that is kept for the heir of one pod.
type KeptLegacy struct {
	UID string `json:"uid"` // of the pod
	world.LegacyRecalled
}

// KeptRest is since when a pod has not moved.
type KeptRest struct {
	Pod   Ref            `json:"pod"`
	Since moment.Instant `json:"since"`
}

// heirs is the part of the books that is about pods that come in place of others.
type heirs struct {
	heritage *Kept             // what is kept, as last handed out
	written  []byte            // as text
	recalled *Kept             // what an instance before this one has kept; nil: nothing
	uids     map[string]string // of pods that were moved, by name
	surging
}

func newHeirs() heirs {
	return heirs{heritage: &Kept{}, uids: make(map[string]string), surging: newSurging()}
}

// tellMove says why a pod goes elsewhere.
func (b *books) tellMove(v *cluster.View, key string, d *decision.Decision) {
	b.pods[key].story.moves(b.now, d)
	if m := d.Because.Move; m != nil {
		b.log.Info("a pod moves", "pod", key, "from", v.Node(d.Place.Node).Spec.Name, "to", v.Node(d.Target.Place.Node).Spec.Name, "because", m.Describe())
	}
}

// keeping is what is kept for heirs now.
func (b *books) keeping() *Kept {
	now := &Kept{Surges: b.surgesKept()}
	for _, e := range b.world.Legacies() {
		if !e.Surge {
			now.Legacies = append(now.Legacies, KeptLegacy{UID: b.uids[e.Name], LegacyRecalled: e})
		}
	}
	b.keepRests(now)
	text, err := json.Marshal(now)
	if err != nil {
		panic(fmt.Sprintf("kube: %+v: %v", now, err))
	}
	if !bytes.Equal(text, b.written) {
		now.version, b.heritage, b.written = b.heritage.version+1, now, text
	}
	return b.heritage
}

// moving says whether pods of a node go elsewhere, for which room is kept.
func (b *books) moving(node string) bool {
	v := b.world.View()
	for i := range v.Legacies() {
		if g := &v.Legacies()[i]; g.Of != cluster.None && v.Node(v.Pod(g.Of).Placement.Node).Spec.Name == node {
			return true
		}
	}
	return false
}

// keepRests adds who has moved within the hour.
func (b *books) keepRests(k *Kept) {
	v, hourAgo := b.world.View(), b.instant().Add(-cluster.MovesKept)
	for _, at := range v.Moves() {
		if at > hourAgo {
			k.Moves = append(k.Moves, at)
		}
	}
	if len(k.Moves) == 0 {
		return // nobody rests
	}
	for i := range v.Pods.Len() {
		if p := v.Pod(cluster.PodID(i)); p.Phase != cluster.PhaseGone && p.Rests > hourAgo {
			k.Rests = append(k.Rests, KeptRest{Pod: Ref{Key: p.Spec.Name, UID: p.Spec.UID}, Since: p.Rests})
		}
	}
	slices.SortFunc(k.Rests, func(x, y KeptRest) int { return strings.Compare(x.Pod.Key, y.Pod.Key) })
}

// recallRests brings back who has moved within the hour.
func (b *books) recallRests(k *Kept) {
	now := b.instant()
	k.Moves = slices.DeleteFunc(k.Moves, func(at moment.Instant) bool { return at > now }) // clocks differ
	if err := b.apply(world.MovesRecalled{At: k.Moves}); err != nil {
		b.log.Warn("how many pods have moved is not known", "because", err)
	}
	for _, r := range k.Rests {
		if p := b.pods[r.Pod.Key]; p == nil || p.seen.UID != r.Pod.UID || p.footing == outside {
			continue
		}
		if err := b.apply(world.PodRests{Name: r.Pod.Key, Since: min(r.Since, now)}); err != nil {
			b.log.Warn("when a pod has moved is not known", "pod", r.Pod.Key, "because", err)
		}
	}
}

// forgo gives up what is kept for heirs in vain, and replacements that nobody holds the
// room of any more.
func (b *books) forgo() {
	for _, s := range b.surges { // order: each by itself
		if p := b.pods[s.Pod.Key]; s.For && s.Heir.Key == "" && p != nil && len(b.holds[p.node]) == 0 {
			b.endReplace(s)
		}
	}
	for _, id := range b.world.Forlorn(b.instant()) {
		g := b.world.View().Legacy(id)
		if g == nil {
			continue // given up with another
		}
		b.log.Info("room is kept for an heir no longer", "pod", g.Name, "node", b.world.View().Node(g.Place.Node).Spec.Name)
		b.must(world.LegacyDropped{ID: id})
		b.stirred = true
	}
	if len(b.world.View().Legacies()) == 0 {
		clear(b.uids)
	}
}

// recallHeirs goes on where an instance before this one stopped. The pod has left, or is
// leaving; of one that was not told to go after all nothing is kept.
func (b *books) recallHeirs() {
	kept := b.recalled
	b.recalled = nil
	if kept == nil {
		return
	}
	b.recallRests(kept)
	for _, k := range kept.Legacies {
		if p := b.pods[k.Name]; p != nil && p.seen.UID == k.UID && !p.seen.Leaving {
			continue
		}
		e := k.LegacyRecalled
		if e.Until == moment.Never || k.Of != "" {
			e.Until = b.instant().Add(e.Wait)
		}
		e.Of, e.Heir, e.Surge = "", "", false
		if e.Until <= b.instant() {
			continue
		}
		if err := b.apply(e); err != nil {
			b.log.Warn("what was kept for an heir is not kept on", "pod", e.Name, "because", err)
			continue
		}
		if err := cluster.Audit(b.world.View()); err != nil { // others have taken it
			b.log.Warn("what was kept for an heir is not kept on", "pod", e.Name, "because", err)
			b.must(world.LegacyDropped{ID: e.ID})
			continue
		}
		b.uids[e.Name] = k.UID
	}
	b.undoSurges(kept.Surges)
}
