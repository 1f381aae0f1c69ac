package web

import (
	"net/http"
	"net/url"
	"strings"
)

// cookieName is bound to this very host under TLS. In the clear, on loopback, browsers refuse such a name.
func (s *server) cookieName() string {
	if s.Exposure.TLS {
		return "__Host-trueup"
	}
	return "trueup"
}

func (s *server) cookie(value string, life int) *http.Cookie {
	return &http.Cookie{Name: s.cookieName(), Value: value, Path: "/", MaxAge: life, Secure: s.Exposure.TLS, HttpOnly: true, SameSite: http.SameSiteStrictMode} //nolint:gosec // in the clear only on loopback
}

type loginPage struct {
	Next  string
	Wrong bool
	None  bool // there is no token to log in with
}

func (s *server) loginPage(w http.ResponseWriter, r *http.Request, c caller) error {
	return s.render(w, c, http.StatusOK, "login", frame{Title: "Log in", Data: loginPage{Next: inside(r.URL.Query().Get("next")), None: s.Keys.Len() == 0}})
}

// login exchanges a token for a session.
func (s *server) login(w http.ResponseWriter, r *http.Request, c caller) error {
	next := inside(r.PostFormValue("next"))
	cookie, who, ok := s.sessions.Begin(strings.TrimSpace(r.PostFormValue("token")))
	if !ok {
		if s.strangers.Allow() {
			s.keep(r.Context(), s.record(c, "login", "", "refused", "no such token"))
		}
		return s.render(w, c, http.StatusForbidden, "login", frame{Title: "Log in", Data: loginPage{Next: next, Wrong: true, None: s.Keys.Len() == 0}})
	}
	c.Identity = who
	s.keep(r.Context(), s.record(c, "login", "", "done", "role "+string(who.Role)))
	http.SetCookie(w, s.cookie(cookie, 0)) // until the browser is closed, or the session's own end
	return seeOther(w, r, next)
}

func (s *server) logout(w http.ResponseWriter, r *http.Request, c caller) error {
	if cookie, err := r.Cookie(s.cookieName()); err == nil && c.known {
		s.sessions.End(cookie.Value)
		s.keep(r.Context(), s.record(c, "logout", "", "done", ""))
	}
	http.SetCookie(w, s.cookie("", -1))
	return seeOther(w, r, "/login")
}

// inside is the path if it leads to a page of ours, else the first page: nobody is sent elsewhere after a login.
func inside(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
