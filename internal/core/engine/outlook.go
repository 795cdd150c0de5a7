package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/share"
	"github.com/headrace-dev/headrace/internal/core/when"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

const (
	// Plays is how often the cluster is played on: what is alike falls between the
	// earliest and the latest of nine in eight of ten cases.
	Plays = 9
	// triesForetold bounds how many placements are tried in one play: those who would
	// come after have no start time.
	triesForetold = 20_000
	// stepsForetold bounds the instants of one play.
	stepsForetold = 2_000
)

// outlook is what is expected of those who wait, by playing the cluster on: runs end one
// after the other, and others start in the order of their turn. How long runs take is
// drawn for each, from those that it may be like; in nine plays each run has nine lengths,
// from the tenth to the nine tenths of its kind, in an order of its own.
type outlook struct {
	*round
	line   []cluster.PodID    // in no order
	starts [][]moment.Instant // by play, then as line
	index  map[cluster.PodID]int
	wanted []bool // as line: of whom something is asked
	asked  int    // how many those are
	plays  uint64
	base   *cluster.View
	ran    map[cluster.PodID]moment.Span
	grades map[cluster.PodID]yield.Grade
	shapes []cluster.ShapeID // asked for by any in line, each once
	asking []int             // by shape: how many in line ask for it
	flat   []cluster.PodID   // in the order of their turn, where no shares decide it
	order  share.Order
	queues [][]cluster.PodID // those in line by queue, in the order of their turn
	ends   agenda
}

// lookOut plays the cluster on, until those have started of whom something is asked.
// Everything is as before afterwards.
func (r *round) lookOut(line, wanted []cluster.PodID, plays int) *outlook {
	o := &outlook{
		round: r, line: line, plays: uint64(plays), index: make(map[cluster.PodID]int, len(line)), base: &r.txn.Base().View,
		ran: make(map[cluster.PodID]moment.Span), grades: make(map[cluster.PodID]yield.Grade, len(line)),
	}
	o.asking = make([]int, o.base.Shapes.Len())
	for i, pod := range line {
		o.index[pod] = i
		o.grades[pod] = r.grade(pod)
		for k := 0; ; k++ {
			shape, more := o.base.Pod(pod).Spec.Asks(k)
			if !more {
				break
			}
			if o.asking[shape]++; o.asking[shape] == 1 {
				o.shapes = append(o.shapes, shape)
			}
		}
	}
	o.order = orderOf(o.base, r.cycle, r.policy)
	o.order.Numbers, o.order.Compare = o.numbers, o.compare
	o.wanted = make([]bool, len(line))
	for _, pod := range wanted {
		if i, waits := o.index[pod]; waits && !o.wanted[i] {
			o.wanted[i] = true
			o.asked++
		}
	}
	if r.survey(); r.standing == nil || r.policy.Order != nil {
		o.flat = slices.Clone(line)
		if r.policy.Order != nil {
			r.policy.Order(o.base, r.cycle, o.flat)
		} else {
			slices.SortFunc(o.flat, o.compare)
		}
	}
	if r.policy.Yields != nil {
		o.sortQueues()
	}
	if r.ahead != nil {
		r.ahead.book.Follow()
	}
	for k := range plays {
		if !o.play(uint64(k)) {
			break // nothing was drawn: the others are alike
		}
	}
	if r.ahead != nil {
		r.ahead.book.Back()
	}
	r.line = turns{}
	clear(r.full)
	r.turnedAway = nil
	return o
}

// numbers are those of orderOf, by the grades at hand.
func (o *outlook) numbers(pod cluster.PodID) (first, then int64) {
	row := o.base.Pod(pod)
	first, then = -int64(o.grades[pod]), int64(row.Arrived)
	if row.Spec.SLATotal > 0 || row.Spec.Deadline != 0 {
		then = share.Unclear // it may be urgent
	}
	return first, then
}

// compare is that of the policy, by the grades at hand.
func (o *outlook) compare(a, b cluster.PodID) int {
	if g := cmp.Compare(o.grades[b], o.grades[a]); g != 0 {
		return g
	}
	return compareAlike(o.base, o.cycle.Now, a, b)
}

// window is when one of the line starts.
func (o *outlook) window(i int) decision.Window {
	at := make([]moment.Instant, len(o.starts))
	for k := range at {
		at[k] = o.starts[k][i]
	}
	slices.Sort(at)
	return decision.Window{Low: at[0], Likely: at[len(at)/2], High: at[len(at)-1]}
}

// play plays the cluster on once. It says whether anything was drawn.
func (o *outlook) play(k uint64) (varied bool) {
	p := &playing{
		outlook: o, k: k, starts: make([]moment.Instant, len(o.line)), missing: o.asked,
		runs: make(map[cluster.PodID]run), tries: triesForetold, first: make([]int, len(o.queues)), asking: slices.Clone(o.asking),
	}
	for i := range p.starts {
		p.starts[i] = moment.Never
	}
	o.ends = agenda{view: o.base}
	o.attempt(func() bool {
		p.begin()
		for range stepsForetold {
			at, events := o.ends.next()
			if len(events) == 0 || p.missing == 0 || p.tries <= 0 {
				break
			}
			p.step(at, events)
		}
		return false
	})
	o.round.line = turns{}
	o.starts = append(o.starts, p.starts)
	return p.varied
}

// playing is one play.
type playing struct {
	*outlook
	k       uint64
	starts  []moment.Instant
	missing int // of those asked for, who have not started
	flat    []cluster.PodID
	runs    map[cluster.PodID]run
	back    []cluster.PodID // have given way, and are to go on
	tries   int
	varied  bool
	loose   []cluster.PodID // may have to give way from now on
	first   []int           // by queue of the line: how many at its head have started
	asking  []int           // by shape: how many ask for it that have not started
}

// run is a run in a play.
type run struct {
	began moment.Instant
	ran   moment.Span // before it began
	bound moment.Instant
	moved bool // it has given way before: for a while it does not again
	ends  moment.Instant
	away  bool        // it has given way
	left  moment.Span // then: what it has to run still; 0: nobody knows
}

// begin sets the stage.
func (p *playing) begin() {
	v := p.txn.View()
	now := p.cycle.Now
	for i := range v.Nodes.Len() {
		for _, id := range v.Node(cluster.NodeID(i)).Pods {
			row := p.base.Pod(id)
			ran, known := p.ran[id]
			if !known {
				if ran = when.Ran(p.base, row, now); p.placedNow(id) {
					ran = row.Ran
				}
				p.ran[id] = ran
			}
			end, varies := when.EndAt(p.base, row, ran, now, p.draw(id))
			p.varied = p.varied || varies
			p.enter(id, run{began: now, ran: ran, ends: end, bound: p.boundAt(row), moved: row.Displaced > 0})
		}
	}
	if p.outlook.flat != nil {
		p.flat = slices.Clone(p.outlook.flat)
		return
	}
	p.round.line = turns{shares: p.standing.Line(v, slices.Clone(p.line), p.order)}
}

// boundAt is since when a pod has its place.
func (p *playing) boundAt(row *cluster.Pod) moment.Instant {
	if row.Phase == cluster.PhaseBound || row.Phase == cluster.PhaseRunning {
		return row.Bound
	}
	return p.cycle.Now
}

// placedNow says whether a pod has got its place in this cycle.
func (p *playing) placedNow(id cluster.PodID) bool { return !p.base.Pod(id).Phase.Charged() }

// draw is the part of the way from the shortest to the longest at which the run of a pod
// is in this play. Members of a group run alike.
func (p *playing) draw(id cluster.PodID) quantity.Milli {
	key := p.base.Pod(id).Key
	if g := p.base.Pod(id).Spec.Group; g != cluster.None {
		key = p.base.Group(p.base.Root(g)).Key
	}
	h := chance.Hash(uint64(p.cycle.Seed), key)
	stride := 1 + h/p.plays%p.plays
	for common(stride, p.plays) > 1 { // so that each of its lengths has its turn
		stride++
	}
	at := (h%p.plays + p.k*stride) % p.plays
	return quantity.Milli(1000 * (at + 1) / (p.plays + 1))
}

// common is the greatest common divisor.
func common(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// enter puts the end of a run on the agenda, and when others come to be preferred to it.
func (p *playing) enter(id cluster.PodID, of run) {
	p.runs[id] = of
	p.ends.add(id, of.ends, false)
	p.loosen(id, of, of.began)
}

// step lets what happens at an instant happen, and gives those who wait their turn.
func (p *playing) step(at moment.Instant, events []ending) {
	p.loose = p.loose[:0]
	for _, e := range events {
		of := p.runs[e.pod]
		switch {
		case of.away:
		case e.loose:
			p.loose = append(p.loose, e.pod)
			p.loosen(e.pod, of, at)
		case e.at == of.ends:
			if p.end(e.pod) {
				p.used(p.base.Pod(e.pod).Spec.Queue)
			}
		}
	}
	if p.ahead != nil {
		p.ahead.book.SetAhead(at)
	}
	clear(p.full)
	p.turnedAway = nil
	mark := p.txn.Mark()
	var tried []cluster.PodID
	for p.tries > 0 && p.room() {
		pod, more := p.turn()
		if !more {
			break
		}
		if p.placed(pod) {
			continue // with its group
		}
		if p.mayStart(pod) {
			if p.tries--; p.startLater(pod) {
				continue
			}
		}
		tried = append(tried, pod)
	}
	p.putBack(tried)
	p.press(at)
	p.goOn()
	for _, id := range p.txn.TouchedSince(mark) {
		if p.placed(id) {
			p.started(id, at)
		}
	}
}

// mayStart says whether there may be room for one that waits, or for its group.
func (p *playing) mayStart(pod cluster.PodID) bool {
	unit := p.waitingUnit(pod)
	if unit == cluster.None {
		return !p.noRoom(pod)
	}
	g := p.txn.View().Group(unit)
	hopeful := g.Placed
	for _, member := range p.squads[unit].members {
		if !p.noRoom(member) {
			hopeful++
		}
	}
	return hopeful >= max(g.Minimum, 1)
}

// goOn lets those go on that have given way, where there is room nobody else wants.
func (p *playing) goOn() {
	p.back = slices.DeleteFunc(p.back, func(id cluster.PodID) bool { return !p.noRoom(id) && p.seat(id) })
}

// started books a start.
func (p *playing) started(id cluster.PodID, at moment.Instant) {
	if of, ran := p.runs[id]; ran {
		if of.away {
			ends := moment.Instant(moment.Never)
			if of.left > 0 {
				ends = at.Add(of.left)
			}
			p.enter(id, run{began: at, ran: of.ran, ends: ends, bound: at, moved: true})
		}
		return
	}
	row := p.base.Pod(id)
	if i, asked := p.index[id]; asked && p.starts[i] == moment.Never {
		if p.starts[i] = at; p.wanted[i] {
			p.missing--
		}
		for k := 0; ; k++ {
			shape, more := row.Spec.Asks(k)
			if !more {
				break
			}
			p.asking[shape]--
		}
	}
	ran := when.RanBefore(row)
	lasts, varies := when.Run(p.base, row, ran, p.draw(id))
	p.varied = p.varied || varies
	of := run{began: at, ran: ran, ends: moment.Never, bound: at, moved: row.Displaced > 0}
	if lasts > 0 {
		of.ends = at.Add(lasts - ran)
	}
	p.enter(id, of)
}

// room says whether anybody in line may have room.
func (p *playing) room() bool {
	return slices.ContainsFunc(p.shapes, func(shape cluster.ShapeID) bool { return p.asking[shape] > 0 && !p.isFull(shape) })
}

// turn takes out of the line who comes next.
func (p *playing) turn() (cluster.PodID, bool) {
	if shares := p.round.line.shares; shares != nil {
		return shares.Next()
	}
	if len(p.flat) == 0 {
		return cluster.None, false
	}
	pod := p.flat[0]
	p.flat = p.flat[1:]
	return pod, true
}

// putBack puts those back in line who had their turn in vain.
func (p *playing) putBack(tried []cluster.PodID) {
	tried = slices.DeleteFunc(tried, p.placed)
	if shares := p.round.line.shares; shares != nil {
		shares.Return(tried)
		return
	}
	p.flat = append(tried, p.flat...)
}

// startLater is startNow within a look ahead: why a group did not start before does not
// stand any more.
func (r *round) startLater(pod cluster.PodID) bool {
	if unit := r.waitingUnit(pod); unit != cluster.None {
		why := r.squads[unit].why
		defer func() { r.squads[unit].why = why }()
		r.squads[unit].why = nil
	}
	return r.startNow(pod)
}

// agenda is what happens to runs, the earliest first.
type agenda struct {
	view *cluster.View
	all  []ending // sorted from at on
	at   int
}

// ending is the end of a run, or that it may have to give way from then on.
type ending struct {
	at    moment.Instant
	pod   cluster.PodID
	loose bool
}

func (a *agenda) add(pod cluster.PodID, at moment.Instant, loose bool) {
	if at == moment.Never {
		return
	}
	e := ending{at, pod, loose}
	i, _ := slices.BinarySearchFunc(a.all[a.at:], e, a.compare)
	a.all = slices.Insert(a.all, a.at+i, e)
}

func (a *agenda) compare(x, y ending) int {
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(a.view.Pod(x.pod).Key, a.view.Pod(y.pod).Key), cmp.Compare(x.pod, y.pod))
}

// next takes out all that happens at the next instant.
func (a *agenda) next() (at moment.Instant, all []ending) {
	from := a.at
	for ; a.at < len(a.all) && a.all[a.at].at == a.all[from].at; a.at++ {
	}
	if from == a.at {
		return 0, nil
	}
	return a.all[from].at, a.all[from:a.at:a.at]
}
