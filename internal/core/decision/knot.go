package decision

import (
	"fmt"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// LinkKind says what one of a ring waits for.
type LinkKind uint8

const (
	LinkRoom  LinkKind = iota // that the next one holds
	LinkLimit                 // what the next one uses below the limit of a queue
	LinkJob                   // what the job of the next one comes to
)

// Link is one of a ring: who waits, and for what of the next one.
type Link struct {
	Group cluster.GroupID // None: a pod without one
	Pod   cluster.PodID
	By    LinkKind
	Queue cluster.QueueID // at its limit, for LinkLimit
	Job   cluster.JobID   // for LinkJob
}

// Ring is who waits for whom: each for the next one, the last for the first.
type Ring []Link

func (l *Link) name(v *cluster.View) string {
	if l.Group == cluster.None {
		return "pod " + v.Pod(l.Pod).Spec.Name
	}
	return "group " + v.Group(l.Group).Name
}

// knot says who waits for whom, and who is to give way. Have is 1 for the group that keeps
// its room.
func (r Reason) knot(v *cluster.View, clock func(moment.Instant) string) string {
	var b strings.Builder
	ring := *r.Ring
	for i := range ring {
		link, next := &ring[i], &ring[(i+1)%len(ring)]
		if i > 0 {
			b.WriteString(", which ")
		}
		switch link.By {
		case LinkLimit:
			fmt.Fprintf(&b, "waits for what %s uses of the limit of queue %s", next.name(v), v.Queue(link.Queue).Name)
		case LinkJob:
			fmt.Fprintf(&b, "waits for job %s of %s", v.Job(link.Job).Name, next.name(v))
		default:
			fmt.Fprintf(&b, "waits for room that %s holds", next.name(v))
		}
	}
	switch {
	case r.Have == 1:
		b.WriteString("; it has waited longest, and keeps what it holds")
	case r.Until != 0:
		fmt.Fprintf(&b, "; it gives back what it holds at %s", clock(r.Until))
	}
	return b.String()
}
