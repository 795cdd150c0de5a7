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

// Configuration is one way to run a job: so many workers on such a model, with
// the rate of progress predicted for it.
type Configuration struct {
	Shape   ShapeID
	Workers int32
	Spread  int32             // nodes it may span; 0 is any
	Rate    quantity.MilliGPU // predicted progress, in thousandths of the reference rate
}

// Checkpoint is what is known of a job's saved state.
type Checkpoint struct {
	Last    moment.Instant // when the newest was complete; 0 without one
	Period  moment.Span
	Write   moment.Span
	Restart moment.Span
}

// Dependency makes a job wait for another.
type Dependency struct {
	Job  JobID
	When DependencyKind
}

// DependencyKind is the event of the other job that is waited for.
type DependencyKind uint8

const (
	AfterSuccess DependencyKind = iota
	AfterEnd
	AfterStart
)

// Job is work with an end. A rigid job has one configuration.
type Job struct {
	Name           string
	Key            uint64
	Generation     uint32
	Kind           Symbol // declared, else a hash of its owner's template
	Queue          QueueID
	State          JobState
	Attempts       int32
	Priority       int32
	SLA            Symbol
	Deadline       moment.Instant // Never without one
	Preemptible    bool
	Expected       moment.Span
	Progress       quantity.Milli // done, in thousandths
	Checkpoint     Checkpoint
	Configurations []Configuration
	Chosen         int32 // index of the configuration in force; None before
	After          []Dependency
	Disruptions    int32 // evictions still allowed in the window; None: no limit
}

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

// Queue is a tenant's line. Used counts charged pods of the queue and of all
// queues below it.
type Queue struct {
	Name       string
	Key        uint64
	Generation uint32
	Parent     QueueID // None at the root
	Weight     quantity.Milli
	Deserved   Vector
	// DeservedMilli and UsedMilli are the GPU side of Deserved and Used.
	DeservedMilli quantity.MilliGPU
	Limit         Vector
	LimitMilli    quantity.MilliGPU // 0: no limit
	Used          Vector
	UsedMilli     quantity.MilliGPU
	History       int64 // decayed milli-GPU seconds, a belief
	Overdrawn     bool  // facts took more than the limit; it ends when that has left
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
)

var actionNames = [...]string{"bind", "evict", "resize", "hold", "checkpoint", "prefetch", "launch", "release", "scale", "fail"} // const: names of the actions

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
}
