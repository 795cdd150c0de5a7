package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The slope of a drain is taken between these shares of the pods, in per cent:
// starting up and the last stragglers are not the rate.
const slopeFrom, slopeTo = 5, 95

// settle is the pause between deleting the pods of one phase and the next.
const settle = time.Second

// Drain is what a backlog of pods showed that was there before the scheduler.
type Drain struct {
	Pods  int `json:"pods"`
	Bound int `json:"bound"`
	// CreatedPerSecond is how fast the pods were created, nobody binding them.
	CreatedPerSecond float64 `json:"created_per_s"`
	// PerSecond is the slope between 5 % and 95 %, TotalPerSecond the whole from
	// the start of the process to the last bind.
	PerSecond      float64 `json:"bound_per_s"`
	TotalPerSecond float64 `json:"total_bound_per_s"`
	// CPU in milliseconds per pod: of the scheduler within the slope and from its
	// start on, and of the API server within the slope.
	SchedulerCPUms      float64 `json:"scheduler_cpu_ms_per_pod,omitempty"`
	SchedulerCPUTotalMs float64 `json:"scheduler_cpu_total_ms_per_pod,omitempty"`
	ServerCPUms         float64 `json:"server_cpu_ms_per_pod,omitempty"`
}

// Steady is what pods showed that came at a steady rate.
type Steady struct {
	Pods  int `json:"pods"`
	Bound int `json:"bound"`
	// OfferedPerSecond is the rate that was asked for, CreatedPerSecond what the
	// API server took.
	OfferedPerSecond int     `json:"offered_per_s"`
	CreatedPerSecond float64 `json:"created_per_s"`
	// From sending the creation of a pod to seeing it bound.
	P50ms float64 `json:"p50_ms"`
	P99ms float64 `json:"p99_ms"`
	MaxMs float64 `json:"max_ms"`
	// CPU of the scheduler in milliseconds per pod.
	SchedulerCPUms float64 `json:"scheduler_cpu_ms_per_pod,omitempty"`
}

// Run is one arm in one round.
type Run struct {
	Nodes int    `json:"nodes"`
	Round int    `json:"round"`
	Arm   string `json:"arm"`
	// Failure says why figures are missing.
	Failure string  `json:"failure,omitempty"`
	Drain   *Drain  `json:"drain,omitempty"`
	Steady  *Steady `json:"steady,omitempty"`
	// The most memory the processes were seen with, in MiB.
	SchedulerMiB float64 `json:"scheduler_peak_mib,omitempty"`
	ServerMiB    float64 `json:"server_peak_mib,omitempty"`
}

// measure lets one arm bind a backlog, then what comes steadily.
func (p *plant) measure(ctx context.Context, o *Options, a arm, id string) (*Run, error) {
	r := &Run{Nodes: p.nodes, Arm: a.name}
	if p.server != nil {
		p.server.forgetPeak()
	}
	backlog := &load{plant: p, arm: a, run: id + "-d", pods: o.Pods / o.Group * o.Group, size: o.Group}
	scheduler, err := p.drain(ctx, o, backlog, r)
	if err == nil && r.Failure == "" && o.Rate > 0 {
		pods := int(o.For.Seconds()*float64(o.Rate)) / o.Group * o.Group
		err = p.steady(ctx, o, &load{plant: p, arm: a, run: id + "-s", pods: pods, size: o.Group}, scheduler, r)
	}
	if scheduler != nil {
		r.SchedulerMiB = mebibytes(scheduler.peak.Load())
		scheduler.stop()
	}
	if p.server != nil {
		r.ServerMiB = mebibytes(p.server.peak.Load())
	}
	return r, err
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// schedule starts the scheduler of an arm.
func (p *plant) schedule(a arm) (*process, error) {
	name := prefix + a.name
	switch a.role {
	case roleKube:
		path := filepath.Join(p.dir, a.name+".yaml")
		if err := os.WriteFile(path, []byte(kubeConfiguration(&a, p.kubeconfig)), 0o600); err != nil {
			return nil, fmt.Errorf("write the configuration of kube-scheduler: %w", err)
		}
		args := []string{"--config=" + path, "--secure-port=0"}
		if a.gates != "" {
			args = append(args, "--feature-gates="+a.gates)
		}
		return start(a.role, p.dir, nil, args...)
	case roleHeadrace:
		return start(a.role, p.dir, nil, "--kubeconfig="+p.kubeconfig, "--scheduler-name="+name, "--serve=127.0.0.1:0")
	default:
		return start(a.role, p.dir, nil, "--kubeconfig="+p.kubeconfig, "--scheduler-name="+name)
	}
}

// drain creates the pods, then starts the scheduler, and measures how fast it
// binds them. The scheduler runs on.
func (p *plant) drain(ctx context.Context, o *Options, l *load, r *Run) (*process, error) {
	began := time.Now()
	if err := l.createAll(ctx); err != nil {
		return nil, err
	}
	d := &Drain{Pods: l.pods, CreatedPerSecond: perSecond(l.pods, time.Since(began))}
	time.Sleep(settle)
	w, err := observe(ctx, l)
	if err != nil {
		return nil, err
	}
	defer w.stop()
	began = time.Now()
	scheduler, err := p.schedule(l.arm)
	if err != nil {
		return nil, err
	}
	seen, err := w.run(ctx, scheduler, []int{l.pods * slopeFrom / 100, l.pods * slopeTo / 100, l.pods}, o.Stall)
	if err != nil {
		return scheduler, l.failed(ctx, err, r)
	}
	if d.Bound = seen.count; d.Bound < d.Pods {
		r.Failure = fmt.Sprintf("%d of %d pods bound, then none for %v: %s", d.Bound, d.Pods, o.Stall, because(ctx, l))
		if d.Bound == 0 {
			r.Failure = "not supported: " + because(ctx, l)
		}
		return scheduler, l.clear(ctx)
	}
	from, to, last := seen.marks[0], seen.marks[1], seen.marks[2]
	n := to.bound - from.bound
	d.PerSecond = perSecond(n, to.at.Sub(from.at))
	d.TotalPerSecond = perSecond(d.Bound, last.at.Sub(began))
	d.SchedulerCPUms = perPod(to.scheduler-from.scheduler, n)
	d.SchedulerCPUTotalMs = perPod(last.scheduler, d.Bound)
	d.ServerCPUms = perPod(to.server-from.server, n)
	r.Drain = d
	return scheduler, l.clear(ctx)
}

// failed notes that the scheduler of an arm has ended by itself: the other arms
// are measured all the same. Other errors end the measurement.
func (l *load) failed(ctx context.Context, err error, r *Run) error {
	var ended endedError
	if !errors.As(err, &ended) {
		return err
	}
	r.Failure = ended.Error()
	return l.clear(ctx)
}

// steady creates pods at a rate and measures how long each takes to be bound.
func (p *plant) steady(ctx context.Context, o *Options, l *load, scheduler *process, r *Run) error {
	time.Sleep(settle)
	w, err := observe(ctx, l)
	if err != nil {
		return err
	}
	defer w.stop()
	creating, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		sent    = make([]time.Time, l.pods) // by pod; each is written once, before created is closed
		created = make(chan error, 1)
		before  = scheduler.cpu()
		began   = time.Now()
		took    time.Duration
	)
	go func() { // ends with its work, or with creating
		err := l.createAt(creating, o.Rate, func(i int) { sent[i] = time.Now() })
		took = time.Since(began)
		created <- err
	}()
	seen, err := w.run(ctx, scheduler, nil, o.Stall)
	if err != nil {
		cancel()
		<-created
		return l.failed(ctx, err, r)
	}
	if err := <-created; err != nil {
		return err
	}
	s := &Steady{Pods: l.pods, Bound: seen.count, OfferedPerSecond: o.Rate, CreatedPerSecond: perSecond(l.pods, took)}
	if s.Bound < s.Pods {
		r.Failure = fmt.Sprintf("steady: %d of %d pods bound, then none for %v: %s", s.Bound, s.Pods, o.Stall, because(ctx, l))
		return l.clear(ctx)
	}
	s.SchedulerCPUms = perPod(scheduler.cpu()-before, s.Bound)
	var waits []time.Duration
	for i := range sent {
		waits = append(waits, seen.bound[i].Sub(sent[i]))
	}
	slices.Sort(waits)
	s.P50ms, s.P99ms, s.MaxMs = milliseconds(waits[len(waits)*50/100]), milliseconds(waits[len(waits)*99/100]), milliseconds(waits[len(waits)-1])
	r.Steady = s
	return l.clear(ctx)
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func perPod(d time.Duration, n int) float64 {
	if n <= 0 {
		return 0
	}
	return milliseconds(d) / float64(n)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
