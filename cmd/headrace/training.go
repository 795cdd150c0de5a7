package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/rivals/elastic"
	"github.com/headrace-dev/headrace/internal/sim/model/training"
	"github.com/headrace-dev/headrace/internal/sim/rounds"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/web"
)

// The trace formats of elastic training jobs, which are decided on in rounds.
const (
	formatPollux = "pollux"
	formatSia    = "sia"
)

func trainingFormats() []string { return []string{formatPollux, formatSia} }

// trainingFlags are the flags that go with them.
type trainingFlags struct {
	profiles  []string
	workloads []string
	perJob    bool
	fairness  bool
	round     string
	life      string
}

func (f *trainingFlags) flags(c *cobra.Command) {
	fl := c.Flags()
	fl.StringSliceVar(&f.profiles, "profiles", nil, "pollux and sia: folder with the measured profiles; a table that one lacks is looked for in the next")
	fl.StringSliceVar(&f.workloads, "workload", nil, "pollux and sia: workload files; more may follow as arguments")
	fl.BoolVar(&f.perJob, "per-job", false, "pollux and sia: list every job with its completion time and restarts in the JSON")
	fl.BoolVar(&f.fairness, "fairness", true, "pollux and sia: run each job alone too, for finish-time fairness")
	fl.StringVar(&f.life, "life", "", "pollux and sia: draw the life of this job of the first workload too, with --plots")
	fl.StringVar(&f.round, "round", "", "pollux and sia: time between two decisions, as 60s (default: as published for the policy)")
}

// trains says that the trace is one of elastic training jobs.
func (f *simFlags) trains() bool { return slices.Contains(trainingFormats(), f.format) }

// gpuTypes are the GPU models that were measured, as the artefacts name them, with
// the GPUs of a node.
func gpuTypes() []elastic.Type {
	return []elastic.Type{
		{Name: "aws", PerNode: 4},
		{Name: "rtx", PerNode: 8},
		{Name: "dgx-ext", PerNode: 8},
		{Name: "quad", PerNode: 4},
		{Name: "azure", PerNode: 8},
		{Name: "dgx", PerNode: 8},
	}
}

// The clusters of the two artefacts.
const (
	polluxCluster = "16xaws"
	siaCluster    = "6xaws,2xdgx-ext,3xrtx"
)

// parseTypes reads a cluster of several GPU models.
func parseTypes(text string, known []elastic.Type) (elastic.Cluster, error) {
	var names []string
	for _, t := range known {
		names = append(names, t.Name)
	}
	bad := func(part, why string) error {
		return usagef("--cluster %s: %q %s; want NODESxTYPE, separated by commas, as %s, with types %s", text, part, why, siaCluster, strings.Join(names, ", "))
	}
	var c elastic.Cluster
	for _, part := range strings.Split(text, ",") {
		count, name, cut := strings.Cut(part, "x")
		nodes, err := strconv.Atoi(count)
		i := slices.Index(names, name)
		switch {
		case !cut || err != nil:
			return nil, bad(part, "is not NODESxTYPE")
		case nodes < 1 || nodes > trace.MaxClusterNodes:
			return nil, bad(part, fmt.Sprintf("has not 1 to %d nodes", trace.MaxClusterNodes))
		case i < 0:
			return nil, bad(part, "names no type that was measured"+suggestion(name, names))
		case slices.ContainsFunc(c, func(t elastic.Type) bool { return t.Name == name }):
			return nil, bad(part, "names a type twice")
		}
		t := known[i]
		t.Nodes = nodes
		c = append(c, t)
	}
	return c, nil
}

// trainingNames are the policies for elastic training jobs.
func trainingNames() []string {
	var names []string
	for _, r := range rounds.Policies() {
		names = append(names, r.Name)
	}
	return names
}

func trainingHelp() string {
	var b strings.Builder
	for _, r := range rounds.Policies() {
		fmt.Fprintf(&b, "  %-15s %s\n", r.Name, r.About)
	}
	return b.String()
}

// checkTraining refuses what does not go with elastic training jobs.
func (f *simFlags) checkTraining(c *cobra.Command) error {
	for _, name := range []string{
		"scenario", "nodes", "pods", "mode", "inflate", "load", "seed", "seeds", "report", "record", "warm-up", "node-mtbf", "gpu-mtbf",
	} {
		if c.Flags().Changed(name) {
			return usagef("--%s: does not go with --trace %s", name, f.format)
		}
	}
	switch {
	case len(f.training.profiles) == 0:
		return usagef("--trace %s needs --profiles DIR, the folder with one folder for each application", f.format)
	case len(f.training.workloads) == 0:
		return usagef("--trace %s needs --workload FILE", f.format)
	case f.output != "table" && f.output != "json" && f.output != "csv":
		return usagef("--output %s: must be table, json or csv", f.output)
	case f.training.life != "" && f.plots == "":
		return usagef("--life %s: goes with --plots DIR, where it is drawn", f.training.life)
	case f.training.perJob && f.output != "json":
		return usagef("--per-job: goes with --output json")
	}
	if !c.Flags().Changed("policy") {
		f.policies = []string{"tiresias", "sia", "gavel"}
	}
	names := trainingNames()
	for _, p := range f.policies {
		if !slices.Contains(names, p) {
			return usagef("--policy %s: no such policy for --trace %s%s; the policies are %s", p, f.format, suggestion(p, names), strings.Join(names, ", "))
		}
	}
	return nil
}

// runTraining is `headrace sim` on elastic training jobs.
func (f *simFlags) runTraining(c *cobra.Command, more []string) error {
	f.training.workloads = append(f.training.workloads, more...)
	if err := f.checkTraining(c); err != nil {
		return err
	}
	configs, names, err := f.planTraining()
	if err != nil {
		return err
	}
	jobs := int64(0)
	for i := range configs {
		jobs += int64(len(configs[i].Jobs))
	}
	bar := newProgress(jobs, len(configs), "jobs", c.ErrOrStderr())
	defer bar.finish()
	results, errs := make([]meter.Training, len(configs)), make([]error, len(configs))
	each(len(configs), f.jobs, func(i int) {
		configs[i].Progress = bar.follow()
		results[i], errs[i] = rounds.Run(configs[i])
		results[i].Source, results[i].Workload, results[i].Seed = f.name(), names[i], f.seed
		if f.training.perJob {
			results[i].Jobs = results[i].Each
		}
	})
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s under %s: %w", names[i], configs[i].Policy.Name, err)
		}
	}
	bar.finish()
	if f.plots != "" {
		if err := f.writePictures(web.TrainingPlots(results)); err != nil {
			return err
		}
	}
	switch f.output {
	case "json":
		enc := json.NewEncoder(c.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	case "csv":
		return writeTrainingCSV(c.OutOrStdout(), results)
	}
	return writeTrainingTable(c.OutOrStdout(), results)
}

// planTraining reads everything and makes the runs: each workload under each
// policy.
func (f *simFlags) planTraining() (configs []rounds.Config, names []string, err error) {
	set, known, text := training.SiaSetting(), gpuTypes(), siaCluster
	if f.format == formatPollux {
		set, known, text = training.PolluxSetting(), known[:1], polluxCluster
	}
	if f.cluster != defaultCluster {
		text = f.cluster
	}
	cluster, err := parseTypes(text, known)
	if err != nil {
		return nil, nil, err
	}
	round, err := parseSpan(cmp.Or(f.training.round, "0"))
	every := int64(round) / 1_000_000
	if err != nil || f.training.round != "" && (every < 1 || every > mostRound || int64(round)%1_000_000 != 0) {
		return nil, nil, usagef("--round %s: must be whole seconds from 1s to %ds", f.training.round, mostRound)
	}
	var workloads [][]trace.TrainingJob
	var kinds []string
	for _, path := range f.training.workloads {
		rows, err := trace.Training(path, training.Names())
		if err != nil {
			return nil, nil, err
		}
		workloads = append(workloads, rows)
		for _, row := range rows {
			if !slices.Contains(kinds, row.Kind) {
				kinds = append(kinds, row.Kind)
			}
		}
	}
	var gpus []string
	for _, t := range cluster {
		gpus = append(gpus, t.Name)
	}
	profiles, err := trace.Profiles(profileFolders(f.training.profiles), kinds, gpus)
	if err != nil {
		return nil, nil, err
	}
	truth, err := training.Kinds(profiles, set)
	if err != nil {
		return nil, nil, err
	}
	if name := f.training.life; name != "" && !slices.ContainsFunc(workloads[0], func(j trace.TrainingJob) bool { return j.Name == name }) {
		return nil, nil, usagef("--life %s: no such job in %s; its first is %s", name, f.training.workloads[0], workloads[0][0].Name)
	}
	alone := new(rounds.Alone)
	titles := workloadTitles(f.training.workloads)
	for w, rows := range workloads {
		for _, name := range f.policies {
			i := slices.IndexFunc(rounds.Policies(), func(r elastic.Rival) bool { return r.Name == name })
			configs = append(configs, rounds.Config{
				Setting: set, Kinds: truth, Cluster: cluster, Jobs: rows, Policy: rounds.Policies()[i],
				Every: every, Fairness: f.training.fairness, Alone: alone, Trail: f.plots != "" && w == 0, Life: first(w, f.training.life),
			})
			names = append(names, titles[w])
		}
	}
	return configs, names, nil
}

// first is a name for the first workload alone.
func first(workload int, name string) string {
	if workload > 0 {
		return ""
	}
	return name
}

// mostRound is the longest round in seconds.
const mostRound = 3600

// profileFolders adds to the folders of the Sia artefact those of the Pollux
// artefact beside them: the tables of aws are the same, and what is between its
// shapes stands there only.
func profileFolders(dirs []string) []string {
	out := slices.Clone(dirs)
	for _, dir := range dirs {
		beside := filepath.Join(dir, "..", "..", "pollux", "profiles")
		if info, err := os.Stat(beside); err == nil && info.IsDir() && !slices.Contains(out, beside) {
			out = append(out, beside)
		}
	}
	return out
}

// workloadTitles are the base names of the files, with their folders where two
// would be the same.
func workloadTitles(paths []string) []string {
	base := func(path string) string {
		name := strings.TrimSuffix(filepath.Base(path), ".gz")
		return strings.TrimSuffix(name, filepath.Ext(name))
	}
	count := map[string]int{}
	for _, path := range paths {
		count[base(path)]++
	}
	var titles []string
	for _, path := range paths {
		title := base(path)
		if count[title] > 1 {
			title = filepath.Base(filepath.Dir(path)) + "/" + title
		}
		titles = append(titles, title)
	}
	return titles
}

// writeTrainingCSV prints one row per run with the scalar fields of the JSON.
func writeTrainingCSV(w io.Writer, results []meter.Training) error {
	rows := make([][]string, len(results))
	for i := range results {
		rows[i] = results[i].Scalars()
	}
	return writeRows(w, meter.TrainingNames(), rows)
}
