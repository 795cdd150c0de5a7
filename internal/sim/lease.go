package sim

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// carryResizes changes what running pods hold, at once, or as soon as those have left
// who have to leave before.
func (a *actor) carryResizes() error {
	var still []decision.Decision
	for i := range a.resizes {
		d := &a.resizes[i]
		switch {
		case !a.world.UnderWay([]uint64{d.ID}): // withdrawn
			continue
		case a.world.UnderWay(d.After):
			still = append(still, *d)
			continue
		}
		name := a.world.View().Pod(d.Pod).Spec.Name
		if err := a.apply(a.now, world.Resized{Name: name}); err != nil {
			return err
		}
		a.resized(a.byName[name], &d.Place)
	}
	a.resizes = still
	return nil
}

// resized lets a pod go on at the pace of what it holds now.
func (a *actor) resized(index int32, place *cluster.Placement) {
	l := &a.lives[index]
	w := &a.jobs[l.job]
	a.advance(w)
	held := place.Milli()
	l.part = quantity.Milli(quantity.MulDiv(int64(held), int64(quantity.One), int64(held+place.LentMilli())))
	a.replan(w, l.job)
	if place.Lease != nil {
		a.agenda.add(place.Lease.Until, owes, index, 0)
	}
}
