package web

import (
	"context"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cks-trueup/trueup/internal/server/access"
	"github.com/cks-trueup/trueup/internal/server/graceful"
)

// The bounds of requests. Who is over one is told so and asked to come again.
const (
	mostBody     = 16 << 10
	mostRequests = 128 // at once, streams not counted
	mostStreams  = 256
	mostPlans    = 4 // surveys on behalf of people at once
	actTimeout   = 2 * time.Minute
	readHeader   = 5 * time.Second
	readWhole    = 15 * time.Second
	writeWhole   = actTimeout + 30*time.Second
	idle         = 2 * time.Minute
	mostHeader   = 16 << 10
)

// Options are what the page and the API need. All fields but Certs, Hosts and Metrics must be set.
type Options struct {
	Fleet    Fleet
	Planner  Planner
	Rollouts Rollouts
	History  History
	Auditor  Auditor
	Hub      *Hub
	Log      *slog.Logger
	Now      func() time.Time

	// Exposure has passed its Check. Its counts of tokens and certificates decide whether reading is open, so they are those of the start.
	Exposure access.Exposure
	Keys     *access.Keys
	Certs    access.Certificates
	// Hosts are the names under which people call the server, beside IP addresses and localhost.
	Hosts []string
	// Metrics, if not nil, answers /healthz and /readyz to everybody, and /metrics and /debug/pprof/ to readers.
	Metrics http.Handler
	// Version is the program's, for the page's foot.
	Version string
}

type server struct {
	Options

	sessions  *access.Sessions
	cross     *http.CrossOriginProtection
	pages     map[string]*template.Template
	requests  chan struct{}
	streams   chan struct{}
	plans     chan struct{}
	strangers *rate.Limiter // records about requests of nobody

	mu       sync.Mutex
	watching map[string]int // streams by name
}

// New returns the handler of everything.
func New(o Options) (http.Handler, error) {
	if err := o.Exposure.Check(); err != nil {
		return nil, err
	}
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	s := &server{Options: o, sessions: access.NewSessions(o.Keys, o.Now), cross: http.NewCrossOriginProtection(), pages: pages,
		requests: make(chan struct{}, mostRequests), streams: make(chan struct{}, mostStreams), plans: make(chan struct{}, mostPlans),
		strangers: rate.NewLimiter(1, 30), watching: map[string]int{}}
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.pattern, s.guard(r))
	}
	return s.outer(mux), nil
}

// handler answers a request of somebody who may make it. What it returns is shown as a problem, or as a page.
type handler func(w http.ResponseWriter, r *http.Request, c caller) error

// route is one way in.
type route struct {
	pattern string
	needs   access.Role // empty: anybody
	form    bool        // of the page: errors are pages, and who is unknown is asked to log in
	stream  bool
	do      handler
}

func (s *server) routes() []route {
	const cluster = "/api/v1/clusters/{id}"
	api := []route{
		{pattern: "GET /api/v1/openapi.json", needs: access.Read, do: s.openapi},
		{pattern: "GET /api/v1/clusters", needs: access.Read, do: s.listClusters},
		{pattern: "GET " + cluster, needs: access.Read, do: s.getCluster},
		{pattern: "GET " + cluster + "/preflight", needs: access.Read, do: s.getPreflight},
		{pattern: "POST " + cluster + "/plans", needs: access.Operate, do: s.postPlan},
		{pattern: "GET " + cluster + "/plans/{plan}", needs: access.Read, do: s.getPlan},
		{pattern: "GET " + cluster + "/rollouts", needs: access.Read, do: s.listRollouts},
		{pattern: "POST " + cluster + "/rollouts", needs: access.Operate, do: s.postRollout},
		{pattern: "GET " + cluster + "/rollouts/{run}", needs: access.Read, do: s.getRollout},
		{pattern: "POST " + cluster + "/pause", needs: access.Operate, do: s.postAct("pause")},
		{pattern: "POST " + cluster + "/resume", needs: access.Operate, do: s.postAct("resume")},
		{pattern: "POST " + cluster + "/release", needs: access.Operate, do: s.postAct("release")},
		{pattern: "GET " + cluster + "/events", needs: access.Read, stream: true, do: s.events},
		{pattern: "GET /api/v1/events", needs: access.Read, stream: true, do: s.events},
		{pattern: "GET /api/v1/history", needs: access.Read, do: s.getHistory},
		{pattern: "/api/", do: noSuchRoute},
	}
	page := []route{
		{pattern: "GET /{$}", needs: access.Read, do: s.fleetPage},
		{pattern: "GET /clusters/{id}", needs: access.Read, do: s.clusterPage},
		{pattern: "GET /clusters/{id}/plans/{plan}", needs: access.Read, do: s.planPage},
		{pattern: "GET /clusters/{id}/rollouts/{run}", needs: access.Read, do: s.rolloutPage},
		{pattern: "GET /history", needs: access.Read, do: s.historyPage},
		{pattern: "POST /clusters/{id}/plans", needs: access.Operate, do: s.planForm},
		{pattern: "POST /clusters/{id}/rollouts", needs: access.Operate, do: s.startForm},
		{pattern: "POST /clusters/{id}/pause", needs: access.Operate, do: s.actForm("pause")},
		{pattern: "POST /clusters/{id}/resume", needs: access.Operate, do: s.actForm("resume")},
		{pattern: "POST /clusters/{id}/release", needs: access.Operate, do: s.actForm("release")},
		{pattern: "GET /login", do: s.loginPage},
		{pattern: "POST /login", do: s.login},
		{pattern: "POST /logout", do: s.logout},
		{pattern: "GET /static/{file}", do: s.static},
		{pattern: "/", do: noSuchPage},
	}
	for i := range page {
		page[i].form = true
	}
	all := slices.Concat(api, page)
	if s.Metrics != nil {
		show := func(w http.ResponseWriter, r *http.Request, _ caller) error { s.Metrics.ServeHTTP(w, r); return nil }
		all = append(all, route{pattern: "GET /healthz", do: show}, route{pattern: "GET /readyz", do: show},
			route{pattern: "GET /metrics", needs: access.Read, do: show}, route{pattern: "GET /debug/pprof/", needs: access.Read, do: show})
	}
	return all
}

// Serve answers on the listener until ctx ends: streams end at once then, other answers have five seconds. It returns nil then. Under TLS the listener
// does it, see tls.NewListener and access.TLSConfig.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	httpServer := &http.Server{Handler: handler, ReadHeaderTimeout: readHeader, ReadTimeout: readWhole, WriteTimeout: writeWhole, IdleTimeout: idle,
		MaxHeaderBytes: mostHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // a stranger's broken TLS is no warning
		BaseContext: func(net.Listener) context.Context { return serving }}
	httpServer.RegisterOnShutdown(stop)
	return graceful.Serve(ctx, httpServer, listener)
}
