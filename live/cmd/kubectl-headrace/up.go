package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/internal/sim/model"

	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/devcluster"
	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/upstream"
	"github.com/headrace-dev/headrace/live/usage"
)

// clusterVerb is the hidden verb under which this program runs the cluster, as a
// process of its own.
const clusterVerb = "cluster-process"

// stopClusterWithin is how long the cluster may take to stop before it is killed:
// a little longer than it allows itself.
const stopClusterWithin = 20 * time.Second

// upOptions are the flags of up.
type upOptions struct {
	scenario, policy, dir string
	devices               string
	nodes                 int
	keep, idle, prefetch  bool
	speed                 float64
	from                  time.Duration
}

func upCommand() *cobra.Command {
	o := upOptions{}
	c := &cobra.Command{
		Use: "up", Args: usage.NoArgumentsTo,
		Short: "start a cluster with simulated GPU nodes, the scheduler and a workload",
		Long: "Starts etcd, kube-apiserver and simulated nodes on the loopback interface, the Headrace scheduler, and the\n" +
			"scenario's workload as real pods, faster than life. Shares of a GPU are asked for as whole cards, because the\n" +
			"nodes offer whole cards; with --devices dra they are shares. It runs until it is interrupted or until headrace down, and leaves nothing behind.",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.speed <= 0:
				return usage.Errorf("--speed %v: must be above 0", o.speed)
			case o.from < 0:
				return usage.Errorf("--from %v: must not be negative", o.from)
			case o.nodes < 0:
				return usage.Errorf("--nodes %d: must not be negative", o.nodes)
			case o.devices != devicesPlugin && o.devices != devicesDRA && o.devices != devicesParts:
				return usage.Errorf("--devices %q: must be %s, %s or %s", o.devices, devicesPlugin, devicesDRA, devicesParts)
			}
			return up(c.Context(), &o, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.scenario, "scenario", "hetero", "nodes and workload: "+strings.Join(model.Names(), ", "))
	f.StringVar(&o.policy, "policy", "headrace", "the policy that decides: "+strings.Join(kube.Policies(), ", "))
	f.StringVar(&o.devices, "devices", devicesPlugin, "who offers the GPUs: plugin (the kubelet's device plugin: whole cards), dra (Dynamic Resource Allocation: shares of cards, asked for by annotation) or dra-parts (cards that support MIG whole and in parts, asked for by claims)")
	f.StringVar(&o.dir, "dir", defaultDir(), "where certificates, logs and data go")
	f.IntVar(&o.nodes, "nodes", 0, "how many nodes, mixed as in the scenario (0: as many as it has)")
	f.BoolVar(&o.keep, "keep", false, "leave the directory behind; a later start goes on from there")
	f.BoolVar(&o.idle, "idle", false, "no workload: only the cluster and the scheduler")
	f.BoolVar(&o.prefetch, "prefetch", false, "fetch images to nodes before pods need them")
	f.Float64Var(&o.speed, "speed", 60, "how many times faster than life the workload runs")
	f.DurationVar(&o.from, "from", 9*time.Hour, "the hour of the workload's day to begin at")
	return c
}

// The ways in which nodes offer cards.
const (
	devicesPlugin = "plugin"
	devicesDRA    = "dra"
	devicesParts  = "dra-parts"
)

// up runs everything until the context ends, and stops it in order.
func up(ctx context.Context, o *upOptions, out io.Writer) error {
	work, err := model.Scenario(o.scenario, 0)
	if err != nil {
		return usage.Of(err)
	}
	policy, err := kube.PolicyNamed(o.policy)
	if err != nil {
		return usage.Of(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	if err := refuseSecond(o.dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "starting a cluster in %s\n", o.dir)
	cluster, err := startCluster(ctx, o, out)
	if err != nil || cluster == nil {
		return err
	}
	defer cluster.stop(out)
	// Ends with the cluster.
	go func() { cancel(cluster.wait()) }()
	if err := listenForDown(ctx, o.dir, func() { cancel(nil) }); err != nil {
		return err
	}

	log, err := os.OpenFile(filepath.Join(o.dir, "scheduler.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of the scheduler: %w", err)
	}
	defer log.Close()
	logger := slog.New(slog.NewTextHandler(log, nil))
	klog.SetSlogLogger(logger)
	client, err := kube.Connect(cluster.kubeconfig)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	config := kube.Config{Client: client, Policy: policy, Log: logger, Metrics: kube.NewMetrics(registry), Check: upstream.Check}
	if o.prefetch {
		config.Prefetch = &kube.Prefetching{}
	}
	scheduler := kube.New(config)
	serving := command.Serving{Address: "127.0.0.1:0"}
	address, err := serving.Start(ctx, scheduler, registry, client, logger)
	if err != nil {
		return err
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel(nil)
	// Ends with ctx, or with a failure, which ends ctx.
	parts.Go(func() { cancel(scheduler.Run(ctx)) })
	if o.devices != devicesPlugin {
		if err := admit(ctx, o.dir, client, logger, cancel); err != nil {
			return err
		}
	}
	load := &load{client: client, speed: o.speed, from: o.from, pod: inventory.PodOf}
	if o.devices != devicesPlugin {
		load.pod = inventory.DRAPodOf
	}
	if !o.idle {
		// Ends with ctx, or with a failure, which ends ctx.
		parts.Go(func() {
			if err := load.run(ctx, &work); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	fmt.Fprintf(out, "\nexport KUBECONFIG=%s\nkubectl get pods --watch   # from another terminal; and headrace top, headrace queue, headrace explain pod/NAME\n", cluster.kubeconfig)
	fmt.Fprintf(out, "metrics: http://%s/metrics\n\n", address)
	show(ctx, out, scheduler, load)
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// clusterProcess is the cluster, which runs as a process of its own: what it
// writes stays out of the way, and it stops when this one goes, however that
// happens, because its standard input ends then.
type clusterProcess struct {
	command    *exec.Cmd
	input      io.Closer
	kubeconfig string
	done       chan struct{}
	err        error // how it ended; to be read after done
}

// startCluster starts the cluster process and waits until it can be used. It
// returns nil when the context ends before.
func startCluster(ctx context.Context, o *upOptions, out io.Writer) (*clusterProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{clusterVerb, "--until-eof", "--dir", o.dir, "--scenario", o.scenario, "--nodes", strconv.Itoa(o.nodes), "--devices", o.devices}
	if o.keep {
		args = append(args, "--keep")
	}
	c := &clusterProcess{command: exec.Command(self, args...), done: make(chan struct{})}
	detach(c.command)
	stderr := &tail{}
	c.command.Stderr = stderr
	if c.input, err = c.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	lines := make(chan string)
	// Ends when the cluster's output ends.
	go func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
		if err := c.command.Wait(); err != nil {
			c.err = fmt.Errorf("the cluster ended: %w: %s", err, stderr.text())
		}
		close(c.done)
	}()
	for {
		select {
		case line, open := <-lines:
			if !open {
				<-c.done
				return nil, cmpErr(c.err, errors.New("the cluster ended before it could be used"))
			}
			if path, ready := strings.CutPrefix(line, devcluster.ReadyWord); ready {
				c.kubeconfig = path
				go drain(lines) // ends when the cluster's output ends
				return c, nil
			}
			fmt.Fprintln(out, line)
		case <-ctx.Done():
			go drain(lines) // ends when the cluster's output ends
			c.stop(out)
			return nil, nil
		}
	}
}

func drain(lines <-chan string) {
	for range lines { // to its end
	}
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// wait returns how the cluster ended by itself.
func (c *clusterProcess) wait() error {
	<-c.done
	return cmpErr(c.err, errors.New("the cluster ended"))
}

// stop stops the cluster and waits until it has gone.
func (c *clusterProcess) stop(out io.Writer) {
	fmt.Fprintln(out, "\nstopping the cluster")
	c.input.Close()
	select {
	case <-c.done:
	case <-time.After(stopClusterWithin):
		_ = c.command.Process.Kill()
		<-c.done
	}
}

// tailLength is how much is kept of what the cluster complains about.
const tailLength = 4 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards kept
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-tailLength):]
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
