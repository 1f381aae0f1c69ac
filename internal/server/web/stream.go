package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cks-trueup/trueup/internal/server/access"
)

// The bounds of a stream. A browser comes back by itself, with the id of the last event that it got.
const (
	heartbeat  = 15 * time.Second
	writeEvent = 10 * time.Second // who takes longer to take one event is cut off
	streamLife = time.Hour
	mostOfOne  = 32 // streams of one name
)

// events streams what happens in a cluster, or in all: first what is kept of its present or last rollout, then what comes.
func (s *server) events(w http.ResponseWriter, r *http.Request, c caller) error {
	id := r.PathValue("id")
	if id != "" {
		if _, err := s.Fleet.Cluster(r.Context(), id); err != nil {
			return err
		}
	}
	if !s.enter(c.Name) {
		return errBusy
	}
	defer s.leave(c.Name)
	after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // what is no number is from nobody of ours: from the beginning
	past, live := s.Hub.watch(r.Context(), id, after)
	out := stream{w: w, to: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out.write("retry: 3000\n\n")
	for _, e := range past {
		out.event(e)
	}
	s.follow(r, &out, live)
	return nil
}

// follow writes until one side ends it: the reader goes away, is too slow, or may not read any more.
func (s *server) follow(r *http.Request, out *stream, live <-chan Event) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	end := time.NewTimer(streamLife)
	defer end.Stop()
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-beat.C:
			if !s.who(r).may(access.Read) { // the token was taken away meanwhile
				return
			}
			out.write(": \n\n")
		case e, more := <-live:
			if !more {
				return
			}
			out.event(e)
		}
	}
}

func (s *server) enter(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watching[name] >= mostOfOne {
		return false
	}
	s.watching[name]++
	return true
}

func (s *server) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watching[name]--; s.watching[name] == 0 {
		delete(s.watching, name)
	}
}

// stream is one answer of events. After an error it writes nothing more.
type stream struct {
	w   http.ResponseWriter
	to  *http.ResponseController
	err error
}

func (o *stream) event(e Event) {
	text, err := json.Marshal(newEvent(e))
	if err != nil {
		o.err = err
		return
	}
	kind := "move"
	if e.Run == "" {
		kind = "changed"
	}
	o.write(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.ID, kind, text))
}

func (o *stream) write(text string) {
	if o.err != nil {
		return
	}
	_ = o.to.SetWriteDeadline(time.Now().Add(writeEvent)) // a recorder in tests has none
	if _, o.err = o.w.Write([]byte(text)); o.err == nil {
		o.err = o.to.Flush()
	}
}
