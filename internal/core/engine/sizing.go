package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/share"
	"github.com/headrace-dev/headrace/internal/core/yield"
)

// mostStarts bounds the waiting work that competes for the GPUs of elastic jobs in one
// cycle: the first in the order in which they were turned away.
const mostStarts = 64

// contender is a job in the choice of sizes: an elastic one that runs, or work that has
// found no room.
type contender struct {
	*elastic                 // nil for rigid work
	pods     []cluster.PodID // that wait, in the order in which they are seated
	queue    cluster.QueueID
	priority int32
	key      uint64
	now      footing // where it runs; without workers for one that waits
	fresh    bool    // it starts in this cycle
	forced   bool    // its queue has more than its share, and others within theirs wait
	ways     []way
	of       share.Sizing
	choice   int
	// may is how many workers it may lose to others, by its choice; gone, how many it has.
	may, gone int32
	takers    bool // somebody has got some of them
}

// way is one configuration of a contender.
type way struct {
	cluster.JobSize
	spread int32
	rate   int64
}

// resizing is the choice of sizes of one cycle.
type resizing struct {
	*round
	rules   *Sizes
	classes []cluster.Symbol
	room    []int64
	who     []*contender
	owners  map[cluster.PodID]*contender // of workers that may go for others
	// dismissed are those told to go, which are counted against their budgets.
	dismissed []cluster.PodID
	// movers are the jobs that leave for another model in this cycle.
	movers []*contender
}

// contend gathers who competes for GPUs: elastic jobs that run, work that waits.
func (z *resizing) contend() (running bool) {
	v := z.txn.View()
	for i := range v.Groups.Len() {
		e := z.elasticOf(cluster.GroupID(i))
		if e == nil || !v.Stands(e.group) || v.Group(e.group).Placed == 0 || z.sizes.made[e.job] != nil {
			continue
		}
		if c := z.runner(e); c != nil {
			z.who = append(z.who, c)
		}
	}
	if len(z.who) == 0 {
		return false
	}
	slices.SortFunc(z.who, func(a, b *contender) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.group, b.group)) })
	z.line()
	z.restrict()
	return true
}

// runner is an elastic job that runs on GPUs of one model and is not being changed; nil
// for one that is.
func (z *resizing) runner(e *elastic) *contender {
	v, base := z.txn.View(), z.txn.Base()
	j := v.Job(e.job)
	c := &contender{elastic: e, now: z.standOf(e), key: j.Key, fresh: base.Group(e.group).TreePlaced == 0, priority: -1 << 31}
	if c.now.Model == 0 || len(z.nodesOf(c.now.Model)) == 0 || j.Sizing.Resized == max(z.cycle.Now, 1) {
		return nil
	}
	for pod := range v.Members(e.group) {
		p, old := v.Pod(pod), base.Pod(pod)
		if old.Intent != cluster.None || old.Phase == cluster.PhaseTerminating {
			return nil // it is being changed
		}
		if z.cycle.Profile != 0 && p.Spec.Policy != z.cycle.Profile {
			return nil // it is another policy's
		}
		c.queue, c.priority = p.Spec.Queue, max(c.priority, p.Spec.Priority)
		if p.Phase == cluster.PhaseWaiting && !base.HeldBack(old, z.cycle.Now) {
			c.pods = append(c.pods, pod)
		}
	}
	c.pods = z.inRanks(c.pods)
	if most := v.Group(e.group).Wished; most > 0 {
		c.pods = c.pods[:min(len(c.pods), int(max(most-c.now.Workers, 0)))]
	}
	return c
}

// line adds the work that has found no room.
func (z *resizing) line() {
	v := z.txn.View()
	seen := make(map[cluster.GroupID]bool)
	starts := 0
	for i := range z.waiting {
		w := &z.waiting[i]
		spec := v.Pod(w.Pod).Spec
		if starts == mostStarts {
			break
		}
		if !yield.Helps(w.Why.Code) || spec.PreemptNever {
			continue
		}
		c := &contender{pods: []cluster.PodID{w.Pod}, queue: spec.Queue, priority: spec.Priority, key: v.Pod(w.Pod).Key}
		unit := z.waitingUnit(w.Pod)
		if c.elastic = z.elasticOf(spec.Group); c.elastic != nil && unit == cluster.None {
			continue // another worker of one that runs
		}
		if unit != cluster.None {
			if seen[unit] || z.wishful(unit) || v.Group(unit).Children > 0 || v.Group(unit).Parent != cluster.None {
				continue
			}
			seen[unit] = true
			c.pods = z.inRanks(z.squads[unit].members)
			c.key = v.Group(unit).Key
			if most := int(v.Group(unit).Wished); c.elastic != nil && most > 0 {
				c.pods = c.pods[:min(len(c.pods), most)]
			}
			if c.elastic == nil {
				c.pods = c.pods[:min(int(v.Group(unit).Minimum-v.Group(unit).Placed), len(c.pods))]
			}
		}
		if z.waysToStart(c); len(c.ways) > 0 {
			z.who = append(z.who, c)
			starts++
		}
	}
}

// waysToStart are those of an elastic job; of rigid work, the models it may have.
func (z *resizing) waysToStart(c *contender) {
	v := z.txn.View()
	c.of = share.Sizing{Key: c.key, Now: -1}
	if c.elastic != nil {
		j := v.Job(c.job)
		for _, conf := range j.Configurations {
			if conf.Workers >= v.Group(c.group).Minimum && int(conf.Workers) <= len(c.pods) && len(z.nodesOf(conf.Model)) > 0 {
				c.ways = append(c.ways, way{cluster.JobSize{Model: conf.Model, Workers: conf.Workers}, conf.Spread, conf.Rate})
			}
		}
		c.of.Done, c.of.Left = z.work(c, j)
		c.of.Age = z.age(c)
		return
	}
	gpus := int32(0)
	ask := v.Shape(v.Pod(c.pods[0]).Spec.Shape).Devices
	for _, pod := range c.pods {
		spec := v.Pod(pod).Spec
		own := v.Shape(spec.Shape).Devices
		if len(spec.Alternatives) > 0 || len(own) != 1 || !own[0].Whole() || own[0].Count != ask[0].Count || !slices.Equal(own[0].Models, ask[0].Models) {
			return
		}
		gpus += own[0].Count
	}
	for _, model := range z.classes {
		if len(ask[0].Models) == 0 || slices.Contains(ask[0].Models, model) {
			c.ways = append(c.ways, way{cluster.JobSize{Model: model, Workers: int32(len(c.pods))}, 0, int64(gpus) * 1000})
		}
	}
	left := v.ExpectedRun(v.Pod(c.pods[0])).Likely
	if left <= 0 {
		left = z.rules.Left
	}
	c.of.Left, c.of.Age = quantity.MulDiv(int64(gpus), left.Milliseconds(), 1), z.age(c)
}

// any is one of a contender's pods.
func (c *contender) any() cluster.PodID {
	if len(c.now.pods) > 0 {
		return c.now.pods[0]
	}
	return c.pods[0]
}

// age is how long a contender has been there, in milliseconds.
func (z *resizing) age(c *contender) int64 {
	return z.cycle.Now.Since(z.txn.Base().Pod(c.any()).Arrived).Milliseconds()
}

// work is what an elastic job has done and what it has left to do, in milliseconds at a
// rate of 1000. It is said how long it runs in its smallest configuration.
func (z *resizing) work(c *contender, j *cluster.Job) (done, left int64) {
	v := z.txn.View()
	p := v.Pod(c.any())
	runs := v.ExpectedRun(p).Likely
	if runs <= 0 {
		runs = z.rules.Left
	}
	least := j.Configurations[0].Rate
	for _, conf := range j.Configurations {
		if conf.Workers == j.MinWorkers {
			least = min(least, conf.Rate)
		}
	}
	all := quantity.MulDiv(runs.Milliseconds(), least, 1000)
	if j.Progress > 0 {
		done = quantity.MulDiv(all, int64(j.Progress), 1000)
		return done, all - done
	}
	if c.now.Workers > 0 {
		done = quantity.MulDiv(v.RanFor(p, z.cycle.Now).Milliseconds(), c.rateNow(j, 1000), 1000)
	}
	return done, max(all-done, 0)
}

// rateNow is how fast a job runs: as in its largest configuration that it has the workers
// for; unless it has none.
func (c *contender) rateNow(j *cluster.Job, unless int64) int64 {
	rate := unless
	for _, conf := range j.Configurations {
		if conf.Model == c.now.Model && conf.Workers <= c.now.Workers {
			rate = conf.Rate
		}
	}
	return rate
}

// restrict finds the jobs of queues that have more than their share, while others wait
// within theirs, and then the ways of all that run.
func (z *resizing) restrict() {
	v := z.txn.View()
	z.survey()
	for _, c := range z.who {
		if c.now.Workers == 0 {
			continue
		}
		for _, w := range z.who {
			if w.now.Workers > 0 || z.standing == nil || w.queue == c.queue {
				continue
			}
			shape := v.Shape(v.Pod(w.pods[0]).Spec.Shape)
			need := shape.Ask()
			if z.standing.ScopeOf(v, w.queue, &need).Has(c.queue) {
				if above, _ := z.standing.Above(v, w.queue, c.queue, &need, &need); above {
					c.forced = true
					break
				}
			}
		}
		z.waysToRun(c)
	}
}

// waysToRun are the ways of a job that runs: as it does, and those to which it may be
// brought now.
func (z *resizing) waysToRun(c *contender) {
	v := z.txn.View()
	j, least := v.Job(c.job), v.Group(c.group).Minimum
	total := c.now.Workers + int32(len(c.pods))
	calm := j.Sizing.Resized > 0 && j.Sizing.Resized.Add(z.rules.Calm) > z.cycle.Now
	evictable := z.evictable(c)
	crowded := z.crowded(j)
	for _, conf := range j.Configurations {
		w := way{cluster.JobSize{Model: conf.Model, Workers: conf.Workers}, conf.Spread, conf.Rate}
		may := conf.Workers >= least && conf.Workers <= total && len(z.nodesOf(conf.Model)) > 0
		switch {
		case w.JobSize == c.now.JobSize:
			continue
		case conf.Model != c.now.Model:
			may = may && !c.fresh && !c.forced && !calm && int(c.now.Workers) <= len(evictable) && !z.wishful(c.group)
		case conf.Workers < c.now.Workers:
			may = may && !c.fresh && (c.forced || !calm) && (conf.Spread == 0 || len(c.now.nodes) <= int(conf.Spread)) && int(c.now.Workers-conf.Workers) <= len(evictable)
		default:
			may = may && !c.forced && !calm && !crowded && z.grows(c, &w)
		}
		if may {
			c.ways = append(c.ways, w)
		}
	}
	// Of each class, the first way is the one of fewest GPUs.
	now := way{c.now.JobSize, 0, c.rateNow(j, 1)}
	at := 0
	for at < len(c.ways) && (c.ways[at].Model != now.Model || c.ways[at].Workers < now.Workers) {
		at++
	}
	c.ways = slices.Insert(c.ways, at, now)
	if c.forced {
		if first := slices.IndexFunc(c.ways, func(w way) bool { return w.Model == now.Model }); first < at {
			c.ways, at = c.ways[first:first+1], -1 // no more than its minimum
		}
	}
	c.of = share.Sizing{Key: c.key, Now: at, Restart: z.restart(c, j), Lasted: z.lasted(c, j), Age: z.age(c)}
	c.of.Done, c.of.Left = z.work(c, j)
}

// crowded says whether a job may not have more workers, since they would wait for each
// other.
func (z *resizing) crowded(j *cluster.Job) bool {
	s := &j.Sizing
	if s.Crowded {
		return !s.Sync.About(s.Times, z.rules.Measures) || s.Sync.Value > z.rules.Low
	}
	return s.Sync.About(s.Times, 1) && s.Sync.Value > z.rules.Low
}

// grows says whether the limits of its queues, and the nodes that it may span, leave room
// for a way of more workers.
func (z *resizing) grows(c *contender, w *way) bool {
	more := w.Workers - c.now.Workers
	if why := (seats{z.round}).Queue(c.pods[0], more); !why.None() && why.Seated < more {
		return false
	}
	if w.spread == 0 {
		return true
	}
	if int32(len(c.now.nodes)) > w.spread {
		return false
	}
	for _, node := range z.within(c.elastic, z.nodesOf(w.Model), more, w.spread, c.now.nodes, z.slots) {
		more -= z.slots(c.elastic, node)
	}
	return more <= 0
}

// evictable lists the workers that may be evicted.
func (z *resizing) evictable(c *contender) (out []cluster.PodID) {
	for _, pod := range c.now.pods {
		if z.txn.Base().Pod(pod).Phase.Charged() && z.judge().Evictable(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// restart is what a change costs a job: to start again where its state was saved last,
// and to save it first, or to do again what it has done since. One that says nothing of
// saved states keeps its own.
func (z *resizing) restart(c *contender, j *cluster.Job) int64 {
	if c.fresh {
		return 0
	}
	cost := j.Checkpoint.Restart
	if cost == 0 {
		cost = z.rules.Restart
	}
	switch p := z.txn.Base().Pod(c.now.pods[0]); {
	case j.Saves():
		cost += j.Checkpoint.Write
	case j.Resumes() && p.Phase == cluster.PhaseRunning:
		cost += max(z.cycle.Now.Since(max(p.Started, j.Checkpoint.Last)), 0)
	}
	return cost.Milliseconds()
}

// lasted is how long a choice for the job lasted so far, on the mean.
func (z *resizing) lasted(c *contender, j *cluster.Job) int64 {
	if c.fresh || j.Began == 0 {
		return moment.Day.Milliseconds() // nothing is known: as long as the horizon
	}
	return z.cycle.Now.Since(j.Began).Milliseconds() / int64(j.Sizing.Times+1)
}

// choose gives each its way.
func (z *resizing) choose() {
	v := z.txn.View()
	z.room = make([]int64, len(z.classes))
	for k, model := range z.classes {
		for _, node := range z.nodesOf(model) {
			z.room[k] += int64(v.Node(node).IdleDevices)
		}
	}
	all := make([]share.Sizing, len(z.who))
	for i, c := range z.who {
		z.listWays(c)
		all[i] = c.of
		if c.now.Workers > 0 {
			z.room[z.classOf(c.now.Model)] += int64(z.gpus(c, c.now.Workers))
		}
	}
	for i, choice := range share.Sizes(z.room, all, z.rules.Rules) {
		z.who[i].choice = choice
	}
}

// listWays tells the ways of a contender as share knows them.
func (z *resizing) listWays(c *contender) {
	for i := range c.ways {
		w := &c.ways[i]
		c.of.Ways = append(c.of.Ways, share.Way{Class: z.classOf(w.Model), GPUs: z.gpus(c, w.Workers), Rate: w.rate})
	}
}

func (z *resizing) classOf(model cluster.Symbol) int32 {
	return int32(slices.Index(z.classes, model))
}

// gpus is how many GPUs so many workers have.
func (z *resizing) gpus(c *contender, workers int32) int32 {
	if c.elastic != nil {
		return workers * c.each
	}
	v := z.txn.View()
	return workers * v.Shape(v.Pod(c.pods[0]).Spec.Shape).DeviceCount()
}

// judge is the search for those who give way, which knows who may be evicted.
func (z *resizing) judge() *yield.Search {
	if z.round.ways == nil {
		z.survey()
		rules := yield.Default()
		if z.policy.Yields != nil {
			rules = *z.policy.Yields
		}
		z.round.ways = yield.New(z.txn, z.cycle, rules, z.standing)
	}
	return z.round.ways
}

// causeOf is why a job comes to a size.
func causeOf(from, to cluster.JobSize) decision.SizeCause {
	switch {
	case to.Model != from.Model:
		return decision.SizeMove
	case to.Workers > from.Workers:
		return decision.SizeGain
	}
	return decision.SizeTaken
}
