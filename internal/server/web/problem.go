package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// problemDocument is an error as RFC 9457 has it.
type problemDocument struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// badRequest is what was wrong with a request.
type badRequest struct{ text string }

func (e *badRequest) Error() string { return e.text }

func bad(format string, args ...any) error { return &badRequest{fmt.Sprintf(format, args...)} }

var (
	errNoRoute = fmt.Errorf("%w: GET /api/v1/openapi.json lists what there is", ErrNotFound)
	errNoRun   = fmt.Errorf("%w: there is no such rollout of this cluster", ErrNotFound)
	errNoPage  = fmt.Errorf("%w: there is no such page", ErrNotFound)
)

func noSuchRoute(http.ResponseWriter, *http.Request, caller) error { return errNoRoute }
func noSuchPage(http.ResponseWriter, *http.Request, caller) error  { return errNoPage }

// explain turns an error into what is shown of it. What is not known to hold no secret is logged, and shown by a reference alone.
func (s *server) explain(r *http.Request, err error) problemDocument {
	p := problemDocument{Detail: err.Error()}
	var request *badRequest
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &request):
		p.Type, p.Title, p.Status = "bad-request", "The request is not valid", http.StatusBadRequest
	case errors.As(err, &large):
		p.Type, p.Title, p.Status = "too-large", "The request is too large", http.StatusRequestEntityTooLarge
	case errors.Is(err, errUnknown):
		p.Type, p.Title, p.Status = "unauthenticated", "Who are you?", http.StatusUnauthorized
	case errors.Is(err, errForbidden), errors.Is(err, errCrossOrigin), errors.Is(err, errStale):
		p.Type, p.Title, p.Status = "forbidden", "Not allowed", http.StatusForbidden
	case errors.Is(err, errHost):
		p.Type, p.Title, p.Status = "misdirected", "Another name", http.StatusMisdirectedRequest
	case errors.Is(err, errBusy), errors.Is(err, ErrUnavailable), errors.Is(err, errAudit):
		p.Type, p.Title, p.Status = "unavailable", "Not now", http.StatusServiceUnavailable
	case errors.Is(err, ErrNotFound):
		p.Type, p.Title, p.Status = "not-found", "Not found", http.StatusNotFound
	case errors.Is(err, ErrConflict):
		p.Type, p.Title, p.Status = "conflict", "Not in this state", http.StatusConflict
	case errors.Is(err, ErrRefused):
		p.Type, p.Title, p.Status = "refused", "Refused", http.StatusUnprocessableEntity
	default:
		ref := reference()
		s.Log.Error("a request failed", "err", err, "method", r.Method, "path", clip(r.URL.Path), "ref", ref)
		p.Type, p.Title, p.Status, p.Detail = "internal", "Internal error", http.StatusInternalServerError, "see the server's log at ref="+ref
	}
	p.Type = "https://cks-trueup.github.io/problems/" + p.Type
	return p
}

// problem answers with the error as a document.
func (s *server) problem(w http.ResponseWriter, r *http.Request, err error) {
	p := s.explain(r, err)
	s.status(w.Header(), p.Status)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	text, _ := json.Marshal(p)         //nolint:errchkjson // it is texts and a number
	_, _ = w.Write(append(text, '\n')) // who went away is not told
}

// status sets the headers that belong to a status.
func (s *server) status(h http.Header, status int) {
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="trueup"`)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "2")
	}
}

func answer(w http.ResponseWriter, status int, doc any) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who went away is not told
	return nil
}

func escape(s string) string { return url.QueryEscape(s) }
