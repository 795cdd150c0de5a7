package cluster

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Level is a kind of domain, from the closest to the widest.
type Level uint8

const (
	LevelIsland Level = iota
	LevelNode
	LevelRack
	LevelZone
	LevelRegion
	LevelCloud
)

var levelNames = [...]string{"island", "node", "rack", "zone", "region", "cloud"} // const: names of the levels

func (l Level) String() string { return levelNames[l] }

// TopologyWish asks that the members of a group share a domain of a level.
type TopologyWish struct {
	Level    Level
	Required bool // else preferred
}

// JobState is where a job stands.
type JobState uint8

const (
	JobWaiting JobState = iota
	JobRunning
	JobDone
	JobFailed
)

// Checkpoint is what is known of a job's saved state.
type Checkpoint struct {
	Last    moment.Instant // when the newest was complete; 0 without one
	Period  moment.Span
	Write   moment.Span
	Restart moment.Span
}

// Job is work with an end. Pods and groups name their job, before it comes or after;
// Known says that it was told of itself.
type Job struct {
	Name           string
	Key            uint64
	Generation     uint32
	Known          bool
	Kind           Symbol // declared, else a hash of its owner's template
	Queue          QueueID
	State          JobState
	Attempts       int32
	Priority       int32
	SLA            Symbol
	SLATotal       moment.Span    // from the arrival of a pod to its end; 0: no promise
	Deadline       moment.Instant // Never without one
	Preemptible    bool
	MinWorkers     int32 // an elastic job runs with as few
	MaxWorkers     int32 // and makes use of as many; 0: not elastic
	Expected       moment.Span
	Progress       quantity.Milli // done, in thousandths
	Checkpoint     Checkpoint
	Configurations []Configuration // by name of the model, then by workers; none: a rigid job
	Sizing         Sizing
	After          []Dependency // by name of the other job, each once
	Disruptions    int32        // how often it may still be evicted; None: no limit
	// Members counts the pods that name the job, Named the jobs that come after it.
	Members, Named int32
	// Began is when its first pod started, Ended when it was over; 0: not yet.
	Began, Ended moment.Instant
	// Displaced is when pods of it were evicted last, by a decision; 0: never.
	// Evictions counts how often: pods that are told to go at one instant are once.
	Displaced moment.Instant
	Evictions int32
	// Ran is how long pods of it that are gone ran: what it has had before those that
	// come next.
	Ran moment.Span
}

// Saves says whether the job can be asked to save its state before it goes.
func (j *Job) Saves() bool { return j.Checkpoint.Write > 0 }

// Resumes says whether a job that was interrupted goes on from a saved state.
func (j *Job) Resumes() bool { return j.Checkpoint.Write > 0 || j.Checkpoint.Period > 0 }

// Job returns a job for reading.
func (v *View) Job(id JobID) *Job { return v.Jobs.At(int32(id)) }

// JobOf returns the job of a pod: its own, or that of its group; nil where there is
// none, or where it was not told of yet.
func (v *View) JobOf(p *Pod) *Job {
	id := p.Spec.Job
	if id == None && p.Spec.Group != None {
		id = v.Group(p.Spec.Group).Job
	}
	if id == None || !v.Job(id).Known {
		return nil
	}
	return v.Job(id)
}

// AddJob adds a job without pods, under a fresh id or one that nobody names any
// more.
func (l *Ledger) AddJob(j Job, reuse JobID) JobID {
	if reuse == None {
		return JobID(l.Jobs.grow(l.owner, j))
	}
	j.Generation = l.Job(reuse).Generation + 1
	*l.EditJob(reuse) = j
	return reuse
}

// EditJob returns a job for changing what no account depends on. Members follow the
// pods.
func (l *Ledger) EditJob(id JobID) *Job { return l.Jobs.own(int32(id), l.owner, l.recording) }

// Service is work without an end: replicas that answer requests.
type Service struct {
	Name        string
	Key         uint64
	Generation  uint32
	Queue       QueueID
	Shape       ShapeID
	Replicas    int32
	MinReplicas int32
	MaxReplicas int32
	TargetP99   moment.Span    // the SLO
	LoadMilli   int64          // thousandths of a request per second
	BatchSize   int32          // in force
	Latency     moment.Span    // observed P99
	Resident    []Symbol       // models loaded, most recent first
	Observed    moment.Instant // when load and latency were read
}

// Price is a fact with its time.
type Price struct {
	Class  Symbol
	PerHr  quantity.MicroUSD
	Spot   bool
	At     moment.Instant
	Source Symbol
}

// Carbon is the intensity of a domain's power with its time.
type Carbon struct {
	PerKWh quantity.MilligramCO2
	At     moment.Instant
}

// Domain is a place that contains nodes or other domains. The totals cover
// all nodes within.
type Domain struct {
	Name       string
	Key        uint64
	Generation uint32
	Level      Level
	Parent     DomainID // None at the top
	Totals     Totals
	Prices     []Price
	Carbon     Carbon
}

// Totals are sums over the nodes of a class or domain that take work.
type Totals struct {
	Nodes       int32
	Devices     int32
	IdleDevices int32
	FreeMilli   quantity.MilliGPU
	FreeCPU     quantity.MilliCPU
	FreeMemory  quantity.Bytes
}

func (t *Totals) add(n *Node, sign int64) {
	if !n.TakesWork() {
		return
	}
	t.Nodes += int32(sign)
	t.Devices += int32(sign) * n.Spec.DeviceCount
	t.IdleDevices += int32(sign) * n.IdleDevices
	t.FreeMilli += quantity.MilliGPU(sign) * n.FreeMilli
	t.FreeCPU += quantity.MilliCPU(sign * n.Free.At(DimCPU))
	t.FreeMemory += quantity.Bytes(sign * n.Free.At(DimMemory))
}

// Class is a set of nodes that are alike but for their names and their load.
type Class struct {
	Key    uint64
	Name   string
	Totals Totals
}

// Offer is capacity that does not exist yet and can be had.
type Offer struct {
	Name        string
	Key         uint64
	Generation  uint32
	Class       ClassID
	Domain      DomainID
	PerHour     quantity.MicroUSD
	Spot        bool
	RiskPerHr   quantity.Milli // chance of interruption within an hour
	LaunchDelay moment.Span
	Available   int32
}

// Action is a kind of decision; an open set.
type Action uint8

const (
	ActionBind Action = iota
	ActionEvict
	ActionResize
	ActionHold
	ActionCheckpoint
	ActionPrefetch
	ActionLaunch
	ActionRelease
	ActionScale
	ActionFail // give a pod up, in a world where nothing is retried
	ActionReplace
)

var actionNames = [...]string{"bind", "evict", "resize", "hold", "checkpoint", "prefetch", "launch", "release", "scale", "fail", "replace"} // const: names of the actions

func (a Action) String() string { return actionNames[a] }

// Intent is a decision that was accepted and is not finished. It is charged
// from the moment it is accepted.
type Intent struct {
	ID       uint64 // of the decision; 0 marks a free row
	Action   Action
	Pod      PodID
	Place    Placement
	Accepted moment.Instant
	Deadline moment.Instant
	// After lists, of a hold, the decisions that leave the room it stands for: it is
	// given up when one of them is not carried out.
	After []uint64
	// Together ties holds of one bundle: they are accepted, and given up, as one.
	Together uint64
	// Yields says of an eviction that the pod goes for others that hold its room.
	Yields bool
	// Before is, of a resize that gives back, what the pod held: it is charged with
	// Place from the start. Of one that lends it is Nowhere.
	Before Placement
	// Target is, of an eviction, where the pod is to be next; nil: nowhere in particular.
	Target *Target `json:",omitempty"`
	// Budget is, of an eviction, what it counts against, as it was Told then.
	Budget BudgetID
	Told   uint32
}

// during says whether a decision may be under way for a pod in a phase.
func (a Action) during(p Phase) bool {
	if a == ActionResize || a == ActionReplace {
		return p == PhaseBound || p == PhaseRunning
	}
	return p == PhasePlacing || p == PhaseTerminating || p == PhaseHeld
}
