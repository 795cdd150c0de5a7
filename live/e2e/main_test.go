// Package e2e shows the scheduler at work against a real API server, which the
// tests start themselves: one cluster for the whole package, without nodes of
// its own. The cluster runs as a process of its own, from this very test binary,
// and so do schedulers that are to be killed.
package e2e

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/headrace-dev/headrace/live/devcluster"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/measure"
)

// clusterProcess is the variable that makes this binary the cluster.
const clusterProcess = "HEADRACE_E2E_CLUSTER"

// client and objects talk to the cluster, whose kubeconfig lies at kubeconfig; all
// are set once, before the first test.
var (
	client     kubernetes.Interface
	objects    dynamic.Interface
	kubeconfig string
)

func TestMain(m *testing.M) {
	if code, is := measure.Role(); is {
		os.Exit(code)
	}
	switch {
	case os.Getenv(clusterProcess) != "":
		os.Exit(beCluster(os.Args[1:]))
	case os.Getenv(schedulerProcess) != "":
		os.Exit(beScheduler(os.Args[1:]))
	}
	flag.Parse()
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// beCluster runs the cluster until the tests have gone.
func beCluster(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := devcluster.Command()
	c.SetArgs(args)
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: the cluster:", err)
		return 1
	}
	return 0
}

// clusterOf is the cluster in a process of its own. Its directory is kept when it
// is killed, so that it can be started again.
type clusterOf struct {
	dir     string
	port    string // of the API server; 0 before the first start
	command *exec.Cmd
	input   io.Closer
}

// theCluster is the one of all tests.
var theCluster *clusterOf

// withCluster runs something while there is a cluster.
func withCluster(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "headrace-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	theCluster = &clusterOf{dir: dir, port: "0"}
	if err := theCluster.start(); err != nil {
		return 1, err
	}
	defer theCluster.kill()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 1, err
	}
	if _, theCluster.port, err = net.SplitHostPort(strings.TrimPrefix(config.Host, "https://")); err != nil {
		return 1, err
	}
	if client, err = kube.Connect(kubeconfig); err != nil {
		return 1, err
	}
	if objects, err = kube.ConnectDynamic(kubeconfig); err != nil {
		return 1, err
	}
	return run(), nil
}

// start starts the cluster and waits until it can be used.
func (c *clusterOf) start() error {
	c.command = exec.Command(os.Args[0], "--bare", "--until-eof", "--keep", "--dir", c.dir, "--port", c.port)
	c.command.Env = append(os.Environ(), clusterProcess+"=1")
	c.command.Stderr = os.Stderr
	var err error
	if c.input, err = c.command.StdinPipe(); err != nil {
		return err
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.command.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if path, ready := strings.CutPrefix(lines.Text(), devcluster.ReadyWord); ready {
			kubeconfig = path
			return nil
		}
	}
	c.kill()
	return errors.New("the cluster ended before it could be used")
}

// kill ends the cluster at once, as a power cut of its machine would.
func (c *clusterOf) kill() {
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
	c.input.Close()
}
