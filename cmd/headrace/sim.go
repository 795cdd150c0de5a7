package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim"
	"github.com/headrace-dev/headrace/internal/sim/trace"
	"github.com/headrace-dev/headrace/internal/web"
)

// simFlags are the flags of `headrace sim`.
type simFlags struct {
	source
	mode     string
	inflate  float64
	load     float64
	seed     int64
	seeds    string
	policies []string
	output   string
	report   string
	jobs     int
	nodeMTBF string
	gpuMTBF  string
	record   string
	warmUp   string
	plots    string
	without  []string
	starts   bool
	declared bool
	reserve  string
	tidy     tidyFlags
	training trainingFlags
}

const defaultReport = "report.html"

func simCommand() *cobra.Command {
	f := &simFlags{}
	c := &cobra.Command{
		Use:   "sim",
		Short: "run a workload under one or more policies and compare them",
		Long: `Run a workload under one or more policies and compare them.

Without flags, a day of generated work on 8 nodes of 8 A100 runs under Kubernetes'
default scoring and under ours; the comparison is printed and a report written.

Static mode offers the pods one after the other; what does not fit is given up and
nothing leaves. Timed mode runs against the clock. Policies:

` + policyHelp() + `
The traces pollux and sia are of elastic training jobs: a policy is asked in rounds
how many GPUs, and of which model, each job has (docs/adaptive.md). Policies:

` + trainingHelp(),
		Example: `  headrace sim
  headrace sim --scenario hetero --policy kube-binpack,headrace --seeds 1..5
  headrace sim --trace openb --nodes nodes.csv --pods pods.csv --mode static --inflate 1.3 --seeds 42..51 --policy fgd,headrace
  headrace sim --trace openb --nodes nodes.csv --pods pods.csv --mode timed --load 0.9 --output json
  headrace sim --trace philly --pods philly_jobs.csv.gz --policy fifo,las,srtf,headrace
  headrace sim --trace pollux --profiles pollux/profiles --workload pollux/workloads/workload-6.csv --policy tiresias
  headrace sim --trace sia --profiles sia/profiles --policy sia,gavel --output json --workload sia/workloads/philly/*.csv`,
		Args: func(c *cobra.Command, args []string) error {
			if f.trains() && len(f.training.workloads) > 0 {
				return nil // more workloads
			}
			return noArguments(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.trains() {
				return f.runTraining(c, args)
			}
			return f.run(c)
		},
	}
	f.flags(c)
	f.training.flags(c)
	f.tidy.flags(c)
	fl := c.Flags()
	fl.StringVar(&f.mode, "mode", "", "static or timed (default: static for openb and mixed, timed for others)")
	fl.Float64Var(&f.inflate, "inflate", 1.3, "static mode: GPU demand offered, in multiples of the capacity; 0 offers the trace as it is")
	fl.Float64Var(&f.load, "load", 0, "timed mode: offered GPU-time in multiples of the capacity (traces), or arrivals in multiples of the scenario's own; 0 runs it as it is")
	fl.StringSliceVar(&f.without, "without", nil, "ingredients that "+sim.Ours+" leaves out, to see what they give: "+strings.Join(ingredientNames(), ", ")+"; each: one after the other, beside a run with all")
	fl.Int64Var(&f.seed, "seed", 42, "seed of arrivals, ties and failures")
	fl.StringVar(&f.seeds, "seeds", "", "several seeds, as 42..51 or 1,2,3; overrides --seed")
	fl.StringSliceVar(&f.policies, "policy", []string{"kube-default", sim.Ours}, "policies to compare, separated by commas")
	fl.StringVar(&f.output, "output", "table", "table, json (docs/output.md) or csv")
	fl.StringVar(&f.report, "report", "", "write an HTML report to this file (default "+defaultReport+" with --output table; \"none\" writes none)")
	fl.StringVar(&f.plots, "plots", "", "write the report's charts as SVG files into this folder")
	fl.IntVar(&f.jobs, "jobs", 0, "runs at once; 0 is one per processor")
	fl.StringVar(&f.nodeMTBF, "node-mtbf", "0", "timed mode: mean time between failures of one node, as 720h; 0 is never")
	fl.StringVar(&f.gpuMTBF, "gpu-mtbf", "0", "timed mode: mean time between failures of one GPU, as 8760h; 0 is never")
	fl.BoolVar(&f.starts, "starts", false, "timed mode: foretell the starts of those who wait under our policy, and say how true that was")
	fl.BoolVar(&f.declared, "declared", false, "timed mode: jobs say how long they run, under every policy")
	fl.StringVar(&f.reserve, "reserve", "off", "our policy: room reserved for nobody (off), the first of each queue (head) or all who wait (all)")
	fl.StringVar(&f.warmUp, "warm-up", "", "timed mode: what arrives within this time of the start does not count, as 336h (default: as the workload says)")
	fl.StringVar(&f.record, "record", "", "write the journal of the run to this file, for replay; one policy and one seed; .gz compresses")
	_ = c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(append(policyNames(), trainingNames()...), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{sim.Static, sim.Timed}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "csv"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func policyHelp() string {
	var b strings.Builder
	for _, p := range sim.Policies() {
		fmt.Fprintf(&b, "  %-15s %s\n", p.Name, p.About)
	}
	return b.String()
}

func ingredientNames() []string {
	var names []string
	for _, g := range sim.Ingredients() {
		names = append(names, g.Name)
	}
	return names
}

func policyNames() []string {
	var names []string
	for _, p := range sim.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// run is the command: check everything, run everything, then write.
func (f *simFlags) run(c *cobra.Command) error {
	configs, err := f.plan()
	if err != nil {
		return err
	}
	results, err := f.runRecorded(configs, c.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := f.writeReport(results); err != nil {
		return err
	}
	if err := f.writePlots(results); err != nil {
		return err
	}
	if err := write(c.OutOrStdout(), f.output, results); err != nil {
		return err
	}
	if f.report != "" && f.output == "table" {
		fmt.Fprintf(c.OutOrStdout(), "\nReport: %s\n", f.report)
	}
	return nil
}

// runRecorded runs everything, and keeps the journal where one is asked for.
func (f *simFlags) runRecorded(configs []sim.Config, errOut io.Writer) ([]meter.Result, error) {
	if f.record == "" {
		return runAll(configs, f.jobs, errOut)
	}
	if len(configs) != 1 {
		return nil, usagef("--record %s: goes with one policy and one seed, not %d runs", f.record, len(configs))
	}
	r, err := newRecording(f.record)
	if err != nil {
		return nil, err
	}
	configs[0].Record = r
	results, err := runAll(configs, f.jobs, errOut)
	if err != nil {
		r.drop()
		return nil, err
	}
	return results, r.keep()
}

// check refuses a wrong command line before anything is read.
func (f *simFlags) check() error {
	if err := f.source.check(); err != nil {
		return err
	}
	if f.mode == "" {
		f.mode = sim.Timed
		if f.format == formatOpenB || f.untimed {
			f.mode = sim.Static
		}
	}
	switch {
	case f.mode != sim.Static && f.mode != sim.Timed:
		return usagef("--mode %s: must be static or timed", f.mode)
	case f.output != "table" && f.output != "json" && f.output != "csv":
		return usagef("--output %s: must be table, json or csv", f.output)
	case !(f.inflate >= 0 && f.inflate <= 100):
		return usagef("--inflate %v: must be 0 to 100", f.inflate)
	case !(f.load >= 0 && f.load <= 100):
		return usagef("--load %v: must be 0 to 100", f.load)
	case f.load > 0 && f.format == formatPhilly:
		return usagef("--load %v: not with --trace philly, whose jobs come when they came; --cluster sets the load", f.load)
	case f.warmUp != "" && f.mode != sim.Timed:
		return usagef("--warm-up %s: goes with timed mode", f.warmUp)
	case f.load > 0 && f.mode != sim.Timed:
		return usagef("--load %v: goes with timed mode", f.load)
	case f.load > 0 && f.load < 0.01:
		return usagef("--load %v: must be 0, or 0.01 to 100", f.load)
	case (f.starts || f.declared) && f.mode != sim.Timed:
		return usagef("--starts and --declared: go with timed mode")
	case f.reserve != "off" && f.reserve != "head" && f.reserve != "all":
		return usagef("--reserve %s: must be off, head or all", f.reserve)
	case len(f.policies) == 0:
		return usagef("--policy: name at least one policy")
	case len(f.training.profiles)+len(f.training.workloads) > 0 || f.training.perJob || f.training.round != "" || f.training.life != "":
		return usagef("--profiles, --workload, --per-job, --round and --life go with --trace pollux and --trace sia")
	}
	if f.scenario != "" && f.load > 0 {
		f.arrivals = quantity.Milli(f.load*1000 + 0.5)
	}
	for _, name := range f.without {
		if !slices.Contains(ingredientNames(), name) && !slices.Equal(f.without, []string{eachOne}) {
			return usagef("--without %s: no such ingredient%s; they are %s, or %s alone", name, suggestion(name, ingredientNames()), strings.Join(ingredientNames(), ", "), eachOne)
		}
	}
	if len(f.without) > 0 && f.record != "" {
		return usagef("--without %s: not with --record: a replay decides with all of them", strings.Join(f.without, ","))
	}
	if f.reserve != "off" {
		for i, p := range f.policies {
			if p == sim.Ours {
				f.policies[i] = sim.Ours + "-reserve-" + f.reserve
			}
		}
	}
	if err := f.tidy.check(f.mode); err != nil {
		return err
	}
	names := policyNames()
	for _, p := range f.policies {
		if !slices.Contains(names, p) {
			return usagef("--policy %s: no such policy%s", p, suggestion(p, names))
		}
	}
	if f.report == "none" {
		f.report = ""
	} else if f.report == "" && f.output == "table" {
		f.report = defaultReport
	}
	return nil
}

// plan turns the flags into runs: per seed one workload, under each policy.
func (f *simFlags) plan() ([]sim.Config, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	seeds, err := parseSeeds(f.seeds, f.seed)
	if err != nil {
		return nil, err
	}
	failures, err := f.failures()
	if err != nil {
		return nil, err
	}
	var configs []sim.Config
	var raw trace.Workload
	for i, seed := range seeds {
		if i == 0 || f.format == "" {
			if raw, err = f.source.load(seed); err != nil {
				return nil, err
			}
			raw.Name = f.workloadName()
		}
		c, err := f.prepare(&raw, seed)
		if err != nil {
			return nil, err
		}
		c.Source, c.Mode, c.Seed, c.Failures = f.source.name(), f.mode, seed, failures
		c.Starts, c.Declared = f.starts, f.declared
		for _, policy := range f.policies {
			c.Policy = policy
			for _, less := range f.ablations(c) {
				configs = append(configs, f.tidy.apply(less)...)
			}
		}
	}
	return configs, nil
}

// eachOne says that ingredients are left out one by one.
const eachOne = "each"

// ablations are the runs of one policy on one workload: where each ingredient is to be left
// out, one with all and one without each.
func (f *simFlags) ablations(c sim.Config) []sim.Config {
	if !strings.HasPrefix(c.Policy, sim.Ours) {
		return []sim.Config{c}
	}
	if !slices.Equal(f.without, []string{eachOne}) {
		c.Without = f.without
		return []sim.Config{c}
	}
	out := []sim.Config{c}
	for _, name := range ingredientNames() {
		less := c
		less.Without = []string{name}
		out = append(out, less)
	}
	return out
}

// prepare orders, grows or resamples the workload for one seed.
func (f *simFlags) prepare(raw *trace.Workload, seed int64) (sim.Config, error) {
	target := *raw
	c := sim.Config{Workload: &target, Target: &target}
	switch {
	case f.mode == sim.Static && f.inflate > 0:
		tuned := trace.Tune(target, quantity.Milli(f.inflate*1000+0.5), seed)
		c.Workload = &tuned.Workload
		c.NodeRank = make(map[string]int32, len(tuned.Rank))
		for i, rank := range tuned.Rank {
			c.NodeRank[target.Nodes[i].Name] = rank
		}
	case f.mode == sim.Timed:
		if err := trace.RequireTimes(target, f.where()); err != nil {
			return c, err
		}
		if load := f.load; load > 0 && f.format == "" {
			c.Load = &load
		} else if load > 0 {
			drawn, err := trace.Resample(target, trace.Resampling{Load: quantity.Milli(load*1000 + 0.5), Seed: seed})
			if err != nil {
				return c, fmt.Errorf("%s: %w", f.where(), err)
			}
			c.Workload, c.Load = &drawn, &load
		} else if f.format == formatPhilly {
			load := target.OfferedLoad()
			c.Load = &load
		}
		if f.warmUp != "" {
			span, err := parseSpan(f.warmUp)
			if err != nil {
				return c, usagef("--warm-up %s: %w", f.warmUp, err)
			}
			c.Workload.WarmUp = span
		}
	}
	return c, nil
}

func (f *simFlags) failures() (sim.Failures, error) {
	var out sim.Failures
	for _, flag := range []struct {
		name, text string
		into       *moment.Span
	}{{"--node-mtbf", f.nodeMTBF, &out.NodeEvery}, {"--gpu-mtbf", f.gpuMTBF, &out.GPUEvery}} {
		span, err := parseSpan(flag.text)
		if err != nil {
			return out, usagef("%s %s: %w", flag.name, flag.text, err)
		}
		*flag.into = span
	}
	out.NodeRepair, out.GPURepair = moment.Hour, 4*moment.Hour
	return out, nil
}

// parseSeeds reads "42..51", "1,2,3" or "" for the one seed.
func parseSeeds(text string, one int64) ([]int64, error) {
	if text == "" {
		return []int64{one}, nil
	}
	const most = 10_000
	if from, to, isRange := strings.Cut(text, ".."); isRange {
		a, errA := strconv.ParseInt(from, 10, 64)
		b, errB := strconv.ParseInt(to, 10, 64)
		if errA != nil || errB != nil || b < a || b-a >= most {
			return nil, usagef("--seeds %s: must be FROM..TO with FROM ≤ TO, at most %d seeds", text, most)
		}
		var out []int64
		for s := a; s <= b; s++ {
			out = append(out, s)
		}
		return out, nil
	}
	var out []int64
	for _, part := range strings.Split(text, ",") {
		s, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil {
			return nil, usagef("--seeds %s: %q is not an integer", text, part)
		}
		out = append(out, s)
	}
	return out, nil
}

// writeReport writes the whole report or nothing.
func (f *simFlags) writeReport(results []meter.Result) error {
	if f.report == "" {
		return nil
	}
	return writeWhole(f.report, func(file io.Writer) error { return web.Report(file, "Headrace: "+f.workloadName(), results) })
}

// writePlots writes each chart whole, or not.
func (f *simFlags) writePlots(results []meter.Result) error {
	if f.plots == "" {
		return nil
	}
	return f.writePictures(web.Plots(results))
}

func (f *simFlags) writePictures(plots []web.Plot) error {
	if err := os.MkdirAll(f.plots, 0o755); err != nil {
		return err
	}
	for _, p := range plots {
		err := writeWhole(filepath.Join(f.plots, p.Name+".svg"), func(file io.Writer) error {
			_, err := file.Write(p.SVG)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
