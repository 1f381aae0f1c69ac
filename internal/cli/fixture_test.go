package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

var update = flag.Bool("update", false, "write the golden files, and docs/commands.md, anew")

// The texts that must never be seen anywhere. Those of the account are made by the stand-in.
const (
	secretToken   = "canary-token-of-the-kubeconfig"
	secretKeyData = "Y2FuYXJ5LWtleS1vZi10aGUta3ViZWNvbmZpZw=="
)

const kubeconfigText = `apiVersion: v1
kind: Config
current-context: prod
contexts: [{name: prod, context: {cluster: prod, user: admin}}]
clusters: [{name: prod, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: admin, user: {token: ` + secretToken + `, client-key-data: ` + secretKeyData + `}}]
`

// program is one call of the program against a fleet, and what it printed.
type program struct {
	in         io.Reader
	env        map[string]string
	interrupts chan os.Signal
	screen     screen
	out, err   synced
	code       int
}

// synced is a buffer that several goroutines may write to.
type synced struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// play runs a test in a bubble of virtual time with a new fleet. At its end nothing of any program may have told a secret.
func play(t *testing.T, test func(*testing.T, *stage)) {
	t.Helper()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fleet: newFleet(t), home: home}
		test(t, s)
		s.Close()
		s.checkSecrets(t)
	})
}

// stage is a fleet, and all programs that were run on it.
type stage struct {
	*fleet

	home      string
	programs  []*program
	onlyLooks bool // in Kubernetes, nothing but looking is allowed
}

func (s *stage) history() string { return filepath.Join(s.home, "history.jsonl") }

// trueup runs the program, after the changes to how it is called.
func (s *stage) trueup(t *testing.T, args string, changes ...func(*program)) *program {
	t.Helper()
	p := &program{in: strings.NewReader(""), interrupts: make(chan os.Signal, 2), env: map[string]string{
		"HOME": s.home, "TRUEUP_HISTORY": s.history(),
		"CLOUDSTACK_API_URL": "https://cloudstack.example" + standin.Path, "CLOUDSTACK_API_KEY": s.owner.APIKey, "CLOUDSTACK_SECRET_KEY": s.owner.SecretKey,
	}}
	for _, change := range changes {
		change(p)
	}
	s.programs = append(s.programs, p)
	p.code = s.app(t, p).main(t.Context(), strings.Fields(args))
	return p
}

func (s *stage) app(t *testing.T, p *program) *app {
	a := newApp(Streams{In: p.in, Out: &p.out, Err: &p.err, Interrupts: p.interrupts, Version: "1.2.3",
		Env: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok }})
	a.transport = s.Transport()
	a.openGuests = func(*session) (guests, error) { return fleetGuests{s.fleet}, nil }
	a.openKube = func(context.Context, *session) (kubernetes, error) {
		if s.onlyLooks {
			return onlyLooks{fleetKube{s.fleet}, t}, nil
		}
		return fleetKube{s.fleet}, nil
	}
	a.screen = func(io.Writer) screen { return p.screen }
	a.actor = func() string { return "ops@bastion" }
	a.newRun = func() string { return "run-" + string(rune('0'+len(s.programs))) }
	return a
}

// on shows the program's streams on a terminal.
func on(columns, rows int) func(*program) {
	return func(p *program) { p.screen = screen{is: true, columns: columns, rows: rows} }
}

func answering(text string) func(*program) {
	return func(p *program) { p.in = strings.NewReader(text) }
}

func with(name, value string) func(*program) {
	return func(p *program) { p.env[name] = value }
}

// want checks the exit code, and shows everything if it is another one.
func (p *program) want(t *testing.T, code int) *program {
	t.Helper()
	if p.code != code {
		t.Errorf("exit code %d, want %d; it said:\n%s\n%s", p.code, code, p.err.String(), p.out.String())
	}
	return p
}

// says checks that standard error has all parts.
func (p *program) says(t *testing.T, parts ...string) *program {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(p.err.String(), part) {
			t.Errorf("standard error does not say %q:\n%s", part, p.err.String())
		}
	}
	return p
}

// prints checks that standard output has all parts.
func (p *program) prints(t *testing.T, parts ...string) *program {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(p.out.String(), part) {
			t.Errorf("standard output does not have %q:\n%s", part, p.out.String())
		}
	}
	return p
}

// oneError checks that standard error ends with one line of error and nothing after it.
func (p *program) oneError(t *testing.T) *program {
	t.Helper()
	text := p.err.String()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "trueup: ") || !strings.HasSuffix(text, "\n") || strings.Count(text, "trueup: ") != 1 {
		t.Errorf("standard error does not end with its one error:\n%q", text)
	}
	return p
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	goldenFile(t, filepath.Join("testdata", name), text)
}

func goldenFile(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-file +now); if now is right: go test ./internal/cli -update\n%s", path, diff)
	}
}

// checkSecrets looks for secrets in everything that was printed or kept.
func (s *stage) checkSecrets(t *testing.T) {
	t.Helper()
	kept, err := os.ReadFile(s.history())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	places := map[string]string{"history": string(kept), "events": strings.Join(s.events, "\n")}
	for _, m := range s.nodes {
		places["claim on "+m.node.Name] = m.node.Claim
	}
	for i, p := range s.programs {
		places["output of program "+string(rune('1'+i))] = p.out.String() + p.err.String()
	}
	for place, text := range places {
		for what, secret := range map[string]string{"secret key": s.owner.SecretKey, "token": secretToken, "private key": secretKeyData} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has the %s:\n%s", place, what, text)
			}
		}
	}
}

// changes lists everything that was changed anywhere: requests that change something, and calls of that kind to guests and Nodes.
func (s *stage) changes() (out []string) {
	for _, r := range s.Requests() {
		if r.Mutating {
			out = append(out, r.Command)
		}
	}
	for _, c := range s.calls {
		if !strings.HasPrefix(c, "guest ") && c != "list nodes" {
			out = append(out, c)
		}
	}
	return out
}
