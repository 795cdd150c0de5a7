package when

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Seat is a pod with its place.
type Seat struct {
	Pod   cluster.PodID
	Place cluster.Placement
}

// Reservation is room for a pod, or for the pods of a group, from an instant on.
type Reservation struct {
	For   cluster.PodID // whose turn it was
	At    moment.Instant
	Seats []Seat
}

// holds says whether a reservation is for a pod.
func (r *Reservation) holds(pod cluster.PodID) bool {
	return slices.ContainsFunc(r.Seats, func(s Seat) bool { return s.Pod == pod })
}

// Book is what is reserved in one cycle, beside a transaction that goes on.
type Book struct {
	main    *cluster.Txn
	start   cluster.Mark // of main
	now     moment.Instant
	entries []*entry
	// ahead says that places are looked for at an instant to come: what starts until
	// then is in place in main.
	ahead bool
	from  moment.Instant
	ends  []moment.Instant // by pod, of those with a place when the cycle began; nil until somebody asks
	order []cluster.PodID  // those of them that end, the earliest first
}

// entry is a reservation with the state of things at its instant.
type entry struct {
	Reservation
	then  *cluster.Txn
	begin cluster.Mark // of then: what has ended is gone, nothing of this cycle is in place
	read  int          // how far the steps of main are followed
	freed int          // as of main
}

// NewBook opens an empty one. What main does afterwards is followed.
func NewBook(main *cluster.Txn, now moment.Instant) *Book {
	return &Book{main: main, start: main.Mark(), now: now}
}

// reckon computes when those end that had a place when the cycle began.
func (b *Book) reckon() {
	if b.ends != nil {
		return
	}
	base := b.main.Base()
	b.ends = make([]moment.Instant, base.Pods.Len())
	for i := range b.ends {
		if p := base.Pod(cluster.PodID(i)); p.Phase.Charged() {
			if b.ends[i] = EndOf(&base.View, p, b.now); b.ends[i] != moment.Never {
				b.order = append(b.order, cluster.PodID(i))
			}
		}
	}
	slices.SortFunc(b.order, func(x, y cluster.PodID) int {
		return cmp.Or(cmp.Compare(b.ends[x], b.ends[y]), cmp.Compare(base.Pod(x).Key, base.Pod(y).Key))
	})
}

// Len counts the reservations.
func (b *Book) Len() int { return len(b.entries) }

// Of is the reservation that a pod is part of; nil without.
func (b *Book) Of(pod cluster.PodID) *Reservation {
	for _, e := range b.entries {
		if e.holds(pod) {
			return &e.Reservation
		}
	}
	return nil
}

// ends is when a pod ends that has its place in main.
func (b *Book) endOf(pod cluster.PodID) moment.Instant {
	b.reckon()
	base := b.main.Base()
	if base.Pod(pod).Phase.Charged() {
		return b.ends[pod]
	}
	return EndsAfter(&base.View, base.Pod(pod), b.now)
}

// Step is all that happens at one instant: some end, then others start.
type Step struct {
	At     moment.Instant
	Ends   []cluster.PodID
	Starts []Seat
}

// Steps lists what is expected, the earliest first: the ends of what has a place in
// main, and what is reserved.
func (b *Book) Steps() []Step {
	b.reckon()
	v := b.main.View()
	var all []happening
	for _, id := range b.order {
		if p := v.Pod(id); p.Phase.Charged() {
			all = append(all, happening{at: b.ends[id], seat: Seat{Pod: id}, ends: true, key: p.Key})
		}
	}
	all = merged(all, b.news(v))
	var out []Step
	for _, h := range all {
		if len(out) == 0 || out[len(out)-1].At != h.at {
			out = append(out, Step{At: h.at})
		}
		last := &out[len(out)-1]
		if h.ends {
			last.Ends = append(last.Ends, h.seat.Pod)
		} else {
			last.Starts = append(last.Starts, h.seat)
		}
	}
	return out
}

// happening is the end of a run, or that one starts for which room is reserved.
type happening struct {
	at   moment.Instant
	seat Seat
	ends bool
	key  uint64
}

func compare(x, y happening) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.key, y.key)) }

// news lists what is expected besides the ends of those that had a place when the cycle
// began, the earliest first.
func (b *Book) news(v *cluster.View) []happening {
	var all []happening
	base := b.main.Base()
	seen := make(map[cluster.PodID]bool)
	for _, id := range b.main.TouchedSince(b.start) {
		if p := v.Pod(id); p.Phase.Charged() && !base.Pod(id).Phase.Charged() && !seen[id] {
			seen[id] = true
			if at := b.endOf(id); at != moment.Never {
				all = append(all, happening{at: at, seat: Seat{Pod: id}, ends: true, key: p.Key})
			}
		}
	}
	for _, e := range b.entries {
		for _, seat := range e.Seats {
			p := v.Pod(seat.Pod)
			if p.Phase != cluster.PhaseWaiting {
				continue // it has started after all
			}
			all = append(all, happening{at: e.At, seat: seat, key: p.Key})
			if at := EndsAfter(v, p, e.At); at != moment.Never {
				all = append(all, happening{at: at, seat: seat, ends: true, key: p.Key})
			}
		}
	}
	slices.SortStableFunc(all, compare)
	return all
}

// merged puts two lists into one, each in order.
func merged(x, y []happening) []happening {
	out := make([]happening, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		if compare(y[0], x[0]) < 0 {
			out, y = append(out, y[0]), y[1:]
		} else {
			out, x = append(out, x[0]), x[1:]
		}
	}
	return append(append(out, x...), y...)
}

// SetAhead says that main shows an instant to come, until Back.
func (b *Book) SetAhead(at moment.Instant) { b.ahead, b.from = true, at }

// IsAhead says whether main shows an instant to come.
func (b *Book) IsAhead() bool { return b.ahead }

// Back says that main is again as it was when it was followed last.
func (b *Book) Back() {
	b.ahead = false
	for _, e := range b.entries {
		e.freed = b.main.Freed()
	}
}

// At is the instant that places are looked for at.
func (b *Book) At() moment.Instant {
	if b.ahead {
		return b.from
	}
	return b.now
}

// Add reserves room. It is found as main shows it, after the earlier reservations.
func (b *Book) Add(r Reservation) {
	b.reckon()
	e := &entry{Reservation: r, then: cluster.Begin(b.main.Base())}
	base := b.main.Base()
	for i, at := range b.ends {
		if p := base.Pod(cluster.PodID(i)); p.Phase.Charged() && at <= e.At {
			e.then.Finish(cluster.PodID(i))
		}
	}
	e.begin = e.then.Mark()
	b.entries = append(b.entries, e)
	b.follow(e, true)
	for _, other := range b.entries[:len(b.entries)-1] {
		if other.At >= e.At {
			b.seat(other, e)
		}
	}
}

// Follow brings the book up to what main has done.
func (b *Book) Follow() {
	for _, e := range b.entries {
		b.follow(e, false)
	}
}

func (b *Book) follow(e *entry, anew bool) {
	touched := b.main.TouchedSince(b.start)
	if anew || e.freed != b.main.Freed() || e.read > len(touched) {
		e.then.Rollback(e.begin)
		e.read, e.freed = 0, b.main.Freed()
		for _, pod := range touched {
			b.mirror(e, pod)
		}
		for _, other := range b.entries {
			if other.At <= e.At {
				b.seat(e, other)
			}
		}
	} else {
		for _, pod := range touched[e.read:] {
			b.mirror(e, pod)
		}
	}
	e.read = len(touched)
}

// mirror gives a pod the place that it has in main, if it is there still.
func (b *Book) mirror(e *entry, pod cluster.PodID) {
	base, is, then := b.main.Base().Pod(pod), b.main.View().Pod(pod), e.then.View().Pod(pod)
	if base.Phase.Charged() && is.Phase.Charged() && is.Placement.Node == base.Placement.Node {
		return // it lends, or gets back what it lent
	}
	if then.Phase.Charged() {
		if then.Placement.Node == is.Placement.Node && slices.Equal(then.Placement.Grants, is.Placement.Grants) {
			return
		}
		if e.then.Evict(pod) != nil {
			e.then.Finish(pod)
		}
	}
	if is.Phase.Charged() && EndsAfter(&b.main.Base().View, base, b.now) > e.At {
		_ = e.then.Place(pod, is.Placement) // what has room only on loan is not minded
	}
}

// seat places what another reservation is for in the state at the instant of one.
func (b *Book) seat(e, other *entry) {
	v := &b.main.Base().View
	for _, seat := range other.Seats {
		p := e.then.View().Pod(seat.Pod)
		if p.Phase == cluster.PhaseWaiting && EndsAfter(v, p, other.At) > e.At {
			_ = e.then.Place(seat.Pod, seat.Place)
		}
	}
}

// binds says whether a pod that has its place until an instant is there when a
// reservation begins.
func (b *Book) binds(e *entry, pod cluster.PodID, ends moment.Instant) bool {
	return e.At < ends && (!b.ahead || e.At > b.from) && !e.holds(pod)
}

// Minds returns the first reservation that a pod could be in the way of, if it had a
// place until an instant; nil: none.
func (b *Book) Minds(pod cluster.PodID, ends moment.Instant) *Reservation {
	if b == nil {
		return nil
	}
	var first *entry
	for _, e := range b.entries {
		if b.binds(e, pod, ends) && (first == nil || e.At < first.At) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	return &first.Reservation
}

// Allows says whether a place until an instant is in nobody's way.
func (b *Book) Allows(pod cluster.PodID, place *cluster.Placement, ends moment.Instant) bool {
	return b.Bars(pod, place, ends) == nil
}

// Bars returns the first reservation that a place until an instant is in the way of;
// nil: none.
func (b *Book) Bars(pod cluster.PodID, place *cluster.Placement, ends moment.Instant) *Reservation {
	var first *entry
	for _, e := range b.entries {
		if b.binds(e, pod, ends) && (first == nil || e.At < first.At) && !e.admits(pod, place) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	return &first.Reservation
}

// admits says whether there is room for a place at the instant of a reservation.
func (e *entry) admits(pod cluster.PodID, place *cluster.Placement) bool {
	v := e.then.View()
	if v.Ties(pod) != 0 && !fit.CheckPod(v, pod, place.Shape, place.Node).None() {
		return false
	}
	return e.then.Admits(pod, place)
}

// Free lists, for a place on a node until an instant, the states in which there has to
// be room for it: devices that are free in one of them may be free in all.
func (b *Book) Free(pod cluster.PodID, ends moment.Instant) (out []*cluster.View) {
	for _, e := range b.entries {
		if b.binds(e, pod, ends) {
			out = append(out, e.then.View())
		}
	}
	return out
}

// GoneBy is from when on a place would be in others' way, for a pod that is to end
// before; 0: never.
func (b *Book) GoneBy(pod cluster.PodID, place *cluster.Placement, ends moment.Instant) (out moment.Instant) {
	if b == nil {
		return 0
	}
	for _, e := range b.entries {
		if e.At >= ends && (out == 0 || e.At < out) && !e.holds(pod) && !e.admits(pod, place) {
			out = max(e.At, 1)
		}
	}
	return out
}
