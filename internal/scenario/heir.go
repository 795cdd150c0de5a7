package scenario

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/world"
)

// heirFields say how pods of an owner move.
func heirFields() []string {
	return []string{"heirs", "warm-up", "heir-comes", "heir-starts", "heir-kept"}
}

// heirRules reads how pods of an owner move.
func heirRules(r *reader, rules *tidy.Rules) {
	rules.Surge = r.oneOf("heirs", "first", []string{"first", "after"}) == 0
	rules.WarmUp = r.span("warm-up", rules.WarmUp)
	rules.Come = r.span("heir-comes", rules.Come)
	rules.Start = r.span("heir-starts", rules.Start)
	rules.Keep = r.span("heir-kept", rules.Keep)
}

// watchLegacies plans when what is kept for heirs is given up.
func (in *interp) watchLegacies() error {
	for _, g := range in.view().Legacies() {
		if g.Until == moment.Never || in.watched[g.ID] == g.Until {
			continue
		}
		in.watched[g.ID] = g.Until
		if err := in.plan(due{at: g.Until, intent: g.ID, name: g.Name, kind: dueForlorn}); err != nil {
			return err
		}
	}
	return nil
}

// forlorn gives up what is kept for heirs in vain, and says so.
func (in *interp) forlorn() error {
	for _, id := range in.world.Forlorn(in.now) {
		in.outside++
		g := *in.view().Legacy(id)
		if err := in.apply(world.LegacyDropped{ID: id}); err != nil {
			return err
		}
		in.said = append(in.said, fmt.Sprintf("%v: %s", in.now, in.givenUp(&g)))
	}
	return nil
}

// givenUp says what has come to nothing.
func (in *interp) givenUp(g *cluster.Legacy) string {
	v := in.view()
	switch {
	case g.Heir != cluster.None:
		return fmt.Sprintf("%s has not started: %s stays", v.Pod(g.Heir).Spec.Name, g.Name)
	case g.Surge && g.Until > in.now:
		return fmt.Sprintf("nobody waits for the room of %s any more: it stays", g.Name)
	case g.Surge:
		return fmt.Sprintf("no heir of %s has come: it stays", g.Name)
	}
	return fmt.Sprintf("no heir of %s has come: %s is kept no longer", g.Name, decision.PlaceLine(v, &g.Place))
}

// departed lets an evicted pod be gone: it waits again, unless its owner makes another.
func (in *interp) departed(name string) error {
	if id, known := in.world.Pod(name); known && in.view().Pod(id).Spec.Owner != 0 {
		return in.remove(name)
	}
	return in.apply(world.Evicted{Name: name})
}

func (in *interp) showHeirs() []string {
	v := in.view()
	var rows [][]string
	for _, g := range v.Legacies() {
		heir, until := "-", "-"
		if g.Heir != cluster.None {
			heir = v.Pod(g.Heir).Spec.Name
		}
		if g.Until != moment.Never {
			until = g.Until.String()
		}
		rows = append(rows, []string{g.Name, v.Symbols.Text(g.Owner), heir, until, decision.PlaceLine(v, &g.Place)})
	}
	return table("pod|owner|heir|until|place", rows)
}

// tellSaid returns what happened by itself and was not printed yet.
func (in *interp) tellSaid() []string {
	out := in.said
	in.said = nil
	return out
}
