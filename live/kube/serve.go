package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headrace-dev/headrace/live/explain"
)

const (
	// aliveWithin is how long the owner of the world may be silent: a cycle over ten
	// thousand nodes takes a second or two.
	aliveWithin = 30 * time.Second
	// answerWithin bounds the wait for the owner of the world, who may be thinking.
	answerWithin = 10 * time.Second
	// explainAtOnce bounds the questions that are answered at the same time: each
	// holds on to a snapshot and reads all nodes.
	explainAtOnce = 4
	// listLimit is how many entries a list has unless asked otherwise, listMost how
	// many it may have.
	listLimit, listMost = 1000, 100_000
)

// Handler serves /healthz, /readyz, /metrics and the explanations. A standby,
// which waits to become the leader, is healthy and not ready.
func (s *Scheduler) Handler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	check := func(amiss func() string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if bad := amiss(); bad != "" {
				http.Error(w, bad, http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		}
	}
	mux.HandleFunc("GET /healthz", check(func() string {
		if s.beaten.Load() == 0 || s.Alive(aliveWithin) {
			return ""
		}
		return "the scheduler does not answer"
	}))
	mux.HandleFunc("GET /readyz", check(s.unready))
	if s.config.ServeLedger {
		mux.Handle("GET /debug/ledger", s.LedgerHandler())
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	places := make(chan struct{}, explainAtOnce)
	explained := func(answer func(context.Context, *http.Request) (any, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
			defer cancel()
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				reply(w, http.StatusServiceUnavailable, explain.Failure{Error: "too many questions at the same time"})
				return
			}
			if !s.Ready() {
				reply(w, http.StatusServiceUnavailable, explain.Failure{Error: s.unready()})
				return
			}
			value, err := answer(ctx, r)
			if err != nil {
				reply(w, statusOf(err), explain.Failure{Error: err.Error()})
				return
			}
			reply(w, http.StatusOK, value)
		}
	}
	mux.HandleFunc("GET "+explain.PodPath+"{namespace}/{name}", explained(func(ctx context.Context, r *http.Request) (any, error) {
		return s.ExplainPod(ctx, r.PathValue("namespace"), r.PathValue("name"))
	}))
	mux.HandleFunc("GET "+explain.QueuePath, explained(func(ctx context.Context, r *http.Request) (any, error) {
		limit, err := limitOf(r)
		if err != nil {
			return nil, err
		}
		return s.ExplainQueue(ctx, limit)
	}))
	mux.HandleFunc("GET "+explain.TopPath, explained(func(ctx context.Context, r *http.Request) (any, error) {
		limit, err := limitOf(r)
		if err != nil {
			return nil, err
		}
		return s.ExplainTop(ctx, limit)
	}))
	return mux
}

// unready says why the scheduler does not schedule; empty when it does.
func (s *Scheduler) unready() string {
	if lacks := s.unable.lacks(); lacks != "" {
		return lacks
	}
	if s.Ready() {
		return ""
	}
	if last := s.unable.last(); last != "" {
		return "the world is not rebuilt yet: " + last
	}
	return "the world is not rebuilt yet, or another instance leads"
}

// errLimit says that a limit cannot be.
var errLimit = errors.New("limit must be a number from 1 to " + strconv.Itoa(listMost))

func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return listLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > listMost {
		return 0, errLimit
	}
	return n, nil
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, errNoPod):
		return http.StatusNotFound
	case errors.Is(err, errLimit):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
