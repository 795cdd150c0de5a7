package gang

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
)

// failure is the attempt at seating that came closest.
type failure struct {
	set    bool
	part   int
	at     Place
	seated int32
	why    decision.Reason
}

// seatAll is the second half: all parts that are planned, those of the closest
// places first, since the others have more to choose from.
func (t *tree) seatAll() bool {
	order := t.inOrder(len(t.parts))
	done := t.Seats.Attempt(func() bool {
		for _, i := range order {
			if !t.seatPart(i) {
				return false
			}
		}
		return true
	})
	if !done {
		t.seatErr++
		t.recount()
	}
	return done
}

// inOrder lists the first n parts that are planned, those of closest places first.
func (t *tree) inOrder(n int) []int {
	var out []int
	for i := range n {
		if t.parts[i].at != Nowhere {
			out = append(out, i)
		}
	}
	level := func(i int) cluster.Level {
		if s := t.Atlas.Spot(t.parts[i].at); s.Set {
			return s.Level
		}
		return cluster.LevelCloud + 1
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(level(a), level(b)) })
	return out
}

func (t *tree) at(i int) Where {
	w := t.where(t.parts[i].at)
	w.First = t.first
	return w
}

// seatPart seats as many pods of a part as it lacks, at its place.
func (t *tree) seatPart(i int) bool {
	p := &t.parts[i]
	if p.lacks == 0 {
		return true
	}
	var seated []cluster.PodID
	if p.close && t.alike(p) {
		seated = t.fill(p.at, p.members[:p.lacks])
	} else {
		seated = t.seatEach(p.members, p.lacks, t.at(i))
	}
	if int32(len(seated)) == p.lacks {
		return t.rank(p, seated)
	}
	*t.Left -= int64(len(seated))
	if !t.failed.set || int32(len(seated)) > t.failed.seated {
		next := t.unseated(p)
		t.failed = failure{set: true, part: i, at: p.at, seated: int32(len(seated)), why: t.Seats.Binds(next, t.at(i))}
	}
	return false
}

// seatEach seats up to n of the pods, in order.
func (t *tree) seatEach(pods []cluster.PodID, n int32, where Where) []cluster.PodID {
	var seated []cluster.PodID
	for _, pod := range pods {
		if int32(len(seated)) == n {
			break
		}
		if t.Seats.Seat(pod, where) {
			seated = append(seated, pod)
		}
	}
	return seated
}

// unseated is the first pod of a part without a place.
func (t *tree) unseated(p *part) cluster.PodID {
	for _, pod := range p.members {
		if !t.View.Pod(pod).Placement.Placed() {
			return pod
		}
	}
	return p.members[0]
}

func (t *tree) alike(p *part) bool {
	for k, pod := range p.members {
		if p.kinds[k] != p.kinds[0] || t.View.Ties(pod) != 0 {
			return false
		}
	}
	return true
}

// fill seats alike pods in as few domains of a place as there may be, at each level:
// in the tightest that takes the rest, or else in the one that takes the most.
func (t *tree) fill(at Place, pods []cluster.PodID) (seated []cluster.PodID) {
	if s := t.Atlas.Spot(at); s.Set && s.Level <= cluster.LevelNode {
		w := t.where(at)
		w.First = t.first
		return t.seatEach(pods, int32(len(pods)), w)
	}
	class := t.classOf(t.View.Pod(pods[0]).Spec)
	var closed []Place // counts say that there is room, and there is none
	for len(pods) > 0 {
		t.recount()
		need := int32(len(pods))
		best, room := Nowhere, int32(0)
		t.Atlas.children(at, func(c Place) {
			n := t.slots(class, c)
			if n > 0 && !slices.Contains(closed, c) && (best == Nowhere || n >= need && (room < need || n < room || n == room && t.milliAt(c) < t.milliAt(best)) || n < need && n > room) {
				best, room = c, n
			}
		})
		if best == Nowhere {
			break
		}
		own := t.fill(best, pods[:min(room, need)])
		seated = append(seated, own...)
		if len(own) == 0 {
			closed = append(closed, best)
		}
		pods = pods[len(own):]
	}
	return seated
}

// slots is how many pods of a class a place takes now.
func (t *tree) slots(k int, at Place) int32 {
	sum := int32(0)
	for _, c := range t.classes[k].counts {
		sum += c.slots[at]
	}
	return sum
}

// rank gives pods that have ranks the places that were found so that ranks which
// talk to each other are close.
func (t *tree) rank(p *part, seated []cluster.PodID) bool {
	v := t.View
	for i, pod := range p.members {
		if v.Pod(pod).Spec.Rank == cluster.None || p.kinds[i] != p.kinds[0] || v.Ties(pod) != 0 || v.Pod(pod).Spec.Queue != v.Pod(p.members[0]).Spec.Queue {
			return true
		}
	}
	if len(seated) < 2 {
		return true
	}
	ranked := slices.Clone(seated)
	slices.SortFunc(ranked, func(a, b cluster.PodID) int {
		x, y := v.Pod(a), v.Pod(b)
		return cmp.Or(cmp.Compare(x.Spec.Rank, y.Spec.Rank), cmp.Compare(x.Key, y.Key), cmp.Compare(a, b))
	})
	places := make([]cluster.Placement, len(seated))
	for i, pod := range seated {
		places[i] = v.Pod(pod).Placement
	}
	t.along(places, v.Group(p.id).Comm)
	same := true
	for i, pod := range ranked {
		own := &v.Pod(pod).Placement
		same = same && own.Node == places[i].Node && own.Shape == places[i].Shape && slices.Equal(own.Grants, places[i].Grants)
	}
	return same || t.Seats.Move(ranked, places)
}

// why is what binds: the part that came closest to a place.
func (t *tree) why() decision.Reason {
	if t.gaveUp {
		return decision.Reason{Code: decision.GaveUp}
	}
	if why := t.capacity(); !why.None() {
		return why
	}
	if f := &t.failed; f.set {
		p := &t.parts[f.part]
		f.why.Group, f.why.Members, f.why.Seated = p.id, p.minimum, p.seated+f.seated
		f.why.Domain = t.Atlas.Spot(f.at)
		return f.why
	}
	return t.explain()
}

// explain seats what there is room for at the place where the first half ended, to
// see what the next pod lacks.
func (t *tree) explain() decision.Reason {
	b := &t.blocked
	p := &t.parts[b.part]
	if !b.set || b.at == Nowhere {
		return decision.Reason{Code: decision.GroupDomain, Need: int64(b.level), Group: p.id}
	}
	why := decision.Reason{Code: decision.GroupRoom}
	seated := int32(0)
	t.Seats.Attempt(func() bool {
		for i, at := range b.taken {
			t.parts[i].at = at
		}
		for _, i := range t.inOrder(b.part) {
			if t.parts[i].below <= b.part {
				t.seatPart(i)
			}
		}
		p.at = b.at
		where := t.at(b.part)
		for i := b.part; i < p.below; i++ {
			lacks := t.parts[i].lacks
			for _, pod := range t.parts[i].members {
				if lacks == 0 {
					break
				}
				if t.Seats.Seat(pod, where) {
					seated, lacks = seated+1, lacks-1
				} else if why.Code == decision.GroupRoom {
					why = t.Seats.Binds(pod, where)
				}
			}
		}
		return false
	})
	why.Group, why.Members, why.Seated, why.Domain = p.id, p.minimum, p.seated+seated, t.Atlas.Spot(b.at)
	return why
}
