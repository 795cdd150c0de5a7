package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	case e.retryEach <= 0:
		return fmt.Errorf("--leader-elect-retry-period %v: must be above 0", e.retryEach)
	case e.renewWithin <= time.Duration(leaderelection.JitterFactor*float64(e.retryEach)):
		return fmt.Errorf("--leader-elect-renew-deadline %v: must be above %v times the retry period of %v", e.renewWithin, leaderelection.JitterFactor, e.retryEach)
	case e.leaseFor <= e.renewWithin:
		return fmt.Errorf("--leader-elect-lease-duration %v: must be above the renew deadline of %v", e.leaseFor, e.renewWithin)
	}
	return nil
}

// lead schedules while this instance holds the lease. Who loses it ends: another
// one may be scheduling already.
func (e *election) lead(ctx context.Context, name string, client kubernetes.Interface, log *slog.Logger, s *kube.Scheduler) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this instance: %w", err)
	}
	identity := fmt.Sprintf("%s-%d", host, os.Getpid())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name},
			Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: e.leaseFor, RenewDeadline: e.renewWithin, RetryPeriod: e.retryEach, ReleaseOnCancel: true, Name: name,
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
