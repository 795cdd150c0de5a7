// Command headrace-scheduler schedules the pods of a Kubernetes cluster that
// name it.
//
// Exit codes: 0 it was told to stop, 1 something went wrong, 2 the command line
// is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/live/kube"
)

// options are the flags.
type options struct {
	kubeconfig, name, policy, gpu, serve, namespace string
	elect, verbose                                  bool
}

// The terms of the lease, as upstream's components have them.
const (
	leaseFor    = 15 * time.Second
	renewWithin = 10 * time.Second
	retryEvery  = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "headrace-scheduler:", err)
	var wrong usageError
	if errors.As(err, &wrong) {
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is a fault in the command line.
type usageError struct{ error }

func command() *cobra.Command {
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
	f.BoolVar(&o.elect, "leader-elect", false, "take turns with other instances by a Lease")
	f.StringVar(&o.namespace, "leader-elect-namespace", "kube-system", "the namespace of the Lease")
	f.BoolVar(&o.verbose, "verbose", false, "log debug messages too")
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
	client, err := kube.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := kube.New(kube.Config{
		Client: client, Name: o.name, Policy: policy, GPU: corev1.ResourceName(o.gpu), Log: log, Metrics: kube.NewMetrics(registry),
	})
	l, err := net.Listen("tcp", o.serve)
	if err != nil {
		return fmt.Errorf("serve health and metrics: %w", err)
	}
	server := &http.Server{Handler: s.Handler(registry), ReadHeaderTimeout: renewWithin}
	// Ends when the listener is closed.
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	log.Info("serving health, readiness and metrics", "address", l.Addr().String())
	if o.elect {
		return lead(ctx, o, client, log, s)
	}
	return s.Run(ctx)
}

// lead schedules while this instance holds the lease. Who loses it ends: another
// one may be scheduling already.
func lead(ctx context.Context, o *options, client kubernetes.Interface, log *slog.Logger, s *kube.Scheduler) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this instance: %w", err)
	}
	identity := fmt.Sprintf("%s-%d", host, os.Getpid())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name},
			Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseFor, RenewDeadline: renewWithin, RetryPeriod: retryEvery, ReleaseOnCancel: true, Name: o.name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) {
				log.Info("leading", "identity", identity)
				err := s.Run(term)
				if err == nil && ctx.Err() == nil {
					err = errLeaseLost
				}
				cancel(err)
			},
			OnStoppedLeading: func() { log.Info("not leading any more", "identity", identity) },
		},
	})
	if err != nil {
		return fmt.Errorf("set up the election: %w", err)
	}
	elector.Run(ctx)
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// errLeaseLost ends an instance that may have been replaced.
var errLeaseLost = errors.New("the lease is lost")
