package rounds

import (
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/share"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
)

// Ours is the name of our policy.
const Ours = "headrace"

// OursKin is our policy where jobs of a kind learn from each other.
const OursKin = "headrace-kin"

// OursOracle is our policy with knowledge that no policy has.
const OursOracle = "headrace-oracle"

// Policies lists the policies for elastic training jobs: those of others, and ours.
func Policies() []elastic.Rival {
	own := func(name, about string) elastic.Rival {
		r := elastic.Own(name, about, func(c elastic.Cluster) elastic.Policy { return newOurs(c) })
		r.Expected, r.Beforehand = asExpected, true
		return r
	}
	told := own(OursOracle, "the same, told the truth about rates and what is left: what its knowledge is worth")
	told.Oracle = true
	kin := own(OursKin, "the same, with jobs of one kind sharing what they measured")
	kin.Kin = true
	return append(elastic.All(), own(Ours, "ours: sizes by what a GPU is worth to all completion times, learned from what each job measured"), kin, told)
}

// ours hands what is known of jobs to the core, as integers, and seats what the core
// chose.
type ours struct {
	cluster elastic.Cluster
	rules   share.SizeRules
	sizes   [][]int
	kinds   map[string]*kindTime
	seen    map[string]float64 // the most work of a job of a kind, so far
	paces   paces
	first   int     // most GPUs of a job that measured nothing, in this round
	doubt   float64 // of what sizes that were not tried would add, in this round
}

// kindTime is what was learned of the jobs of one kind that ended.
type kindTime struct {
	n          float64
	work       float64 // examples, by worth
	gpuSeconds float64
}

func newOurs(c elastic.Cluster) *ours {
	p := &ours{cluster: c, rules: share.DefaultSizeRules(), kinds: map[string]*kindTime{}, seen: map[string]float64{}, paces: newPaces()}
	for _, t := range c {
		p.sizes = append(p.sizes, t.Sizes(mostGPUs))
	}
	return p
}

// Ended learns from a job that ended.
func (p *ours) Ended(kind string, work, gpuSeconds float64) {
	k := p.kinds[kind]
	if k == nil {
		k = new(kindTime)
		p.kinds[kind] = k
	}
	k.n++
	k.work += work
	k.gpuSeconds += gpuSeconds
}

// Constants of what is not known yet.
const (
	asExpected  = 0.03             // a step so near to what was expected needs no new fit
	firstGPUs   = 4                // most GPUs of a job that measured nothing
	firstShare  = 0.7              // and the most it may have of all GPUs over the jobs
	doubt       = 0.1              // of what more GPUs than were measured would add
	doubtEach   = 4                // GPUs for each job, down from which all of that doubt holds
	firstPower  = 0.9              // GPUs of such a job count with this power
	unknownTime = 1200             // seconds on one GPU, of a kind of which none ended
	rateUnit    = 1000             // thousandths of the reference
	longest     = 30 * 86400 * 1e3 // ms
)

// Round is the policy.
func (p *ours) Round(now int64, jobs []elastic.Job) []elastic.Seat {
	room := make([]int64, len(p.cluster))
	for t, typ := range p.cluster {
		room[t] = int64(typ.GPUs())
	}
	p.paces.see(now, jobs)
	for i := range jobs {
		p.seen[jobs[i].Kind] = max(p.seen[jobs[i].Kind], jobs[i].Done)
	}
	sizings := make([]share.Sizing, len(jobs))
	p.crowd(len(jobs))
	for i := range jobs {
		sizings[i] = p.sizing(&jobs[i])
	}
	chosen := share.Sizes(room, sizings, p.rules)
	wants := make([]want, len(jobs))
	for i, w := range chosen {
		if w >= 0 {
			way := sizings[i].Ways[w]
			wants[i] = want{int(way.Class), int(way.GPUs)}
		}
	}
	seats := pack(p.cluster, jobs, wants)
	p.paces.note(p.cluster, jobs, seats)
	return seats
}

// crowd sets what depends on how many jobs there are. A job that measured nothing
// starts with less, the more others there are, and less is expected of sizes that
// were not tried: the fit hopes, and others know what they would do with the GPUs.
func (p *ours) crowd(jobs int) {
	gpus := 0
	for _, t := range p.cluster {
		gpus += t.GPUs()
	}
	p.first = firstGPUs
	for p.first > 1 && float64(p.first*jobs) > firstShare*float64(gpus) {
		p.first /= 2
	}
	p.doubt = doubt * min(1, float64(doubtEach*jobs)/float64(gpus))
}

// expected is the goodput that is expected of GPUs of a type, which the job holds or not.
func (p *ours) expected(j *elastic.Job, t, gpus int, held bool) float64 {
	perNode := p.cluster[t].PerNode
	of := func(gpus int) float64 {
		rate, _ := j.Goodput(t, (gpus+perNode-1)/perNode, gpus)
		return rate
	}
	rate := of(gpus)
	if !held && gpus > j.Measured {
		rate -= p.doubt * max(rate-of(max(j.Measured, 1)), 0)
	}
	return rate
}

// sizing describes a job to the core.
func (p *ours) sizing(j *elastic.Job) share.Sizing {
	s := share.Sizing{Key: chance.Hash(uint64(j.ID)), Now: -1, Restart: j.Restart * 1000, Fixed: j.Restarting}
	s.Lasted = int64(j.Age * 1000 / float64(j.Restarts+1))
	reference, whole := 0.0, 0.0
	for t, typ := range p.cluster {
		one := j.Single(t)
		if j.Tried {
			one, _ = j.Goodput(t, 1, 1)
		}
		reference += one * float64(typ.GPUs())
		whole += float64(typ.GPUs())
	}
	reference /= whole
	for t := range p.cluster {
		for _, gpus := range p.sizes[t] {
			rate := j.Single(t) * math.Pow(float64(gpus), firstPower)
			held := !j.Seat.Empty() && j.Seat.Type == t && len(j.Seat.Nodes) == gpus
			if j.Tried {
				if gpus > j.Most && !held {
					break
				}
				rate = p.expected(j, t, gpus, held)
			} else if gpus > p.first {
				break
			}
			if held {
				s.Now = len(s.Ways)
			}
			s.Ways = append(s.Ways, share.Way{Class: int32(t), GPUs: int32(gpus), Rate: int64(rate / reference * rateUnit)})
		}
	}
	ms := 1000 / p.paces.of(j.Kind)
	s.Left, s.Done = int64(min(p.left(j, reference)*ms, longest)), int64(min(j.Done/reference*ms, longest))
	s.Age = int64(j.Age * 1000)
	s.Fixed = s.Fixed && s.Now >= 0
	return s
}

// left is what a job is expected to need yet, in seconds at the reference rate.
func (p *ours) left(j *elastic.Job, reference float64) float64 {
	if j.Left != nil {
		return j.Left()
	}
	k := p.kinds[j.Kind]
	switch {
	case k != nil && !j.Tried:
		return k.gpuSeconds / k.n
	case k != nil:
		return max(k.work/k.n-j.Done, 0) / reference
	case j.Tried:
		// At least as much again as was done; and others of its kind have gone on for
		// longer without an end.
		return unknownTime + max(j.Done, 2*p.seen[j.Kind]-j.Done)/reference
	}
	return unknownTime
}

// want is a size that a job is to have; no GPUs is none.
type want struct{ typ, gpus int }

// pack seats jobs. Who keeps a size keeps the place, unless room must be made: then
// the node that holds least gives way.
func pack(c elastic.Cluster, jobs []elastic.Job, wants []want) []elastic.Seat {
	seats := make([]elastic.Seat, len(jobs))
	for t, typ := range c {
		keep := map[int]bool{}
		var order []int
		for i, w := range wants {
			if w.typ != t || w.gpus == 0 {
				continue
			}
			order = append(order, i)
			keep[i] = !jobs[i].Seat.Empty() && jobs[i].Seat.Type == t && len(jobs[i].Seat.Nodes) == w.gpus
		}
		slices.SortStableFunc(order, func(a, b int) int { return wants[b].gpus - wants[a].gpus })
		for !packType(typ, jobs, wants, order, keep, seats) {
			if !release(typ, jobs, wants, order, keep) {
				break
			}
		}
	}
	return seats
}

// packType seats the jobs of one type, and says whether all found room.
func packType(typ elastic.Type, jobs []elastic.Job, wants []want, order []int, keep map[int]bool, seats []elastic.Seat) bool {
	free := slices.Repeat([]int{typ.PerNode}, typ.Nodes)
	for _, i := range order {
		if keep[i] {
			seats[i] = jobs[i].Seat
			for _, n := range jobs[i].Seat.Nodes {
				free[n]--
			}
		}
	}
	for _, i := range order {
		if keep[i] {
			continue
		}
		seats[i] = elastic.Seat{Type: wants[i].typ}
		for left := wants[i].gpus; left > 0; {
			take, best := min(left, typ.PerNode), -1
			for n := range free {
				if free[n] >= take && (best < 0 || free[n] < free[best]) {
					best = n
				}
			}
			if best < 0 {
				return false
			}
			seats[i].Nodes = append(seats[i].Nodes, slices.Repeat([]int{best}, take)...)
			free[best] -= take
			left -= take
		}
		slices.Sort(seats[i].Nodes)
	}
	return true
}

// release lets the jobs of the node that holds fewest GPUs of small jobs move.
func release(typ elastic.Type, jobs []elastic.Job, wants []want, order []int, keep map[int]bool) bool {
	held := make([]int, typ.Nodes)
	for _, i := range order {
		if keep[i] && wants[i].gpus < typ.PerNode {
			held[jobs[i].Seat.Nodes[0]] += wants[i].gpus
		}
	}
	best := -1
	for n, h := range held {
		if h > 0 && (best < 0 || h < held[best]) {
			best = n
		}
	}
	found := false
	for _, i := range order {
		if !keep[i] {
			continue
		}
		if best < 0 || wants[i].gpus < typ.PerNode && jobs[i].Seat.Nodes[0] == best {
			keep[i], found = false, true
		}
	}
	return found
}
