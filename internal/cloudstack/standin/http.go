package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Path is the path of the API.
const Path = "/client/api"

// maxForm bounds the body of a call, in bytes.
const maxForm = 1 << 20

// answer is what goes back to the client.
type answer struct {
	status int
	header http.Header
	body   []byte
	cut    bool // the connection ends without an answer
}

// Handler returns the HTTP server of the model.
func (m *Model) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := m.handle(r)
		if a.cut {
			panic(http.ErrAbortHandler) // net/http's way to cut a connection
		}
		maps.Copy(w.Header(), a.header)
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // the client may be gone
	})
}

// Transport returns a RoundTripper that gives requests to the model without any network.
func (m *Model) Transport() http.RoundTripper { return transport{m} }

type transport struct{ m *Model }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a := t.m.handle(r)
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper must close it; there is nothing to lose
	}
	if a.cut {
		return nil, fmt.Errorf("%w: %w", ErrConnectionCut, io.ErrUnexpectedEOF)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header, Request: r,
		ContentLength: int64(len(a.body)), Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// handle answers one HTTP request.
func (m *Model) handle(r *http.Request) answer {
	if r.URL.Path != Path {
		return m.html(http.StatusNotFound)
	}
	raw, err := parameters(r)
	if err != nil {
		return m.html(http.StatusBadRequest)
	}
	x := &exchange{method: r.Method, raw: raw, params: fold(raw), signed: true}
	x.command = x.params["command"]
	return m.serve(x)
}

// parameters reads the query and the form; of several values for one name the first counts.
func parameters(r *http.Request) (map[string]string, error) {
	r.Body = http.MaxBytesReader(nil, bodyOf(r), maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, fmt.Errorf("read the parameters of a call: %w", err)
	}
	out := make(map[string]string, len(r.Form))
	for name, values := range r.Form {
		out[name] = values[0]
	}
	return out, nil
}

func bodyOf(r *http.Request) io.ReadCloser {
	if r.Body == nil {
		return http.NoBody
	}
	return r.Body
}

// headers are those of every answer. Date comes from the model's clock, as the expiry does.
func (m *Model) headers(contentType string) http.Header {
	return http.Header{
		"Content-Type": {contentType},
		"Date":         {m.now().UTC().Format(http.TimeFormat)},
	}
}

// html is an answer that does not come from CloudStack but from what stands before it.
func (m *Model) html(status int) answer {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	return answer{
		status: status, header: m.headers("text/html"),
		body: []byte("<html>\r\n<head><title>" + title + "</title></head>\r\n<body><center><h1>" + title + "</h1></center></body>\r\n</html>\r\n"),
	}
}

// json is an answer of the API in its envelope.
func (m *Model) json(status int, envelope string, payload any) answer {
	body, err := json.Marshal(map[string]any{envelope: payload})
	if err != nil {
		return m.html(http.StatusInternalServerError)
	}
	return answer{status: status, header: m.headers("application/json; charset=UTF-8"), body: body}
}

// failure is an error of the API in the envelope of the command, or in that for unknown commands.
func (m *Model) failure(command string, err *APIError) answer {
	envelope := "errorresponse"
	if _, known := m.commands[strings.ToLower(command)]; known {
		envelope = strings.ToLower(command) + "response"
	}
	return m.json(err.Code, envelope, err.body())
}

// tooMany is a 429 with the time to wait, as a proxy or a throttling CloudStack sends it.
func (m *Model) tooMany(command string, wait time.Duration) answer {
	a := m.failure(command, rateLimited(wait))
	a.header.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	return a
}
