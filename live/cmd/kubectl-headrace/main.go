// Command kubectl-headrace has the cluster verbs: up starts a cluster with
// simulated GPU nodes, the scheduler and a workload, and down stops it; explain,
// top and queue ask a running scheduler. It works as a kubectl plugin and behind
// the headrace command.
//
// Exit codes: 0 all is well, 1 something went wrong, 2 the command line is wrong.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/live/ask"
	"github.com/headrace-dev/headrace/live/devcluster"
	"github.com/headrace-dev/headrace/live/usage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "headrace:", err)
	stop()
	os.Exit(usage.ExitCode(err))
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "headrace", Short: "ask the scheduler of a cluster, or start a cluster to try it in",
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("no command %q; see --help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(usage.Flag)
	cluster := devcluster.Command()
	cluster.Use, cluster.Hidden = clusterVerb, true
	root.AddCommand(upCommand(), downCommand(), whatifCommand(), cluster)
	root.AddCommand(ask.Commands()...)
	return root
}

// defaultDir is where a cluster lies when no other place is named.
func defaultDir() string { return ask.LocalDir() }
