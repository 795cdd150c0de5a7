package rounds

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// Config is one run.
type Config struct {
	Setting training.Setting
	Kinds   map[string]*training.Kind
	Cluster elastic.Cluster
	Jobs    []trace.TrainingJob
	Policy  elastic.Rival
	// Every is the length of a round in seconds; 0: as published for the policy.
	Every int64
	// Fairness adds the runs of each job alone that finish-time fairness needs.
	Fairness bool
	Alone    *Alone // may be nil
	// Most bounds the GPUs of a job, 0 is no bound.
	Most int
	// Trail records the GPUs in use round by round, and Life what becomes of the job of
	// this name.
	Trail bool
	Life  string
	// Progress, if not nil, is told how many jobs have ended.
	Progress func(done, total int)
}

// mostRounds ends a run in which nothing moves: 50 years of minutes.
const mostRounds = 50 * 365 * 24 * 60

// Run runs the jobs to their end.
func Run(c Config) (meter.Training, error) {
	begun := time.Now()
	if c.Every == 0 {
		c.Every = c.Policy.Every
	}
	r, err := newRun(&c)
	if err != nil {
		return meter.Training{}, err
	}
	for !r.over() {
		if r.count >= mostRounds {
			return meter.Training{}, fmt.Errorf("%d jobs have not ended after %d rounds", len(r.jobs)-r.ended, r.count)
		}
		if err := r.round(); err != nil {
			return meter.Training{}, err
		}
	}
	return r.result(begun)
}

// run is the state of one run.
type run struct {
	*Config
	policy elastic.Policy
	jobs   []*jobState
	now    int64
	count  int
	ended  int

	gpuSeconds int64
	contended  int64
	most       int
	spent      []time.Duration
	digest     hash.Hash
	trail      trail
}

// jobState is a job with what surrounds it.
type jobState struct {
	*training.Job
	id   int
	know informed // nil where the policy does not choose sizes
	view elastic.Job
	seat elastic.Seat
	// rounds and rivals give the mean contention while the job was there.
	rounds, rivals int64
}

// informed is what is known of a job, and chooses its batch.
type informed interface {
	training.Tuner
	// goodput is what a policy may expect, most the GPUs that the job may be given, measured
	// those that it had, and tried whether anything is known of it.
	goodput(typ, nodes, gpus int) (rate float64, ok bool)
	most() int
	measured() int
	tried() bool
}

func newRun(c *Config) (*run, error) {
	rates, kin := oracleRates{}, map[string]*kinSteps{}
	r := &run{Config: c, policy: c.Policy.New(c.Cluster), digest: sha256.New()}
	for i, row := range c.Jobs {
		kind := c.Kinds[row.Kind]
		if kind == nil {
			return nil, fmt.Errorf("job %s: no profile of the application %q", row.Name, row.Kind)
		}
		for _, t := range c.Cluster {
			if kind.On(t.Name) == nil {
				return nil, fmt.Errorf("job %s: %s was not measured on GPU %s", row.Name, row.Kind, t.Name)
			}
		}
		s := &jobState{id: i}
		if c.Policy.Oracle {
			told := &oracle{cluster: c.Cluster, shared: rates}
			s.know = told
			s.Job = training.NewJob(row, kind, told)
			told.job = s.Job
		} else if c.Policy.Elastic {
			s.know = newKnowledge(c, kind, row, kin)
			s.Job = training.NewJob(row, kind, s.know)
		} else {
			if most := slices.MaxFunc(c.Cluster, func(a, b elastic.Type) int { return a.GPUs() - b.GPUs() }); row.GPUs > most.GPUs() {
				return nil, fmt.Errorf("job %s: num_replicas %d: want at most %d, the GPUs of %s", row.Name, row.GPUs, most.GPUs(), most.Name)
			}
			s.Job = training.NewJob(row, kind, nil)
		}
		s.view = r.describe(s)
		r.jobs = append(r.jobs, s)
	}
	return r, nil
}

// describe makes the part of a policy's view that stays.
func (r *run) describe(s *jobState) elastic.Job {
	v := elastic.Job{ID: s.id, Kind: s.Kind.Name, GPUs: s.GPUs}
	if s.know != nil {
		v.Goodput = s.know.goodput
	}
	if o, ok := s.know.(*oracle); ok {
		v.Left = o.left
	}
	v.Restart = s.Kind.Restart
	v.Single = func(typ int) float64 { return s.Kind.On(r.Cluster[typ].Name).Single }
	v.Rate = func(typ int) float64 { return askedRate(s.Job, r.Cluster[typ]) }
	return v
}

// askedRate is the throughput of a job as it was asked for, on whole nodes of a
// type as far as it goes.
func askedRate(j *training.Job, t elastic.Type) float64 {
	if j.GPUs > t.GPUs() {
		return 0
	}
	shape := wholeNodes(j.GPUs, t.PerNode)
	s := j.Kind.On(t.Name)
	local, passes := training.Split(j.Batch, j.GPUs, s.MostLocal(shape), j.Kind.MinBatch())
	local = min(local, j.Kind.MaxBatch()/(j.GPUs*(passes+1)))
	step, sync, err := s.Step(shape, local)
	if err != nil {
		return 0
	}
	return 1 / (step + (step-sync)*float64(passes))
}

// wholeNodes spreads GPUs over as few nodes as possible.
func wholeNodes(gpus, perNode int) []int {
	var shape []int
	for ; gpus > 0; gpus -= perNode {
		shape = append(shape, min(gpus, perNode))
	}
	return shape
}

func (r *run) over() bool { return r.ended == len(r.jobs) }

// round advances all jobs and decides.
func (r *run) round() error {
	for _, s := range r.jobs {
		if s.Done || s.Submit > float64(r.now) {
			s.Now = r.now + r.Every
			continue
		}
		if err := s.Advance(r.Every); err != nil {
			return err
		}
		if s.Done {
			r.ended++
			if learner, ok := r.policy.(interface {
				Ended(kind string, work, gpuSeconds float64)
			}); ok {
				learner.Ended(s.Kind.Name, s.Progress*float64(s.Kind.MinBatch()), float64(s.Attained))
			}
			if r.Progress != nil {
				r.Progress(r.ended, len(r.jobs))
			}
		}
	}
	r.now += r.Every
	r.count++
	var here []*jobState
	for _, s := range r.jobs {
		if s.Submit <= float64(r.now) && !s.Done {
			here = append(here, s)
		}
	}
	if len(here) > 0 {
		if err := r.decide(here); err != nil {
			return err
		}
	}
	r.contended += int64(len(here))
	r.most = max(r.most, len(here))
	for _, s := range here {
		r.gpuSeconds += int64(s.Held()) * r.Every
	}
	r.follow(here)
	return nil
}

// decide asks the policy and applies what it says.
func (r *run) decide(here []*jobState) error {
	views := make([]elastic.Job, len(here))
	for i, s := range here {
		v := &s.view
		v.Age, v.Restarts, v.Restarting, v.Seat = float64(r.now)-s.Submit, s.Restarts, s.Countdown > 0 && s.Held() > 0, s.seat
		v.Done = s.Progress * float64(s.Kind.MinBatch())
		if s.know != nil {
			v.Most, v.Measured, v.Tried = s.know.most(), s.know.measured(), s.know.tried()
			if r.Most > 0 {
				v.Most = min(v.Most, r.Most)
			}
		}
		s.rounds++
		s.rivals += int64(len(here))
		views[i] = *v
	}
	before := time.Now()
	seats := r.policy.Round(r.now, views)
	r.spent = append(r.spent, time.Since(before))
	if err := r.check(here, seats); err != nil {
		return err
	}
	for i, s := range here {
		if err := r.apply(s, seats[i]); err != nil {
			return err
		}
	}
	return nil
}

// check holds a policy to the cluster it was given.
func (r *run) check(here []*jobState, seats []elastic.Seat) error {
	if len(seats) != len(here) {
		return fmt.Errorf("policy %s gave %d seats for %d jobs", r.Policy.Name, len(seats), len(here))
	}
	used := make([][]int, len(r.Cluster))
	for t, typ := range r.Cluster {
		used[t] = make([]int, typ.Nodes)
	}
	for i, seat := range seats {
		for _, node := range seat.Nodes {
			if used[seat.Type][node]++; used[seat.Type][node] > r.Cluster[seat.Type].PerNode {
				return fmt.Errorf("policy %s: node %d of %s has %d GPUs, and job %s is one too many", r.Policy.Name, node, r.Cluster[seat.Type].Name, r.Cluster[seat.Type].PerNode, here[i].Name)
			}
		}
	}
	return nil
}

// apply makes a job's seat what was decided. In the Pollux artefact any change of
// the list restarts the job; in Sia's only one of type or shape.
func (r *run) apply(s *jobState, seat elastic.Seat) error {
	r.note(s.id, seat)
	if seat.Equal(s.seat) {
		return nil
	}
	old := s.seat
	s.seat = seat
	if seat.Empty() {
		return s.Place("", nil)
	}
	shape := measurable(seat.Shape(), r.Cluster[seat.Type].Name)
	if r.Setting.ByShape && !old.Empty() && old.Type == seat.Type && slices.Equal(shape, s.Placement) {
		return nil
	}
	return s.Place(r.Cluster[seat.Type].Name, shape)
}

// note adds a decision to the digest.
func (r *run) note(id int, seat elastic.Seat) {
	var b [8]byte
	put := func(x int) {
		binary.LittleEndian.PutUint64(b[:], uint64(int64(x)))
		r.digest.Write(b[:])
	}
	put(r.count)
	put(id)
	put(seat.Type)
	put(len(seat.Nodes))
	for _, n := range seat.Nodes {
		put(n)
	}
}

// measurable spreads a shape over no more nodes than were measured of a GPU model,
// as evenly as whole GPUs allow.
func measurable(shape []int, gpu string) []int {
	most := MeasuredNodes(gpu)
	if len(shape) <= most {
		return shape
	}
	gpus := 0
	for _, n := range shape {
		gpus += n
	}
	return wholeNodes(gpus, (gpus+most-1)/most)
}

// MeasuredNodes is the most nodes that the profiles have of a GPU model.
func MeasuredNodes(gpu string) int {
	switch gpu {
	case "quad":
		return 1
	case "dgx", "dgx-ext":
		return 2
	case "rtx":
		return 3
	case "azure":
		return 5
	}
	return 16
}

func (r *run) sum() string { return hex.EncodeToString(r.digest.Sum(nil))[:16] }
