// Package explain is what a scheduler says of itself over HTTP, as JSON: why a
// pod is where it is or waits, the line of waiting pods, and the cluster at a
// glance. docs/explain.md specifies it.
//
// The scheduler fills these values in; the command line reads them and draws
// them as tables (Pod.Text, Queue.Text, Top.Text). The package needs no
// Kubernetes.
package explain

import "time"

// Schema is the version of the contract. Objects of one schema only ever gain
// fields.
const Schema = "headrace.explain/v1"

// The paths under which a scheduler answers.
const (
	PodPath   = "/explain/v1/pods/" // NAMESPACE/NAME follows
	QueuePath = "/explain/v1/queue"
	TopPath   = "/explain/v1/top"
)

// Verdict is what becomes of a pod.
type Verdict string

// A pod is placed, or it waits: for room, for a change of the cluster or of
// itself, or for ever.
const (
	Placed      Verdict = "placed"
	Waiting     Verdict = "waiting"
	AfterChange Verdict = "after-change"
	Never       Verdict = "never"
)

// Failure is the body of an answer that is none.
type Failure struct {
	Error string `json:"error"`
}

// Reason is why something is not placed.
type Reason struct {
	Code string `json:"code"` // one word, for programs
	Kind string `json:"kind"` // the constraint without numbers, as metrics count it
	Says string `json:"says"` // the whole sentence
	// Need and Have are in the unit of the constraint: milli-CPU, bytes, milli-GPU,
	// devices. Dimension names it where the code does not.
	Need      int64  `json:"need,omitempty"`
	Have      int64  `json:"have,omitempty"`
	Dimension string `json:"dimension,omitempty"`
	// Nodes is on how many of Of nodes it binds.
	Nodes int32 `json:"nodes,omitempty"`
	Of    int32 `json:"of,omitempty"`
}

// Pod is all there is to say about one.
type Pod struct {
	Schema    string    `json:"schema"`
	At        time.Time `json:"at"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Profile   string    `json:"profile,omitempty"`
	Policy    string    `json:"policy,omitempty"`
	Verdict   Verdict   `json:"verdict"`
	Reason    *Reason   `json:"reason,omitempty"`
	// Help are sentences about what would let it go somewhere.
	Help []string `json:"help,omitempty"`
	// Turn is its place among the Line pods that wait, from 1.
	Turn          int     `json:"turn,omitempty"`
	Line          int     `json:"line,omitempty"`
	WaitedSeconds float64 `json:"waited_seconds"`
	// Classes say what every node answers, by node class.
	Classes []Class `json:"classes,omitempty"`
	Place   *Place  `json:"place,omitempty"`
	// Starts is when a pod that waits for room is expected to start, and Reserved the room
	// that is kept for it then; absent where the scheduler does not look ahead.
	Starts   *Starts   `json:"starts,omitempty"`
	Reserved *Reserved `json:"reserved,omitempty"`
	// Deadline is set where it cannot be met.
	Deadline *Deadline `json:"deadline,omitempty"`
	SLAClass string    `json:"sla_class,omitempty"`
	// Queues are the queue that the pod is in and those above it, from there up.
	Queues []Tenant `json:"queues,omitempty"`
	// History are its last reasons and what became of it, oldest first.
	History []Past `json:"history,omitempty"`
}

// Starts is an instant with how far off it may be: if all runs were short, as long as
// expected, or long. What is absent nobody knows.
type Starts struct {
	Low    *time.Time `json:"low,omitempty"`
	Likely *time.Time `json:"likely,omitempty"`
	High   *time.Time `json:"high,omitempty"`
}

// Reserved is room that nobody takes who would be in the way at an instant.
type Reserved struct {
	At    time.Time `json:"at"`
	Nodes []string  `json:"nodes"`
}

// Deadline is one that cannot be met, and when the work is done at the earliest.
type Deadline struct {
	At          time.Time `json:"at"`
	EarliestEnd time.Time `json:"earliest_end"`
}

// Class is what the nodes of one class answer to a pod.
type Class struct {
	Name    string   `json:"name"`
	Nodes   int32    `json:"nodes"`
	Fits    int32    `json:"fits"`
	Reasons []Reason `json:"reasons,omitempty"` // the closest to fitting first
}

// Place is where a pod is.
type Place struct {
	Node    string   `json:"node"`
	Binding bool     `json:"binding,omitempty"` // the bind is under way
	Devices []Device `json:"devices,omitempty"`
	// Identity is decided, presumed (the kubelet picks: any of the model) or
	// observed.
	Identity string `json:"identity,omitempty"`
	// The rest is absent where the pod was bound by another scheduler, or before
	// this one started.
	Chosen *Chosen `json:"chosen,omitempty"`
}

// Device is what a pod holds of one.
type Device struct {
	Index   int32  `json:"index"`
	Name    string `json:"name"`
	Model   string `json:"model"`
	Milli   int64  `json:"milli_gpu"`
	Memory  int64  `json:"memory_bytes,omitempty"`
	Profile string `json:"profile,omitempty"`
}

// Chosen is what spoke for a place when it was decided.
type Chosen struct {
	At       time.Time `json:"at"`
	Cycle    uint64    `json:"cycle"`
	Policy   string    `json:"policy"`
	Score    Score     `json:"score"`
	Feasible int32     `json:"feasible"` // nodes that could have taken it
	// RunnersUp are the next best nodes, with the scores they had then.
	RunnersUp []RunnerUp `json:"runners_up,omitempty"`
	// Images are those that the pod needs, as far as their sizes were known; absent where
	// none was, or the node's room for images is not known.
	Images *Images `json:"images,omitempty"`
}

// Images are those that a pod needs, as they were when its node was chosen. Its start was
// expected to be shorter by SavedSeconds than where none of them is, and to wait
// PullSeconds for the others.
type Images struct {
	SavedSeconds float64 `json:"saved_seconds"`
	PullSeconds  float64 `json:"pull_seconds"`
	Each         []Image `json:"each"`
}

// Image is one of them: whether the node had it, and how many nodes did.
type Image struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	There bool   `json:"there"`
	Nodes int    `json:"nodes"`
}

// Score is compared within one policy only. Where a policy has parts, they are in
// millionths.
type Score struct {
	Total    int64 `json:"total"`
	Fit      int64 `json:"fit,omitempty"`
	Urgency  int64 `json:"urgency,omitempty"`
	Affinity int64 `json:"affinity,omitempty"`
}

// RunnerUp is a node that was not chosen.
type RunnerUp struct {
	Node  string `json:"node"`
	Score Score  `json:"score"`
}

// Past is one entry of a history.
type Past struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Says string    `json:"says"`
}

// Queue is the line of waiting pods.
type Queue struct {
	Schema string    `json:"schema"`
	At     time.Time `json:"at"`
	// Total counts all; Pods lists the first of them, in the order of their turn,
	// then those that are not in line.
	Total int      `json:"total"`
	Pods  []Queued `json:"pods"`
}

// Queued is a pod that waits.
type Queued struct {
	Turn          int     `json:"turn,omitempty"` // absent for one that is not in line
	Namespace     string  `json:"namespace"`
	Name          string  `json:"name"`
	Profile       string  `json:"profile"`
	Priority      int32   `json:"priority"`
	WaitedSeconds float64 `json:"waited_seconds"`
	Verdict       Verdict `json:"verdict"`
	Kind          string  `json:"kind,omitempty"`
	Says          string  `json:"says,omitempty"`
	Starts        *Starts `json:"starts,omitempty"`
}

// Top is the cluster at a glance.
type Top struct {
	Schema     string      `json:"schema"`
	At         time.Time   `json:"at"`
	Nodes      int         `json:"nodes"`
	NodesReady int         `json:"nodes_ready"`
	GPUs       int         `json:"gpus"`
	GPUsHeld   int         `json:"gpus_held"`
	Models     []Supply    `json:"models,omitempty"`  // by GPU model
	Classes    []Supply    `json:"classes,omitempty"` // by node class
	NodeList   []Node      `json:"node_list,omitempty"`
	Pods       PodCounts   `json:"pods"`
	Reasons    []Reasons   `json:"reasons,omitempty"` // the most frequent first
	Work       WorkDone    `json:"work"`
	Fragments  *float64    `json:"fragmentation,omitempty"` // of all GPUs, 0 to 1
	Profiles   []ProfileOf `json:"profiles,omitempty"`
	Queues     []Tenant    `json:"queues,omitempty"` // of tenants, parents before those below them
}

// Amounts are amounts by resource: gpus in milli-GPU, cpu in milli-CPU, memory in
// bytes, others in units. What is not there has no such amount.
type Amounts map[string]int64

// Tenant is how it stands with a tenant's queue. What those below it
// use and wait for counts as its own; Quota and Fair are absent where nobody was promised anything.
type Tenant struct {
	Name     string  `json:"name"`
	Parent   string  `json:"parent,omitempty"`
	Weight   int64   `json:"weight_milli"`
	Waiting  int     `json:"waiting"` // pods in line
	Deserved Amounts `json:"deserved,omitempty"`
	Limit    Amounts `json:"limit,omitempty"`
	Used     Amounts `json:"used"`
	Quota    Amounts `json:"quota,omitempty"`
	Fair     Amounts `json:"fair_share,omitempty"`
	Message  string  `json:"message,omitempty"` // why it is not in force as it is written
}

// Supply is what there is of one kind.
type Supply struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes,omitempty"`
	GPUs  int    `json:"gpus"`
	Held  int    `json:"held"`
}

// Node is one node.
type Node struct {
	Name   string `json:"name"`
	Class  string `json:"class"`
	Life   string `json:"life"`
	GPUs   int    `json:"gpus"`
	Held   int    `json:"held"`
	Pods   int    `json:"pods"`
	CPU    int64  `json:"free_milli_cpu"`
	Memory int64  `json:"free_memory_bytes"`
}

// PodCounts count pods by where they stand.
type PodCounts struct {
	Waiting int `json:"waiting"`
	Paused  int `json:"paused"`
	Held    int `json:"held"`
	Binding int `json:"binding"`
	Bound   int `json:"bound"`
}

// Reasons is how many pods wait for one kind of reason.
type Reasons struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Says  string `json:"says"` // of one of them
}

// WorkDone is what the scheduler did since it started.
type WorkDone struct {
	Cycles    uint64  `json:"cycles"`
	Decisions uint64  `json:"decisions"`
	Refused   uint64  `json:"refused"`
	PerSecond float64 `json:"decisions_per_second"` // over the last ten seconds
}

// ProfileOf is a schedulerName and the policy that decides about its pods.
type ProfileOf struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
}
