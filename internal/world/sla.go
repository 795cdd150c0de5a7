package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// mostSLAs bounds the SLA classes: what people can keep apart, several times over.
const mostSLAs = 64

// SLADefined makes an SLA class, or gives one that there is other terms. A new world
// has those of cluster.DefaultSLAs. Pods that are there have what it says from now on.
type SLADefined struct {
	Name string
	cluster.SLATerms
}

func (e SLADefined) apply(w *World) error {
	if err := e.valid(w); err != nil {
		return fmt.Errorf("SLA class %q: %w", e.Name, err)
	}
	all := slices.DeleteFunc(slices.Clone(w.ledger.SLAs()), func(s cluster.SLA) bool { return s.Name == e.Name })
	w.Symbol(e.Name)
	w.ledger.SetSLAs(append(all, cluster.SLA{Name: e.Name, SLATerms: e.SLATerms}))
	w.promiseAnew()
	return nil
}

func (e SLADefined) valid(w *World) error {
	all := w.ledger.SLAs()
	switch {
	case e.Name == "":
		return fmt.Errorf("name: must not be empty")
	case e.Total < 0 || e.PerRun < 0 || e.PerRun > MostPerRun:
		return fmt.Errorf("total %v, per run %d thousandths: must not be negative, and at most %d", e.Total, e.PerRun, MostPerRun)
	case int(e.Gives) >= len(cluster.GivingNames()):
		return fmt.Errorf("gives %d: must be below %d", e.Gives, len(cluster.GivingNames()))
	case !e.ByPriority && e.From != 0:
		return fmt.Errorf("from priority %d: must be 0 where priorities do not decide", e.From)
	case w.ledger.SLA(e.Name) == nil && len(all) >= mostSLAs:
		return fmt.Errorf("there are %d already: at most %d", len(all), mostSLAs)
	}
	for i := range all {
		if s := &all[i]; e.ByPriority && s.ByPriority && s.From == e.From && s.Name != e.Name {
			return fmt.Errorf("from priority %d: must be another one than that of class %s", e.From, s.Name)
		}
	}
	return nil
}

// MostPerRun is, in thousandths, a thousand times as long as a run takes.
const MostPerRun = 1_000_000

// SLARemoved takes an SLA class away that no job names.
type SLARemoved struct{ Name string }

func (e SLARemoved) apply(w *World) error {
	if w.ledger.SLA(e.Name) == nil {
		return fmt.Errorf("SLA class %q: must be one of %s", e.Name, strings.Join(w.ledger.SLANames(), ", "))
	}
	for i := range w.ledger.Jobs.Len() {
		if j := w.ledger.Job(cluster.JobID(i)); j.Known && w.interner.Symbols().Text(j.SLA) == e.Name {
			return fmt.Errorf("SLA class %q: job %s is of it", e.Name, j.Name)
		}
	}
	w.ledger.SetSLAs(slices.DeleteFunc(slices.Clone(w.ledger.SLAs()), func(s cluster.SLA) bool { return s.Name == e.Name }))
	w.promiseAnew()
	return nil
}

// promiseAnew tells all pods what their classes say now.
func (w *World) promiseAnew() {
	for i := range w.ledger.Pods.Len() {
		p := w.ledger.Pod(cluster.PodID(i))
		if p.Phase == cluster.PhaseGone {
			continue
		}
		spec := *p.Spec
		w.inherit(&spec)
		if p.Phase.Charged() {
			spec.Queue = p.Spec.Queue
		}
		w.ledger.Respecify(cluster.PodID(i), &spec)
	}
}

// promise fills in what a pod has from its SLA class: the one given, which its job names,
// else the one of its priority. What is said of a time or of protection elsewhere stands.
func (w *World) promise(spec *cluster.PodSpec, class *cluster.SLA) {
	if class == nil {
		class = w.ledger.SLAByPriority(spec.Priority)
	}
	spec.SLA, spec.Gives, spec.Keeps = 0, cluster.GivesNormally, false
	if class == nil {
		return
	}
	spec.SLA, spec.Gives, spec.Keeps = w.Symbol(class.Name), class.Gives, class.Keeps
	if spec.SLATotal == 0 {
		spec.SLATotal = class.PromiseTo(spec.Expected)
	}
	spec.Protected = spec.Protected || class.Gives == cluster.GivesNever
}
