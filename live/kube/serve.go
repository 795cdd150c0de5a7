package kube

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// aliveWithin is how long the owner of the world may be silent: a cycle over ten
// thousand nodes takes a second or two.
const aliveWithin = 30 * time.Second

// Handler serves /healthz, /readyz and /metrics. A standby, which waits to become
// the leader, is healthy and not ready.
func (s *Scheduler) Handler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	check := func(good func() bool, bad string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if !good() {
				http.Error(w, bad, http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		}
	}
	mux.HandleFunc("/healthz", check(func() bool { return s.beaten.Load() == 0 || s.Alive(aliveWithin) }, "the scheduler does not answer"))
	mux.HandleFunc("/readyz", check(s.Ready, "the world is not rebuilt yet"))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
