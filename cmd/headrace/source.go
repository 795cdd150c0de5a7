package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/catalogue"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// source says where a workload comes from.
type source struct {
	scenario string
	format   string
	nodes    string
	pods     string
	cluster  string // of a trace without nodes
	untimed  bool   // a scenario without times
	philly   trace.PhillySetting
	arrivals quantity.Milli // of a scenario, in thousandths of its own
}

// The trace formats.
const (
	formatOpenB    = "openb"
	formatPhilly   = "philly"
	formatHeadrace = "headrace"
)

const (
	defaultScenario = "a100-8x8"
	defaultCluster  = "52x8"
)

func traceFormats() []string {
	return append([]string{formatOpenB, formatPhilly, formatHeadrace}, trainingFormats()...)
}

func (s *source) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.scenario, "scenario", "", "built-in workload: "+strings.Join(model.Names(), ", ")+" (default "+defaultScenario+")")
	f.StringVar(&s.format, "trace", "", "read a trace in this format: openb (Alibaba 2023), philly (Microsoft 2017), headrace (docs/trace-format.md), pollux or sia (docs/adaptive.md)")
	f.StringVar(&s.nodes, "nodes", "", "file with the trace's nodes (openb and headrace CSV)")
	f.StringVar(&s.pods, "pods", "", "file with the trace's pods; for headrace JSON lines and philly, the one file")
	f.StringVar(&s.cluster, "cluster", defaultCluster, "philly: the cluster, as NODESxGPUS; pollux and sia: as NODESxTYPE,… (default "+polluxCluster+" and "+siaCluster+")")
	_ = c.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(model.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("trace", cobra.FixedCompletions(traceFormats(), cobra.ShellCompDirectiveNoFileComp))
}

// check refuses combinations that do not go together.
func (s *source) check() error {
	switch {
	case s.scenario != "" && s.format != "":
		return usagef("--scenario %s and --trace %s: name one of them", s.scenario, s.format)
	case s.format == "" && (s.nodes != "" || s.pods != ""):
		return usagef("--nodes and --pods need --trace openb, --trace philly or --trace headrace")
	case s.format == formatOpenB && (s.nodes == "" || s.pods == ""):
		return usagef("--trace openb needs --nodes FILE and --pods FILE")
	case s.format == formatHeadrace && s.pods == "":
		return usagef("--trace headrace needs --pods FILE, with --nodes FILE for CSV")
	case s.format == formatPhilly && (s.pods == "" || s.nodes != ""):
		return usagef("--trace philly needs --pods FILE, and --cluster instead of --nodes")
	case s.format != "" && !slices.Contains(traceFormats(), s.format):
		return usagef("--trace %s: no such format%s; the formats are %s", s.format, suggestion(s.format, traceFormats()), strings.Join(traceFormats(), ", "))
	case slices.Contains(trainingFormats(), s.format):
		return usagef("--trace %s: goes with headrace sim only", s.format)
	case s.format != formatPhilly && s.cluster != defaultCluster:
		return usagef("--cluster %s: goes with --trace philly", s.cluster)
	}
	s.arrivals = quantity.One
	if err := s.size(); err != nil {
		return err
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

// size reads --cluster.
func (s *source) size() error {
	s.philly = trace.DefaultPhilly()
	nodes, gpus, cut := strings.Cut(s.cluster, "x")
	n, errN := strconv.Atoi(nodes)
	g, errG := strconv.Atoi(gpus)
	if !cut || errN != nil || errG != nil || n < 1 || n > trace.MaxClusterNodes || g < 1 || g > trace.MaxGPUs {
		return usagef("--cluster %s: must be NODESxGPUS with 1 to %d nodes and 1 to %d GPUs, as %s", s.cluster, trace.MaxClusterNodes, trace.MaxGPUs, defaultCluster)
	}
	s.philly.Nodes, s.philly.GPUs = n, g
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
	case formatPhilly:
		return trace.Philly(s.pods, s.philly)
	case formatHeadrace:
		if s.nodes != "" {
			return trace.Read(s.nodes, s.pods)
		}
		return trace.Read(s.pods)
	}
	return model.Loaded(s.scenario, seed, s.arrivals)
}

// workloadName is the pod file's base name, or the scenario's name.
func (s *source) workloadName() string {
	if s.format != "" {
		base := strings.TrimSuffix(filepath.Base(s.pods), ".gz")
		return strings.TrimSuffix(base, filepath.Ext(base))
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
