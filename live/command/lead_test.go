package command

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is one that can always be written, or never.
type lock struct {
	resourcelock.Interface
	err error
}

func (l *lock) Identity() string                                                { return "us" }
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }
func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

// A term lasts from before the last write that succeeded; giving the lock away
// ends it, and a write that failed does not change it.
func TestTerm(t *testing.T) {
	under := &lock{}
	l := &term{Interface: under, holds: time.Minute}
	if got := l.end(); !got.IsZero() {
		t.Errorf("before the first write: the term ends at %v, want never begun", got)
	}
	ours := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}
	before := time.Now()
	if err := l.Create(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	end := l.end()
	if end.Before(before.Add(l.holds)) || end.After(time.Now().Add(l.holds)) {
		t.Errorf("after a write: the term ends %v after it, want %v", end.Sub(before), l.holds)
	}
	under.err = errors.New("no")
	if err := l.Update(t.Context(), ours); err == nil || !l.end().Equal(end) {
		t.Errorf("after a write that failed: error %v, the term ends at %v, want an error and %v", err, l.end(), end)
	}
	under.err = nil
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || !l.end().IsZero() {
		t.Errorf("after giving it away: error %v, the term ends at %v, want it over", err, l.end())
	}
}

// The flags of the election must fit together, and the message names the one that
// does not.
func TestElectionFlags(t *testing.T) {
	for _, c := range []struct {
		lease, renew, retry time.Duration
		want                string
	}{
		{leaseFor, renewWithin, retryEvery, ""},
		{leaseFor, renewWithin, 0, "--leader-elect-retry-period 0s: must be above 0"},
		{leaseFor, retryEvery, retryEvery, "--leader-elect-renew-deadline 2s: must be above 1.2 times the retry period of 2s"},
		{time.Millisecond, time.Microsecond, time.Nanosecond, "--leader-elect-lease-duration 1ms: must be at least 1s"},
		{renewWithin, renewWithin, retryEvery, "--leader-elect-lease-duration 10s: must be above the renew deadline of 10s"},
	} {
		e := election{leaseFor: c.lease, renewWithin: c.renew, retryEach: c.retry}
		got := ""
		if err := e.check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("lease %v, renew %v, retry %v: got %q, want %q", c.lease, c.renew, c.retry, got, c.want)
		}
	}
}

// Two instances never have the same name, also where host and process number are
// the same.
func TestInstancesDiffer(t *testing.T) {
	e := election{}
	client := kubernetes.New(nil)
	one, err := e.term("headrace", client)
	if err != nil {
		t.Fatal(err)
	}
	two, err := e.term("headrace", client)
	if err != nil {
		t.Fatal(err)
	}
	if one.Identity() == two.Identity() {
		t.Errorf("both are %s", one.Identity())
	}
}
