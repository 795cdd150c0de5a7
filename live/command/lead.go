package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/headrace-dev/headrace/live/kube"
)

// The terms of the lease unless flags say otherwise, as upstream's components
// have them.
const (
	leaseFor    = 15 * time.Second
	renewWithin = 10 * time.Second
	retryEvery  = 2 * time.Second
)

// election says how instances take turns.
type election struct {
	on                               bool
	namespace                        string
	leaseFor, renewWithin, retryEach time.Duration
}

// flags adds the flags of the election, which are named as upstream's.
func (e *election) flags(f *pflag.FlagSet) {
	f.BoolVar(&e.on, "leader-elect", false, "take turns with other instances by a Lease")
	f.StringVar(&e.namespace, "leader-elect-namespace", "kube-system", "the namespace of the Lease")
	f.DurationVar(&e.leaseFor, "leader-elect-lease-duration", leaseFor, "how long others wait for a leader that went silent")
	f.DurationVar(&e.renewWithin, "leader-elect-renew-deadline", renewWithin, "how long a leader tries to renew the Lease before it ends; shorter than the lease")
	f.DurationVar(&e.retryEach, "leader-elect-retry-period", retryEvery, "the pause between two tries to get or to renew the Lease")
}

// check names the first flag that cannot be.
func (e *election) check() error {
	switch {
	case e.leaseFor < time.Second: // the Lease counts whole seconds
		return fmt.Errorf("--leader-elect-lease-duration %v: must be at least 1s", e.leaseFor)
	case e.retryEach <= 0:
		return fmt.Errorf("--leader-elect-retry-period %v: must be above 0", e.retryEach)
	case e.renewWithin <= time.Duration(leaderelection.JitterFactor*float64(e.retryEach)):
		return fmt.Errorf("--leader-elect-renew-deadline %v: must be above %v times the retry period of %v", e.renewWithin, leaderelection.JitterFactor, e.retryEach)
	case e.leaseFor <= e.renewWithin:
		return fmt.Errorf("--leader-elect-lease-duration %v: must be above the renew deadline of %v", e.leaseFor, e.renewWithin)
	}
	return nil
}

// term is a lock that knows until when it is surely held: not as long as others
// wait, but as long as its holder would try to renew it, counted from before the
// last write that succeeded. The clock is one that is never set. It stands still
// while the machine sleeps, and then the API server's word comes first.
type term struct {
	resourcelock.Interface
	holds time.Duration
	until atomic.Pointer[time.Time]
}

func (t *term) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	asked := time.Now()
	return t.note(asked, &r, t.Interface.Create(ctx, r))
}

func (t *term) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	asked := time.Now()
	return t.note(asked, &r, t.Interface.Update(ctx, r))
}

func (t *term) note(asked time.Time, r *resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		until := time.Time{}
		if r.HolderIdentity == t.Identity() {
			until = asked.Add(t.holds)
		}
		t.until.Store(&until)
	}
	return err
}

// end returns until when the lock is surely held.
func (t *term) end() time.Time {
	if until := t.until.Load(); until != nil {
		return *until
	}
	return time.Time{}
}

// term returns the lock of this instance. Its name is drawn: host and process
// number are the same for two containers that share the network of their node.
func (e *election) term(name string, client kubernetes.Interface) (*term, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this instance: %w", err)
	}
	return &term{holds: e.renewWithin, Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name},
		Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}}, nil
}

// lead schedules while this instance holds the lease. Who loses it ends at once:
// another one may be scheduling already. Who is told to stop lets the binds in
// flight come to their end, and then gives the lease away.
func (e *election) lead(ctx context.Context, name string, lock *term, log *slog.Logger, s *kube.Scheduler) error {
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	elect, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	led := make(chan error, 1)
	var leads atomic.Bool
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: e.leaseFor, RenewDeadline: e.renewWithin, RetryPeriod: e.retryEach, ReleaseOnCancel: true, Name: name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				leads.Store(true)
				log.Info("leading", "identity", lock.Identity())
				led <- s.Run(work)
				release()
			},
			OnStoppedLeading: func() {
				stopWork(kube.ErrDisplaced)
				log.Info("not leading any more", "identity", lock.Identity())
			},
		},
	})
	if err != nil {
		return fmt.Errorf("set up the election: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		stopWork(nil)
		if !leads.Load() {
			release()
		}
	})
	defer stop()
	elector.Run(elect)
	if leads.Load() {
		err = <-led
	}
	if err == nil && ctx.Err() == nil {
		err = errLeaseLost
	}
	return err
}

// errLeaseLost ends an instance that may have been replaced.
var errLeaseLost = errors.New("the lease is lost")
