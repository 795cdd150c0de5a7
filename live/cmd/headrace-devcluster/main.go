// Command headrace-devcluster runs a Kubernetes cluster with simulated GPU nodes
// in one process, on the loopback interface, until it is interrupted.
//
// Exit codes: 0 it was told to stop, 1 something went wrong, 2 the command line
// is wrong.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/headrace-dev/headrace/live/devcluster"
	"github.com/headrace-dev/headrace/live/usage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := devcluster.Command().ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "headrace-devcluster:", err)
		stop()
		os.Exit(usage.ExitCode(err))
	}
}
