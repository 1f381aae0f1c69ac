package fleet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/server/metrics"
	"github.com/cks-trueup/trueup/internal/server/notice"
	"github.com/cks-trueup/trueup/internal/survey"
)

// Options are a fleet's parts. Metrics and Notices may be nil.
type Options struct {
	Log     *slog.Logger
	Metrics *metrics.Metrics
	Notices *notice.Sender
	// Audit keeps what the fleet does by itself; nil keeps nothing.
	Audit func(ctx context.Context, action, clusterID, cluster, run, detail string)
	// NewRun makes the id of a rollout.
	NewRun func() string
}

// Fleet watches clusters. Its methods may be called from several goroutines.
type Fleet struct {
	Options

	mu       sync.Mutex
	clusters map[string]*watched // by cluster id
	slots    int                 // healings at once
	healing  int
	listed   map[string]error // what each endpoint's last listing said, by its name
	work     sync.WaitGroup   // healings
	ending   bool
	endMove  chan struct{}
	stop     chan struct{}
}

// watched is one cluster in the fleet.
type watched struct {
	endpoint string
	mem      memory // of the scan's goroutine alone
	way      Cluster

	// What follows is guarded by the fleet's mutex.
	state   State
	heal    *healing // at work, nil if none is
	failed  *Failure
	failing int // failures in a row
	gone    bool
}

// healing is one healing at work.
type healing struct {
	run     string
	endNode chan struct{}
	ended   bool // endNode is closed
	node    string
	move    rollout.Move
	begun   bool // the Lease was taken
}

// State is what is known of a cluster.
type State struct {
	Listed

	Endpoint string
	Decision Decision
	Lease    Lease
	// Unread is why it can't be read, Since since when; empty while it can. Read is when it last was.
	Unread      string
	Since, Read time.Time
	Members     []survey.Node
	// Healing is the run that heals it now, with the node and the move that it is in.
	Healing string
	Node    string
	Move    rollout.Move
}

// New returns a fleet without endpoints.
func New(o Options) *Fleet {
	if o.Audit == nil {
		o.Audit = func(context.Context, string, string, string, string, string) {}
	}
	return &Fleet{Options: o, clusters: map[string]*watched{}, listed: map[string]error{}, endMove: make(chan struct{}), stop: make(chan struct{})}
}

// Watch scans an endpoint until ctx ends. It is called again after a change of the configuration, once the earlier call has returned: what is known
// of the clusters stays, and so do healings at work.
func (f *Fleet) Watch(ctx context.Context, name string, e Endpoint, s Settings) {
	for ctx.Err() == nil {
		began := time.Now()
		f.scan(ctx, name, e, s)
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		f.Metrics.Cycle(took)
		f.Log.DebugContext(ctx, "scanned", "endpoint", name, "took", took)
		pause(ctx, jittered(s.Every)-took)
	}
}

// scan looks at every cluster of the endpoint once.
func (f *Fleet) scan(ctx context.Context, name string, e Endpoint, s Settings) {
	list, err := e.List(ctx)
	if ctx.Err() != nil {
		return
	}
	f.note(ctx, name, err)
	if err != nil {
		f.blind(ctx, name, err)
		return
	}
	here := map[string]bool{}
	for _, c := range list {
		here[c.ID] = true
	}
	f.forget(func(id string, w *watched) bool { return w.endpoint == name && !here[id] })
	var all errgroup.Group
	all.SetLimit(max(1, s.Clusters))
	for _, c := range list {
		all.Go(func() error { f.look(ctx, f.watch(name, c), e, c, s); return nil })
	}
	_ = all.Wait() // what can't be read is kept with its cluster
}

// note keeps what an endpoint's listing said, and logs a change.
func (f *Fleet) note(ctx context.Context, name string, err error) {
	f.mu.Lock()
	was, known := f.listed[name]
	f.listed[name] = err
	f.mu.Unlock()
	switch {
	case err != nil && was == nil:
		f.Log.ErrorContext(ctx, "endpoint can't be read", "endpoint", name, "error", err)
	case err == nil && known && was != nil:
		f.Log.InfoContext(ctx, "endpoint can be read again", "endpoint", name)
	}
}

// Ready returns nil once every endpoint has answered at least once.
func (f *Fleet) Ready(endpoints []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range endpoints {
		if err, known := f.listed[name]; !known || err != nil && len(f.clusters) == 0 {
			return fmt.Errorf("endpoint %s has not answered yet", name) // and nothing of its answer: this is shown
		}
	}
	return nil
}

// watch is the place of a cluster in the fleet.
func (f *Fleet) watch(endpoint string, c Listed) *watched {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.clusters[c.ID]
	if w == nil {
		w = &watched{endpoint: endpoint}
		f.clusters[c.ID] = w
	}
	w.endpoint, w.gone = endpoint, false
	return w
}

// forget drops the clusters that are gone. One that is being healed goes when that has ended.
func (f *Fleet) forget(gone func(id string, w *watched) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, w := range f.clusters {
		if gone(id, w) {
			w.gone = true
			f.drop(id, w)
		}
	}
}

// drop forgets a cluster that is gone. The mutex is held.
func (f *Fleet) drop(id string, w *watched) {
	if !w.gone || w.heal != nil {
		return
	}
	if w.way != nil {
		w.way.Close()
	}
	delete(f.clusters, id)
	f.Metrics.Forget(id)
}

// Keep forgets every cluster of an endpoint that is not among these.
func (f *Fleet) Keep(endpoints []string) {
	f.forget(func(_ string, w *watched) bool { return !slices.Contains(endpoints, w.endpoint) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.listed {
		if !slices.Contains(endpoints, name) {
			delete(f.listed, name)
			f.Metrics.ForgetEndpoint(name)
		}
	}
}

// blind notes that none of the endpoint's clusters could be read.
func (f *Fleet) blind(ctx context.Context, endpoint string, err error) {
	f.mu.Lock()
	var all []*watched
	for _, w := range f.clusters {
		if w.endpoint == endpoint {
			all = append(all, w)
		}
	}
	f.mu.Unlock()
	for _, w := range all {
		w.mem.failed(err, time.Now())
		f.conclude(ctx, w, nil, 0)
	}
}

// States are all clusters, by name and id.
func (f *Fleet) States() []State {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]State, 0, len(f.clusters))
	for _, w := range f.clusters {
		if w.state.ID != "" {
			out = append(out, w.shown())
		}
	}
	slices.SortFunc(out, func(a, b State) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out
}

// State is one of them.
func (f *Fleet) State(id string) (State, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.clusters[id]
	if w == nil || w.state.ID == "" {
		return State{}, false
	}
	return w.shown(), true
}

func (w *watched) shown() State {
	s := w.state
	if w.heal != nil {
		s.Healing, s.Node, s.Move = w.heal.run, w.heal.node, w.heal.move
	}
	return s
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
