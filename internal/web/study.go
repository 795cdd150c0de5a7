package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/meter"
)

// Modes of a run, as meter.Result names them.
const (
	static = "static"
	timed  = "timed"
)

// setting is what runs must share for their policies to be compared.
type setting struct {
	mode, source, workload string
	load                   string // offered load in percent, empty when absent
}

// study is all runs of one setting.
type study struct {
	setting
	groups     []group // one per policy, in order of appearance
	fragTarget string
}

// group is one policy's runs, one per seed.
type group struct {
	policy string
	runs   []meter.Result
	tidied []meter.Result // with pods moved
}

// studiesOf sorts the results into studies and groups, in order of appearance.
func studiesOf(results []meter.Result) []study {
	var studies []study
	for _, r := range results {
		key := setting{mode: r.Mode, source: r.Source, workload: r.Workload}
		if r.Load != nil && finite(*r.Load) {
			key.load = figure(*r.Load*100, 0)
		}
		at := slices.IndexFunc(studies, func(s study) bool { return s.setting == key })
		if at < 0 {
			at = len(studies)
			studies = append(studies, study{setting: key})
		}
		studies[at].add(r)
	}
	return studies
}

func (s *study) add(r meter.Result) {
	if s.fragTarget == "" {
		s.fragTarget = r.FragTarget
	}
	at := slices.IndexFunc(s.groups, func(g group) bool { return g.policy == r.Policy })
	if at < 0 {
		at = len(s.groups)
		s.groups = append(s.groups, group{policy: r.Policy})
	}
	if r.Tidied != nil {
		s.groups[at].tidied = append(s.groups[at].tidied, r)
		return
	}
	s.groups[at].runs = append(s.groups[at].runs, r)
}

// describe names the setting in a heading.
func (s study) describe() string {
	parts := []string{s.workload, s.mode, s.source}
	if s.load != "" {
		parts = append(parts, "load "+s.load+nbsp+"%")
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Join(parts, " · ")
}

// detail returns the Detail of the group's first run that has one. Only that
// run is drawn where a mean over seeds would say nothing: over time, as a
// distribution, as a map.
func (g group) detail() (*meter.Detail, int64) {
	for _, r := range g.runs {
		if r.Detail != nil {
			return r.Detail, r.Seed
		}
	}
	return nil, 0
}

// detailNote says which seed the single-run charts show; empty when every
// policy ran once.
func (s study) detailNote() string {
	var seeds []string
	several := false
	for _, g := range s.groups {
		several = several || len(g.runs) > 1
		if d, seed := g.detail(); d != nil {
			seeds = appendNew(seeds, strconv.FormatInt(seed, 10))
		}
	}
	switch {
	case !several || len(seeds) == 0:
		return ""
	case len(seeds) == 1:
		return "seed " + seeds[0]
	default:
		return "the first seed of each policy"
	}
}

// maxListed bounds the lists in "what was run"; more would push the outcome
// off the first screen.
const maxListed = 12

func factsOf(studies []study) []fact {
	var sources, workloads, modes, loads, seeds, policies, targets []string
	runs := 0
	for _, s := range studies {
		sources = appendNew(sources, s.source)
		workloads = appendNew(workloads, s.workload)
		modes = appendNew(modes, describeMode(s.mode))
		targets = appendNew(targets, s.fragTarget)
		if s.load != "" {
			loads = appendNew(loads, s.load+nbsp+"% of capacity")
		}
		for _, g := range s.groups {
			policies = appendNew(policies, g.policy)
			for _, r := range g.runs {
				seeds = appendNew(seeds, strconv.FormatInt(r.Seed, 10))
				runs++
			}
		}
	}
	facts := []fact{
		{"Source", list(sources)},
		{"Workload", list(workloads)},
		{"Mode", list(modes)},
		{"Offered load", list(loads)},
		{"Policies", list(policies)},
		{"Seeds", list(seeds)},
		{"Runs", strconv.Itoa(runs)},
		{"Fragments counted against", list(targets)},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

func describeMode(mode string) string {
	switch mode {
	case static:
		return "static (pods arrive one by one, none leaves)"
	case timed:
		return "timed (pods arrive, run and leave)"
	}
	return mode
}

func list(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// appendNew appends a name that is neither empty nor listed yet.
func appendNew(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
