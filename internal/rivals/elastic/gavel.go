package elastic

import (
	"cmp"
	"slices"
)

// gavelRound is the length of Gavel's rounds in seconds.
const gavelRound = 360

// gavel gives every job a share of time on each GPU model so that the job that is
// worst off, against an equal share of everything, is off best; rounds then bring
// the time that jobs had towards these shares. Sizes and batches are as asked for,
// and their throughputs are known.
type gavel struct {
	cluster Cluster
	time    map[int][]float64 // that each job had on each type, by job
	whole   []float64         // that all jobs had on each type
	shares  map[gavelKey][]float64
	last    []gavelCount
}

// gavelKey is what jobs that are alike have in common: their throughputs.
type gavelKey struct {
	kind string
	gpus int
	rate [mostSeen]float64
}

// gavelCount is how many jobs are alike.
type gavelCount struct {
	key gavelKey
	n   int
}

func newGavel(c Cluster) *gavel {
	return &gavel{cluster: c, time: map[int][]float64{}, whole: make([]float64, len(c))}
}

func (p *gavel) key(j *Job) gavelKey {
	k := gavelKey{kind: j.Kind, gpus: j.GPUs}
	for t := range p.cluster {
		k.rate[t] = j.Rate(t)
	}
	return k
}

// Round is the policy.
func (p *gavel) Round(_ int64, jobs []Job) []Seat {
	keys := make([]gavelKey, len(jobs))
	for i := range jobs {
		keys[i] = p.key(&jobs[i])
		if p.time[jobs[i].ID] == nil {
			p.time[jobs[i].ID] = slices.Repeat([]float64{gavelRound / 2}, len(p.cluster))
			for t := range p.whole {
				p.whole[t] += gavelRound / 2
			}
		}
	}
	p.share(keys)
	on := p.choose(jobs, keys)
	seats := p.seat(jobs, on)
	for i, t := range on {
		if t >= 0 {
			p.time[jobs[i].ID][t] += gavelRound
			p.whole[t] += gavelRound
		}
	}
	return seats
}

// share solves for the shares of time when the jobs have changed. Jobs that are
// alike get the same.
func (p *gavel) share(keys []gavelKey) {
	var counts []gavelCount
	for _, k := range keys {
		i := slices.IndexFunc(counts, func(c gavelCount) bool { return c.key == k })
		if i < 0 {
			counts = append(counts, gavelCount{key: k})
			i = len(counts) - 1
		}
		counts[i].n++
	}
	if slices.Equal(counts, p.last) {
		return
	}
	p.last = counts
	types, whole := len(p.cluster), 0
	for _, t := range p.cluster {
		whole += t.GPUs()
	}
	// Columns: the share of each count on each type, then what the worst off has.
	columns := len(counts)*types + 1
	lp := program{value: make([]float64, columns)}
	lp.value[columns-1] = 1
	row := func(limit float64) []float64 {
		r := make([]float64, columns)
		lp.rows, lp.limit = append(lp.rows, r), append(lp.limit, limit)
		return r
	}
	for i, c := range counts {
		equal := 0.0 // throughput with an equal share of everything
		for t, typ := range p.cluster {
			equal += c.key.rate[t] * float64(typ.GPUs()) / float64(whole)
		}
		worst, life := row(0), row(1)
		worst[columns-1] = 1
		for t := range p.cluster {
			life[i*types+t] = 1
			if equal > 0 {
				worst[i*types+t] = -c.key.rate[t] / equal * float64(c.key.gpus)
			}
		}
	}
	for t, typ := range p.cluster {
		room := row(float64(typ.GPUs()))
		for i, c := range counts {
			room[i*types+t] = float64(c.key.gpus * c.n)
		}
	}
	x := lp.solve()
	p.shares = map[gavelKey][]float64{}
	for i, c := range counts {
		p.shares[c.key] = x[i*types : (i+1)*types]
	}
}

// wish is a job on a type, with how far it is behind its share there.
type wish struct {
	job, typ        int
	priority, share float64
}

// choose takes jobs that are furthest behind first, and gives each the type of its
// first wish that has room; -1 is none.
func (p *gavel) choose(jobs []Job, keys []gavelKey) []int {
	var wishes []wish
	for t := range p.cluster {
		for i := range jobs {
			share := p.shares[keys[i]][t]
			wishes = append(wishes, wish{i, t, share / (p.time[jobs[i].ID][t] / p.whole[t]), share})
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.share, a.share))
	})
	on := slices.Repeat([]int{-1}, len(jobs))
	room := make([]int, len(p.cluster))
	for t, typ := range p.cluster {
		room[t] = typ.GPUs()
	}
	for _, w := range wishes {
		if gpus := jobs[w.job].GPUs; on[w.job] < 0 && gpus <= room[w.typ] && keys[w.job].rate[w.typ] > 0 {
			on[w.job] = w.typ
			room[w.typ] -= gpus
		}
	}
	return on
}

// seat places the chosen jobs, the largest first; who stays on a type keeps its
// GPUs where nobody larger took them.
func (p *gavel) seat(jobs []Job, on []int) []Seat {
	seats := make([]Seat, len(jobs))
	free := make([][]int, len(p.cluster))
	order := make([]int, len(jobs))
	for t, typ := range p.cluster {
		free[t] = slices.Repeat([]int{typ.PerNode}, typ.Nodes)
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[b].GPUs, jobs[a].GPUs) })
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && jobs[order[to]].GPUs == jobs[order[from]].GPUs {
			to++
		}
		for _, i := range order[from:to] {
			if t := on[i]; t >= 0 && t == jobs[i].Seat.Type && takeSame(free[t], jobs[i].Seat.Nodes) {
				seats[i] = jobs[i].Seat
			}
		}
		for _, i := range order[from:to] {
			if t := on[i]; t >= 0 && seats[i].Empty() {
				seats[i] = Seat{Type: t, Nodes: tightest(free[t], jobs[i].GPUs)}
			}
		}
		from = to
	}
	return seats
}

// takeSame takes GPUs of the same nodes again, if all are free.
func takeSame(free, nodes []int) bool {
	if len(nodes) == 0 {
		return false
	}
	for i, n := range nodes {
		if free[n]--; free[n] < 0 {
			for _, back := range nodes[:i+1] {
				free[back]++
			}
			return false
		}
	}
	return true
}

// tightest takes GPUs of the node with least room that has enough; where none has,
// of those with most.
func tightest(free []int, gpus int) []int {
	best := -1
	for n := range free {
		if free[n] >= gpus && (best < 0 || free[n] < free[best]) {
			best = n
		}
	}
	if best < 0 {
		return widest(free, gpus)
	}
	free[best] -= gpus
	return slices.Repeat([]int{best}, gpus)
}
