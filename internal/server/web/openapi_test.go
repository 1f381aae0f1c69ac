package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// described is openapi.json, and its schemas compiled when they are needed.
type described struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
}

const documentURL = "https://trueup.test/openapi.json"

func describedAPI(t testing.TB) *described {
	t.Helper()
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(string(openapiDocument())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(documentURL, raw); err != nil {
		t.Fatal(err)
	}
	return &described{raw.(map[string]any), c}
}

func pointer(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return documentURL + "#/" + strings.Join(parts, "/")
}

// operation returns the operation of a pattern such as "GET /api/v1/clusters/{id}".
func (d *described) operation(pattern string) (map[string]any, string, string) {
	method, path, _ := strings.Cut(pattern, " ")
	method = strings.ToLower(method)
	item, _ := d.doc["paths"].(map[string]any)[path].(map[string]any)
	op, _ := item[method].(map[string]any)
	return op, path, method
}

// check holds an answer against the description: the status must be listed, its content type too, and its body must be of the schema.
func (d *described) check(t testing.TB, pattern string, res *http.Response, body string) {
	t.Helper()
	op, path, method := d.operation(pattern)
	if op == nil {
		t.Errorf("%s is not described", pattern)
		return
	}
	status := http.StatusText(res.StatusCode)
	code := strings.TrimSpace(res.Status[:3])
	answer, ok := op["responses"].(map[string]any)[code].(map[string]any)
	if !ok {
		t.Errorf("%s answers %s %s, which is not described: %s", pattern, code, status, body)
		return
	}
	at := []string{"paths", path, method, "responses", code}
	if _, isRef := answer["$ref"]; isRef {
		at, answer = []string{"components", "responses", "Problem"}, d.doc["components"].(map[string]any)["responses"].(map[string]any)["Problem"].(map[string]any)
	}
	kind := res.Header.Get("Content-Type")
	if _, ok := answer["content"].(map[string]any)[kind]; !ok {
		t.Errorf("%s answers %s with the content type %q, which is not described", pattern, code, kind)
		return
	}
	if kind == "text/event-stream" {
		return
	}
	schema, err := d.compiler.Compile(pointer(append(at, "content", kind, "schema")...))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s answers %s with a body that is not as described: %v\n%s", pattern, code, err, body)
	}
}

// valid reports whether a body is one that the description allows for the pattern.
func (d *described) valid(t testing.TB, pattern, body string) bool {
	_, path, method := d.operation(pattern)
	schema, err := d.compiler.Compile(pointer("paths", path, method, "requestBody", "content", "application/json", "schema"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	return err == nil && schema.Validate(value) == nil
}

func TestEveryRouteIsDescribedAndEveryAnswerIsAsDescribed(t *testing.T) {
	d := describedAPI(t)
	described := 0
	for _, item := range d.doc["paths"].(map[string]any) {
		described += len(item.(map[string]any))
	}
	routes := 0
	for pattern, c := range reaches() {
		if !strings.Contains(pattern, " /api/") {
			continue
		}
		routes++
		for _, token := range []string{"operate", "read", ""} {
			s := newSite(t, nil)
			s.Plan(t.Context(), prod, Request{Command: "scale", Goals: map[rollout.Role]string{"worker": "big"}}, "test")
			if c.needs == "operate" {
				s.cluster[prod].Now = &Rollout{Run: run1, Command: "scale", Phase: PhaseRunning, Began: time.Now(), Node: "n", Move: rollout.MoveResize, Total: 3}
			}
			who := map[string]string{"operate": s.operate, "read": s.read, "": ""}[token]
			res, body := s.call(t, c.method, c.path, who, c.body)
			d.check(t, pattern, res, body)
			res, body = s.call(t, c.method, strings.ReplaceAll(c.path, prod, "no-such-cluster"), who, c.body)
			d.check(t, pattern, res, body)
			res, body = s.call(t, c.method, c.path, who, c.body, "Host", "attacker.example")
			d.check(t, pattern, res, body)
			for _, kind := range []error{ErrConflict, ErrRefused, ErrUnavailable, io.ErrUnexpectedEOF} {
				s.err = kind
				res, body = s.call(t, c.method, c.path, who, c.body)
				d.check(t, pattern, res, body)
			}
		}
	}
	if routes != described {
		t.Errorf("%d routes, %d operations are described", routes, described)
	}
}

// TestRunningRolloutIsAsDescribed looks at the documents with all their parts.
func TestRunningRolloutIsAsDescribed(t *testing.T) {
	s, d := newSite(t, nil), describedAPI(t)
	s.play(run1, 60)
	s.cluster[prod].Now = &Rollout{Run: run1, Command: "scale", Actor: "olga", Why: "more", Phase: PhaseRunning, Began: time.Now(), Node: "prod-node-1", Move: rollout.MoveVerify, Done: 1, Total: 3}
	for pattern, path := range map[string]string{"GET /api/v1/clusters/{id}/rollouts/{run}": "/rollouts/" + run1, "GET /api/v1/clusters/{id}": "", "GET /api/v1/clusters/{id}/rollouts": "/rollouts"} {
		res, body := s.call(t, "GET", "/api/v1/clusters/"+prod+path, s.read, "")
		if !strings.Contains(body, run1) {
			t.Errorf("%s does not show the run: %s", pattern, body)
		}
		d.check(t, pattern, res, body)
	}
}

// FuzzAPI sends bodies, paths and queries: every answer must be one that is described, a valid body must not be called invalid, and one that is
// not valid must not lead to an act.
func FuzzAPI(f *testing.F) {
	for _, body := range []string{`{"command":"scale","goals":{"worker":"big"}}`, `{"command":"reconcile"}`, `{"command":"scale","goals":{"root":"x"}}`, `null`, `[]`, `{`, `{"plan":"plan-1"}`, `{"plan":""}`,
		`{"command":"scale","goals":{"worker":"big"},"nodes":["a\u0000b"]}`, `{}`, `{"Command":"scale","goals":{"worker":"x"}}`} {
		f.Add(body, "id", "limit=3")
	}
	f.Add("{}", "../..", "limit=-1&cluster=%00")
	d := describedAPI(f)
	f.Fuzz(func(t *testing.T, body, id, query string) {
		s := newFuzzed(t)
		for pattern, c := range reaches() {
			if !strings.Contains(pattern, " /api/") || strings.HasSuffix(pattern, "/events") {
				continue
			}
			path := strings.ReplaceAll(c.path, "limit=5", query)
			if id != "id" && id != "." && id != ".." && id != "" {
				path = strings.ReplaceAll(path, prod, url.PathEscape(id))
			}
			u, err := url.Parse("http://localhost" + path)
			if err != nil {
				continue
			}
			req := httptest.NewRequestWithContext(t.Context(), c.method, "http://localhost/", strings.NewReader(body))
			req.URL, req.RequestURI = u, u.RequestURI()
			req.Host = "localhost"
			req.Header.Set("Authorization", "Bearer "+s.operate)
			req.Header.Set("Content-Type", "application/json")
			before := len(s.acts)
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, req)
			res := w.Result()
			if res.StatusCode == http.StatusMovedPermanently || res.StatusCode == http.StatusTemporaryRedirect { // the mux cleans paths
				continue
			}
			if res.StatusCode >= 500 {
				t.Errorf("%s: %d for %q", pattern, res.StatusCode, body)
			}
			d.check(t, pattern, res, w.Body.String())
			if c.method == http.MethodPost && body != "" && len(s.acts) > before && !d.valid(t, pattern, body) {
				t.Errorf("%s did %v for a body that is not valid: %q", pattern, s.acts[before:], body)
			}
		}
	})
}

// newFuzzed is a site without a listener.
func newFuzzed(t *testing.T) *site {
	s := newSite(t, nil)
	s.Plan(t.Context(), prod, Request{Command: "scale"}, "test")
	s.acts = nil
	s.cluster[prod].Now = &Rollout{Run: run1, Command: "scale", Phase: PhaseRunning}
	return s
}

// play publishes the events of a rollout of three nodes, as many as are asked for.
func (f *fake) play(run string, events int) {
	at := f.now().Add(-40 * time.Second)
	told := 0
	for _, name := range []string{"prod-node-18f3c0d7b2", "prod-node-18f3c0dbc3", "prod-node-18f3c0dfd4"} {
		target := rollout.Target{ClusterID: prod, ClusterName: "prod", Role: rollout.RoleWorker, Name: name, InstanceID: "id-" + name}
		for _, e := range turnOf(name) {
			if told++; told > events {
				return
			}
			at = at.Add(1700 * time.Millisecond)
			e.At, e.Target = at, target
			f.hub.Publish(prod, run, e)
		}
	}
}

func turnOf(name string) []rollout.Event {
	waits := rollout.Event{Move: rollout.MoveResize, Check: capacity.Check{What: "offering of the instance", Expected: "big (4 CPU / 8192 MiB)", Observed: "small (2 CPU / 4096 MiB), job dafc1f1f pending"}}
	return []rollout.Event{
		{Move: rollout.MoveClaim, Action: rollout.ActionClaim, Text: "cordon Node " + name + " and record the claim, in one patch"},
		{Move: rollout.MoveResize, Action: rollout.ActionResize, Text: "scaleVirtualMachine " + name + " from small to big (4 CPU / 8192 MiB)"}, waits,
		{Move: rollout.MoveOnline, Action: rollout.ActionOnline, Text: "bring up 2 CPUs and 32 memory blocks of 128 MiB in the guest of " + name},
		{Move: rollout.MoveRestart, Action: rollout.ActionRestart, Text: "restart kubelet on " + name + ", once"},
		{Move: rollout.MoveVerify},
		{Move: rollout.MoveRelease, Action: rollout.ActionRelease, Text: "uncordon Node " + name + " and drop the claim, in one patch"},
		{Move: rollout.MoveRelease, Done: true},
	}
}
