package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// checks are the checks that preflight prints, as a machine reads them.
func (s *stage) checks(t *testing.T, args string, code int) preflightDocument {
	t.Helper()
	var doc preflightDocument
	text := s.trueup(t, "preflight "+args+" -o json").want(t, code).out.String()
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return doc
}

func TestPreflight(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		golden(t, "preflight-100.txt", s.trueup(t, "preflight prod --worker big --node prod-node-18f3c0d7b2", on(100, 24)).want(t, ExitOK).out.String())
		s.node(1).guest.CPUManagerPolicy = "static"
		p := s.trueup(t, "preflight prod --worker big").want(t, ExitRefused).oneError(t)
		p.prints(t, "FAIL     cpu-manager", "pass     memory-manager")
		doc := s.checks(t, "prod --worker big", ExitRefused)
		i := slices.IndexFunc(doc.Checks, func(c namedPreflight) bool { return c.Verdict == preflight.Fail })
		if i < 0 || doc.Pass || doc.Checks[i].Name != "cpu-manager" || doc.Checks[i].Node != "prod-node-18f3c0d7b2" || doc.Checks[i].Remedy == "" {
			t.Errorf("%+v", doc)
		}
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// A check is ignored by its name alone, that is kept in the history, and resume keeps it. What the promises rest on can't be ignored.
func TestIgnore(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).guest.CPUManagerPolicy, s.node(2).guest.CPUManagerPolicy = "static", "static"
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused)
		s.trueup(t, "scale prod --worker big --yes --ignore memtotal").want(t, ExitRefused)
		if doc := s.checks(t, "prod --worker big --ignore cpu-manager", ExitOK); !doc.Pass || !slices.ContainsFunc(doc.Checks, func(c namedPreflight) bool { return c.Verdict == preflight.Ignored }) {
			t.Errorf("%+v", doc)
		}
		s.node(1).mute = true
		s.trueup(t, "scale prod --worker big --yes --verify-timeout 10s --ignore cpu-manager").want(t, ExitPartly).says(t, "next: trueup resume prod")
		s.mend(1)
		s.trueup(t, "resume prod --yes").want(t, ExitOK)
		if s.node(2).guest.CPUsOnline != 4 {
			t.Errorf("%+v", s.node(2).guest)
		}
		s.trueup(t, "history -o json").want(t, ExitOK).prints(t, "checks ignored: cpu-manager")
		for _, name := range []string{"ssh-identity", "foreign-marks", "etcd", "nosuch"} {
			s.trueup(t, "scale prod --worker big --yes --ignore "+name).want(t, ExitUsage).says(t, `--ignore "`+name+`": no check of that name can be ignored`).oneError(t)
		}
	})
}

// Every check has its entry in docs/preflight.md, which says rightly whether it can be ignored.
func TestEveryPreflightCheckIsExplained(t *testing.T) {
	text := read(t, filepath.Join("..", "..", "docs", "preflight.md"))
	seen := map[string]bool{}
	play(t, func(t *testing.T, s *stage) {
		s.withEtcd()
		for _, c := range s.checks(t, "db --offering big --etcd big", ExitOK).Checks {
			seen[c.Name] = true
		}
	})
	rows := 0
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |")
		if !ok || !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		if !seen[name] {
			t.Errorf("docs/preflight.md explains %s, which is no check", name)
		}
		delete(seen, name)
		if want := rollout.Ignorable(name) || preflight.Ignorable(name); strings.HasSuffix(strings.TrimSpace(rest), "| yes |") != want {
			t.Errorf("docs/preflight.md is wrong about whether %s can be ignored", name)
		}
	}
	for name := range seen {
		t.Errorf("check %s is not explained in docs/preflight.md", name)
	}
	if rows < 25 {
		t.Errorf("only %d checks", rows)
	}
}
