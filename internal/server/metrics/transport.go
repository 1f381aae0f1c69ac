package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// API is whose requests are counted.
type API string

// The APIs.
const (
	CloudStack API = "cloudstack"
	Kubernetes API = "kubernetes"
)

// Transport counts the requests that go through next. The endpoint is its name in the configuration: the clusters of one CloudStack
// share its series.
func (m *Metrics) Transport(endpoint string, api API, next http.RoundTripper) http.RoundTripper {
	if m == nil {
		return next
	}
	return &transport{m: m, api: api, endpoint: clean(endpoint), next: next}
}

// ForgetEndpoint drops the series of an endpoint that is configured no more.
func (m *Metrics) ForgetEndpoint(endpoint string) {
	if m == nil {
		return
	}
	gone := prometheus.Labels{"endpoint": clean(endpoint)}
	m.requests.DeletePartialMatch(gone)
	m.failures.DeletePartialMatch(gone)
}

type transport struct {
	m        *Metrics
	api      API
	endpoint string
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.m.requests.WithLabelValues(t.endpoint, string(t.api)).Inc()
	failures := t.m.failures.WithLabelValues(t.endpoint, string(t.api)) // there from the first request on
	answer, err := t.next.RoundTrip(r)
	if err != nil || t.failed(answer.StatusCode) {
		failures.Inc()
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport below, for its own options.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// failed tells errors from answers: in Kubernetes "not there", "lost the race" and "too old to continue" are part of normal work.
func (t *transport) failed(status int) bool {
	if t.api == Kubernetes && (status == http.StatusNotFound || status == http.StatusConflict || status == http.StatusGone) {
		return false
	}
	return status >= http.StatusBadRequest
}
