package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
	"github.com/headrace-dev/headrace/live/kube/upstream"
	"github.com/headrace-dev/headrace/live/usage"
)

// gcPercent is how far the heap may grow between collections, unless GOGC says so.
// It is a few tens of MiB, most of the memory is the program; and where scheduler
// and API server share a machine, every core that collects is one less that binds.
const gcPercent = 400

// options are the flags.
type options struct {
	kubeconfig, name, policy, gpu        string
	profiles, topology                   []string
	record, tiers, reserve, tidy         string
	slas                                 []string
	startTimes, surge                    bool
	recordLimit                          int64
	events, logFormat                    string
	preemption, verbose, ledger, beliefs bool
	lastCheck                            bool
	serving                              Serving
	election                             election
	admitting                            admitting
	caching                              caching
}

// Scheduler returns the command that schedules until its context ends.
func Scheduler() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "headrace-scheduler", Short: "schedule the pods of a Kubernetes cluster that name it",
		SilenceErrors: true, SilenceUsage: true,
		Args: usage.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := o.config(c)
			if err != nil {
				return usage.Of(err)
			}
			return run(c.Context(), &o, config)
		},
	}
	c.SetFlagErrorFunc(usage.Flag)
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig; without one, the pod's own service account")
	f.StringVar(&o.name, "scheduler-name", kube.DefaultName, "take the pods with this schedulerName")
	f.StringVar(&o.policy, "policy", "headrace", "the policy that decides: "+strings.Join(kube.Policies(), ", "))
	f.StringVar(&o.gpu, "gpu-resource", string(kube.DefaultGPU), "the extended resource under which nodes offer GPUs")
	f.StringArrayVar(&o.profiles, "profile", nil, "NAME=POLICY: take the pods with this schedulerName by this policy; may be given several times, instead of --scheduler-name and --policy")
	f.StringArrayVar(&o.topology, "topology-label", nil, "LEVEL=LABEL[,LABEL]: the labels of nodes that say which rack, zone or region they are in (the first that a node has counts), or that all their cards are of one NVLink island; may be given once for each level; rack="+strings.Join(facts.DefaultLevels().Rack, ",")+" unless set")
	f.BoolVar(&o.beliefs, "keep-beliefs", true, "keep what was learned in the ConfigMap "+kube.BeliefsName+" of the Lease's namespace, for the next start")
	f.BoolVar(&o.preemption, "preemption", true, "evict pods of lower priority for one that has no room, within their disruption budgets")
	f.StringVar(&o.tiers, "run-tiers", "", "how long work that saves its state runs before it is set back behind work of its queue and priority that has run for less, as 1h,16h; none for never (default: as the policy has it, which is 1h,16h for headrace)")
	f.StringVar(&o.reserve, "reserve", kube.ReserveModes()[engine.ReserveOff], "for whom room is reserved that cannot start yet: off, head (the first of each queue), all; others start in it where they end before")
	f.StringVar(&o.tidy, "tidy", kube.TidyModes()[0], "move running pods that their owners make anew, where that makes room which is worth more than the moves: off, waiting (for who waits), nodes (leave nodes empty), demand (for who is expected), all")
	f.BoolVar(&o.surge, "surge", false, "with --tidy: replace pods of Deployments whose template has the annotation "+facts.Surge+"=true: the Deployment is scaled up by one, and down again when the next pod is ready")
	f.BoolVar(&o.startTimes, "start-times", false, "work out, every ten seconds, when those who wait are expected to start")
	f.StringArrayVar(&o.slas, "sla-class", nil, "NAME:total=6h,per-run=3,gives=first|normal|last|never,lends=no,from-priority=N: an SLA class, or other terms for one of "+strings.Join(classNames(), ", ")+"; what is not said stays; may be given several times")
	f.StringVar(&o.record, "record", "", "write a journal to this file, for headrace replay; compressed when it ends in .gz")
	f.Int64Var(&o.recordLimit, "record-limit", kube.DefaultRecordLimit, "end the journal at so many bytes of text")
	f.StringVar(&o.events, "events", kube.EventModes()[kube.EventsOnChange], "which events are written on pods: changes (of the reason why one waits), all (those placed, too), none")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.BoolVar(&o.lastCheck, "last-check", true, "ask kube-scheduler's own filters before each bind, and about volumes; without it pods with volumes that tie them to nodes are not placed")
	f.BoolVar(&o.verbose, "verbose", false, "log debug messages too")
	f.BoolVar(&o.ledger, "serve-ledger", false, "serve what the scheduler believes of every pod and node at /debug/ledger, to this machine only")
	o.serving.flags(f)
	o.election.flags(f)
	o.admitting.flags(f)
	o.caching.flags(f)
	return c
}

// config checks the flags and turns them into what the scheduler takes.
func (o *options) config(c *cobra.Command) (kube.Config, error) {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	to := &slog.HandlerOptions{Level: level}
	out := kube.Config{
		Name: o.name, GPU: corev1.ResourceName(o.gpu), Namespace: o.election.namespace,
		Preemption: o.preemption, Record: o.record, RecordLimit: o.recordLimit, ServeLedger: o.ledger,
	}
	if o.lastCheck {
		out.Check = upstream.Check
	}
	switch o.logFormat {
	case "text":
		out.Log = slog.New(slog.NewTextHandler(os.Stderr, to))
	case "json":
		out.Log = slog.New(slog.NewJSONHandler(os.Stderr, to))
	default:
		return out, fmt.Errorf("--log-format %q: must be text or json", o.logFormat)
	}
	var err error
	if out.Events, err = kube.EventModeNamed(o.events); err != nil {
		return out, fmt.Errorf("--events: %w", err)
	}
	if len(o.profiles) > 0 && (c.Flags().Changed("scheduler-name") || c.Flags().Changed("policy")) {
		return out, errors.New("--profile replaces --scheduler-name and --policy: give either")
	}
	if out.Profiles, err = kube.ParseProfiles(o.profiles); err != nil {
		return out, fmt.Errorf("--profile: %w", err)
	}
	if out.Levels, err = facts.ParseLevels(o.topology); err != nil {
		return out, fmt.Errorf("--topology-label: %w", err)
	}
	if out.Policy, err = kube.PolicyNamed(o.policy); err != nil {
		return out, err
	}
	if out.Tiers, err = parseTiers(o.tiers); err != nil {
		return out, err
	}
	mode := slices.Index(kube.ReserveModes(), o.reserve)
	if mode < 0 {
		return out, fmt.Errorf("--reserve %q: must be %s", o.reserve, strings.Join(kube.ReserveModes(), ", "))
	}
	if out.Tidy, err = kube.TidyNamed(o.tidy, o.surge); err != nil {
		return out, fmt.Errorf("--tidy %w", err)
	}
	if o.surge && out.Tidy == nil {
		return out, errors.New("--surge: without --tidy nobody moves")
	}
	out.Reserve, out.StartTimes = engine.Reserve(mode), o.startTimes
	if out.SLAs, err = parseSLAs(o.slas); err != nil {
		return out, err
	}
	switch {
	case out.Tiers != nil && len(*out.Tiers) > 0 && !o.preemption:
		return out, fmt.Errorf("--run-tiers %s: without --preemption nobody is set back", o.tiers)
	case o.recordLimit <= 0:
		return out, fmt.Errorf("--record-limit %d: must be above 0", o.recordLimit)
	case o.record != "" && len(o.profiles) > 1:
		return out, fmt.Errorf("--record %s: a journal holds the decisions of one policy, and there are %d profiles", o.record, len(o.profiles))
	}
	if err := o.serving.check(); err != nil {
		return out, err
	}
	if err := o.admitting.check(); err != nil {
		return out, err
	}
	if err := o.caching.config(&out); err != nil {
		return out, err
	}
	return out, o.election.check()
}

// run wires the parts and schedules until the context ends.
func run(ctx context.Context, o *options, config kube.Config) error {
	log := config.Log
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	klog.SetSlogLogger(log)
	client, err := kube.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	objects, err := kube.ConnectDynamic(o.kubeconfig)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.beliefs {
		config.BeliefsNamespace = o.election.namespace
	}
	config.Client, config.Dynamic, config.Metrics = client, objects, kube.NewMetrics(registry)
	var lock *term
	if o.election.on {
		if lock, err = o.election.term(config.Title(), client); err != nil {
			return err
		}
		config.Term = lock.end
	}
	s := kube.New(config)
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop() // only now: it drains what is in flight first
	if _, err := o.serving.Start(serve, s, registry, client, log); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	o.admitting.start(serve, client, log, fail)
	if o.election.on {
		err = o.election.lead(ctx, s.Name(), lock, log, s)
	} else {
		err = s.Run(ctx)
	}
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause // admission could not be served
	}
	return err
}

// parseTiers reads --run-tiers; nil where it says nothing.
func parseTiers(text string) (*rank.Tiers, error) {
	switch text {
	case "":
		return nil, nil
	case "none":
		return &rank.Tiers{}, nil
	}
	var out rank.Tiers
	for _, part := range strings.Split(text, ",") {
		span, err := time.ParseDuration(strings.TrimSpace(part))
		end := moment.Span(span / time.Microsecond)
		if err != nil || end <= 0 || len(out) > 0 && end <= out[len(out)-1] {
			return nil, fmt.Errorf("--run-tiers %s: %q: must be times above 0 as 1h or 30m, each longer than the one before, or none", text, part)
		}
		out = append(out, end)
	}
	return &out, nil
}
