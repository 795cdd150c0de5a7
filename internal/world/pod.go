package world

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Request is what a pod asks for: its effective request.
type Request struct {
	CPU         quantity.MilliCPU
	Memory      quantity.Bytes
	Extended    map[string]int64
	Devices     []DeviceRequest
	Selector    [][]Requirement
	Tolerations []Toleration
	// Rim names what else of the pod only the rim can judge, its volumes say. What
	// it finds out is known per shape: requests that differ in this are two shapes.
	Rim string
}

// DeviceRequest asks for Count devices, each Milli of one.
type DeviceRequest struct {
	Count      int32
	Milli      quantity.MilliGPU // 1000: the device alone
	Memory     quantity.Bytes
	Profile    string
	Models     []string
	MinMemory  quantity.Bytes
	SameIsland bool
	SameNUMA   bool
	// Selector names a condition that the facts know the devices of; empty is none.
	Selector string
	// Parts says that each of Count is what the selector picks: a device alone or one of
	// its profiles. Milli is then the most one takes.
	Parts bool `json:",omitempty"`
}

// Requirement is a condition on a label.
type Requirement struct {
	Key    string
	Op     cluster.Operator
	Values []string
	Number int64
	// Feature says that it is about a feature that nodes declare: no pod goes where
	// it is not met, but such nodes count where pods are spread.
	Feature bool
}

// Toleration lets a pod onto a tainted node.
type Toleration struct {
	Key, Value          string
	AnyValue, AnyEffect bool
	Effect              cluster.TaintEffect
}

// PodAdded makes a pod known; it waits from then on.
type PodAdded struct {
	Name string
	UID  string // empty: the name
	Kind string
	// RunsAs names what its run times are known by, where it has no kind: unlike that it
	// does not keep apart what asks for the same.
	RunsAs string `json:",omitempty"`
	Queue  string
	Group  string // starts with the others of it, or waits; it may come later
	Job    string `json:",omitempty"` // it may come later; empty: that of the group, if it has one
	// Ranked says that the pod has a Rank within its group, from 0.
	Ranked       bool  `json:",omitempty"`
	Rank         int32 `json:",omitempty"`
	Priority     int32
	Request      Request
	Alternatives []Request
	SLATotal     moment.Span
	Expected     moment.Span
	Protected    bool
	PreemptNever bool
	// Since is when it began to wait; 0, and what lies ahead, is now.
	Since moment.Instant
	// Policy is the profile whose turn decides about the pod. Empty: any.
	Policy string `json:",omitempty"`
	// Owner, where there is one, makes another pod like it in its place when it has gone;
	// Surges says that such a one may come first, and it goes then. HeirOf names the pod in
	// whose place this one comes, where that is known.
	Owner  string `json:",omitempty"`
	Surges bool   `json:",omitempty"`
	HeirOf string `json:",omitempty"`
	// Artifacts are what has to be on its node before it starts; they are known.
	Artifacts []string `json:",omitempty"`
	// How the pod stands to others.
	Namespace string            `json:",omitempty"`
	Labels    map[string]string `json:",omitempty"`
	Ports     []Port            `json:",omitempty"`
	Near      []PodTerm         `json:",omitempty"` // all of them, and one pod that all mean
	Apart     []PodTerm         `json:",omitempty"`
	Spread    []Spread          `json:",omitempty"`
}

func (e PodAdded) apply(w *World) error {
	if _, dup := w.pods[e.Name]; dup || e.Name == "" {
		return fmt.Errorf("pod: name %q: must be new and not empty", e.Name)
	}
	if e.Rank < 0 || !e.Ranked && e.Rank != 0 {
		return fmt.Errorf("pod %s: rank %d, ranked: %v: must not be negative, and 0 for a pod without", e.Name, e.Rank, e.Ranked)
	}
	if e.Owner == "" && (e.Surges || e.HeirOf != "") {
		return fmt.Errorf("pod %s: surges: %v, heir of %q: only with an owner", e.Name, e.Surges, e.HeirOf)
	}
	queue := cluster.QueueID(cluster.None)
	if e.Queue != "" {
		id, ok := w.queues[e.Queue]
		if !ok {
			return fmt.Errorf("pod %s: queue %q: no such queue", e.Name, e.Queue)
		}
		queue = id
	}
	for _, r := range append([]Request{e.Request}, e.Alternatives...) {
		if err := r.validate(); err != nil {
			return fmt.Errorf("pod %s: %w", e.Name, err)
		}
	}
	if err := e.validateTies(); err != nil {
		return fmt.Errorf("pod %s: %w", e.Name, err)
	}
	artifacts, err := w.artifactsNamed(e.Artifacts)
	if err != nil {
		return fmt.Errorf("pod %s: %w", e.Name, err)
	}
	if e.UID == "" {
		e.UID = e.Name
	}
	group, job := cluster.GroupID(cluster.None), w.jobNamed(e.Job)
	if e.Group != "" {
		group = w.groupNamed(e.Group)
		if job == cluster.None {
			job = w.ledger.Group(group).Job
		}
	}
	rank := int32(cluster.None)
	if e.Ranked {
		rank = e.Rank
	}
	spec := &cluster.PodSpec{
		Name: e.Name, UID: e.UID, Group: group, Job: job, Service: cluster.None, Rank: rank,
		Owner: w.Symbol(e.Owner), Surges: e.Surges, HeirOf: e.HeirOf,
		PreemptNever: e.PreemptNever, Policy: w.Symbol(e.Policy), Artifacts: artifacts,
		Own: cluster.PodOwn{Queue: queue, Kind: w.Symbol(e.Kind), Runs: w.Symbol(e.RunsAs), Priority: e.Priority, SLATotal: e.SLATotal, Expected: e.Expected, Protected: e.Protected},
	}
	w.inherit(spec)
	if e.Kind == "" && spec.Kind != spec.Own.Runs {
		e.Kind = w.interner.Symbols().Text(spec.Kind)
	}
	spec.Asked = w.shape(&e.Request, e.Kind)
	for i := range e.Alternatives {
		spec.Alternatives = append(spec.Alternatives, w.shape(&e.Alternatives[i], e.Kind))
	}
	spec.Shape = w.sized(spec.Asked, spec)
	arrived := w.now
	if e.Since != 0 {
		arrived = min(e.Since, w.now)
	}
	reuse := cluster.PodID(cluster.None)
	if n := len(w.freePods); n > 0 {
		reuse = w.freePods[n-1]
		w.freePods = w.freePods[:n-1]
	}
	who := w.personOf(&e)
	id := w.ledger.AddPod(cluster.Pod{
		Spec: spec, Key: chance.HashString(e.UID), Phase: cluster.PhaseWaiting, Placement: cluster.Nowhere(),
		Kin: w.kinOf(&who), LastNode: cluster.None, Intent: cluster.None, Budget: cluster.None, Arrived: arrived,
	}, reuse)
	if job != cluster.None {
		w.ledger.EditPod(id).Ran = w.ledger.Job(job).Ran
	}
	w.pods[e.Name] = id
	w.know(id, who)
	return nil
}

func (r *Request) validate() error {
	if r.CPU < 0 || r.Memory < 0 {
		return fmt.Errorf("cpu %d, memory %d: must not be negative", r.CPU, r.Memory)
	}
	if name, ok := negative(r.Extended); ok {
		return fmt.Errorf("resource %s: %d: must not be negative", name, r.Extended[name])
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		switch {
		case d.Count <= 0 || d.Count > maxDevices:
			return fmt.Errorf("device request %d: count %d: must be 1 to %d", i, d.Count, maxDevices)
		case d.Profile == "" && (d.Milli <= 0 || d.Milli > quantity.WholeGPU):
			return fmt.Errorf("device request %d: share %d milli-GPU: must be 1 to 1000", i, d.Milli)
		case d.Profile != "" && (d.Milli < 0 || d.Milli > quantity.WholeGPU):
			return fmt.Errorf("device request %d: profile %s with %d milli-GPU: must be 0 to 1000", i, d.Profile, d.Milli)
		case d.Parts && (d.Selector == "" || d.Profile != ""):
			return fmt.Errorf("device request %d: parts with selector %q and profile %q: a selector says which parts, and no profile does", i, d.Selector, d.Profile)
		case d.Memory < 0 || d.MinMemory < 0:
			return fmt.Errorf("device request %d: memory %d: must not be negative", i, min(d.Memory, d.MinMemory))
		}
	}
	return nil
}

// shapeKeyed interns a request of a kind by the key that it has.
func (w *World) shapeKeyed(key uint64, r *Request, kind string) cluster.ShapeID {
	if id, known := w.shapes[key]; known {
		return id
	}
	s := cluster.Shape{Key: key, Kind: w.Symbol(kind), Need: w.vector(int64(r.CPU), int64(r.Memory), 1, r.Extended)}
	for i := range r.Devices {
		d := &r.Devices[i]
		out := cluster.DeviceRequest{
			Count: d.Count, Milli: d.Milli, Memory: d.Memory, Profile: w.Symbol(d.Profile),
			MinMemory: d.MinMemory, SameIsland: d.SameIsland, SameNUMA: d.SameNUMA, Selector: w.Symbol(d.Selector), Parts: d.Parts,
		}
		if out.Profile != 0 {
			out.Milli = w.profiles[out.Profile]
		}
		for _, model := range d.Models {
			out.Models = append(out.Models, w.Symbol(model))
		}
		slices.Sort(out.Models)
		s.Devices = append(s.Devices, out)
	}
	for _, terms := range r.Selector {
		var out []cluster.Requirement
		for _, t := range terms {
			requirement := cluster.Requirement{Key: w.Symbol(t.Key), Op: t.Op, Number: t.Number, Feature: t.Feature}
			for _, value := range t.Values {
				requirement.Values = append(requirement.Values, w.Symbol(value))
			}
			out = append(out, requirement)
		}
		s.Selector = append(s.Selector, out)
	}
	for _, t := range r.Tolerations {
		s.Tolerations = append(s.Tolerations, cluster.Toleration{
			Key: w.Symbol(t.Key), Value: w.Symbol(t.Value), AnyValue: t.AnyValue, AnyEffect: t.AnyEffect, Effect: t.Effect,
		})
	}
	id := w.ledger.AddShape(s)
	w.shapes[key] = id
	return id
}

// key hashes a request by content; it is the same in every world.
func (r *Request) key() uint64 {
	h := chance.Hash(uint64(r.CPU), uint64(r.Memory))
	if r.Rim != "" {
		h = chance.Hash(h, 5, chance.HashString(r.Rim))
	}
	for _, name := range sortedKeys(r.Extended) {
		h = chance.Hash(h, 1, chance.HashString(name), uint64(r.Extended[name]))
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		flags := uint64(0)
		if d.SameIsland {
			flags |= 1
		}
		if d.SameNUMA {
			flags |= 2
		}
		if d.Parts {
			flags |= 4
		}
		h = chance.Hash(h, 2, uint64(d.Count), uint64(d.Milli), uint64(d.Memory), chance.HashString(d.Profile), uint64(d.MinMemory), flags)
		if d.Selector != "" {
			h = chance.Hash(h, 5, chance.HashString(d.Selector))
		}
		models := slices.Sorted(slices.Values(d.Models))
		for _, model := range models {
			h = chance.Fold(h, chance.HashString(model))
		}
	}
	for _, terms := range r.Selector {
		h = chance.Hash(h, 3)
		for _, t := range terms {
			h = chance.Hash(h, chance.HashString(t.Key), uint64(t.Op), uint64(t.Number))
			if t.Feature {
				h = chance.Hash(h, 6)
			}
			for _, value := range t.Values {
				h = chance.Fold(h, chance.HashString(value))
			}
		}
	}
	for _, t := range r.Tolerations {
		flags := uint64(t.Effect) << 2
		if t.AnyValue {
			flags |= 1
		}
		if t.AnyEffect {
			flags |= 2
		}
		h = chance.Hash(h, 4, chance.HashString(t.Key), chance.HashString(t.Value), flags)
	}
	return h
}

// PodRemoved takes a pod away, wherever it stands: finished, deleted, given up.
type PodRemoved struct{ Name string }

func (e PodRemoved) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	w.heirFails(id)
	w.bequeath(id)
	w.dropIntent(id)
	if p := w.ledger.Pod(id); p.Spec.Job != cluster.None {
		if ran := p.RanFor(w.now); ran > w.ledger.Job(p.Spec.Job).Ran {
			w.ledger.EditJob(p.Spec.Job).Ran = ran
		}
	}
	w.ledger.SetRefused(id, cluster.Refusals{})
	if w.ledger.Pod(id).Phase.Charged() {
		w.ledger.Discharge(id, cluster.PhaseGone)
	} else {
		w.ledger.SetPhase(id, cluster.PhaseGone)
	}
	delete(w.pods, e.Name)
	w.dropGroup(w.ledger.Pod(id).Spec.Group)
	w.dropJob(w.ledger.Pod(id).Spec.Job)
	w.forget(id)
	w.freePods = append(w.freePods, id)
	return nil
}

// Started says that a bound pod runs.
type Started struct{ Name string }

func (e Started) apply(w *World) error {
	id, err := w.podIn(e.Name, cluster.PhaseBound)
	if err != nil {
		return err
	}
	w.ledger.SetPhase(id, cluster.PhaseRunning)
	w.ledger.EditPod(id).Started = w.now
	w.beginJob(id)
	for g := w.ledger.Pod(id).Spec.Group; g != cluster.None; g = w.ledger.Group(g).Parent {
		w.ledger.EditGroup(g).Ran = true
		w.ledger.SetGaveBack(g, cluster.Returns{})
	}
	return nil
}

// Lost says that a pod's place is gone without our doing; it waits again.
type Lost struct{ Name string }

func (e Lost) apply(w *World) error {
	id, err := w.podNamed(e.Name)
	if err != nil {
		return err
	}
	if p := w.ledger.Pod(id); !p.Phase.Charged() {
		return fmt.Errorf("pod %s: it is %v and holds nothing to lose", e.Name, p.Phase)
	}
	w.lose(id)
	return nil
}

func (w *World) lose(id cluster.PodID) {
	ran := w.ledger.Pod(id).RanFor(w.now)
	w.heirFails(id)
	w.bequeath(id)
	w.dropIntent(id)
	w.ledger.Discharge(id, cluster.PhaseWaiting)
	p := w.ledger.EditPod(id)
	p.Ran = ran
	p.Attempt++
}

func (w *World) podNamed(name string) (cluster.PodID, error) {
	id, ok := w.pods[name]
	if !ok {
		return cluster.None, fmt.Errorf("pod %q: no such pod", name)
	}
	return id, nil
}

func (w *World) podIn(name string, phase cluster.Phase) (cluster.PodID, error) {
	id, err := w.podNamed(name)
	if err != nil {
		return id, err
	}
	if is := w.ledger.Pod(id).Phase; is != phase {
		return id, fmt.Errorf("pod %s: it is %v, not %v", name, is, phase)
	}
	return id, nil
}
