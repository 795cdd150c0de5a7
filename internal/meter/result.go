// Package meter turns what a run did into figures: the Result that `headrace
// sim --output json` prints and the Detail that the report draws.
//
// It is used by the simulator, which fills a Result in, and by the command and
// the report, which show it. It leaves deciding, and drawing, to others.
package meter

// Schema names the version of the JSON contract. Objects of one schema only
// ever gain fields; docs/output.md gives unit, window and percentile rule of
// each.
const Schema = "headrace.sim/v1"

// Result is one run: one policy on one workload with one seed. A field that the
// mode cannot know is absent from the JSON, never zero, hence the pointers.
type Result struct {
	Schema   string `json:"schema"`
	Policy   string `json:"policy"`
	Source   string `json:"source"`   // scenario:NAME or trace:FORMAT
	Workload string `json:"workload"` // the pod file's base name, or the scenario's
	Seed     int64  `json:"seed"`
	Mode     string `json:"mode"` // static or timed

	// Load is the offered GPU-time as a share of capacity (timed openb only).
	Load *float64 `json:"load,omitempty"`

	// ArrivedPct, GPUAllocPct and FragPct are parallel: static mode only.
	ArrivedPct  []int     `json:"arrived_pct,omitempty"`
	GPUAllocPct []float64 `json:"gpu_alloc_pct,omitempty"`
	FragPct     []float64 `json:"frag_pct,omitempty"`
	// FragTarget names the demand against which fragments are counted.
	FragTarget string `json:"frag_target,omitempty"`

	Pods       int `json:"pods"`
	Placed     int `json:"placed"`
	Failed     int `json:"failed"`
	Unfinished int `json:"unfinished"`

	GPUAllocMeanPct *float64 `json:"gpu_alloc_mean_pct,omitempty"`
	FragMeanPct     *float64 `json:"frag_mean_pct,omitempty"`

	GPUUtilMeanPct *float64 `json:"gpu_util_mean_pct,omitempty"`
	GPUUtilPeakPct *float64 `json:"gpu_util_peak_pct,omitempty"`
	GPUBusyPct     *float64 `json:"gpu_busy_pct,omitempty"`
	StartMeanS     *float64 `json:"start_mean_s,omitempty"`
	SLAMetPct      *float64 `json:"sla_met_pct,omitempty"`
	// MemoryFailures counts starts that found no GPU memory, where pods are charged with
	// less than they ask for.
	MemoryFailures *float64 `json:"memory_failures,omitempty"`
	WaitMeanS      *float64 `json:"wait_mean_s,omitempty"`
	WaitP99S       *float64 `json:"wait_p99_s,omitempty"`
	JCTMeanS       *float64 `json:"jct_mean_s,omitempty"`
	JCTP50S        *float64 `json:"jct_p50_s,omitempty"`
	JCTP99S        *float64 `json:"jct_p99_s,omitempty"`

	// Of jobs that may be evicted.
	Jobs             *float64 `json:"jobs,omitempty"`
	Evictions        *float64 `json:"evictions,omitempty"`
	EvictionsPerJob  *float64 `json:"evictions_per_job,omitempty"`
	EvictionsMost    *float64 `json:"evictions_most,omitempty"`
	PreemptedGPUH    *float64 `json:"preempted_gpu_h,omitempty"`
	LostGPUH         *float64 `json:"lost_gpu_h,omitempty"`
	LostPerPreempted *float64 `json:"lost_per_preempted,omitempty"`
	// Moves counts pods that were moved to make room; timed mode, where that is on.
	Moves *float64 `json:"moves,omitempty"`

	// Of queues that deserve something.
	UnservedMeanPct *float64 `json:"unserved_mean_pct,omitempty"`
	UnservedMaxPct  *float64 `json:"unserved_max_pct,omitempty"`
	// SampledS are the instants of the curves UnservedPct and of each queue's UsedGPU.
	SampledS    []float64  `json:"sampled_s,omitempty"`
	UnservedPct []float64  `json:"unserved_pct,omitempty"`
	Queues      []QueueUse `json:"queues,omitempty"`

	// Tidied is what moving pods came to, where it was asked for; static mode only.
	Tidied *Tidied `json:"tidied,omitempty"`

	// Sizes tells waiting by size of job, the smallest first.
	Sizes []SizeWait `json:"sizes,omitempty"`

	// StartsHeldPct is how many of the foretold first starts fell in their interval; Starts
	// tells it apart, and StartsWeekPct by the week of the run in which they were told,
	// StartsWeek many.
	StartsHeldPct *float64    `json:"starts_held_pct,omitempty"`
	Starts        []StartTold `json:"starts,omitempty"`
	StartsWeek    []int       `json:"starts_week,omitempty"`
	StartsWeekPct []float64   `json:"starts_week_pct,omitempty"`

	Decisions   int     `json:"decisions"`
	DecideP50Us float64 `json:"decide_p50_us"`
	DecideP99Us float64 `json:"decide_p99_us"`
	WallMs      float64 `json:"wall_ms"`
	// Digest is the hash of every plan of the run, in order. Measured times are
	// not part of it: the same run gives the same digest on any machine.
	Digest string `json:"digest"`

	Detail *Detail `json:"-"`
}

// Detail is what the report draws beyond the figures of a Result.
type Detail struct {
	// Series is sampled over the run: by simulated time in timed mode, by
	// arrived demand in static mode.
	Series []Sample
	// WaitsS and JCTsS are sorted ascending, in seconds; empty in static mode.
	WaitsS, JCTsS []float64
	Heat          Heat
	// Reasons counts why pods failed or still wait, most frequent first.
	Reasons []ReasonCount
}

// Sample is the state of the cluster at one instant of a run.
type Sample struct {
	AtS         float64 // simulated seconds since the start; 0 in static mode
	ArrivedPct  float64 // GPU demand arrived so far, % of capacity
	GPUAllocPct float64 // GPU given away, % of capacity
	GPUBusyPct  float64 // GPU really working, % of capacity; 0 where unknown
	FragPct     float64 // fragments, % of capacity
	Waiting     int     // pods waiting
	// UnservedPct is what queues deserve, want and do not have, % of what all deserve.
	UnservedPct float64
	// QueueGPU is the GPUs that each queue holds, in the order of Result.Queues.
	QueueGPU []float64
}

// QueueUse is what one queue had, beside what it deserves: means over the measured
// time. Waiting and completion are of its jobs that arrived after the warm-up.
type QueueUse struct {
	Queue           string   `json:"queue"`
	DeservedGPU     float64  `json:"deserved_gpu"`
	UsedMeanGPU     float64  `json:"used_mean_gpu"`
	DemandMeanGPU   float64  `json:"demand_mean_gpu"`
	UnservedMeanGPU float64  `json:"unserved_mean_gpu"`
	Jobs            int      `json:"jobs"`
	WaitMeanS       *float64 `json:"wait_mean_s,omitempty"`
	JCTMeanS        *float64 `json:"jct_mean_s,omitempty"`
	// UsedGPU is the curve of what it held, at Result.SampledS.
	UsedGPU []float64 `json:"used_gpu,omitempty"`
}

// Tidied is what it came to that pods were moved to make room.
type Tidied struct {
	// BudgetPermille is how many moves were allowed, in thousandths of the pods placed at
	// any time, LeastMilli how much each had to place at least.
	BudgetPermille float64 `json:"budget_permille"`
	LeastMilli     int64   `json:"least_milli"`
	Moves          int     `json:"moves"`
	MovesPermille  float64 `json:"moves_permille"` // of the pods placed
	PodsUnlocked   int     `json:"pods_unlocked"`  // placed by them
	MilliUnlocked  int64   `json:"milli_unlocked"`
	MilliPerMove   float64 `json:"milli_per_move"`
}

// SizeWait is how long jobs of one size waited in all (before they started, and
// after each eviction), and how long they took.
type SizeWait struct {
	Size      string  `json:"size"`
	Jobs      int     `json:"jobs"`
	WaitMeanS float64 `json:"wait_mean_s"`
	WaitP50S  float64 `json:"wait_p50_s"`
	WaitP99S  float64 `json:"wait_p99_s"`
	JCTMeanS  float64 `json:"jct_mean_s"`
	JCTP50S   float64 `json:"jct_p50_s"`
}

// StartTold is how true foretold starts were, of those who waited for more than a
// minute: of those told on one occasion, to wait for so long. Played is before earlier
// ones corrected it. A forecast is held where its interval has the true start.
type StartTold struct {
	When          string  `json:"when"`     // on submission, every hour, after an eviction
	Foretold      string  `json:"foretold"` // all, up to 5m, …, unknown
	Forecasts     int     `json:"forecasts"`
	HeldPct       float64 `json:"held_pct"`
	EarlierPct    float64 `json:"earlier_pct"` // before the interval
	LaterPct      float64 `json:"later_pct"`   // after it
	NeverPct      float64 `json:"never_pct"`   // of which no end of the wait was known
	ErrorP50S     float64 `json:"error_p50_s"`
	ErrorP50Pct   float64 `json:"error_p50_pct"` // of the true wait
	WaitP50S      float64 `json:"wait_p50_s"`    // from the forecast on
	WidthP50S     float64 `json:"width_p50_s"`   // of the interval
	PlayedHeldPct float64 `json:"played_held_pct"`
	PlayedErrorS  float64 `json:"played_error_p50_s"`
}

// Heat is the fill of every GPU at a few instants, for a node × GPU map.
type Heat struct {
	Nodes  []HeatNode
	Frames []HeatFrame
}

// HeatNode names one row of the map.
type HeatNode struct {
	Name  string
	Model string
	GPUs  int
}

// HeatFrame holds, for each GPU of each node in order, the share given away in
// percent (0..100).
type HeatFrame struct {
	Label string // "62 % arrived" or "13 h 40 min"
	Fill  []uint8
}

// ReasonCount is one line of the table of reasons.
type ReasonCount struct {
	Reason string
	Count  int
}
