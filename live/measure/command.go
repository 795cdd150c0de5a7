package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/headrace-dev/headrace/live/usage"
)

// Options say what to measure.
type Options struct {
	Nodes   []int         `json:"nodes"`
	Pods    int           `json:"pods"`
	Group   int           `json:"group"`
	Repeats int           `json:"repeats"`
	Arms    []string      `json:"arms"`
	Rate    int           `json:"rate_per_s"`
	For     time.Duration `json:"for_ns"`
	Stall   time.Duration `json:"stall_ns"`

	// Dir is where logs and data go while it runs.
	Dir string `json:"-"`
	// Progress is told what is being measured.
	Progress io.Writer `json:"-"`
}

// The forms of the output.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// Command returns the command that measures.
func Command() *cobra.Command {
	o := Options{}
	output := outputTable
	c := &cobra.Command{
		Use: "bench", Short: "measure how fast schedulers bind pods, side by side on this machine",
		SilenceErrors: true, SilenceUsage: true,
		Args: usage.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != outputTable && output != outputJSON {
				return usage.Errorf("--output %q: must be %s or %s", output, outputTable, outputJSON)
			}
			o.Progress = c.ErrOrStderr()
			report, err := Measure(c.Context(), o)
			if err != nil {
				return err
			}
			if output == outputJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(report)
			}
			return report.Print(c.OutOrStdout())
		},
	}
	c.SetFlagErrorFunc(usage.Flag)
	f := c.Flags()
	f.IntSliceVar(&o.Nodes, "nodes", []int{1000, 5000}, "the sizes of the cluster, each node with 8 GPUs")
	f.IntVar(&o.Pods, "pods", 5000, "the backlog, pods of 1 GPU, 1 core and 1 GiB")
	f.IntVar(&o.Group, "group", 8, "the size of a group, where pods come in groups")
	f.IntVar(&o.Repeats, "repeats", 1, "how many rounds; the table shows medians")
	f.StringSliceVar(&o.Arms, "arms", armNames(), "what to measure; "+baseline+" always is")
	f.IntVar(&o.Rate, "rate", 200, "pods per second that come steadily after the backlog (0: none)")
	f.DurationVar(&o.For, "for", 20*time.Second, "how long they come")
	f.DurationVar(&o.Stall, "stall", time.Minute, "give up on an arm that binds nothing for so long")
	f.StringVar(&o.Dir, "dir", "", "where logs and data go; what is there stays (default: a temporary directory)")
	f.StringVar(&output, "output", output, outputTable+" or "+outputJSON)
	return c
}

// check refuses options that cannot be measured.
func (o *Options) check() ([]arm, error) {
	all, err := armsNamed(o.Arms)
	if err != nil {
		return nil, usage.Of(err)
	}
	steady := int(o.For.Seconds() * float64(o.Rate))
	switch {
	case len(o.Nodes) == 0:
		return nil, usage.Errorf("--nodes: at least one size is needed")
	case o.Group < 1:
		return nil, usage.Errorf("--group %d: must be at least 1", o.Group)
	case o.Pods/o.Group*o.Group < leastPods:
		return nil, usage.Errorf("--pods %d: must be at least %d in whole groups of %d", o.Pods, leastPods, o.Group)
	case o.Repeats < 1:
		return nil, usage.Errorf("--repeats %d: must be at least 1", o.Repeats)
	case o.Rate < 0 || o.Rate > 0 && steady < o.Group:
		return nil, usage.Errorf("--rate %d --for %v: must give at least one group of %d, or --rate 0", o.Rate, o.For, o.Group)
	case o.Stall <= 0:
		return nil, usage.Errorf("--stall %v: must be positive", o.Stall)
	}
	for _, n := range o.Nodes {
		if most := max(o.Pods, steady); n < 1 || n*gpusPerNode < most {
			return nil, usage.Errorf("--nodes %d: %d GPUs are fewer than the %d pods that need one each", n, n*gpusPerNode, most)
		}
	}
	return all, nil
}

// leastPods makes the slope of a drain one of several pods.
const leastPods = 40

// Measure measures all arms, in rounds. Warnings of API servers are not shown any
// more afterwards: that groups are a beta API is not news.
func Measure(ctx context.Context, o Options) (*Report, error) {
	all, err := o.check()
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "headrace-bench-"); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
		defer os.RemoveAll(o.Dir)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	report := &Report{Machine: machine(), Options: o}
	for round := range o.Repeats {
		for _, nodes := range o.Nodes {
			dir := filepath.Join(o.Dir, fmt.Sprintf("%d-%d", round, nodes))
			fmt.Fprintf(o.Progress, "round %d of %d, %d nodes: starting the cluster (load average %s)\n", round+1, o.Repeats, nodes, loadAverage())
			p, err := newPlant(ctx, dir, nodes)
			if err != nil {
				return nil, err
			}
			runs, err := p.round(ctx, &o, all, round)
			p.stop()
			if err != nil {
				return nil, err
			}
			report.Runs = append(report.Runs, runs...)
		}
	}
	report.Rows = rows(&o, all, report.Runs)
	return report, nil
}

// round measures all arms once, and the baseline twice.
func (p *plant) round(ctx context.Context, o *Options, all []arm, round int) ([]Run, error) {
	var runs []Run
	for i, a := range order(all, round) {
		r, err := p.measure(ctx, o, a, fmt.Sprintf("r%d-%d", round, i))
		if err != nil {
			return nil, fmt.Errorf("measure %s at %d nodes: %w", a.name, p.nodes, err)
		}
		r.Round = round
		runs = append(runs, *r)
		fmt.Fprintf(o.Progress, "  %-38s %s\n", a.title, r.line())
	}
	return runs, nil
}

// line is a run in one line.
func (r *Run) line() string {
	var parts []string
	if d := r.Drain; d != nil {
		parts = append(parts, fmt.Sprintf("%.0f/s", d.PerSecond))
	}
	if s := r.Steady; s != nil {
		parts = append(parts, fmt.Sprintf("at %.0f/s p50 %.0f ms, p99 %.0f ms", s.CreatedPerSecond, s.P50ms, s.P99ms))
	}
	if r.Failure != "" {
		parts = append(parts, r.Failure)
	}
	return strings.Join(parts, ", ")
}
