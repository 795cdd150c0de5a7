package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// skewMost is how far our clock and that of the API server may be apart: leases
	// and waiting times are compared across machines.
	skewMost = 5 * time.Second
	// clockEvery is how often the clocks are compared.
	clockEvery = time.Hour
)

// checkClock compares our clock with that of the API server now and then, until
// the context ends.
func (s *Scheduler) checkClock(ctx context.Context) {
	for {
		skew, err := s.skew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.config.Log.Debug("the clocks were not compared", "because", err)
		default:
			s.config.Metrics.skew(skew)
			if skew.Abs() > skewMost {
				s.config.Log.Warn("the clock of this machine and that of the API server are apart; set both by a time server", "ahead", skew.Round(time.Second), "allowed", skewMost)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(clockEvery):
		}
	}
}

// errNoDate says that an answer had no date.
var errNoDate = errors.New("the answer has no date")

// skew is how far our clock is ahead of the API server's. An answer's date has
// whole seconds, so less than a second means nothing.
func (s *Scheduler) skew(ctx context.Context) (time.Duration, error) {
	c, ok := s.config.Client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || c == nil || c.Client == nil {
		return 0, errNoDate
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return 0, fmt.Errorf("ask for the time: %w", err)
	}
	asked := time.Now()
	answer, err := c.Client.Do(q)
	if err != nil {
		return 0, fmt.Errorf("ask for the time: %w", err)
	}
	answer.Body.Close()
	return skewOf(answer.Header.Get("Date"), asked, time.Now())
}

// skewOf is how far a clock that showed asked and heard before and after is ahead
// of the one that wrote the date.
func skewOf(date string, asked, heard time.Time) (time.Duration, error) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return 0, errNoDate
	}
	ours := asked.Add(heard.Sub(asked) / 2)
	// The date was cut to a second: on average it was half a second later.
	return ours.Sub(theirs.Add(time.Second / 2)), nil
}
