package metrics

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	waits := errors.New("zone-a has not answered yet")
	for name, tt := range map[string]struct {
		method, path string
		ready        error
		pprof        bool
		status       int
		holds        string
	}{
		"metrics":                  {"GET", "/metrics", nil, false, 200, `trueup_cluster_nodes{cluster="prod",cluster_id="id-1"} 5`},
		"metrics of Go":            {"GET", "/metrics", nil, false, 200, "go_goroutines"},
		"alive":                    {"GET", "/healthz", waits, false, 200, "ok"},
		"ready":                    {"GET", "/readyz", nil, false, 200, "ready"},
		"not ready":                {"GET", "/readyz", waits, false, 503, "not ready: zone-a has not answered yet"},
		"only asked for its state": {"HEAD", "/readyz", waits, false, 503, ""},
		"profiles are off":         {"GET", "/debug/pprof/heap", nil, false, 404, ""},
		"their list is off":        {"GET", "/debug/pprof/", nil, false, 404, ""},
		"profiles when asked for":  {"GET", "/debug/pprof/heap?debug=1", nil, true, 200, "heap profile"},
		"CPU, which takes seconds": {"OPTIONS", "/debug/pprof/profile", nil, true, 405, ""},
		"the command line never":   {"GET", "/debug/pprof/cmdline", nil, true, 404, ""},
		"nothing is changed":       {"POST", "/metrics", nil, true, 405, ""},
		"nor there":                {"PUT", "/healthz", nil, true, 405, ""},
		"nothing else":             {"GET", "/", nil, true, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(Handler(HandlerOptions{Metrics: busy(&clock{noon}), Ready: func() error { return tt.ready }, Pprof: tt.pprof}))
			defer server.Close()
			request, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != tt.status || !strings.Contains(string(body), tt.holds) {
				t.Errorf("status %d (%v), body %.300s; want %d with %q", answer.StatusCode, err, body, tt.status, tt.holds)
			}
		})
	}
}
