package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/live/kube"
)

// headerTimeout bounds how long a client of the health server may take to ask.
const headerTimeout = 10 * time.Second

// options are the flags.
type options struct {
	kubeconfig, name, policy, gpu, serve string
	record                               string
	recordLimit                          int64
	preemption, verbose, ledger          bool
	election                             election
}

// usageError is a fault in the command line.
type usageError struct{ error }

// ExitCode returns 0 for no error, 2 for a fault in the command line, else 1.
func ExitCode(err error) int {
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return 2
	}
	return 1
}

// Scheduler returns the command that schedules until its context ends.
func Scheduler() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "headrace-scheduler", Short: "schedule the pods of a Kubernetes cluster that name it",
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("no arguments are taken, got %q", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), &o) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig; without one, the pod's own service account")
	f.StringVar(&o.name, "scheduler-name", kube.DefaultName, "take the pods with this schedulerName")
	f.StringVar(&o.policy, "policy", "headrace", "the policy that decides: "+strings.Join(kube.Policies(), ", "))
	f.StringVar(&o.gpu, "gpu-resource", string(kube.DefaultGPU), "the extended resource under which nodes offer GPUs")
	f.StringVar(&o.serve, "serve", "127.0.0.1:10270", "where health, readiness and metrics are served")
	f.BoolVar(&o.preemption, "preemption", true, "evict pods of lower priority for one that has no room, within their disruption budgets")
	f.StringVar(&o.record, "record", "", "write a journal to this file, for headrace replay; compressed when it ends in .gz")
	f.Int64Var(&o.recordLimit, "record-limit", kube.DefaultRecordLimit, "end the journal at so many bytes of text")
	f.BoolVar(&o.verbose, "verbose", false, "log debug messages too")
	f.BoolVar(&o.ledger, "serve-ledger", false, "serve what the scheduler believes of every pod and node at /debug/ledger, to this machine only")
	o.election.flags(f)
	return c
}

// run wires the parts and schedules until the context ends.
func run(ctx context.Context, o *options) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log)
	policy, err := kube.PolicyNamed(o.policy)
	if err != nil {
		return usageError{err}
	}
	if err := o.election.check(); err != nil {
		return usageError{err}
	}
	if o.recordLimit <= 0 {
		return usageError{fmt.Errorf("--record-limit %d: must be above 0", o.recordLimit)}
	}
	client, err := kube.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := kube.New(kube.Config{
		Client: client, Name: o.name, Policy: policy, GPU: corev1.ResourceName(o.gpu), Log: log, Metrics: kube.NewMetrics(registry),
		Preemption: o.preemption, Record: o.record, RecordLimit: o.recordLimit,
	})
	l, err := net.Listen("tcp", o.serve)
	if err != nil {
		return fmt.Errorf("serve health and metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler(registry))
	if o.ledger {
		mux.Handle("/debug/ledger", s.LedgerHandler())
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	// Ends when the server is closed.
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	log.Info("serving health, readiness and metrics", "address", l.Addr().String())
	if o.election.on {
		return o.election.lead(ctx, o.name, client, log, s)
	}
	return s.Run(ctx)
}
