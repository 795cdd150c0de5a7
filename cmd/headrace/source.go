package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/catalogue"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// source says where a workload comes from.
type source struct {
	scenario string
	format   string
	nodes    string
	pods     string
	untimed  bool // a scenario without times
}

// The trace formats.
const (
	formatOpenB    = "openb"
	formatHeadrace = "headrace"
)

const defaultScenario = "a100-8x8"

func (s *source) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.scenario, "scenario", "", "built-in workload: "+strings.Join(model.Names(), ", ")+" (default "+defaultScenario+")")
	f.StringVar(&s.format, "trace", "", "read a trace in this format: openb (Alibaba 2023) or headrace (docs/trace-format.md)")
	f.StringVar(&s.nodes, "nodes", "", "file with the trace's nodes (openb and headrace CSV)")
	f.StringVar(&s.pods, "pods", "", "file with the trace's pods; for headrace JSON lines, the one file")
	_ = c.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(model.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("trace", cobra.FixedCompletions([]string{formatOpenB, formatHeadrace}, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses combinations that do not go together.
func (s *source) check() error {
	switch {
	case s.scenario != "" && s.format != "":
		return usagef("--scenario %s and --trace %s: name one of them", s.scenario, s.format)
	case s.format == "" && (s.nodes != "" || s.pods != ""):
		return usagef("--nodes and --pods need --trace openb or --trace headrace")
	case s.format == formatOpenB && (s.nodes == "" || s.pods == ""):
		return usagef("--trace openb needs --nodes FILE and --pods FILE")
	case s.format == formatHeadrace && s.pods == "":
		return usagef("--trace headrace needs --pods FILE, with --nodes FILE for CSV")
	case s.format != "" && s.format != formatOpenB && s.format != formatHeadrace:
		formats := []string{formatOpenB, formatHeadrace}
		return usagef("--trace %s: no such format%s; the formats are openb and headrace", s.format, suggestion(s.format, formats))
	}
	if s.scenario == "" && s.format == "" {
		s.scenario = defaultScenario
	}
	if s.scenario != "" {
		w, err := model.Scenario(s.scenario, 0)
		if err != nil {
			return usageError{err}
		}
		s.untimed = !w.Timed
	}
	return nil
}

// name is the source as results and the report show it.
func (s *source) name() string {
	if s.format != "" {
		return "trace:" + s.format
	}
	return "scenario:" + s.scenario
}

// where is the source as errors name it.
func (s *source) where() string {
	if s.format != "" {
		return s.pods
	}
	return "scenario " + s.scenario
}

// load reads or generates the workload. Only scenarios depend on the seed.
func (s *source) load(seed int64) (trace.Workload, error) {
	switch s.format {
	case formatOpenB:
		return trace.OpenB(s.nodes, s.pods)
	case formatHeadrace:
		if s.nodes != "" {
			return trace.Read(s.nodes, s.pods)
		}
		return trace.Read(s.pods)
	}
	return model.Scenario(s.scenario, seed)
}

// workloadName is the pod file's base name, or the scenario's name.
func (s *source) workloadName() string {
	if s.format != "" {
		return strings.TrimSuffix(filepath.Base(s.pods), filepath.Ext(s.pods))
	}
	return s.scenario
}

// suggestion is `, did you mean "x"?` for the nearest of the names.
func suggestion(name string, names []string) string {
	if near := catalogue.Closest(name, names); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}
