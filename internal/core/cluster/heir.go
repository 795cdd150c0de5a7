package cluster

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A pod whose owner makes others like it may be followed by an heir: another pod, to whom
// the place goes that was found for the move. Nobody else gets that room meanwhile.

// Legacy is room that is kept for the heir of a pod.
//
// Where the pod is replaced, the heir starts first, and the pod goes then:
//
//	running ─▶ replaced: room is kept ─▶ an heir has it ─▶ the heir runs ─▶ evicted
//	   ▲            │ nobody comes            │ it fails, or does not start
//	   └────────────┴─────────────────────────┘
//
// Where it is evicted first, the room is kept until an heir comes, or for a while after it
// has left.
type Legacy struct {
	ID    uint64 // of the decision that keeps it, which is under way for the pod while that is there
	Of    PodID  // None: it has left
	Name  string // of the pod
	Owner Symbol
	Place Placement // kept while Heir is None
	Heir  PodID     // None: nobody yet
	// Until is by when an heir has to come, or to start; Never: as long as the pod is there.
	Until moment.Instant
	// Wait is for how long it is kept from the next step on: when the heir has come, it has
	// as long to start; when the pod has left, an heir has as long to come.
	Wait moment.Span
	// Set ties pods that are replaced for one thing: none goes before the heirs of all run.
	Set uint64
	// Surge says that the pod goes when its heir runs, and not before.
	Surge bool
}

// Legacies lists what is kept for heirs, in order of acceptance.
func (v *View) Legacies() []Legacy { return v.legacies }

// Legacy returns what a decision keeps for an heir; nil where it keeps nothing.
func (v *View) Legacy(id uint64) *Legacy {
	for i := range v.legacies {
		if v.legacies[i].ID == id {
			return &v.legacies[i]
		}
	}
	return nil
}

// Suits says whether a waiting pod may have what is kept: an heir that was named, or any
// pod of the owner that would take the same.
func (g *Legacy) Suits(p *Pod) bool {
	named := p.Spec.HeirOf == "" || p.Spec.HeirOf == g.Name
	return g.Heir == None && g.Owner == p.Spec.Owner && named && p.Spec.Group == None && p.Spec.AsksFor(g.Place.Shape)
}

// Replaced says whether a pod is to go when its heir runs.
func (v *View) Replaced(p *Pod) bool {
	return p.Intent != None && v.Intents.At(int32(p.Intent)).Action == ActionReplace
}

// AddLegacy keeps room for an heir. The list is never changed in place.
func (l *Ledger) AddLegacy(g Legacy) {
	l.legacies = appended(l.legacies, g)
	if g.Heir == None {
		l.keep(&g.Place, +1)
	}
}

// SetLegacy changes what is known of a legacy, apart from its place and heir.
func (l *Ledger) SetLegacy(g Legacy) {
	l.legacies = slices.Clone(l.legacies)
	*l.Legacy(g.ID) = g
}

// DropLegacy gives up what a decision keeps for an heir, if anything is. The heir stays
// where it is.
func (l *Ledger) DropLegacy(id uint64) {
	g := l.Legacy(id)
	if g == nil {
		return
	}
	place, taken := g.Place, g.Heir != None
	l.legacies = slices.DeleteFunc(slices.Clone(l.legacies), func(g Legacy) bool { return g.ID == id })
	if !taken {
		l.keep(&place, -1)
	}
}

// Inherit lets a pod have what is kept by a decision: the room is free, for it alone, and
// the caller charges it. It returns false where nothing is kept for such a pod.
func (l *Ledger) Inherit(pod PodID, id uint64, now moment.Instant) bool {
	g := l.Legacy(id)
	if g == nil || !g.Suits(l.Pod(pod)) {
		return false
	}
	place := g.Place
	if next := *g; g.Surge {
		next.Heir, next.Until = pod, now.Add(g.Wait)
		l.SetLegacy(next)
		l.keep(&place, -1)
	} else {
		l.DropLegacy(id)
	}
	return true
}

// Disinherit keeps the room again that an heir has just given back, if it was one.
func (l *Ledger) Disinherit(pod PodID, now moment.Instant) {
	for _, g := range l.legacies {
		if g.Heir == pod {
			g.Heir, g.Until = None, now.Add(g.Wait)
			l.SetLegacy(g)
			l.keep(&g.Place, +1)
			return
		}
	}
}

// Inherit places a waiting pod where room is kept for an heir. It refuses, changing
// nothing, where it does not fit there any more, or fits, which is asked when the room is
// free, says so.
func (t *Txn) Inherit(pod PodID, id uint64, fits func(*Placement) bool) error {
	if err := t.mayPlace(pod); err != nil {
		return err
	}
	g := t.ledger.Legacy(id)
	if g == nil {
		return fmt.Errorf("place %s: nothing is kept for it", t.ledger.Pod(pod).Spec.Name)
	}
	place, mark := g.Place, t.Mark()
	if !t.ledger.Inherit(pod, id, t.now) {
		return fmt.Errorf("place %s: what is kept is for others", t.ledger.Pod(pod).Spec.Name)
	}
	err := t.ledger.Admit(pod, &place)
	if err == nil && !fits(&place) {
		err = fmt.Errorf("place %s: it may not be where room is kept", t.ledger.Pod(pod).Spec.Name)
	}
	if err != nil {
		t.Rollback(mark)
		return err
	}
	t.ledger.Charge(pod, place, PhasePlacing)
	t.touched = append(t.touched, pod)
	return nil
}

func (v *View) legaciesDigest() (sum uint64) {
	for i := range v.legacies {
		g := &v.legacies[i]
		h := chance.Hash(44, g.ID, chance.HashString(g.Name), chance.HashString(v.Symbols.Text(g.Owner)), v.PlacementDigest(&g.Place))
		h = chance.Hash(h, uint64(g.Until), uint64(g.Wait), g.Set)
		if g.Of != None {
			h = chance.Hash(h, 1, v.Pod(g.Of).Key)
		}
		if g.Heir != None {
			h = chance.Hash(h, 2, v.Pod(g.Heir).Key)
		}
		if g.Surge {
			h = chance.Fold(h, 3)
		}
		sum += h
	}
	return sum
}

// legacies adds up what is kept for heirs, and checks who has it and who goes for it.
func (a *audit) legacies() error {
	v, replaced := a.view, 0
	for i := range v.legacies {
		g := &v.legacies[i]
		if v.Legacy(g.ID) != g || g.ID == 0 || g.Owner == 0 || !g.Place.Placed() {
			return fmt.Errorf("audit: room of decision %d is kept on node %d for heirs of %s: it is kept once, on a node, for an owner", g.ID, g.Place.Node, g.Name)
		}
		if g.Surge {
			replaced++
		}
		if g.Of == None && g.Surge || g.Of != None && !a.keeps(g) {
			return fmt.Errorf("audit: room is kept for heirs of pod %s by decision %d, which is not under way for it", g.Name, g.ID)
		}
		if g.Heir == None {
			a.keep(&g.Place)
		} else if p := v.Pod(g.Heir); !g.Surge || p.Phase < PhasePlacing || p.Phase > PhaseRunning {
			return fmt.Errorf("audit: pod %s, %v, is to replace %s", p.Spec.Name, p.Phase, g.Name)
		}
	}
	for i := range v.Intents.Len() {
		if in := v.Intents.At(int32(i)); in.ID != 0 && in.Action == ActionReplace {
			replaced--
		}
	}
	if replaced != 0 {
		return fmt.Errorf("audit: %d more legacies of pods that are replaced than such pods", replaced)
	}
	return nil
}

// keeps says whether the decision that keeps room for an heir is under way for the pod.
func (a *audit) keeps(g *Legacy) bool {
	p := a.view.Pod(g.Of)
	if p.Intent == None {
		return false
	}
	in := a.view.Intents.At(int32(p.Intent))
	return in.ID == g.ID && (in.Action == ActionReplace) == g.Surge && (g.Surge || in.Action == ActionEvict)
}
