package cluster

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// A group that held room without its minimum, and gave it back when its time was over,
// is not tried again at once: others are to have a chance of that room.

// Returns is how often in a row a group has given its room back, and until when it is
// not tried again. The zero value is for one that has not.
type Returns struct {
	Count int32
	Until moment.Instant
}

// Returned lists the groups that have given their room back, in no order that means
// anything.
func (v *View) Returned() []GroupID { return v.returned }

// SetGaveBack says how often a group has given its room back; never, with the zero
// value. The list of them is never changed in place.
func (l *Ledger) SetGaveBack(id GroupID, r Returns) {
	switch before := l.Group(id).GaveBack.Count > 0; {
	case before && r.Count == 0:
		l.returned = removed(l.returned, id)
	case !before && r.Count > 0:
		l.returned = appended(l.returned, id)
	case r.Count == 0:
		return
	}
	l.EditGroup(id).GaveBack = r
}

// BacksOffIn is the group, of one and those above it, that is not tried again yet since
// it has given its room back; None where there is none.
func (v *View) BacksOffIn(id GroupID, now moment.Instant) GroupID {
	if len(v.returned) == 0 {
		return None
	}
	for ; id != None; id = v.Group(id).Parent {
		if v.Group(id).GaveBack.Until > now {
			return id
		}
	}
	return None
}

func (v *View) returnsDigest(h uint64, g *Group) uint64 {
	if g.GaveBack.Count > 0 {
		h = chance.Hash(36, h, uint64(g.GaveBack.Count), uint64(g.GaveBack.Until))
	}
	return h
}

// returns counts the groups anew that have given their room back.
func (a *audit) returns() error {
	v, n := a.view, 0
	listed := make([]bool, v.Groups.Len())
	for _, id := range v.returned {
		listed[id] = true
	}
	for i, is := range listed {
		g := v.Group(GroupID(i))
		if r := g.GaveBack; r.Count < 0 || (r.Count == 0) != (r.Until == 0) || is != (r.Count > 0) || is && !g.Known {
			return fmt.Errorf("audit: group %s: gave its room back %d times, until %v, known: %v, listed: %v", g.Name, r.Count, r.Until, g.Known, is)
		}
		if is {
			n++
		}
	}
	if n != len(v.returned) {
		return fmt.Errorf("audit: %d groups have given their room back, %d are listed", n, len(v.returned))
	}
	return nil
}
