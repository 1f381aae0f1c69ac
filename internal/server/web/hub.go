package web

import (
	"context"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// The bounds of the hub. A rollout tells about ten events a node and move; what does not fit is forgotten from its beginning.
const (
	mostEvents   = 2000 // kept of the present or last rollout of a cluster, for replay
	mostBuffered = 64   // for one subscriber; who is further behind is dropped, and comes back with Last-Event-ID
)

// Event is one thing that happened in a cluster.
type Event struct {
	// ID counts up from 1 within the life of this server.
	ID        uint64
	ClusterID string
	// Run is the rollout that it belongs to; empty: what is known of the cluster has changed, and there is no more to tell. Such a one is not replayed.
	Run string
	At  time.Time
	rollout.Event
}

// Hub passes what happens on to whoever watches. It never waits for them. The zero Hub is not usable, see NewHub.
type Hub struct {
	now func() time.Time

	mu       sync.Mutex
	last     uint64
	runs     map[string][]Event // by cluster id: those of its present or last rollout
	watchers map[*watcher]struct{}
}

type watcher struct {
	clusterID string // empty: all
	events    chan Event
}

// NewHub returns an empty hub.
func NewHub(now func() time.Time) *Hub {
	return &Hub{now: now, runs: map[string][]Event{}, watchers: map[*watcher]struct{}{}}
}

// Publish passes on an event of a rollout. It does not block, so it can be a runner's Watcher. With the first event of a new run the earlier one is
// forgotten.
func (h *Hub) Publish(clusterID, run string, e rollout.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.runs[clusterID]
	if len(kept) > 0 && kept[0].Run != run {
		kept = nil
	}
	if len(kept) == mostEvents {
		kept = append([]Event(nil), kept[mostEvents/4:]...)
	}
	at := e.At
	if at.IsZero() {
		at = h.now()
	}
	h.runs[clusterID] = append(kept, h.send(Event{ClusterID: clusterID, Run: run, At: at, Event: e}))
}

// Changed tells that what is known of the cluster has changed: a scan, the beginning or the end of a rollout.
func (h *Hub) Changed(clusterID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.send(Event{ClusterID: clusterID, At: h.now()})
}

// Forget drops what is kept of a cluster that has left the fleet.
func (h *Hub) Forget(clusterID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, clusterID)
}

// send gives the event its id and passes it on. Who can't take it is dropped.
func (h *Hub) send(e Event) Event {
	h.last++
	e.ID = h.last
	for w := range h.watchers {
		if w.clusterID != "" && w.clusterID != e.ClusterID {
			continue
		}
		select {
		case w.events <- e:
		default:
			delete(h.watchers, w)
			close(w.events)
		}
	}
	return e
}

// watch returns the events of the present or last rollout after the given id, and those to come until ctx ends. The channel is closed if the watcher is too slow.
func (h *Hub) watch(ctx context.Context, clusterID string, after uint64) (past []Event, live <-chan Event) {
	w := &watcher{clusterID: clusterID, events: make(chan Event, mostBuffered)}
	h.mu.Lock()
	defer h.mu.Unlock()
	past = h.after(clusterID, after)
	h.watchers[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, w)
	})
	return past, w.events
}

// after are the kept events of a cluster with a higher id. An id that this server never gave is of an earlier one: all are told then.
func (h *Hub) after(clusterID string, id uint64) (out []Event) {
	if id > h.last {
		id = 0
	}
	for _, e := range h.runs[clusterID] {
		if e.ID > id {
			out = append(out, e)
		}
	}
	return out
}

// eventsOf are the kept events of a run of the cluster.
func (h *Hub) eventsOf(clusterID, run string) (out []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.runs[clusterID] {
		if e.Run == run {
			out = append(out, e)
		}
	}
	return out
}
