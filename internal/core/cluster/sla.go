package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Giving says when work of an SLA class gives way, among others that would have to as
// well.
type Giving uint8

const (
	GivesNormally Giving = iota // as work without a class
	GivesFirst
	GivesLast
	GivesNever
)

var givingNames = [...]string{"normal", "first", "last", "never"} // const: names of the ways to give

func (g Giving) String() string { return givingNames[g] }

// GivingNames are the ways to give, by Giving.
func GivingNames() []string { return givingNames[:] }

// Order is from who gives way first to who does last.
func (g Giving) Order() int64 {
	switch g {
	case GivesFirst:
		return 0
	case GivesNormally:
		return 1
	}
	return 2
}

// SLATerms are what a class promises, and what work of it puts up with.
type SLATerms struct {
	// Total is the time from the arrival of a pod to its end, beside PerRun thousandths
	// of its declared run time. Both 0: no promise.
	Total  moment.Span    `json:",omitempty"`
	PerRun quantity.Milli `json:",omitempty"`
	// Gives says when its work gives way. What never does is not evicted for others,
	// and lends nothing.
	Gives Giving `json:",omitempty"`
	// Keeps says that its work lends nothing of its devices.
	Keeps bool `json:",omitempty"`
	// ByPriority says that work which names no class is of this one from priority From
	// on, where no class of a higher From takes it.
	ByPriority bool  `json:",omitempty"`
	From       int32 `json:",omitempty"`
}

// SLA is a class of service: what work may expect, and what may be asked of it.
type SLA struct {
	Name string
	Key  uint64
	SLATerms
}

// PromiseTo is the time from arrival to end that the class promises to a run of a
// declared length; 0 for no promise.
func (s *SLATerms) PromiseTo(run moment.Span) moment.Span {
	return s.Total + moment.Span(quantity.MulDiv(int64(run), int64(s.PerRun), 1000))
}

// DefaultSLAs are the classes that there are unless somebody says otherwise.
func DefaultSLAs() []SLA {
	return sortedSLAs([]SLA{
		// 99.99 % of thirty days leave 4 min 19 s.
		{Name: "always-on", SLATerms: SLATerms{Total: 259 * moment.Second, Gives: GivesNever, Keeps: true}},
		{Name: "interactive", SLATerms: SLATerms{Total: 10 * moment.Minute, PerRun: 1000, Gives: GivesLast, Keeps: true}},
		{Name: "standard", SLATerms: SLATerms{Total: moment.Hour, PerRun: 2000}},
		{Name: "batch", SLATerms: SLATerms{Total: 6 * moment.Hour, PerRun: 3000}},
		{Name: "patient", SLATerms: SLATerms{Total: moment.Day, PerRun: 5000, Gives: GivesFirst}},
	})
}

func sortedSLAs(all []SLA) []SLA {
	for i := range all {
		all[i].Key = chance.HashString(all[i].Name)
	}
	slices.SortFunc(all, func(a, b SLA) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// SLA returns a class; nil where there is none of the name.
func (v *View) SLA(name string) *SLA {
	i, found := slices.BinarySearchFunc(v.slas, name, func(s SLA, name string) int { return strings.Compare(s.Name, name) })
	if !found {
		return nil
	}
	return &v.slas[i]
}

// SLAs lists the classes by name. It is for reading.
func (v *View) SLAs() []SLA { return v.slas }

// SLANames lists the names of the classes.
func (v *View) SLANames() []string {
	out := make([]string, len(v.slas))
	for i := range v.slas {
		out[i] = v.slas[i].Name
	}
	return out
}

// SLAByPriority is the class of work that names none; nil where its priority has none.
func (v *View) SLAByPriority(priority int32) *SLA {
	var best *SLA
	for i := range v.slas {
		if s := &v.slas[i]; s.ByPriority && s.From <= priority && (best == nil || s.From > best.From) {
			best = s
		}
	}
	return best
}

// SetSLAs replaces the classes. The list is never changed in place.
func (l *Ledger) SetSLAs(all []SLA) { l.slas = sortedSLAs(all) }

// slaDigest hashes a class.
func (s *SLA) digest() uint64 {
	h := chance.Hash(37, s.Key, uint64(s.Total), uint64(s.PerRun), uint64(s.Gives), uint64(s.From))
	if s.Keeps {
		h++
	}
	if s.ByPriority {
		h += 2
	}
	return h
}

// promises looks whether pods have what their class promises, and jobs name classes that
// there are.
func (a *audit) promises() error {
	v := a.view
	for i := 1; i < len(v.slas); i++ {
		if v.slas[i-1].Name >= v.slas[i].Name {
			return fmt.Errorf("audit: SLA class %s stands before %s", v.slas[i-1].Name, v.slas[i].Name)
		}
	}
	for i := range v.Jobs.Len() {
		if j := v.Job(JobID(i)); j.Known && j.SLA != 0 && v.SLA(v.Symbols.Text(j.SLA)) == nil {
			return fmt.Errorf("audit: job %s is of SLA class %q, which does not exist", j.Name, v.Symbols.Text(j.SLA))
		}
	}
	for i := range v.Pods.Len() {
		p := v.Pod(PodID(i))
		if p.Phase == PhaseGone {
			continue
		}
		name := ""
		if p.Spec.Job != None && v.Job(p.Spec.Job).Known {
			name = v.Symbols.Text(v.Job(p.Spec.Job).SLA)
		}
		class := v.SLA(name)
		if class == nil {
			class = v.SLAByPriority(p.Spec.Priority)
		}
		has := v.Symbols.Text(p.Spec.SLA)
		switch {
		case class == nil && (has != "" || p.Spec.Gives != GivesNormally || p.Spec.Keeps):
			return fmt.Errorf("audit: pod %s is of SLA class %q, and should be of none", p.Spec.Name, has)
		case class != nil && (has != class.Name || p.Spec.Gives != class.Gives || p.Spec.Keeps != class.Keeps):
			return fmt.Errorf("audit: pod %s is of SLA class %q, which gives %v, and should be of %s", p.Spec.Name, has, p.Spec.Gives, class.Name)
		}
	}
	return nil
}
