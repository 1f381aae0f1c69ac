package e2e

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// gate stands between one run of trueup and CloudStack. It holds a call, or the reply to one, until the run is gone: so a run can be
// stopped at an exact place, as a network does it, without any hook in the program.
type gate struct {
	cloud http.Handler
	holds func(command string, answered bool) bool
	held  chan string // gets the command that is being held
}

// gate returns a machine whose way to CloudStack leads through a gate. The function is asked before each call reaches CloudStack, and
// again, with answered, before its reply is passed on.
func (f *fixture) gate(t testing.TB, on machine, holds func(command string, answered bool) bool) (*gate, machine) {
	t.Helper()
	g := &gate{cloud: f.Cloud.Model.Handler(), holds: holds, held: make(chan string, 1)}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	on.env = append(on.env, "CLOUDSTACK_API_URL="+server.URL+standin.Path)
	return g, on
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // all of it: only then does the server notice that the caller has gone
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	command := commandOf(r.URL.RawQuery, string(body))
	g.pass(r, command, false)
	reply := httptest.NewRecorder()
	g.cloud.ServeHTTP(reply, r)
	g.pass(r, command, true)
	maps.Copy(w.Header(), reply.Header())
	w.WriteHeader(reply.Code)
	_, _ = w.Write(reply.Body.Bytes()) // the caller may be gone
}

// pass returns if the call may go on. If not, it ends with the caller's connection.
func (g *gate) pass(r *http.Request, command string, answered bool) {
	if !g.holds(command, answered) {
		return
	}
	select {
	case g.held <- command:
	default: // one that is held already is enough
	}
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// commandOf finds the API command in the query or in the form.
func commandOf(texts ...string) string {
	for _, text := range texts {
		if values, err := url.ParseQuery(text); err == nil && values.Get("command") != "" {
			return values.Get("command")
		}
	}
	return ""
}
