package metrics

import (
	"fmt"
	"net/http"
	"net/http/pprof" // it also puts its handlers on the default mux, which nothing serves

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// HandlerOptions say what is served.
type HandlerOptions struct {
	Metrics *Metrics
	// Ready returns nil once the server does its work, else what it waits for. Its text is shown, so it holds no secret.
	Ready func() error
	// Pprof serves CPU and memory profiles under /debug/pprof/. They tell about the program's memory: off by default.
	Pprof bool
}

// Handler serves GET /metrics, /healthz and /readyz. Nothing that it serves changes anything.
func Handler(o HandlerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		say(w, http.StatusOK, "ready")
	})
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
