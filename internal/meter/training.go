package meter

// Training is one run of elastic training jobs: one policy on one workload. Its
// field Jobs takes the place of the count in the JSON.
type Training struct {
	Result
	// Cluster is the nodes by GPU model, as --cluster writes it.
	Cluster string `json:"cluster"`

	MakespanS      float64 `json:"makespan_s"`
	GPUHoursPerJob float64 `json:"gpu_hours_per_job"`
	RestartsMean   float64 `json:"restarts_mean"`
	ContentionMean float64 `json:"contention_mean"`
	ContentionMax  int     `json:"contention_max"`
	// FTFWorst and UnfairPct are of finish-time fairness.
	FTFWorst  *float64 `json:"ftf_worst,omitempty"`
	UnfairPct *float64 `json:"unfair_pct,omitempty"`

	Rounds      int     `json:"rounds"`
	DecideP95Us float64 `json:"decide_p95_us"`
	// GapWorstPct is the largest gap that a policy's search left, where it proves one.
	GapWorstPct *float64 `json:"gap_worst_pct,omitempty"`

	Jobs []TrainingJob `json:"jobs,omitempty"`
	// Each is the jobs whether or not they are printed.
	Each []TrainingJob `json:"-"`

	// Trail is the GPUs in use round by round, Life one job's, where they were asked
	// for.
	Trail []TrainingRound `json:"-"`
	Life  []TrainingLife  `json:"-"`
}

// TrainingRound is the GPUs that are in use after a round, by GPU model and by kind
// of job.
type TrainingRound struct {
	TimeS         int64
	ByGPU, ByKind map[string]int
}

// TrainingLife is one job after a round. Goodput is what it made in the round before,
// in examples a second by worth.
type TrainingLife struct {
	TimeS    int64
	GPU      string
	GPUs     int
	Batch    int
	Restarts int
	Goodput  float64
}

// TrainingJob is what became of one job.
type TrainingJob struct {
	Name     string   `json:"name"`
	JCTS     float64  `json:"jct_s"`
	Restarts int      `json:"restarts"`
	FTF      *float64 `json:"ftf,omitempty"`
}
