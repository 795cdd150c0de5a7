// Command headrace-scheduler schedules the pods of a Kubernetes cluster that
// name it.
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

	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/usage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command.Scheduler().ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "headrace-scheduler:", err)
		stop()
		os.Exit(usage.ExitCode(err))
	}
}
