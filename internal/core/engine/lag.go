package engine

import (
	"cmp"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/gang"
)

// What workers measure is answered before sizes are chosen by gain: a job whose workers
// wait for each other gets smaller, and a worker that holds the others up is replaced.

// Lag is a worker whose utilisation is apart from the others'.
type Lag struct {
	Pod          cluster.PodID
	Busy, Others int32 // thousandths; of the others, the one in the middle
}

// Lagging finds the worker of an elastic job that is furthest apart from the others, as
// far as the readings about its present size say; ok is false where there is none.
func (s *Sizes) Lagging(v *cluster.View, group cluster.GroupID) (lag Lag, ok bool) {
	e := elasticIn(v, group)
	if e == nil {
		return lag, false
	}
	var pods []cluster.PodID
	var busy []int32
	for pod := range v.Members(group) {
		if p := v.Pod(pod); p.Phase == cluster.PhaseRunning || p.Phase == cluster.PhaseBound {
			if !p.Busy.About(v.Job(e.job).Sizing.Times, s.Measures) {
				return lag, false
			}
			pods, busy = append(pods, pod), append(busy, p.Busy.Value)
		}
	}
	if len(pods) < fewestCompared {
		return lag, false
	}
	order := slices.Sorted(slices.Values(busy))
	apart := func(l Lag) int32 { return max(l.Busy-l.Others, l.Others-l.Busy) }
	for i, pod := range pods {
		l := Lag{Pod: pod, Busy: busy[i], Others: middleBut(order, busy[i])}
		if more := cmp.Compare(apart(l), apart(lag)); apart(l) > s.Apart && (!ok || more > 0 || more == 0 && v.Pod(pod).Key < v.Pod(lag.Pod).Key) {
			lag, ok = l, true
		}
	}
	return lag, ok
}

// fewestCompared is how many workers there have to be to say which of them is apart.
const fewestCompared = 3

// middleBut is the middle of sorted numbers but for one of them, rounded down.
func middleBut(sorted []int32, but int32) int32 {
	at, _ := slices.BinarySearch(sorted, but)
	rest := slices.Delete(slices.Clone(sorted), at, at+1)
	return (rest[(len(rest)-1)/2] + rest[len(rest)/2]) / 2
}

// answerReadings brings about what the readings of jobs ask for.
func (r *round) answerReadings(z *resizing) {
	v := r.txn.View()
	var all []*contender
	for i := range v.Groups.Len() {
		e := r.elasticOf(cluster.GroupID(i))
		if e == nil || !v.Stands(e.group) || !r.read(e) || v.Job(e.job).Sizing.Resized.Add(z.rules.Calm) > r.cycle.Now && v.Job(e.job).Sizing.Resized > 0 {
			continue
		}
		if c := z.runner(e); c != nil && !c.fresh {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *contender) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.group, b.group)) })
	for _, c := range all {
		if !z.thin(c) {
			z.replace(c)
		}
	}
}

// read says whether there are readings about the size of a job.
func (r *round) read(e *elastic) bool {
	v := r.txn.Base()
	s := &v.Job(e.job).Sizing
	if s.Sync.About(s.Times, 1) {
		return true
	}
	for pod := range v.Members(e.group) {
		if v.Pod(pod).Busy.About(s.Times, 1) {
			return true
		}
	}
	return false
}

// thin takes workers from a job that wait for each other: as few as a configuration
// allows.
func (z *resizing) thin(c *contender) bool {
	v := z.txn.View()
	j := v.Job(c.job)
	s := &j.Sizing
	if !s.Sync.About(s.Times, z.rules.Measures) || s.Sync.Value <= z.rules.High {
		return false
	}
	to := z.belowOrAt(j, c.now.JobSize, c.now.Workers-1)
	if to >= c.now.Workers || to < v.Group(c.group).Minimum || !z.shed(c.now.pods, c.now.Workers-to) {
		return false
	}
	z.note(c.job, decision.SizeCrowded, cluster.None)
	return true
}

// replace lets a worker that lags go, where the time that the others gain is worth the
// restart: for a spare one on another node, else the job runs without it, if that is
// faster.
func (z *resizing) replace(c *contender) bool {
	v := z.txn.View()
	j := v.Job(c.job)
	lag, ok := z.rules.Lagging(&z.txn.Base().View, c.group)
	if !ok || !z.judge().Evictable(lag.Pod) {
		return false
	}
	z.waysToRun(c)
	z.listWays(c)
	gain := int64(max(lag.Busy-lag.Others, lag.Others-lag.Busy)) * 1000 / int64(max(lag.Busy, lag.Others))
	away := v.Pod(lag.Pod).Placement.Node
	if len(c.pods) > 0 && z.rules.Rules.Repays(&c.of, gain) && z.try(func() bool {
		size := c.now.JobSize
		others := slices.DeleteFunc(slices.Clone(c.now.nodes), func(n cluster.NodeID) bool {
			return n == away && !slices.ContainsFunc(c.now.pods, func(p cluster.PodID) bool { return p != lag.Pod && v.Pod(p).Placement.Node == n })
		})
		nodes := slices.DeleteFunc(slices.Clone(z.within(c.elastic, z.nodesOf(size.Model), 1, spreadOf(j, size), others, z.slots)), func(n cluster.NodeID) bool { return n == away })
		return len(nodes) > 0 && seats{z.round}.Seat(c.pods[0], gang.Where{Nodes: nodes, Island: cluster.None}) && z.letGo(lag.Pod, c.pods[0])
	}) {
		z.note(c.job, decision.SizeLag, lag.Pod)
		return true
	}
	to := z.belowOrAt(j, c.now.JobSize, c.now.Workers-1)
	for at := range c.ways {
		w := &c.ways[at]
		if w.Workers != to || w.Model != c.now.Model || to != c.now.Workers-1 || to < v.Group(c.group).Minimum {
			continue
		}
		slowed := c.ways[c.of.Now].rate * (1000 - gain) / 1000
		faster := (w.rate - slowed) * 1000 / max(w.rate, 1)
		if faster > 0 && z.rules.Rules.Repays(&c.of, faster) && z.try(func() bool { return z.letGo(lag.Pod, cluster.None) }) {
			z.note(c.job, decision.SizeLag, lag.Pod)
			return true
		}
	}
	return false
}

// letGo takes the place of a worker that lags, for another or for nobody.
func (z *resizing) letGo(pod, other cluster.PodID) bool {
	if !z.dismiss(pod) {
		return false
	}
	because := decision.Explanation{Policy: z.policy.Name}
	if other != cluster.None {
		because.For = z.txn.View().Pod(other).Spec.Name
	}
	z.explain(pod, because)
	return true
}
