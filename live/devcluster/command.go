package devcluster

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/sim/model"

	"github.com/headrace-dev/headrace/live/usage"
)

// ReadyWord begins the line that says where the kubeconfig of a cluster that can
// be used lies.
const ReadyWord = "kubeconfig: "

// Command returns the command that runs a cluster until its context ends.
func Command() *cobra.Command {
	o := Options{}
	untilEOF, devices := false, devicesPlugin
	c := &cobra.Command{
		Use: "headrace-devcluster", Short: "run a Kubernetes cluster with simulated GPU nodes in one process",
		SilenceErrors: true, SilenceUsage: true,
		Args: usage.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			if untilEOF {
				// Ends when the starter has gone, or with the process.
				go func() {
					_, _ = io.Copy(io.Discard, c.InOrStdin())
					cancel()
				}()
			}
			if devices != devicesPlugin && devices != devicesDRA && devices != devicesParts {
				return usage.Errorf("--devices %q: must be %s, %s or %s", devices, devicesPlugin, devicesDRA, devicesParts)
			}
			o.DRA, o.Parts = devices == devicesDRA, devices == devicesParts
			return runCommand(ctx, &o, c.OutOrStdout())
		},
	}
	c.SetFlagErrorFunc(usage.Flag)
	f := c.Flags()
	f.StringVar(&o.Scenario, "scenario", "hetero", "whose nodes to simulate: "+strings.Join(model.Names(), ", "))
	f.IntVar(&o.Nodes, "nodes", 0, "how many nodes, mixed as in the scenario (0: as many as it has)")
	f.StringVar(&o.Dir, "dir", "", "where certificates, logs and data go (default: a new temporary directory)")
	f.StringVar(&devices, "devices", devicesPlugin, "who offers the cards of the nodes: plugin (the kubelet's device plugin: whole ones), dra (a driver of Dynamic Resource Allocation: shares, too) or dra-parts (cards with MIG in parts)")
	f.BoolVar(&o.Keep, "keep", false, "leave the directory behind; a later start goes on from there")
	f.BoolVar(&o.Bare, "bare", false, "no simulated nodes and no node controllers")
	f.IntVar(&o.Port, "port", 0, "where kube-apiserver listens (0: any free port)")
	f.BoolVar(&untilEOF, "until-eof", false, "stop as well when standard input ends")
	return c
}

// The ways to offer cards.
const (
	devicesPlugin = "plugin"
	devicesDRA    = "dra"
	devicesParts  = "dra-parts"
)

func runCommand(ctx context.Context, o *Options, out io.Writer) error {
	if o.Nodes < 0 {
		return usage.Errorf("--nodes %d: must not be negative", o.Nodes)
	}
	if o.Port < 0 || o.Port > math.MaxUint16 {
		return usage.Errorf("--port %d: must be 0 to %d", o.Port, math.MaxUint16)
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "headrace-devcluster-")
		if err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		o.Dir = dir
	}
	started := time.Now()
	o.Progress = func(what string) {
		fmt.Fprintf(out, "%4.1f s  starting %s\n", time.Since(started).Seconds(), what)
	}
	return Run(ctx, *o, func(c *Cluster) {
		fmt.Fprintf(out, "%4.1f s  ready: %s, %d nodes, logs in %s\n", time.Since(started).Seconds(), c.Server, c.Nodes, filepath.Dir(c.Kubeconfig))
		fmt.Fprintln(out, ReadyWord+c.Kubeconfig)
	})
}
