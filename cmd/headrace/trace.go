package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/sim/trace"
)

func traceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "generate, convert and describe workloads",
		Args:  noSuchCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(traceGenCommand(), traceConvertCommand(), traceStatCommand())
	return c
}

func traceGenCommand() *cobra.Command {
	var s source
	var seed int64
	var out string
	c := &cobra.Command{
		Use: "gen", Short: "write a built-in scenario as a trace in the headrace format", Args: noArguments,
		Example: "  headrace trace gen --scenario hetero --seed 7 --out hetero.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			if s.format != "" {
				return usagef("trace gen takes --scenario; use trace convert for --trace %s", s.format)
			}
			return writeTrace(c, &s, seed, out)
		},
	}
	s.flags(c)
	c.Flags().Int64Var(&seed, "seed", 42, "seed of the generator")
	c.Flags().StringVar(&out, "out", "-", "file to write; - is standard output")
	return c
}

func traceConvertCommand() *cobra.Command {
	var s source
	var out string
	c := &cobra.Command{
		Use: "convert", Short: "turn another trace into the headrace format", Args: noArguments,
		Example: "  headrace trace convert --trace openb --nodes nodes.csv --pods pods.csv --out openb.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			if s.format == "" {
				return usagef("trace convert needs --trace FORMAT with --nodes and --pods; trace gen writes a scenario")
			}
			return writeTrace(c, &s, 0, out)
		},
	}
	s.flags(c)
	c.Flags().StringVar(&out, "out", "-", "file to write; - is standard output")
	return c
}

// writeTrace reads a workload and writes all of it, or nothing.
func writeTrace(c *cobra.Command, s *source, seed int64, out string) error {
	if err := s.check(); err != nil {
		return err
	}
	w, err := s.load(seed)
	if err != nil {
		return err
	}
	if out == "-" {
		return trace.Write(c.OutOrStdout(), w)
	}
	return writeWhole(out, func(file io.Writer) error { return trace.Write(file, w) })
}

func traceStatCommand() *cobra.Command {
	var s source
	var seed int64
	c := &cobra.Command{
		Use: "stat", Short: "describe a workload: nodes, requests, demand, durations", Args: noArguments,
		Example: "  headrace trace stat --trace openb --nodes nodes.csv --pods pods.csv\n  headrace trace stat --trace philly --pods philly_jobs.csv.gz\n  headrace trace stat --scenario a100-8x8",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			w, err := s.load(seed)
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.OutOrStdout(), trace.Stat(w).String())
			return err
		},
	}
	s.flags(c)
	c.Flags().Int64Var(&seed, "seed", 42, "seed of a scenario's generator")
	return c
}
