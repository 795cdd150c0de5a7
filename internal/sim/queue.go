package sim

import (
	"container/heap"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/moment"
)

// happening is something that will be: kind, whom it concerns, and the version
// of that life it was foreseen for.
type happening struct {
	at      moment.Instant
	seq     uint64
	kind    happeningKind
	subject int32
	version int32
}

type happeningKind uint8

const (
	arrives   happeningKind = iota // a pod
	isBound                        // the API has carried out a bind
	starts                         // a bound pod is ready to work
	turns                          // a running job ends a phase or its work
	saves                          // a running job has saved its state
	leaves                         // an evicted pod is gone
	breaks                         // a node fails
	mends                          // a node comes back
	sickens                        // a device fails
	heals                          // a device comes back
	decides                        // an arrival cycle
	reviews                        // a review cycle
	samples                        // the meters are read
	lapses                         // room has been held for long enough
	epochs                         // a quota epoch begins
	owes                           // a lease is over
	fetched                        // an artifact has come to a node
	comes                          // the heir of a pod that is to be replaced
	foretells                      // what is learned is told, and starts are foretold anew
)

// agenda holds happenings in order of (instant, sequence).
type agenda struct {
	list happenings
	seq  uint64
}

func (a *agenda) add(at moment.Instant, kind happeningKind, subject, version int32) {
	a.seq++
	heap.Push(&a.list, happening{at: at, seq: a.seq, kind: kind, subject: subject, version: version})
}

// onlyKeepsTime says whether nothing is going to happen but what goes by the clock.
func (a *agenda) onlyKeepsTime() bool {
	return !slices.ContainsFunc(a.list, func(h happening) bool { return h.kind != samples && h.kind != epochs && h.kind != foretells })
}

func (a *agenda) next() (happening, bool) {
	if len(a.list) == 0 {
		return happening{}, false
	}
	return heap.Pop(&a.list).(happening), true
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
