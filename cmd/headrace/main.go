// Command headrace decides where AI work runs: it simulates policies on traces
// and scenarios, replays journals, and reads and writes traces.
//
// Exit codes: 0 all is well, 1 something went wrong, 2 the command line is wrong.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build.
var version string

//go:generate go run . manual --out ../../docs/cli.md

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs one command line and returns the exit code.
func run(args []string, out, errOut io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.Execute()
	if err == nil {
		return 0
	}
	var usage usageError
	fmt.Fprintln(errOut, "headrace:", err)
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// usageError is a fault in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "headrace",
		Short:         "schedule AI work on GPU clusters",
		Long:          "Headrace places training, inference and batch work on the right GPUs. This command\nsimulates policies on traces and scenarios, and starts a cluster to try it in (up).",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, c.CommandPath())
	})
	root.AddCommand(simCommand(), traceCommand(), scenarioCommand(), replayCommand(), versionCommand(), manualCommand())
	root.AddCommand(clusterCommands()...)
	return root
}

// noSuchCommand refuses words that are no subcommand, with the nearest that is.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return usagef("no command %q%s; see %s --help", args[0], suggestion(args[0], names), c.CommandPath())
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", c.CommandPath(), args[0])
	}
	return nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: noArguments,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "headrace", versionText()) },
	}
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unreleased"
}
