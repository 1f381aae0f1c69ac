package web

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/server/access"
)

// call makes one request. An answer that streams is cut after its headers.
func (s *site) call(t *testing.T, method, path, token, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	req.RequestURI = ""
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Content-Type") == "text/event-stream" {
		return res, ""
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// reach is one request of the table: what it needs, and how it answers whoever may.
type reach struct {
	method, path, body, kind string
	needs                    access.Role
	want                     int
}

const form = "application/x-www-form-urlencoded"

func reaches() map[string]reach {
	c := "/api/v1/clusters/" + prod
	return map[string]reach{
		"GET /api/v1/openapi.json":                 {"GET", "/api/v1/openapi.json", "", "", access.Read, 200},
		"GET /api/v1/clusters":                     {"GET", "/api/v1/clusters", "", "", access.Read, 200},
		"GET /api/v1/clusters/{id}":                {"GET", c, "", "", access.Read, 200},
		"GET /api/v1/clusters/{id}/preflight":      {"GET", c + "/preflight", "", "", access.Read, 200},
		"POST /api/v1/clusters/{id}/plans":         {"POST", c + "/plans", `{"command":"scale","goals":{"worker":"big"},"why":"more pods"}`, "", access.Operate, 201},
		"GET /api/v1/clusters/{id}/plans/{plan}":   {"GET", c + "/plans/plan-1", "", "", access.Read, 200},
		"GET /api/v1/clusters/{id}/rollouts":       {"GET", c + "/rollouts", "", "", access.Read, 200},
		"POST /api/v1/clusters/{id}/rollouts":      {"POST", c + "/rollouts", `{"plan":"plan-1"}`, "", access.Operate, 202},
		"GET /api/v1/clusters/{id}/rollouts/{run}": {"GET", c + "/rollouts/old-run", "", "", access.Read, 200},
		"POST /api/v1/clusters/{id}/pause":         {"POST", c + "/pause", "", "", access.Operate, 202},
		"POST /api/v1/clusters/{id}/resume":        {"POST", c + "/resume", "", "", access.Operate, 202},
		"POST /api/v1/clusters/{id}/release":       {"POST", c + "/release", "{}", "", access.Operate, 202},
		"GET /api/v1/clusters/{id}/events":         {"GET", c + "/events", "", "", access.Read, 200},
		"GET /api/v1/events":                       {"GET", "/api/v1/events", "", "", access.Read, 200},
		"GET /api/v1/history":                      {"GET", "/api/v1/history?cluster=prod&limit=5", "", "", access.Read, 200},
		"/api/":                                    {"GET", "/api/v2/clusters", "", "", "", 404},
		"GET /{$}":                                 {"GET", "/", "", "", access.Read, 200},
		"GET /clusters/{id}":                       {"GET", "/clusters/" + prod, "", "", access.Read, 200},
		"GET /clusters/{id}/plans/{plan}":          {"GET", "/clusters/" + prod + "/plans/plan-1", "", "", access.Read, 200},
		"GET /clusters/{id}/rollouts/{run}":        {"GET", "/clusters/" + prod + "/rollouts/old-run", "", "", access.Read, 200},
		"GET /history":                             {"GET", "/history", "", "", access.Read, 200},
		"POST /clusters/{id}/plans":                {"POST", "/clusters/" + prod + "/plans", "command=scale&worker=big", form, access.Operate, 303},
		"POST /clusters/{id}/rollouts":             {"POST", "/clusters/" + prod + "/rollouts", "plan=plan-1", form, access.Operate, 303},
		"POST /clusters/{id}/pause":                {"POST", "/clusters/" + prod + "/pause", "", form, access.Operate, 303},
		"POST /clusters/{id}/resume":               {"POST", "/clusters/" + prod + "/resume", "", form, access.Operate, 303},
		"POST /clusters/{id}/release":              {"POST", "/clusters/" + prod + "/release", "", form, access.Operate, 303},
		"GET /login":                               {"GET", "/login", "", "", "", 200},
		"POST /login":                              {"POST", "/login", "token=wrong", form, "", 403},
		"POST /logout":                             {"POST", "/logout", "", form, "", 303},
		"GET /static/{file}":                       {"GET", "/static/style.css", "", "", "", 200},
		"/":                                        {"GET", "/no/such/page", "", "", "", 404},
		"GET /healthz":                             {"GET", "/healthz", "", "", "", 200},
		"GET /readyz":                              {"GET", "/readyz", "", "", "", 200},
		"GET /metrics":                             {"GET", "/metrics", "", "", access.Read, 200},
		"GET /debug/pprof/":                        {"GET", "/debug/pprof/", "", "", access.Read, 200},
	}
}

func withMetrics(o *Options) {
	o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
}

func TestEveryRouteWithoutWithReadAndWithOperate(t *testing.T) {
	all := reaches()
	for _, r := range (&server{Options: Options{Metrics: http.NotFoundHandler()}}).routes() {
		if want, ok := all[r.pattern]; !ok || want.needs != r.needs {
			t.Errorf("route %q needs %q, the table says %q (in it: %t)", r.pattern, r.needs, want.needs, ok)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(all)) {
		c := all[pattern]
		s := newSite(t, withMetrics)
		s.Plan(t.Context(), prod, Request{Command: "scale"}, "test")
		s.cluster[prod].Now = &Rollout{Run: run1, Command: "scale", Phase: PhaseRunning}
		s.acts = nil
		tokens := map[access.Role]string{"": "", access.Read: s.read, access.Operate: s.operate}
		for _, role := range []access.Role{"", access.Read, access.Operate} {
			want := c.want
			if !(caller{Identity: access.Identity{Role: role}}).may(c.needs) {
				want = 403
				if role == "" {
					want = 401
					if c.method == "GET" && !strings.HasPrefix(c.path, "/api/") && c.path != "/metrics" && c.path != "/debug/pprof/" {
						want = 303 // to the login
					}
				}
			}
			var header []string
			if c.kind != "" {
				header = []string{"Content-Type", c.kind}
			}
			res, text := s.call(t, c.method, c.path, tokens[role], c.body, header...)
			if res.StatusCode != want {
				t.Errorf("%s with role %q: %d, want %d: %s", pattern, role, res.StatusCode, want, text)
			}
			if want == 401 && res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: 401 without WWW-Authenticate", pattern)
			}
			if role != access.Operate && len(s.acts) > 0 {
				t.Fatalf("%s with role %q did %v", pattern, role, s.acts)
			}
			if c.needs == access.Operate && role == access.Read && (len(s.records) == 0 || s.records[len(s.records)-1].Outcome != "refused") {
				t.Errorf("%s with role %q left no record of its refusal: %v", pattern, role, s.records)
			}
		}
		if c.needs == access.Operate {
			if len(s.acts) != 1 || !strings.HasSuffix(s.acts[0], " by olga") {
				t.Errorf("%s did %v", pattern, s.acts)
			}
			last := s.records[max(0, len(s.records)-2):]
			if last[0].Outcome != "asked" || last[1].Outcome != "done" || last[1].Actor != "olga" || last[1].ClusterID != prod {
				t.Errorf("%s left the records %v", pattern, last)
			}
		}
	}
}

func TestWrongCredentialsAreNobody(t *testing.T) {
	for _, open := range []bool{true, false} {
		s := newSite(t, func(o *Options) {
			if open {
				o.Exposure.Tokens, o.Keys = 0, access.NewKeys(nil)
			}
		})
		if res, _ := s.call(t, "GET", "/api/v1/clusters", "trueup_wrong", ""); res.StatusCode != 401 {
			t.Errorf("open %t: a wrong token reads: %d", open, res.StatusCode)
		}
		if res, _ := s.call(t, "GET", "/api/v1/clusters", "", "", "Authorization", "Basic b2xnYTo="); res.StatusCode != 401 {
			t.Errorf("open %t: another scheme reads: %d", open, res.StatusCode)
		}
	}
}

func TestOnLoopbackWithoutTokensReadingIsOpenAndOperatingIsNot(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Exposure.Tokens, o.Keys = 0, access.NewKeys(nil) })
	for _, path := range []string{"/", "/api/v1/clusters", "/clusters/" + prod} {
		if res, text := s.call(t, "GET", path, "", ""); res.StatusCode != 200 || strings.Contains(text, "<button") {
			t.Errorf("%s: %d, or there is a button", path, res.StatusCode)
		}
	}
	res, _ := s.call(t, "POST", "/api/v1/clusters/"+prod+"/pause", "", "{}")
	if res.StatusCode != 403 || len(s.acts) != 0 {
		t.Errorf("an act without a token: %d, did %v", res.StatusCode, s.acts)
	}
	if r := s.records; len(r) != 1 || r[0].Outcome != "refused" || r[0].Actor != "anonymous" {
		t.Errorf("records: %v", r)
	}
}

func TestCrossSiteRequestsAreRefused(t *testing.T) {
	for name, header := range map[string][]string{
		"another site":                 {"Sec-Fetch-Site", "cross-site"},
		"another port of this machine": {"Sec-Fetch-Site", "same-site"},
		"another origin, old browser":  {"Origin", "https://attacker.example"},
		"no origin at all":             {"Origin", "null"},
	} {
		s := newSite(t, nil)
		cookie, csrf := s.logIn(t, s.operate)
		for _, path := range []string{"/clusters/" + prod + "/pause", "/api/v1/clusters/" + prod + "/pause", "/login", "/logout"} {
			body := url.Values{"csrf": {csrf}, "token": {s.operate}}.Encode()
			res, _ := s.call(t, "POST", path, "", body, append(header, "Cookie", cookie, "Content-Type", form)...)
			if res.StatusCode != 403 || len(s.acts) != 0 || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s, %s: %d, did %v", name, path, res.StatusCode, s.acts)
			}
		}
	}
}

// logIn returns the cookie of a new session and the secret of its forms.
func (s *site) logIn(t *testing.T, token string) (cookie, csrf string) {
	t.Helper()
	res, _ := s.call(t, "POST", "/login", "", url.Values{"token": {token}, "next": {"/history"}}.Encode(), "Content-Type", form)
	if res.StatusCode != 303 || res.Header.Get("Location") != "/history" {
		t.Fatalf("login: %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || strings.Contains(c.Value, token) {
		t.Errorf("the cookie is %v", c)
	}
	cookie = c.Name + "=" + c.Value
	_, page := s.call(t, "GET", "/clusters/"+prod, "", "", "Cookie", cookie)
	_, rest, _ := strings.Cut(page, `name="csrf" value="`)
	csrf, _, _ = strings.Cut(rest, `"`)
	return cookie, csrf
}

func TestASessionNeedsTheSecretOfItsForms(t *testing.T) {
	s := newSite(t, nil)
	s.cluster[prod].Now = &Rollout{Run: run1, Phase: PhaseRunning}
	cookie, csrf := s.logIn(t, s.operate)
	_, other := s.logIn(t, s.operate)
	for name, sent := range map[string]string{"none": "", "of another session": other, "right": csrf} {
		res, _ := s.call(t, "POST", "/clusters/"+prod+"/pause", "", "csrf="+url.QueryEscape(sent), "Cookie", cookie, "Content-Type", form)
		if want := map[bool]int{true: 303, false: 403}[name == "right"]; res.StatusCode != want {
			t.Errorf("secret %s: %d, want %d", name, res.StatusCode, want)
		}
	}
	if len(s.acts) != 1 {
		t.Errorf("did %v", s.acts)
	}
	res, _ := s.call(t, "POST", "/logout", "", "csrf="+url.QueryEscape(csrf), "Cookie", cookie, "Content-Type", form)
	if res.StatusCode != 303 {
		t.Errorf("logout: %d", res.StatusCode)
	}
	if res, _ := s.call(t, "GET", "/api/v1/clusters", "", "", "Cookie", cookie); res.StatusCode != 401 {
		t.Errorf("the cookie is good after the logout: %d", res.StatusCode)
	}
}

func TestUnderTLSTheCookieIsBoundToTheHost(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Exposure = access.Exposure{Address: "0.0.0.0:1", TLS: true, Tokens: 2} })
	res, _ := s.call(t, "POST", "/login", "", "token="+s.read, "Content-Type", form)
	if c := res.Cookies()[0]; c.Name != "__Host-trueup" || !c.Secure || c.Domain != "" {
		t.Errorf("the cookie is %v", c)
	}
	if res.Header.Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security")
	}
}

func TestNobodyIsSentElsewhereAfterALogin(t *testing.T) {
	for path, want := range map[string]string{"/clusters/x?y=1": "/clusters/x?y=1", "": "/", "https://attacker.example": "/", "//attacker.example": "/", `/\attacker.example`: "/", "javascript:alert(1)": "/", "/\tx": "/"} {
		if got := inside(path); got != want {
			t.Errorf("inside(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestAnotherNameIsRefused(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Hosts = []string{"trueup.example"} })
	for host, want := range map[string]int{"attacker.example": 421, "trueup.example": 200, "localhost:8420": 200} {
		if res, _ := s.call(t, "GET", "/api/v1/clusters", s.read, "", "Host", host); res.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, res.StatusCode, want)
		}
	}
}

func TestHeadersOnEveryAnswer(t *testing.T) {
	s := newSite(t, withMetrics)
	for pattern, c := range reaches() {
		for _, host := range []string{"localhost", "attacker.example"} {
			res, _ := s.call(t, c.method, c.path, s.read, c.body, "Host", host, "Content-Type", c.kind)
			h := res.Header
			csp := h.Get("Content-Security-Policy")
			if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || !strings.HasPrefix(h.Get("Cache-Control"), "no-") {
				t.Errorf("%s as %s: headers %v", pattern, host, h)
			}
		}
	}
}

func TestWithoutAnAuditNothingIsDone(t *testing.T) {
	s := newSite(t, nil)
	s.noAudit = true
	res, text := s.call(t, "POST", "/api/v1/clusters/"+prod+"/pause", s.operate, "{}")
	if res.StatusCode != 503 || len(s.acts) != 0 || strings.Contains(text, "disk full") {
		t.Errorf("%d %s, did %v", res.StatusCode, text, s.acts)
	}
}

func TestWhereNothingIsSafeNoHandlerIsMade(t *testing.T) {
	if _, err := New(Options{Exposure: access.Exposure{Address: "0.0.0.0:80"}}); err == nil {
		t.Error("a handler for everybody in the clear")
	}
}
