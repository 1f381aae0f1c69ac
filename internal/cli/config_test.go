package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checks calls config check for a file with this text.
func checks(t *testing.T, text string, flags ...string) (code int, file, out, said string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "trueup.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{}
	a := newApp(Streams{In: strings.NewReader(""), Out: &p.out, Err: &p.err, Version: "1.2.3", Env: func(string) (string, bool) { return "", false }})
	code = a.main(t.Context(), append([]string{"config", "check", file}, flags...))
	return code, file, p.out.String(), p.err.String()
}

func TestConfigCheckSaysEachProblem(t *testing.T) {
	code, file, out, said := checks(t, "listen: 10.0.0.1:1\nendpoints:\n- name: a\n  profile: p\n  clusters: [{policies: heal}]\n")
	if code != ExitUsage || !strings.HasPrefix(out, file+":1: listen: ") || !strings.Contains(out, "\n"+file+":5: endpoints[0].clusters[0].policies: unknown key; did you mean policy?\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if !strings.Contains(said, "2 problems") || strings.Contains(out, "is fine") {
		t.Errorf("%s%s", out, said)
	}
	if code, _, out, _ = checks(t, "pprof: 1", "-o", "json"); code != ExitUsage || !json.Valid([]byte(out)) || !strings.Contains(out, `"path": "pprof"`) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestConfigCheckSaysWhatIsConfigured(t *testing.T) {
	text := `endpoints:
- name: zone-a
  profile: p
  clusters:
  - {names: ["prod-*"], policy: heal, windows: [{from: "00:00", to: "24:00"}]}
  - {paused: true}
notices: [{name: chat, slack: {url: {env: HOOK}}, kinds: [failed]}]
`
	code, file, out, said := checks(t, text)
	for _, want := range []string{
		file + ":7: notices[0].slack.url: warning: the environment variable that env names is not set here", "is fine.", "Endpoint zone-a",
		"1. names prod-*: heal, drift counts after 10m, in every day 00:00-24:00 UTC (open now, until for ever)",
		"2. every cluster: observe, drift counts after 10m, paused, at any time", "Notices by chat: failed",
	} {
		if code != ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %s without %q:\n%s", code, said, want, out)
		}
	}
}

func TestConfigCheckWithoutTheFile(t *testing.T) {
	p := &program{}
	a := newApp(Streams{In: strings.NewReader(""), Out: &p.out, Err: &p.err, Version: "1.2.3", Env: func(string) (string, bool) { return "", false }})
	if code := a.main(t.Context(), []string{"config", "check", "/nowhere/x.yaml"}); code != ExitUsage || !strings.Contains(p.err.String(), "/nowhere/x.yaml") {
		t.Errorf("exit code %d: %s", code, p.err.String())
	}
}
