// Package e2e shows the scheduler at work against a real API server, which the
// tests start themselves: one cluster for the whole package, without nodes of
// its own. The cluster runs as a process of its own, from this very test binary.
package e2e

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/live/devcluster"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/measure"
)

const (
	// clusterProcess is the variable that makes this binary the cluster.
	clusterProcess = "HEADRACE_E2E_CLUSTER_DIR"
	// stopWithin is how long the cluster may take to stop.
	stopWithin = 20 * time.Second
)

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
	if dir := os.Getenv(clusterProcess); dir != "" {
		os.Exit(beCluster(dir))
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
func beCluster(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := devcluster.Command()
	c.SetArgs([]string{"--bare", "--until-eof", "--dir", dir})
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: the cluster:", err)
		return 1
	}
	return 0
}

// withCluster runs something while there is a cluster.
func withCluster(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "headrace-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), clusterProcess+"="+dir)
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		return 1, err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := c.Start(); err != nil {
		return 1, err
	}
	defer func() {
		input.Close()
		kill := time.AfterFunc(stopWithin, func() { _ = c.Process.Kill() })
		_ = c.Wait()
		kill.Stop()
	}()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if path, ready := strings.CutPrefix(lines.Text(), devcluster.ReadyWord); ready {
			kubeconfig = path
			if client, err = kube.Connect(path); err != nil {
				return 1, err
			}
			if objects, err = kube.ConnectDynamic(path); err != nil {
				return 1, err
			}
			return run(), nil
		}
	}
	return 1, fmt.Errorf("the cluster ended before it could be used")
}
