package measure

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/devcluster"
)

// role is what a process of a measurement does.
type role string

// The roles.
const (
	roleCluster  role = "cluster"
	roleBinds    role = "binds"
	roleKube     role = "kube-scheduler"
	roleHeadrace role = "headrace"
)

// roleVariable tells a process which role it has.
const roleVariable = "HEADRACE_MEASURE_ROLE"

// endWithin is how long a process may take to end when its starter has gone.
const endWithin = 3 * time.Second

// Role plays the role that the environment names. It says false when there is
// none: then this process is the one that measures.
func Role() (code int, is bool) {
	r := role(os.Getenv(roleVariable))
	if r == "" {
		return 0, false
	}
	var c *cobra.Command
	switch r {
	case roleCluster:
		c = devcluster.Command()
	case roleBinds:
		c = bindsCommand()
	case roleKube:
		c = kubescheduler.NewSchedulerCommand()
	case roleHeadrace:
		c = command.Scheduler()
	default:
		fmt.Fprintf(os.Stderr, "no role %q\n", r)
		return 2, true
	}
	ctx := context.Background()
	if r != roleKube { // which listens to signals itself
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}
	if r != roleCluster { // which has a flag for that
		go endWithStarter() // ends with the process
	}
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// endWithStarter ends this process when its standard input ends, in order at
// first.
func endWithStarter() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(syscall.SIGTERM)
	}
	time.Sleep(endWithin)
	os.Exit(1)
}
