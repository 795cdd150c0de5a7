package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/gang"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// resize brings elastic jobs to the sizes that are best for all: what their workers
// measured first, then by what a GPU is worth to each. It comes after everybody has had
// a turn, so that a job grows into room that nobody who waits can have.
func (r *round) resize() {
	if !r.anyElastic() {
		return
	}
	z := &resizing{round: r, rules: r.policy.Sizes, owners: make(map[cluster.PodID]*contender)}
	r.answerReadings(z)
	r.seeModels()
	v := r.txn.View()
	z.classes = slices.SortedFunc(maps.Keys(r.sizes.nodes), func(a, b cluster.Symbol) int {
		return cmp.Compare(v.Symbols.Text(a), v.Symbols.Text(b))
	})
	if !z.contend() {
		return
	}
	z.choose()
	z.carry()
	r.waiting = slices.DeleteFunc(r.waiting, func(w decision.Waiting) bool { return r.placed(w.Pod) })
}

// anyElastic says whether any job has configurations, and any group is such a job.
func (r *round) anyElastic() bool {
	v := r.txn.Base()
	for i := range v.Jobs.Len() {
		if v.Job(cluster.JobID(i)).Elastic() {
			for g := range v.Groups.Len() {
				if r.elasticOf(cluster.GroupID(g)) != nil {
					return true
				}
			}
			return false
		}
	}
	return false
}

// carry brings the choice about: who moves to another model goes first, since that only
// needs idle room; then who waits, then who grows. Workers go only for those who get a
// place by it.
func (z *resizing) carry() {
	var moves, starts, grows []*contender
	for _, c := range z.who {
		switch {
		case c.now.Workers == 0:
			if c.choice >= 0 {
				starts = append(starts, c)
			}
		case c.choice < 0:
			c.may = c.now.Workers - c.fewest()
		default:
			switch to := &c.ways[c.choice]; {
			case to.Model != c.now.Model:
				moves = append(moves, c)
			case to.Workers > c.now.Workers:
				grows = append(grows, c)
			default:
				c.may = c.now.Workers - to.Workers
			}
		}
		if c.may == 0 {
			continue
		}
		evictable := z.evictable(c)
		if c.may = min(c.may, int32(len(evictable))); c.may > 0 {
			for _, pod := range evictable {
				z.owners[pod] = c
			}
		}
	}
	base := &z.txn.Base().View
	slices.SortStableFunc(starts, func(a, b *contender) int { return z.policy.compare(base, z.cycle, a.pods[0], b.pods[0]) })
	slices.SortStableFunc(grows, func(a, b *contender) int {
		x, y := &a.ways[a.choice], &b.ways[b.choice]
		return cmp.Compare((y.rate-b.ways[b.of.Now].rate)*int64(a.each*(x.Workers-a.now.Workers)), (x.rate-a.ways[a.of.Now].rate)*int64(b.each*(y.Workers-b.now.Workers)))
	})
	for _, c := range moves {
		z.move(c)
	}
	for _, c := range starts {
		to := &c.ways[c.choice]
		z.try(func() bool { return z.admit(c, c.pods[:to.Workers], to) && z.moversFit() })
	}
	// The binds of a job that starts are accepted as one: those that came later must not wait
	// for others to leave.
	leave := slices.ContainsFunc(z.txn.Changes(), func(c cluster.Change) bool { return c.From.Placed() })
	for _, c := range grows {
		if !c.fresh || !leave && len(z.dismissed) == 0 {
			z.grow(c)
		}
	}
	z.complete()
}

// fewest is the least number of workers to which a job that runs may be brought.
func (c *contender) fewest() int32 {
	least := c.now.Workers
	for i := range c.ways {
		if c.ways[i].Model == c.now.Model {
			least = min(least, c.ways[i].Workers)
		}
	}
	return least
}

// grow gives a job the workers of its choice; where there is no room for all, fewer, if
// they pay.
func (z *resizing) grow(c *contender) {
	for at := c.choice; at >= 0; at-- {
		to := &c.ways[at]
		if to.Model != c.now.Model || to.Workers <= c.now.Workers {
			return
		}
		more := int(to.Workers - c.now.Workers)
		if more > len(c.pods) || !z.rules.Rules.Pays(&c.of, at) {
			continue
		}
		if z.try(func() bool { return z.admit(c, c.pods[:more], to) && z.moversFit() }) {
			z.note(c.job, decision.SizeGain, cluster.None)
			return
		}
	}
}

// admit seats pods on GPUs of a model, where there is room, or workers go for them.
// What it did before it says no is the caller's to undo.
func (z *resizing) admit(c *contender, pods []cluster.PodID, to *way) bool {
	gone := make(map[*contender]int32)
	// order: copied whole.
	for _, other := range z.owners {
		gone[other] = other.gone
	}
	nodes := z.nodesOf(to.Model)
	if c.elastic != nil {
		nodes = z.within(c.elastic, nodes, int32(len(pods)), to.spread, c.now.nodes, z.roomFor(c))
	}
	whole := c.elastic != nil && c.now.Workers == 0
	if whole {
		whole = z.attempt(func() bool {
			seated, _ := z.seatWorkers(c.elastic, pods, nodes)
			return int(seated) == len(pods)
		})
	}
	ok := len(nodes) > 0
	for _, pod := range pods {
		if whole || !ok {
			break
		}
		ok = seats{z.round}.Seat(pod, gang.Where{Nodes: nodes, Island: cluster.None}) || !c.fresh && z.makeRoomFor(c, pod, nodes)
	}
	if !ok {
		// order: each is set back alone.
		for other, n := range gone {
			other.gone = n
		}
	}
	return ok
}

// roomFor counts for how many workers a node has room, with those that may go for them.
func (z *resizing) roomFor(c *contender) func(*elastic, cluster.NodeID) int32 {
	return func(e *elastic, node cluster.NodeID) int32 {
		free := int32(0)
		for _, pod := range z.txn.View().Node(node).Pods {
			if o := z.owners[pod]; o != nil && z.yields(o, c, pod) {
				free += o.each
			}
		}
		return z.slots(e, node) + free/e.each
	}
}

// yields says whether a worker may go for another contender: its job has chosen so, and
// neither priority nor the shares of queues are against it.
func (z *resizing) yields(o, c *contender, pod cluster.PodID) bool {
	v := z.txn.View()
	if o == c || o.gone >= o.may || !v.Pod(pod).Phase.Charged() || !z.judge().Evictable(pod) {
		return false
	}
	if o.queue == c.queue {
		return o.priority <= c.priority
	}
	if z.standing == nil {
		return o.priority <= c.priority
	}
	need, gives := v.Shape(v.Pod(c.pods[0]).Spec.Shape).Ask(), v.Shape(v.Pod(pod).Placement.Shape).Ask()
	if !z.standing.ScopeOf(v, c.queue, &need).Has(o.queue) {
		return false
	}
	above, _ := z.standing.Above(v, c.queue, o.queue, &need, &gives)
	return above
}

// nodesTried bounds on how many nodes workers are told to go for one pod, to see whether
// that makes room.
const nodesTried = 8

// makeRoomFor lets workers go on the node where the fewest have to, and seats a pod there.
func (z *resizing) makeRoomFor(c *contender, pod cluster.PodID, nodes []cluster.NodeID) bool {
	v := z.txn.View()
	need := v.Shape(v.Pod(pod).Spec.Shape).DeviceCount()
	type site struct {
		node  cluster.NodeID
		leave []cluster.PodID
		tie   uint64
	}
	var sites []site
	for _, node := range nodes {
		s := site{node: node, tie: z.policy.tie(v, z.cycle, node)}
		free := v.Node(node).IdleDevices
		left := make(map[*contender]int32)
		for _, id := range z.leastOf(node) {
			o := z.owners[id]
			if free >= need {
				break
			}
			if z.yields(o, c, id) && o.gone+left[o] < o.may {
				left[o]++
				free += o.each
				s.leave = append(s.leave, id)
			}
		}
		if free >= need && len(s.leave) > 0 {
			sites = append(sites, s)
		}
	}
	slices.SortFunc(sites, func(a, b site) int {
		return cmp.Or(cmp.Compare(len(a.leave), len(b.leave)), cmp.Compare(a.tie, b.tie), cmp.Compare(a.node, b.node))
	})
	for _, s := range sites[:min(len(sites), nodesTried)] {
		if z.try(func() bool {
			for _, id := range s.leave {
				if !z.dismiss(id) {
					return false
				}
			}
			return seats{z.round}.Seat(pod, gang.Where{Nodes: []cluster.NodeID{s.node}, Island: cluster.None})
		}) {
			for _, id := range s.leave {
				z.owners[id].gone++
				z.owners[id].takers = true
				z.explain(id, decision.Explanation{Policy: z.policy.Name, For: v.Pod(pod).Spec.Name})
			}
			return true
		}
	}
	return false
}

// leastOf lists the workers on a node that may go, those of the least priority first, then
// of the highest rank, then the youngest.
func (z *resizing) leastOf(node cluster.NodeID) (out []cluster.PodID) {
	for _, pod := range z.txn.View().Node(node).Pods {
		if z.owners[pod] != nil {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, z.compareLeast)
	return out
}

func (z *resizing) compareLeast(a, b cluster.PodID) int {
	v := z.txn.Base()
	x, y := v.Pod(a), v.Pod(b)
	return cmp.Or(cmp.Compare(x.Spec.Priority, y.Spec.Priority), cmp.Compare(y.Spec.Rank, x.Spec.Rank),
		cmp.Compare(y.Bound, x.Bound), cmp.Compare(x.Key, y.Key), cmp.Compare(a, b))
}

// dismiss takes the place of a worker, if it may be evicted; what was found to be full may
// not be any more.
func (z *resizing) dismiss(pod cluster.PodID) bool {
	node := z.txn.View().Pod(pod).Placement.Node
	if !z.judge().Evictable(pod) || z.txn.Evict(pod) != nil {
		return false
	}
	z.judge().Spend(pod, 1)
	z.dismissed = append(z.dismissed, pod)
	z.memo.touch(node)
	z.used(z.txn.Base().Pod(pod).Spec.Queue)
	clear(z.full)
	z.closed, z.bound, z.turnedAway = nil, nil, nil
	return true
}

// try does something that leaves everything as it was where it says no, disruption
// budgets included.
func (z *resizing) try(do func() bool) bool {
	before := len(z.dismissed)
	if z.attempt(do) {
		return true
	}
	for _, pod := range z.dismissed[before:] {
		z.judge().Spend(pod, -1)
	}
	z.dismissed = z.dismissed[:before]
	return false
}

// complete brings jobs that have lost some workers to others down to a size in which they
// can run, as they have chosen.
func (z *resizing) complete() {
	v := z.txn.View()
	for _, c := range z.who {
		if !c.takers {
			continue
		}
		z.note(c.job, decision.SizeYields, cluster.None)
		if c.forced {
			z.note(c.job, decision.SizeShare, cluster.None)
		}
		now := z.standOf(c.elastic)
		to := z.belowOrAt(v.Job(c.job), now.JobSize, now.Workers)
		if to < c.now.Workers-c.may {
			continue
		}
		z.shed(now.pods, now.Workers-to)
	}
}

// belowOrAt is the largest number of workers that a job can run with on a model, up to
// some number; that number where there is none.
func (z *resizing) belowOrAt(j *cluster.Job, size cluster.JobSize, most int32) int32 {
	best := int32(0)
	for _, conf := range j.Configurations {
		if conf.Model == size.Model && conf.Workers <= most {
			best = max(best, conf.Workers)
		}
	}
	if best == 0 {
		return most
	}
	return best
}

// shed lets so many of some workers go; none where they may not all go.
func (z *resizing) shed(pods []cluster.PodID, n int32) bool {
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod cluster.PodID) bool {
		return !z.txn.Base().Pod(pod).Phase.Charged() || !z.judge().Evictable(pod)
	})
	if int(n) > len(pods) {
		return false
	}
	slices.SortFunc(pods, z.compareLeast)
	return z.try(func() bool {
		for _, pod := range pods[:n] {
			if !z.dismiss(pod) {
				return false
			}
			z.explain(pod, decision.Explanation{Policy: z.policy.Name})
		}
		return true
	})
}

// move lets a job leave for another model, where idle room is kept for it from now on.
func (z *resizing) move(c *contender) {
	to := c.ways[c.choice]
	if int(to.Workers) > len(c.pods)+int(c.now.Workers) {
		return
	}
	if z.try(func() bool {
		if !z.withhold(c.elastic, to.JobSize) {
			return false
		}
		for _, pod := range c.now.pods {
			if !z.dismiss(pod) {
				return false
			}
			z.explain(pod, decision.Explanation{Policy: z.policy.Name})
		}
		z.movers = append(z.movers, c)
		if !z.moversFit() {
			z.movers = z.movers[:len(z.movers)-1]
			return false
		}
		return true
	}) {
		z.note(c.job, decision.SizeMove, cluster.None)
		z.sizes.made[c.job].To = to.JobSize
		z.sizes.until[c.job] = z.cycle.Now.Add(z.rules.Hold)
	}
}

// moversFit says whether the limits of queues still leave room for the jobs that are to
// start again on another model.
func (z *resizing) moversFit() bool {
	for _, c := range z.movers {
		gpus := int32(0) // of all of its queue
		for _, other := range z.movers {
			if other.queue == c.queue {
				gpus += z.gpus(other, other.ways[other.choice].Workers)
			}
		}
		workers := (gpus + c.each - 1) / c.each
		if why := (seats{z.round}).Queue(c.now.pods[0], workers); !why.None() && why.Seated < workers {
			return false
		}
	}
	return true
}

// note remembers why a job gets another size.
func (r *round) note(job cluster.JobID, why decision.SizeCause, of cluster.PodID) {
	r.sizes.made[job] = &decision.Scale{Job: job, Why: why, Of: of}
}

// scales are the decisions about sizes: of all jobs whose workers come or go in this
// cycle, whatever for.
func (r *round) scales() (out []decision.Decision) {
	if r.policy.Sizes == nil {
		return nil
	}
	v, base := r.txn.View(), r.txn.Base()
	seen := make(map[cluster.GroupID]bool)
	for _, change := range r.txn.Changes() {
		id := base.Pod(change.Pod).Spec.Group
		e := r.elasticOf(id)
		if e == nil || seen[id] {
			continue
		}
		seen[id] = true
		if d, ok := r.scale(e); ok {
			out = append(out, d)
		}
	}
	if r.cycle.Kind == decision.CycleReview {
		out = append(out, r.stayed(seen)...)
	}
	slices.SortFunc(out, func(a, b decision.Decision) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(v.Job(a.Scale.Job).Name, v.Job(b.Scale.Job).Name))
	})
	return out
}

// scale is the decision about one job; ok is false where its size stays as it was.
func (r *round) scale(e *elastic) (d decision.Decision, ok bool) {
	base := r.txn.Base()
	now := r.standOf(e)
	from := base.Job(e.job).Sizing.Size
	s := r.sizes.made[e.job]
	if s == nil {
		s = &decision.Scale{Job: e.job, Why: causeOf(from, now.JobSize), Of: cluster.None}
	}
	if base.Group(e.group).TreePlaced == 0 {
		s.Why, s.Of = decision.SizeStart, cluster.None
	}
	if s.From = from; s.Why != decision.SizeMove || s.To.Workers == 0 {
		s.To = now.JobSize
	}
	before := int32(0)
	for pod := range base.Members(e.group) {
		if p := base.Pod(pod); p.Phase.Charged() && p.Phase != cluster.PhaseTerminating {
			before++
		}
	}
	switch {
	case s.To.Workers == 0 || s.To.Model == 0:
		return d, false
	case s.From == s.To && s.Why != decision.SizeLag:
		return d, false
	case s.Why != decision.SizeLag && s.Why != decision.SizeStart && now.Workers >= before && now.Workers < from.Workers && now.Model == from.Model:
		return d, false // it lost workers, and gets some of them back
	}
	d = decision.NewScale(r.cycle, &base.View, *s, r.policy.Name)
	if until, moves := r.sizes.until[e.job]; moves {
		d.Deadline = until
	}
	return d, true
}

// stayed are the decisions about jobs that have more workers than were chosen: such as
// were to go have stayed.
func (r *round) stayed(seen map[cluster.GroupID]bool) (out []decision.Decision) {
	base := r.txn.Base()
	for i := range base.Groups.Len() {
		e := r.elasticOf(cluster.GroupID(i))
		if e == nil || seen[e.group] {
			continue
		}
		from, settled := base.Job(e.job).Sizing.Size, true
		for pod := range base.Members(e.group) {
			settled = settled && base.Pod(pod).Phase != cluster.PhaseTerminating
		}
		now := r.standOf(e)
		if settled && now.Model != 0 && now.Workers > 0 && (from.Workers == 0 || now.Workers > from.Workers || now.Model != from.Model) {
			s := decision.Scale{Job: e.job, From: from, To: now.JobSize, Why: decision.SizeKept, Of: cluster.None}
			if from.Workers == 0 {
				s.Why = decision.SizeStart
			}
			out = append(out, decision.NewScale(r.cycle, &base.View, s, r.policy.Name))
		}
	}
	return out
}

// replacedFirst puts the bind of a worker that replaces another before its eviction, so
// that its group is never short of one.
func (r *round) replacedFirst(decisions []decision.Decision) {
	v := r.txn.Base()
	for at := range decisions {
		d := &decisions[at]
		if d.Action != cluster.ActionEvict || d.Because.For == "" || d.Yields || r.elasticOf(v.Pod(d.Pod).Spec.Group) == nil {
			continue
		}
		for k := at + 1; k < len(decisions); k++ {
			b := decisions[k]
			if b.Action == cluster.ActionBind && len(b.After) == 0 && b.Together == 0 && v.Pod(b.Pod).Spec.Name == d.Because.For {
				copy(decisions[at+1:k+1], decisions[at:k])
				decisions[at] = b
				break
			}
		}
	}
}

// timeSizes says which evictions for sizes are for binds of the plan, and lets jobs save
// their state first.
func (r *round) timeSizes(decisions []decision.Decision) {
	if r.sizes == nil || r.ways == nil {
		return
	}
	v := r.txn.Base()
	saves := make(map[uint64]moment.Instant)
	awaited := make(map[uint64]bool)
	for i := range decisions {
		for _, id := range decisions[i].After {
			awaited[id] = true
		}
	}
	for i := range decisions {
		d := &decisions[i]
		if d.Action != cluster.ActionEvict || d.Because.Yield != nil || r.elasticOf(v.Pod(d.Pod).Spec.Group) == nil {
			continue
		}
		d.Yields = d.Because.For != "" && awaited[d.ID]
		if until, first := r.ways.SavesFirst(d.Pod); first {
			d.Save, d.Deadline = true, until
			saves[d.ID] = until
		}
	}
	for i := range decisions {
		d := &decisions[i]
		for _, id := range d.After {
			if until, is := saves[id]; is && d.Action == cluster.ActionBind {
				d.Deadline = max(d.Deadline, until.Add(r.policy.hold()))
			}
		}
	}
	r.replacedFirst(decisions)
}
