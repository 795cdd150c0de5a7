package kube

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/explain"
)

// Metrics are what a scheduler tells Prometheus. A nil one tells nobody.
type Metrics struct {
	pending    *prometheus.GaugeVec
	reasons    *prometheus.GaugeVec
	gpus       *prometheus.GaugeVec
	nodes      *prometheus.GaugeVec
	attempts   *prometheus.CounterVec
	cycles     *prometheus.HistogramVec
	binds      prometheus.Histogram
	sli        prometheus.Histogram
	imbalances prometheus.Counter
	evictions  *prometheus.CounterVec
	models     *prometheus.GaugeVec
	queueGPUs  *prometheus.GaugeVec
	queuePods  *prometheus.GaugeVec
	fragments  prometheus.Gauge
	dropped    prometheus.Counter
	checks     prometheus.Histogram
	vetoes     prometheus.Counter
	ahead      prometheus.Gauge
	prefetches *prometheus.CounterVec
	prefetchB  prometheus.Counter
}

// The buckets of the histograms: cycles from 100 µs to 3 s, binds from 1 ms to
// 16 s, pods from 10 ms to 90 minutes, checks from 5 µs to 80 ms.
var (
	cycleBuckets = prometheus.ExponentialBuckets(0.0001, 2, 16)
	bindBuckets  = prometheus.ExponentialBuckets(0.001, 2, 15)
	podBuckets   = prometheus.ExponentialBuckets(0.01, 2, 20)
	checkBuckets = prometheus.ExponentialBuckets(0.000005, 2, 15)
)

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "headrace", Name: name, Help: help}, []string{label})
	}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "headrace", Name: name, Help: help, Buckets: buckets}
	}
	m := &Metrics{
		pending:    gauges("pending_pods", "Pods that wait, by where they stand.", "queue"),
		reasons:    gauges("pending_pods_by_reason", "Pods that wait, by what binds them.", "reason"),
		gpus:       gauges("gpus", "GPUs of all nodes, held or idle.", "state"),
		nodes:      gauges("nodes", "Nodes, by whether they take work.", "state"),
		attempts:   prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "headrace", Name: "schedule_attempts_total", Help: "Binds tried, by result."}, []string{"result"}),
		cycles:     prometheus.NewHistogramVec(histogram("scheduling_cycle_duration_seconds", "Time to decide, by kind of cycle.", cycleBuckets), []string{"kind"}),
		binds:      prometheus.NewHistogram(histogram("binding_duration_seconds", "Time of a bind at the API server.", bindBuckets)),
		sli:        prometheus.NewHistogram(histogram("pod_scheduling_sli_duration_seconds", "Time from when a pod was first seen until it was bound.", podBuckets)),
		evictions:  prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "headrace", Name: "evictions_total", Help: "Evictions of pods for those of higher priority, by result."}, []string{"result"}),
		imbalances: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "headrace", Name: "book_imbalances_total", Help: "Self-audits that found a difference."}),
	}
	m.models = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "headrace", Name: "gpus_by_model", Help: "GPUs of all nodes by model, held or idle."}, []string{"model", "state"})
	m.queueGPUs = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "headrace", Name: "queue_gpus", Help: "GPUs of a tenant's queue, as of the last review."}, []string{"queue", "amount"})
	m.queuePods = gauges("queue_waiting_pods", "Pods of a tenant's queue, and of those below it, that wait in line, as of the last review.", "queue")
	m.fragments = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "headrace", Name: "gpu_fragmentation_ratio", Help: "Part of all GPUs that is free and of no use to the expected demand, as of the last review."})
	m.dropped = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "headrace", Name: "events_dropped_total", Help: "Events that were not written."})
	m.ahead = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "headrace", Name: "clock_skew_seconds", Help: "How far the clock of this machine is ahead of the API server's."})
	m.prefetches = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "headrace", Name: "prefetches_total", Help: "Images fetched to a node before a pod needed them, by result."}, []string{"result"})
	m.prefetchB = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "headrace", Name: "prefetched_bytes_total", Help: "Bytes of images fetched to a node before a pod needed them."})
	for _, result := range []string{"fetched", "failed"} {
		m.prefetches.WithLabelValues(result)
	}
	m.checks = prometheus.NewHistogram(histogram("last_check_duration_seconds", "Time of the last check of one bind.", checkBuckets))
	m.vetoes = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "headrace", Name: "last_check_refusals_total", Help: "Binds that were not tried because the last check refused them."})
	r.MustRegister(m.checks, m.vetoes, m.pending, m.reasons, m.gpus, m.nodes, m.attempts, m.cycles, m.binds, m.sli, m.imbalances,
		m.evictions, m.models, m.queueGPUs, m.queuePods, m.fragments, m.dropped, m.ahead, m.prefetches, m.prefetchB)
	return m
}

// evicted counts a pod that was told to go for others.
func (m *Metrics) evicted(err error) {
	if m == nil {
		return
	}
	if err != nil {
		m.evictions.WithLabelValues("refused").Inc()
		return
	}
	m.evictions.WithLabelValues("evicted").Inc()
}

// prefetched counts a prefetch that has ended.
func (m *Metrics) prefetched(f *Fetched) {
	if m == nil {
		return
	}
	if f.Why != "" {
		m.prefetches.WithLabelValues("failed").Inc()
		return
	}
	m.prefetches.WithLabelValues("fetched").Inc()
	m.prefetchB.Add(float64(f.Size))
}

func (m *Metrics) eventDropped() {
	if m != nil {
		m.dropped.Inc()
	}
}

func (m *Metrics) skew(d time.Duration) {
	if m != nil {
		m.ahead.Set(d.Seconds())
	}
}

func (m *Metrics) cycle(kind decision.CycleKind, took time.Duration) {
	if m == nil {
		return
	}
	name := "arrival"
	if kind == decision.CycleReview {
		name = "review"
	}
	m.cycles.WithLabelValues(name).Observe(took.Seconds())
}

func (m *Metrics) bind(took, waited time.Duration, err error) {
	if m == nil {
		return
	}
	m.binds.Observe(took.Seconds())
	if err != nil {
		m.attempts.WithLabelValues("refused").Inc()
		return
	}
	m.attempts.WithLabelValues("scheduled").Inc()
	m.sli.Observe(waited.Seconds())
}

func (m *Metrics) checked(took time.Duration) {
	if m != nil {
		m.checks.Observe(took.Seconds())
	}
}

func (m *Metrics) vetoed() {
	if m != nil {
		m.vetoes.Inc()
	}
}

func (m *Metrics) unbalanced() {
	if m != nil {
		m.imbalances.Inc()
	}
}

func (m *Metrics) queues(all []explain.Tenant) {
	if m == nil {
		return
	}
	m.queueGPUs.Reset()
	m.queuePods.Reset()
	for i := range all {
		t := &all[i]
		for amount, by := range map[string]explain.Amounts{"deserved": t.Deserved, "limit": t.Limit, "used": t.Used, "quota": t.Quota, "fair": t.Fair} { // order: each has a gauge of its own
			if milli, stated := by[v1alpha1.GPUs]; stated {
				m.queueGPUs.WithLabelValues(t.Name, amount).Set(float64(milli) / 1000)
			}
		}
		m.queuePods.WithLabelValues(t.Name).Set(float64(t.Waiting))
	}
}

func (m *Metrics) figures(f *Figures) {
	if m == nil {
		return
	}
	for queue, n := range map[string]int{"active": f.Waiting, "backoff": f.Paused, "gated": f.Held, "binding": f.Placing} { // order: each has a gauge of its own
		m.pending.WithLabelValues(queue).Set(float64(n))
	}
	m.gpus.WithLabelValues("held").Set(float64(f.GPUsHeld))
	m.gpus.WithLabelValues("idle").Set(float64(f.GPUs - f.GPUsHeld))
	m.nodes.WithLabelValues("ready").Set(float64(f.NodesReady))
	m.nodes.WithLabelValues("unready").Set(float64(f.Nodes - f.NodesReady))
	m.models.Reset()
	for i := range f.Models {
		m.models.WithLabelValues(f.Models[i].Name, "held").Set(float64(f.Models[i].Held))
		m.models.WithLabelValues(f.Models[i].Name, "idle").Set(float64(f.Models[i].GPUs - f.Models[i].Held))
	}
	if f.Fragmentation != nil {
		m.fragments.Set(*f.Fragmentation)
	}
	m.reasons.Reset()
	for _, r := range f.Reasons {
		m.reasons.WithLabelValues(r.Kind).Set(float64(r.Count))
	}
}
