package gang

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// blockage is where the first half came to an end first: no place of a part had
// room beside what was planned before.
type blockage struct {
	set   bool
	part  int
	at    Place // the one that came closest; Nowhere: there is none of the level
	level cluster.Level
	taken []Place // by the parts before it
}

// begin starts a pass.
func (t *tree) begin() {
	t.planned, t.blocked, t.failed = nil, blockage{}, failure{}
	for i := range t.parts {
		p := &t.parts[i]
		p.at, p.taken, p.waiting = Nowhere, 0, 0
		for c := i + 1; c < p.below; c = t.parts[c].below {
			p.waiting++
		}
	}
	t.recount()
}

// recount brings the counts up to the transaction.
func (t *tree) recount() {
	for k := range t.classes {
		c := &t.classes[k]
		c.counts = c.counts[:0]
		for _, ask := range c.asks {
			c.counts = append(c.counts, t.Seats.Count(ask))
			if t.first {
				break
			}
		}
	}
}

// choose gives part i and those behind it their places, and seats them all.
func (t *tree) choose(i int) bool {
	if i == len(t.parts) {
		return t.seatAll()
	}
	p := &t.parts[i]
	above := &part{at: t.in, needs: 1, waiting: 1}
	if p.parent >= 0 {
		above = &t.parts[p.parent]
	}
	before := *above
	defer func() { above.taken, above.waiting = before.taken, before.waiting }()
	above.waiting--
	if above.at == Nowhere || above.taken >= above.needs {
		return t.leaveOut(i)
	}
	above.taken++
	if t.chooseFor(i, above.at) {
		return true
	}
	if above.taken--; !t.gaveUp && above.waiting >= above.needs-above.taken {
		return t.leaveOut(i)
	}
	return false
}

// leaveOut goes on without a part and those below it.
func (t *tree) leaveOut(i int) bool {
	for k := i; k < t.parts[i].below; k++ {
		t.parts[k].at = Nowhere
	}
	return t.choose(t.parts[i].below)
}

// chooseFor tries the places for part i within that of its parent: closer levels
// before wider ones, of a level the tightest first.
func (t *tree) chooseFor(i int, in Place) bool {
	p := &t.parts[i]
	tried, required, level := false, false, cluster.LevelCloud
	for _, o := range p.options {
		required, level = o.required, o.level
		if p.pinned {
			if at := t.pin(p.id, o.level); at != Nowhere {
				if t.Atlas.Contains(in, at) && t.fits(i, at) {
					tried = true
					if t.settle(i, in, at) {
						return true
					}
				} else if required {
					t.block(i, at, level)
				}
				if required || t.gaveUp {
					return false
				}
				continue
			}
		}
		some, done := t.chooseAmong(i, in, o.level)
		if tried = tried || some; done || t.gaveUp {
			return done
		}
	}
	if required {
		if !tried {
			t.block(i, t.nearest(i, in, level), level)
		}
		return false
	}
	if t.fits(i, in) {
		return t.settle(i, in, in)
	}
	t.block(i, in, level)
	return false
}

// chooseAmong tries the places of a level.
func (t *tree) chooseAmong(i int, in Place, level cluster.Level) (some, done bool) {
	if t.tooLarge(i, level) {
		return false, false
	}
	all := t.Atlas.Within(level, in)
	last := tightness{milli: math.MinInt64}
	var seen []uint64
	for {
		best, at := tightness{milli: math.MaxInt64}, Nowhere
		for _, p := range all {
			if !t.fits(i, p) {
				continue
			}
			if own := t.tightness(i, p, &last, &best); at == Nowhere && last.before(&own) || at != Nowhere && last.before(&own) && own.before(&best) {
				own.tie = t.tie(p)
				best, at = own, p
			}
		}
		if at == Nowhere {
			return some, false
		}
		last, some = best, true
		sign, whole := t.signature(i, at)
		if whole && contains(seen, sign) {
			continue
		}
		errs := t.seatErr
		if t.settle(i, in, at) {
			return true, true
		}
		if t.gaveUp {
			return true, false
		}
		if whole && errs == t.seatErr {
			seen = append(seen, sign)
		}
	}
}

func contains(all []uint64, x uint64) bool {
	for _, y := range all {
		if x == y {
			return true
		}
	}
	return false
}

// tooLarge says that no place of a level takes the part, whatever lies in it.
func (t *tree) tooLarge(i int, level cluster.Level) bool {
	p := &t.parts[i]
	for k := range t.classes {
		most := int32(0)
		for _, c := range t.classes[k].counts {
			most += c.most[level]
		}
		if p.all[k] > most {
			return true
		}
	}
	return false
}

// signature is the same for places that are alike to the part and those behind it:
// then one that did not do stands for all. It is not known where parts look into
// the place, or where pods ask for unlike things.
func (t *tree) signature(i int, at Place) (uint64, bool) {
	if len(t.classes) != 1 {
		return 0, false
	}
	level := t.Atlas.Spot(at).Level
	for k := i + 1; k < len(t.parts); k++ {
		if t.parts[k].level < level {
			return 0, false
		}
	}
	return chance.Hash(uint64(t.Atlas.places[at].parent), uint64(t.left(0, at))), true
}

// tightness orders places: the least room left over first.
type tightness struct {
	milli quantity.MilliGPU
	cpu   quantity.MilliCPU
	tie   uint64
	at    Place
}

func (x *tightness) before(y *tightness) bool {
	switch {
	case x.milli != y.milli:
		return x.milli < y.milli
	case x.cpu != y.cpu:
		return x.cpu < y.cpu
	case x.tie != y.tie:
		return x.tie < y.tie
	}
	return x.at < y.at
}

// tightness is what a place would have left. The tie is only looked up where it
// may matter.
func (t *tree) tightness(i int, at Place, last, best *tightness) tightness {
	out := tightness{at: at}
	out.milli, out.cpu = t.Atlas.room(t.View, at)
	p := &t.parts[i]
	gives := t.planned[at]
	for k := range t.classes {
		n := int64(p.all[k])
		if gives != nil {
			n += int64(gives[k])
		}
		out.milli -= quantity.MilliGPU(n) * t.classes[k].milli
		out.cpu -= quantity.MilliCPU(n * t.classes[k].cpu)
	}
	if same := func(x *tightness) bool { return x.milli == out.milli && x.cpu == out.cpu }; same(last) || same(best) {
		out.tie = t.tie(at)
	}
	return out
}

func (t *tree) tie(at Place) uint64 { return chance.Hash(uint64(t.Seed), t.Atlas.Spot(at).Key(t.View)) }

// room is what is free in a place.
func (a *Atlas) room(v *cluster.View, at Place) (quantity.MilliGPU, quantity.MilliCPU) {
	spot := a.Spot(at)
	switch {
	case !spot.Set:
		return 0, 0 // there is only one
	case spot.Level > cluster.LevelNode:
		totals := &v.Domains.At(int32(spot.Domain)).Totals
		return totals.FreeMilli, totals.FreeCPU
	}
	n := v.Node(spot.Node)
	milli := n.FreeMilli
	if spot.Level == cluster.LevelIsland {
		milli = 0
		for i := range n.Spec.DeviceCount {
			if d := v.DeviceOf(n, i); d.Spec.Island == spot.Island && d.Health == cluster.Healthy {
				milli += max(d.FreeMilli, 0)
			}
		}
	}
	return milli, quantity.MilliCPU(n.Free.At(cluster.DimCPU))
}

// left is how many pods of a class a place takes beside what is planned there.
func (t *tree) left(k int, at Place) int32 {
	sum := int32(0)
	for _, c := range t.classes[k].counts {
		sum += c.slots[at]
	}
	if gives := t.planned[at]; gives != nil {
		sum -= gives[k]
	}
	return sum
}

// fits says whether a place may take all that a part needs: not if it lacks room for
// some class, alone.
func (t *tree) fits(i int, at Place) bool {
	p := &t.parts[i]
	for k := range t.classes {
		if p.all[k] > 0 && t.left(k, at) < p.all[k] {
			return false
		}
	}
	return len(t.classes) < 2 || t.sumFits(i, at)
}

// sumFits says whether a place has the amounts that pods of several classes need in
// all, at the least.
func (t *tree) sumFits(i int, at Place) bool {
	milli, cpu := t.Atlas.room(t.View, at)
	if at == t.Atlas.Top() || t.choices && !t.first {
		return true
	}
	for k := range t.classes {
		n := int64(t.parts[i].all[k])
		if gives := t.planned[at]; gives != nil {
			n += int64(gives[k])
		}
		milli -= quantity.MilliGPU(n) * t.classes[k].milli
		cpu -= quantity.MilliCPU(n * t.classes[k].cpu)
	}
	return milli >= 0 && cpu >= 0
}

// settle plans part i at a place and goes on with those behind it.
func (t *tree) settle(i int, in, at Place) bool {
	if *t.Left <= 0 && t.seatErr+int(t.blockedOnce()) > 0 {
		t.gaveUp = true
		return false
	}
	t.parts[i].at = at
	t.reserve(i, in, at, +1)
	if t.choose(i + 1) {
		return true
	}
	t.reserve(i, in, at, -1)
	t.parts[i].at = Nowhere
	*t.Left--
	return false
}

func (t *tree) blockedOnce() int32 {
	if t.blocked.set {
		return 1
	}
	return 0
}

// reserve books what a part needs at its place and all around it, up to where its
// parent is: there it is booked already.
func (t *tree) reserve(i int, in, at Place, sign int32) {
	if len(t.parts) == 1 {
		return // nobody comes behind it
	}
	for p := at; p != Nowhere && (p != in || i == 0); p = t.Atlas.places[p].parent {
		gives := t.planned[p]
		if gives == nil {
			if t.planned == nil {
				t.planned = make(map[Place][]int32)
			}
			gives = make([]int32, len(t.classes))
			t.planned[p] = gives
		}
		for k := range gives {
			gives[k] += sign * t.parts[i].all[k]
		}
		if p == in {
			return
		}
	}
}

// block remembers the first end.
func (t *tree) block(i int, at Place, level cluster.Level) {
	if t.blocked.set && t.blocked.part >= i {
		return
	}
	t.blocked = blockage{set: true, part: i, at: at, level: level}
	for k := range i {
		t.blocked.taken = append(t.blocked.taken, t.parts[k].at)
	}
}

// nearest is the place of a level that has room for the most pods of a part;
// Nowhere where the level has no place.
func (t *tree) nearest(i int, in Place, level cluster.Level) Place {
	best, most := Nowhere, int32(-1)
	for _, at := range t.Atlas.Within(level, in) {
		room := int32(0)
		for k := range t.classes {
			room += max(min(t.left(k, at), t.parts[i].all[k]), 0)
		}
		if room > most || room == most && t.milliAt(at) > t.milliAt(best) {
			best, most = at, room
		}
	}
	return best
}

func (t *tree) milliAt(at Place) quantity.MilliGPU {
	milli, _ := t.Atlas.room(t.View, at)
	return milli
}

// capacity says that a part, or the whole tree, is too large even for an empty place.
func (t *tree) capacity() decision.Reason {
	for i := range t.parts {
		p := &t.parts[i]
		if p.pinned {
			continue
		}
		level, required := t.View.Group(p.id).Required()
		places := []Place{t.Atlas.Top()}
		if required {
			places = t.Atlas.Within(level, t.Atlas.Top())
		}
		for k := range t.classes {
			if p.all[k] == 0 {
				continue
			}
			if most, at := t.largest(k, places); most > 0 && most < p.all[k] {
				return decision.Reason{
					Code: decision.GroupCapacity, Need: int64(p.all[k]), Have: int64(most), Group: p.id, Domain: t.Atlas.Spot(at),
				}
			}
		}
	}
	return decision.Reason{}
}

// largest is the place that, empty, takes the most pods of a class.
func (t *tree) largest(k int, places []Place) (most int32, at Place) {
	at = Nowhere
	sum := make([]int32, len(places))
	for _, ask := range t.classes[k].asks {
		all := capacities(t.View, t.Atlas, ask)
		for i, p := range places {
			sum[i] += all[p]
		}
	}
	for i, n := range sum {
		if at == Nowhere || n > most {
			most, at = n, places[i]
		}
	}
	return most, at
}
