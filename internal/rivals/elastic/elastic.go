package elastic

import "slices"

// Type is the nodes of one GPU model.
type Type struct {
	Name    string
	Nodes   int
	PerNode int // GPUs of each
}

// GPUs of all its nodes.
func (t Type) GPUs() int { return t.Nodes * t.PerNode }

// Cluster lists the types in the order in which they were named.
type Cluster []Type

// Seat is what a job is given: GPUs of one type, the node of each, in order. The
// zero value is nothing.
type Seat struct {
	Type  int
	Nodes []int
}

// Empty says that the seat is nothing.
func (s Seat) Empty() bool { return len(s.Nodes) == 0 }

// Equal says that two seats are the same GPUs in the same order, as far as nodes
// tell.
func (s Seat) Equal(o Seat) bool {
	return s.Empty() && o.Empty() || s.Type == o.Type && slices.Equal(s.Nodes, o.Nodes)
}

// Shape is the GPUs on each node: runs of the same node are one.
func (s Seat) Shape() []int {
	var shape []int
	for i, node := range s.Nodes {
		if i == 0 || node != s.Nodes[i-1] {
			shape = append(shape, 0)
		}
		shape[len(shape)-1]++
	}
	return shape
}

// Job is what a policy may know of a job.
type Job struct {
	ID       int // its place in the workload
	Kind     string
	GPUs     int     // asked for, where the policy does not choose
	Age      float64 // seconds
	Restarts int
	// Restarting says that the job is in the countdown of a restart.
	Restarting bool
	Seat       Seat
	// Most is how many GPUs the job may be given, on any type.
	Most int
	// Measured is how many GPUs the job measured at once, at most, on any type.
	Measured int
	// Tried says that the job measured steps on some type.
	Tried bool
	// Goodput is the expected goodput on GPUs of a type; not ok while nothing is
	// known.
	Goodput func(typ, nodes, gpus int) (float64, bool)
	// Restart is the seconds that a restart takes, Done the work so far (examples, by
	// worth), and Single the examples a second of one GPU of a type, known beforehand.
	Restart int64
	Done    float64
	Single  func(typ int) float64
	// Rate is the throughput with what was asked for on a type, 0 where the type has
	// not so many GPUs.
	Rate func(typ int) float64
	// Left is the seconds that are left at the mean rate of one GPU, where that is
	// told; nil elsewhere.
	Left func() float64
}

// Policy decides on all jobs, in rounds. It belongs to one run.
type Policy interface {
	// Round gives each job its seat until the next round, in the order of the jobs.
	Round(now int64, jobs []Job) []Seat
}

// Rival is one policy.
type Rival struct {
	Name, About string
	// Elastic says that the policy chooses sizes; jobs then choose their batch.
	Elastic bool
	// AskedBatch says that the policy expects of a job no larger batch than was asked
	// for, though the job may choose one.
	AskedBatch bool
	// Kin says that jobs of one kind share what they measured.
	Kin bool
	// Expected is how far a step may be from what a job expected, as a part, and still
	// teach nothing.
	Expected float64
	// Beforehand says that a throughput of one GPU that is known beforehand counts as a
	// measured step, and not only in its ratio to other GPU models.
	Beforehand bool
	// Oracle says that the policy is told the truth about rates and what is left,
	// which shows what its knowledge is worth.
	Oracle bool
	// Every is the published time between rounds in seconds.
	Every int64
	build func(Cluster) Policy
}

// New makes the policy for one run.
func (r *Rival) New(c Cluster) Policy { return r.build(c) }

// Own makes a policy of somebody else's that chooses sizes each minute.
func Own(name, about string, build func(Cluster) Policy) Rival {
	return Rival{Name: name, About: about, Elastic: true, Every: 60, build: build}
}

// Watched is the same policy, whose integer programs and what was found for them are
// shown; of policies that solve none it is the policy itself.
func (r Rival) Watched(see func(*Assignment, Solution)) Rival {
	build := r.build
	r.build = func(c Cluster) Policy {
		p := build(c)
		if s, ok := p.(*sia); ok {
			s.seen = see
		}
		return p
	}
	return r
}

// All lists the policies in the order in which they are shown.
func All() []Rival {
	return []Rival{
		{
			Name: "tiresias", About: "least attained service in two levels, GPUs and batch as asked for (Gu et al., NSDI 2019)", Every: 60,
			build: func(c Cluster) Policy { return newTiresias(c) },
		},
		{
			Name: "sia", About: "sizes and GPU models by normalised goodput, an integer program each round (Jayaram Subramanya et al., SOSP 2023)",
			Elastic: true, AskedBatch: true, Every: 60, build: func(c Cluster) Policy { return newSia(c) },
		},
		{
			Name: "sia-anybatch", About: "the same, but it counts on batches larger than asked for (its artefact does not)",
			Elastic: true, Every: 60, build: func(c Cluster) Policy { return newSia(c) },
		},
		{
			Name: "gavel", About: "max-min fair shares of time on each GPU model, GPUs and batch as asked for (Narayanan et al., OSDI 2020)",
			Every: gavelRound, build: func(c Cluster) Policy { return newGavel(c) },
		},
	}
}
