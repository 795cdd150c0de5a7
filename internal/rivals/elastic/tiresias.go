package elastic

import "slices"

// demotion is the GPU-seconds after which a job stands in the second line.
const demotion = 57_600

// tiresias keeps two lines, first come first served each. It is blind to GPU
// models: each job runs on the first type that has room for it.
type tiresias struct {
	cluster Cluster
	lines   [2][]*attained
	byJob   map[int]*attained
}

// attained is a job in a line.
type attained struct {
	job      int
	gpus     int
	line     int
	running  bool
	executed int64 // seconds
	checked  int64
}

func newTiresias(c Cluster) *tiresias { return &tiresias{cluster: c, byJob: map[int]*attained{}} }

// Round is the policy.
func (p *tiresias) Round(now int64, jobs []Job) []Seat {
	p.admit(jobs)
	for i := range jobs {
		p.age(p.byJob[jobs[i].ID], now)
	}
	seats := make([]Seat, len(jobs))
	at := make(map[int]int, len(jobs))
	for i := range jobs {
		at[jobs[i].ID] = i
	}
	room := make([]int, len(p.cluster))
	free := make([][]int, len(p.cluster))
	for t, typ := range p.cluster {
		room[t], free[t] = typ.GPUs(), slices.Repeat([]int{typ.PerNode}, typ.Nodes)
	}
	var starting []*attained
	chosen := map[int]int{}
	for _, line := range p.lines {
		for _, a := range line {
			t := p.fits(a, &jobs[at[a.job]], room)
			a.running = t >= 0
			if !a.running {
				continue
			}
			room[t] -= a.gpus
			chosen[a.job] = t
			if old := jobs[at[a.job]].Seat; !old.Empty() && old.Type == t {
				seats[at[a.job]] = old
				for _, node := range old.Nodes {
					free[t][node]--
				}
			} else {
				starting = append(starting, a)
			}
		}
	}
	for _, a := range starting {
		t := chosen[a.job]
		seats[at[a.job]] = Seat{Type: t, Nodes: widest(free[t], a.gpus)}
	}
	return seats
}

// admit drops jobs that ended and puts new ones at the end of the first line.
func (p *tiresias) admit(jobs []Job) {
	here := make(map[int]bool, len(jobs))
	for i := range jobs {
		here[jobs[i].ID] = true
	}
	for l := range p.lines {
		p.lines[l] = slices.DeleteFunc(p.lines[l], func(a *attained) bool {
			if !here[a.job] {
				delete(p.byJob, a.job)
			}
			return !here[a.job]
		})
	}
	for i := range jobs {
		if p.byJob[jobs[i].ID] == nil {
			a := &attained{job: jobs[i].ID, gpus: jobs[i].GPUs}
			p.byJob[a.job] = a
			p.lines[0] = append(p.lines[0], a)
		}
	}
}

// age counts the time a job ran, and demotes it.
func (p *tiresias) age(a *attained, now int64) {
	if a.running {
		a.executed += now - a.checked
	}
	a.checked = now
	if a.running && a.line == 0 && a.executed*int64(a.gpus) >= demotion {
		a.line = 1
		p.lines[0] = slices.DeleteFunc(p.lines[0], func(b *attained) bool { return b == a })
		p.lines[1] = append(p.lines[1], a)
	}
}

// fits is the type that a job runs on, by the count of GPUs alone: the one where
// it is, else the first with room; -1 is none.
func (p *tiresias) fits(a *attained, j *Job, room []int) int {
	if !j.Seat.Empty() && room[j.Seat.Type] >= a.gpus {
		return j.Seat.Type
	}
	for t := range room {
		if room[t] >= a.gpus {
			return t
		}
	}
	return -1
}

// widest takes GPUs of the nodes with most free ones, the first on ties.
func widest(free []int, gpus int) []int {
	var nodes []int
	for gpus > 0 {
		best := 0
		for n := range free {
			if free[n] > free[best] {
				best = n
			}
		}
		for take := min(free[best], gpus); take > 0; take-- {
			nodes = append(nodes, best)
			free[best]--
			gpus--
		}
	}
	return nodes
}
