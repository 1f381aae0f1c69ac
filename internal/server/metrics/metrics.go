// Package metrics counts and shows what a server sees and does, in the form of Prometheus.
//
// Its labels are bounded: a cluster's id and name, and words of fixed lists. No node has a label. The series of a cluster or an endpoint
// go when it leaves the fleet.
package metrics

import (
	"cmp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build says which program runs.
type Build struct{ Version, Revision string }

// Metrics is everything that the server shows. Its methods may be called from several goroutines; those of a nil *Metrics do nothing.
type Metrics struct {
	registry *prometheus.Registry
	now      func() time.Time

	scans       prometheus.Histogram
	requests    *prometheus.CounterVec
	failures    *prometheus.CounterVec
	notices     *prometheus.CounterVec
	storeErrors prometheus.Counter
	configOK    prometheus.Gauge
	configRead  prometheus.Gauge

	mu       sync.Mutex
	clusters map[string]*Cluster
}

// New returns metrics of their own registry, with those of the Go runtime and the process.
func New(build Build, now func() time.Time) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), now: now, clusters: map[string]*Cluster{},
		scans: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "trueup_scan_duration_seconds", Help: "Time that one scan of the whole fleet took.",
			Buckets: []float64{0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600}}),
		requests:    counters("trueup_api_requests_total", "Requests sent, repetitions included.", "endpoint", "api"),
		failures:    counters("trueup_api_request_errors_total", "Requests without an answer, or with one that is an error. Kubernetes' 404, 409 and 410 are answers.", "endpoint", "api"),
		notices:     counters("trueup_notices_total", "Attempts to send a notice, by channel and result.", "channel", "result"),
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "trueup_store_errors_total", Help: "Reads and writes of the store that failed."}),
		configOK:    gauge("trueup_config_last_reload_successful", "1 if the configuration file was taken when it was last read, else 0: the one before is in force."),
		configRead:  gauge("trueup_config_last_reload_success_timestamp_seconds", "When a configuration file was last taken, in Unix seconds."),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "trueup_build_info", Help: "Always 1; the labels say which program runs.",
		ConstLabels: prometheus.Labels{"version": clean(build.Version), "revision": clean(build.Revision), "goversion": runtime.Version()}})
	info.Set(1)
	m.registry.MustRegister(info, m.scans, m.requests, m.failures, m.notices, m.storeErrors, m.configOK, m.configRead, &fleet{Metrics: m, series: describe()},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// clean makes a text fit for a label: names come from CloudStack, and a label that is not UTF-8 would take all metrics down.
func clean(text string) string { return strings.ToValidUTF8(cmp.Or(text, "unknown"), "�") }

// Cycle counts one scan of the whole fleet.
func (m *Metrics) Cycle(took time.Duration) {
	if m != nil {
		m.scans.Observe(took.Seconds())
	}
}

// Config notes that the configuration file was read, and whether it was taken.
func (m *Metrics) Config(taken bool) {
	switch {
	case m == nil:
	case taken:
		m.configOK.Set(1)
		m.configRead.Set(float64(m.now().UnixMilli()) / 1000)
	default:
		m.configOK.Set(0)
	}
}

// Notice counts one attempt to send a notice.
func (m *Metrics) Notice(channel string, sent bool) {
	if m == nil {
		return
	}
	result := "failed"
	if sent {
		result = "sent"
	}
	for _, r := range []string{"failed", "sent"} { // both series are there from the first attempt on, so that a first failure is an increase
		m.notices.WithLabelValues(clean(channel), r).Add(0)
	}
	m.notices.WithLabelValues(clean(channel), result).Inc()
}

// ForgetChannel drops the series of a channel that is configured no more.
func (m *Metrics) ForgetChannel(channel string) {
	if m != nil {
		m.notices.DeletePartialMatch(prometheus.Labels{"channel": clean(channel)})
	}
}

// StoreError counts a read or write of the store that failed.
func (m *Metrics) StoreError() {
	if m != nil {
		m.storeErrors.Inc()
	}
}

// Cluster returns the figures of a cluster, and begins them when it is new. A changed name changes the label.
func (m *Metrics) Cluster(id, name string) *Cluster {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clusters[id]
	if c == nil {
		c = &Cluster{mu: &m.mu, now: m.now, results: map[Result]int{}}
		m.clusters[id] = c
	}
	c.id, c.name = clean(id), clean(name)
	return c
}

// Forget drops the series of a cluster that has left the fleet.
func (m *Metrics) Forget(id string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, id)
}
