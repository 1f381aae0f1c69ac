package web

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/server/access"
)

// caller is who makes a request.
type caller struct {
	access.Identity

	known  bool
	csrf   string // of the browser's session; empty where there is none
	remote string
}

// may reports whether the caller may do what the role may. Empty is what everybody may.
func (c caller) may(role access.Role) bool { return role == "" || c.Role.May(role) }

// Errors that the guard makes itself.
var (
	errUnknown     = errors.New("authentication is needed: send `Authorization: Bearer TOKEN`, or log in")
	errForbidden   = errors.New("your role is read; this needs operate: `trueup token new NAME --role operate` makes a token for it")
	errCrossOrigin = errors.New("a request from another site is not taken")
	errStale       = errors.New("this form is of another session: load the page again")
	errHost        = errors.New("this server is not called by that name: add the name to `hosts` of the server's configuration, or use its address")
	errBusy        = errors.New("too many requests at once: come again in a moment")
)

// headers are on every answer. There is no inline script or style, and nothing from elsewhere.
func (s *server) headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types trueup")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if s.Exposure.TLS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// outer is around everything: headers, the Host, and the size of bodies.
func (s *server) outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.headers(w.Header())
		if !access.HostAllowed(r.Host, s.Hosts) {
			s.problem(w, r, errHost)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next.ServeHTTP(w, r)
	})
}

// guard lets through who may, within the bounds, and shows errors.
func (s *server) guard(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.who(r)
		if err := s.admit(route, r, c); err != nil {
			s.turnAway(w, r, route, c, err)
			return
		}
		slots := s.requests
		if route.stream {
			slots = s.streams
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			s.show(w, r, route, c, errBusy)
			return
		}
		if err := route.do(w, r, c); err != nil {
			s.show(w, r, route, c, err)
		}
	})
}

// admit checks origin, role and, for a browser's session, the form's secret.
func (s *server) admit(route route, r *http.Request, c caller) error {
	if s.cross.Check(r) != nil {
		return errCrossOrigin
	}
	if !c.may(route.needs) {
		if c.known || c.Role != "" && s.Keys.Len() == 0 {
			return errForbidden
		}
		return errUnknown
	}
	if r.Method != http.MethodPost || c.csrf == "" {
		return nil
	}
	if sent := r.Header.Get("X-Csrf-Token"); !access.Same(sent, c.csrf) && !access.Same(r.PostFormValue("csrf"), c.csrf) {
		return errStale
	}
	return nil
}

// who finds out who asks. A token or a session that is not valid is nobody, whatever else the request shows.
func (s *server) who(r *http.Request) caller {
	c := caller{remote: r.RemoteAddr}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		c.remote = host
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if strings.EqualFold(scheme, "Bearer") {
			c.Identity, c.known = s.Keys.Who(strings.TrimSpace(token))
		}
		return c
	}
	if c.Identity, c.known = s.Certs.Who(r.TLS); c.known {
		return c
	}
	c.Identity = access.Identity{}
	if cookie, err := r.Cookie(s.cookieName()); err == nil {
		c.Identity, c.csrf, c.known = s.sessions.Who(cookie.Value)
	}
	if !c.known {
		c.csrf = ""
		if s.Exposure.Open() && s.Keys.Len() == 0 {
			c.Identity = access.Identity{Name: "anonymous", Role: access.Read}
		}
	}
	return c
}

// turnAway answers who may not, and keeps a record of an act that was refused.
func (s *server) turnAway(w http.ResponseWriter, r *http.Request, route route, c caller, err error) {
	if r.Method == http.MethodPost && (c.known || s.strangers.Allow()) {
		path := strings.Split(r.URL.Path, "/")
		s.keep(r.Context(), s.record(c, path[len(path)-1], r.PathValue("id"), "refused", err.Error()))
	}
	if route.form && errors.Is(err, errUnknown) && r.Method == http.MethodGet {
		http.Redirect(w, r, "/login?next="+escape(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // the path is fixed, what follows is escaped, and inside() checks it
		return
	}
	s.show(w, r, route, c, err)
}

// show answers with the error, as a page or as a problem.
func (s *server) show(w http.ResponseWriter, r *http.Request, route route, c caller, err error) {
	if route.form {
		s.errorPage(w, r, c, err)
		return
	}
	s.problem(w, r, err)
}

func (s *server) record(c caller, action, clusterID, outcome, detail string) Record {
	name := c.Name
	if name == "" {
		name = "anonymous"
	}
	return Record{Time: s.Now(), Actor: name, Remote: c.remote, Action: clip(action), ClusterID: clip(clusterID), Outcome: outcome, Detail: detail}
}

// clip bounds what a stranger can have kept.
func clip(text string) string { return text[:min(len(text), 100)] }

// keep keeps a record of something that was not done, or is done already.
func (s *server) keep(ctx context.Context, r Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.Auditor.Audit(ctx, r); err != nil {
		s.Log.Error("a record of the audit could not be kept", "err", err, "actor", r.Actor, "action", r.Action, "cluster_id", r.ClusterID, "outcome", r.Outcome)
	}
}

// act does something on a cluster, between two records. If the first can't be kept, nothing is done. A browser that goes away does not end it.
func (s *server) act(r *http.Request, c caller, action string, do func(ctx context.Context, clusterID string) (run string, err error)) (run string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTimeout)
	defer cancel()
	id := r.PathValue("id")
	if _, err := s.Fleet.Cluster(ctx, id); err != nil {
		return "", err
	}
	record := s.record(c, action, id, "asked", "")
	if err := s.Auditor.Audit(ctx, record); err != nil {
		s.Log.Error("a record of the audit could not be kept, so nothing was done", "err", err, "action", action, "cluster_id", id)
		return "", errAudit
	}
	run, err = do(ctx, id)
	record.Time, record.Run, record.Outcome = s.Now(), run, "done"
	switch {
	case ours(err):
		record.Outcome, record.Detail = "refused", err.Error()
	case err != nil:
		record.Outcome, record.Detail = "failed", "see the server's log"
	}
	s.keep(ctx, record)
	return run, err
}

var errAudit = errors.New("the audit can't be kept, so nothing was done: see the server's log; on the command line, trueup works without this server")

// ours reports whether the error is one of the ports' own, whose text may be shown.
func ours(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrRefused) || errors.Is(err, ErrUnavailable)
}

func reference() string { return rand.Text()[:8] }
