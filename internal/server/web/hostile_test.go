package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/server/access"
	"github.com/cks-trueup/trueup/internal/server/graceful"
	"github.com/cks-trueup/trueup/internal/survey"
)

// markup is a name that an attacker would choose, if CloudStack let them.
const markup = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`

// TestNamesFromOutsideAreNoMarkup puts markup into every text that comes from CloudStack, Kubernetes, guests and people.
func TestNamesFromOutsideAreNoMarkup(t *testing.T) {
	s := newSite(t, nil)
	fault := &rollout.Fault{Layer: capacity.LayerGuest, Summary: markup, Expected: markup, Observed: markup, Recover: markup, Details: []string{markup}}
	d := s.cluster[prod]
	d.Name, d.Endpoint, d.State, d.Window, d.Unread, d.Waiting, d.Next, d.Readable = markup, markup, markup, markup, markup, markup, markup, false
	d.Now = &Rollout{Run: run1, Command: markup, Actor: markup, Why: markup, Phase: PhaseUnfinished, Node: markup, Move: markup, Error: markup}
	m := member(markup, rollout.RoleWorker, 4, 8192, 2, 4096, 2)
	m.Views.Instance.OfferingName, m.Views.Instance.State = markup, markup
	m.Problems = []survey.Problem{{View: capacity.ViewGuest, Text: markup}}
	m.Claim = &rollout.Claim{Run: markup, Actor: markup, Why: markup, Fault: fault, Cordoned: true, Goal: capacity.Offering{Name: markup}}
	d.Members, d.Offerings = []survey.Node{m}, []capacity.Offering{{ID: markup, Name: markup}}
	d.Preflight[0].Node, d.Preflight[0].Name, d.Preflight[0].Evidence, d.Preflight[1].Remedy = markup, markup, markup, markup
	for i := range s.entries {
		s.entries[i].Cluster, s.entries[i].Actor, s.entries[i].Why, s.entries[i].Error, s.entries[i].Notes = markup, markup, markup, markup, []string{markup}
	}
	s.hub.Publish(prod, run1, rollout.Event{Target: rollout.Target{Name: markup}, Move: markup, Text: markup})
	s.hub.Publish(prod, run1, rollout.Event{Target: rollout.Target{Name: markup}, Fault: fault})
	p, _ := s.Plan(t.Context(), prod, Request{Command: markup, Why: markup}, markup)
	p.ClusterName, p.Refused, p.Warnings, p.Nodes[0].Target.Name, p.Nodes[0].Moves[0].Sentence = markup, markup, []string{markup}, markup, markup
	s.plans[p.ID] = p
	for _, path := range []string{"/", "/clusters/" + prod, "/clusters/" + prod + "/plans/" + p.ID, "/clusters/" + prod + "/rollouts/" + run1, "/clusters/" + prod + "/rollouts/old-run", "/history?cluster=" + escape(markup), "/login?next=/" + escape(markup), "/" + escape(markup)} {
		_, text := s.call(t, "GET", path, s.operate, "")
		if strings.Contains(text, "<script>alert") || strings.Contains(text, "<img") || strings.Contains(text, "onerror=alert(1)>\"") {
			t.Errorf("%s shows markup from outside", path)
		}
		if path != "/"+escape(markup) && !strings.Contains(html.UnescapeString(text), "onerror=alert(1)") {
			t.Errorf("%s does not show the names at all: the test would prove nothing", path)
		}
		if n := strings.Count(text, "<script"); n != 1 {
			t.Errorf("%s has %d scripts", path, n)
		}
		for _, inline := range []string{" style=", "<style", " onclick=", "javascript:"} {
			if strings.Contains(text, inline) {
				t.Errorf("%s has %q", path, inline)
			}
		}
	}
}

// canary is a secret that must not come out. An error of a port that is none of ours may hold one.
const canary = "canary-3f9a7c"

func TestSecretsComeOutNowhere(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)); withMetrics(o) })
	token, text, _ := access.NewToken("canary", access.Operate)
	s.keys.Replace([]access.Token{token})
	s.operate = text
	cookie, csrf := s.logIn(t, text)
	_, session, _ := strings.Cut(cookie, "=")
	s.cluster[prod].Now = &Rollout{Run: run1, Phase: PhaseRunning}
	s.Plan(t.Context(), prod, Request{Command: "scale"}, "test")
	var out strings.Builder
	for _, err := range []error{nil, errors.New("password " + canary)} {
		s.err = err
		for _, c := range reaches() {
			if c.path == "/logout" {
				continue
			}
			for _, header := range [][]string{{"Cookie", cookie, "X-Csrf-Token", csrf}, {"Authorization", "Bearer " + text}} {
				if c.kind != "" {
					header = append(header, "Content-Type", c.kind)
				}
				body := c.body
				if c.path == "/login" && body != "" {
					body = "token=" + canary // a token that was mistyped
				}
				res, page := s.call(t, c.method, c.path, "", body, header...)
				fmt.Fprintln(&out, c.method, c.path, res.StatusCode, res.Header, page)
			}
		}
	}
	fmt.Fprintln(&out, s.records)
	for name, secret := range map[string]string{"an error's": canary, "the token": text, "the token's hash": token.Line()[strings.LastIndex(token.Line(), " ")+1:], "the session": session} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s secret is in an answer or a record", name)
		}
		if name != "an error's" && strings.Contains(log.String(), secret) {
			t.Errorf("%s secret is in the log", name)
		}
	}
	if !strings.Contains(log.String(), "ref=") || !strings.Contains(out.String(), "ref=") {
		t.Error("an internal error has no reference in log and answer")
	}
}

// listen serves on a real listener and returns its address.
func (s *site) listen(t *testing.T) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, s.handler, slog.New(slog.DiscardHandler)) }()
	return l.Addr().String(), func() error { cancel(); return <-ended }
}

// follow opens a stream and returns its lines.
func (s *site) follow(t *testing.T, address, path, token, after string) (*bufio.Reader, *http.Response) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	req.Header.Set("Authorization", "Bearer "+token)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return bufio.NewReader(res.Body), res
}

func next(t *testing.T, r *bufio.Reader, prefix string) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended before %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
}

func TestAStreamReplaysAndGoesOn(t *testing.T) {
	s := newSite(t, nil)
	address, stop := s.listen(t)
	s.play(run1, 3)
	r, _ := s.follow(t, address, "/api/v1/clusters/"+prod+"/events", s.read, "2")
	if got := next(t, r, "id:"); got != "id: 3" {
		t.Errorf("after 2 comes %q", got)
	}
	s.hub.Changed(prod)
	if got := next(t, r, "event:"); got != "event: move" {
		t.Errorf("got %q", got)
	}
	if got := next(t, r, "event:"); got != "event: changed" {
		t.Errorf("got %q", got)
	}
	began := time.Now()
	if err := stop(); err != nil || time.Since(began) >= graceful.LastWords { // a stream does not hold up the end
		t.Errorf("the end took %s: %v", time.Since(began), err)
	}
}

func TestStreamsOfOneNameAreBounded(t *testing.T) {
	s := newSite(t, nil)
	address, stop := s.listen(t)
	for range mostOfOne {
		if _, res := s.follow(t, address, "/api/v1/events", s.read, ""); res.StatusCode != 200 {
			t.Fatalf("a stream within the bound: %d", res.StatusCode)
		}
	}
	if _, res := s.follow(t, address, "/api/v1/events", s.read, ""); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d", res.StatusCode)
	}
	if _, res := s.follow(t, address, "/api/v1/events", s.operate, ""); res.StatusCode != 200 {
		t.Errorf("somebody else's: %d", res.StatusCode)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestWhoDoesNotReadIsNotWaitedFor has a reader that takes nothing, while events flow and others read on.
func TestWhoDoesNotReadIsNotWaitedFor(t *testing.T) {
	s := newSite(t, nil)
	address, stop := s.listen(t)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", s.operate)
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	good, _ := s.follow(t, address, "/api/v1/events", s.read, "")
	next(t, good, "retry:")
	text := strings.Repeat("x", 16<<10)
	for i := range 2000 {
		s.hub.Publish(prod, "run", rollout.Event{Text: text})
		next(t, good, fmt.Sprintf("id: %d", i+1))
	}
	s.hub.mu.Lock()
	left := len(s.hub.watchers)
	s.hub.mu.Unlock()
	if left != 1 {
		t.Errorf("%d watchers are left: who does not read must be dropped", left)
	}
	_ = conn.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestManyReadersWhileARolloutRuns(t *testing.T) {
	s := newSite(t, nil)
	address, stop := s.listen(t)
	var readers sync.WaitGroup
	var tokens []access.Token
	const people, each, events = 8, 12, 40
	texts := make([]string, people)
	for i := range people {
		token, text, _ := access.NewToken(fmt.Sprintf("reader-%d", i), access.Read)
		tokens, texts[i] = append(tokens, token), text
	}
	s.keys.Replace(tokens)
	for i := range people * each {
		r, res := s.follow(t, address, "/api/v1/clusters/"+prod+"/events", texts[i%people], "")
		if res.StatusCode != 200 {
			t.Fatalf("reader %d: %d", i, res.StatusCode)
		}
		next(t, r, "retry:")
		readers.Go(func() {
			for n := range events {
				if line, err := readID(r); err != nil || line != fmt.Sprintf("id: %d", n+1) {
					t.Errorf("reader %d: %q, %v; want event %d", i, line, err, n+1)
					return
				}
			}
		})
	}
	for range events {
		s.hub.Publish(prod, run1, rollout.Event{Text: "x"})
		if res, _ := s.call(t, "GET", "/api/v1/clusters/"+prod, texts[0], ""); res.StatusCode != 200 {
			t.Errorf("a page beside the streams: %d", res.StatusCode)
		}
	}
	readers.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func readID(r *bufio.Reader) (string, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "id:") {
			return strings.TrimSpace(line), err
		}
	}
}

// TestBrokenAndSlowRequests opens connections that never end their request. Others are answered meanwhile, and the connections are cut.
func TestBrokenAndSlowRequests(t *testing.T) {
	s := newSite(t, nil)
	address, stop := s.listen(t)
	var slow []net.Conn
	for _, part := range []string{"GET / HT", "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\ntok", "\x16\x03\x01\x00", ""} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, part)
		slow = append(slow, conn)
	}
	if res, _ := s.call(t, "GET", "/api/v1/clusters", s.read, ""); res.StatusCode != 200 {
		t.Errorf("beside them: %d", res.StatusCode)
	}
	_ = slow[0].SetReadDeadline(time.Now().Add(2 * readHeader))
	if _, err := io.Copy(io.Discard, slow[0]); err != nil {
		t.Errorf("a header that does not end is not cut off: %v", err)
	}
	res, text := s.call(t, "POST", "/api/v1/clusters/"+prod+"/plans", s.operate, `{"why":"`+strings.Repeat("x", mostBody)+`"}`)
	if res.StatusCode != 413 || len(s.acts) != 0 {
		t.Errorf("a large body: %d %s", res.StatusCode, text)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestABrowserThatGoesAwayDoesNotEndAnAct(t *testing.T) {
	s := newSite(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	req.SetPathValue("id", prod)
	srv := &server{Options: s.options}
	_, err := srv.act(req, caller{}, "pause", func(ctx context.Context, _ string) (string, error) { return "", ctx.Err() })
	if err != nil {
		t.Errorf("the act ended with the request: %v", err)
	}
}

func TestRequestsForPlansThatCantBeMeant(t *testing.T) {
	s := newSite(t, nil)
	for body, want := range map[string]int{
		`{"command":"scale","goals":{"worker":"big"},"why":"größer, 更多"}`: 201,
		`{"command":"reconcile"}`:                                             201,
		`{"command":"scale"}`:                                                 400,
		`{"command":"reconcile","goals":{"worker":"big"}}`:                    400,
		`{"command":"abort"}`:                                                 400,
		`{"command":"scale","goals":{"worker":""}}`:                           400,
		`{"command":"scale","goals":{"root":"big"}}`:                          400,
		`{"command":"scale","goals":{"worker":"big"},"method":"cold"}`:        400,
		`{"command":"scale","goals":{"worker":"big"},"why":"\u001b[2Jgone"}`:  400,
		`{"command":"scale","goals":{"worker":"a\nb"}}`:                       400,
		`{"command":"scale","goals":{"worker":"big"},"nodes":["\u202egnp"]}`:  400,
		`{"command":"scale","goals":{"worker":"big"},"ignore":["\u0000"]}`:    400,
		`{"command":"scale","goals":{"worker":"big"}}{"command":"reconcile"}`: 400,
	} {
		before := len(s.acts)
		res, text := s.call(t, "POST", "/api/v1/clusters/"+prod+"/plans", s.operate, body)
		if res.StatusCode != want || (want == 400) != (len(s.acts) == before) {
			t.Errorf("%s: %d, want %d: %s", body, res.StatusCode, want, text)
		}
	}
	if res, _ := s.call(t, "POST", "/api/v1/clusters/"+prod+"/plans", s.operate, `{"command":"reconcile"}`, "Content-Type", "text/plain"); res.StatusCode != 400 {
		t.Errorf("a body of another kind, as a form of another site can send: %d", res.StatusCode)
	}
}
