package rounds

import "github.com/headrace-dev/headrace/internal/rivals/elastic"

// paces is how fast jobs of each kind make progress beside what their measured steps
// would have it: work outside of steps, such as evaluation, is in no step.
type paces struct {
	kinds map[string]*pace
	last  map[int]expected
	at    int64
}

type pace struct{ made, expected float64 }

// expected is where a job stood in the last round, and what it was to make in a
// second; 0 where a restart makes that unclear.
type expected struct{ done, rate float64 }

func newPaces() paces { return paces{map[string]*pace{}, map[int]expected{}, 0} }

// see compares what jobs made since the last round with what was expected.
func (p *paces) see(now int64, jobs []elastic.Job) {
	seconds := float64(now - p.at)
	p.at = now
	for i := range jobs {
		j := &jobs[i]
		e := p.last[j.ID]
		if e.rate == 0 {
			continue
		}
		k := p.kinds[j.Kind]
		if k == nil {
			k = new(pace)
			p.kinds[j.Kind] = k
		}
		k.made += j.Done - e.done
		k.expected += e.rate * seconds
	}
}

// note keeps what is expected until the next round.
func (p *paces) note(c elastic.Cluster, jobs []elastic.Job, seats []elastic.Seat) {
	clear(p.last)
	for i := range jobs {
		j := &jobs[i]
		if j.Restarting || seats[i].Empty() || !seats[i].Equal(j.Seat) {
			continue
		}
		gpus, perNode := len(j.Seat.Nodes), c[j.Seat.Type].PerNode
		rate, _ := j.Goodput(j.Seat.Type, (gpus+perNode-1)/perNode, gpus)
		p.last[j.ID] = expected{j.Done, rate}
	}
}

// of is the pace of a kind, 1 while nothing is known.
func (p *paces) of(kind string) float64 {
	if k := p.kinds[kind]; k != nil && k.made > 0 && k.expected > 0 {
		return min(max(k.made/k.expected, leastPace), 1/leastPace)
	}
	return 1
}

// leastPace bounds what a first strange round can say.
const leastPace = 0.2
