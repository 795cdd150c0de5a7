// Command bench measures how fast schedulers bind pods, side by side on this
// machine; see docs/bench-live.md.
//
// Exit codes: 0 it was measured, 1 something went wrong, 2 the command line is
// wrong.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/headrace-dev/headrace/live/measure"
	"github.com/headrace-dev/headrace/live/usage"
)

func main() {
	if code, is := measure.Role(); is {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure.Command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(usage.ExitCode(err))
	}
}
