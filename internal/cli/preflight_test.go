package cli

import (
	"encoding/json"
	"errors"
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

// A warning is shown by preflight, plan, scale and explain, as text and for machines, and refuses nothing.
func TestWarnings(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).inside.Kubelet.NeedsReload = true
		const name, shown = "prod-node-18f3c0d7b2", "configuration of kubelet changed since its start: expected none, observed the unit (systemd: NeedDaemonReload). The restart would apply it."
		s.trueup(t, "preflight prod --worker big").want(t, ExitOK).prints(t, "WARN     kubelet-config-changed    "+shown)
		doc := s.checks(t, "prod --worker big", ExitOK)
		i := slices.IndexFunc(doc.Checks, func(c namedPreflight) bool { return c.Verdict == preflight.Warn })
		if i < 0 || !doc.Pass || doc.Checks[i].Name != "kubelet-config-changed" || doc.Checks[i].Node != name || doc.Checks[i].Remedy == "" {
			t.Errorf("%+v", doc)
		}
		s.trueup(t, "plan prod --worker big").want(t, ExitOK).prints(t, "warning: "+shown)
		var plan planDocument
		if err := json.Unmarshal([]byte(s.trueup(t, "plan prod --worker big -o json").want(t, ExitOK).out.String()), &plan); err != nil || len(plan.Nodes) != 2 ||
			len(plan.Nodes[0].Warnings) != 1 || plan.Nodes[0].Warnings[0].Name != "kubelet-config-changed" || plan.Nodes[1].Warnings != nil {
			t.Errorf("%v: %+v", err, plan)
		}
		s.node(1).inside.Kernel.CPUsRefused = []string{"CPU2 failed to come online"}
		p := s.trueup(t, "explain prod "+name).want(t, ExitOK).prints(t, "warning      CPUs that the guest's kernel refused in this boot: expected none, observed CPU2 failed to come online")
		if strings.Contains(p.out.String(), "NeedDaemonReload") {
			t.Error("explain warns of a restart that is not due")
		}
		var explained explainDocument
		if err := json.Unmarshal([]byte(s.trueup(t, "explain prod "+name+" -o json").want(t, ExitOK).out.String()), &explained); err != nil || len(explained.Warnings) != 1 || explained.Inspection == nil {
			t.Errorf("%v: %+v", err, explained)
		}
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK).says(t, "warning: "+shown)
	})
}

// What is looked at only before the first change is looked at by those commands that tell of a change, and by no other.
func TestInspectionIsForChangesAlone(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		inspected := func() bool {
			found := slices.Contains(s.calls, "guest inspection prod-node-18f3c0d7b2")
			s.calls = nil
			return found
		}
		for _, args := range []string{"status prod", "verify prod"} {
			if s.trueup(t, args).want(t, ExitOK); inspected() {
				t.Errorf("%s inspects the guests", args)
			}
		}
		s.node(1).inside.DIMMsPlugged = 16
		for args, code := range map[string]int{"preflight prod --worker big": ExitRefused, "plan prod --worker big": ExitRefused, "scale prod --worker big --yes": ExitRefused, "explain prod prod-node-18f3c0d7b2": ExitOK} {
			if s.trueup(t, args).want(t, code); !inspected() {
				t.Errorf("%s does not inspect the guests", args)
			}
		}
		s.node(1).closed = errors.New("exit status 127")
		s.trueup(t, "scale prod --worker big --yes --ignore dimm-slots").want(t, ExitOK).says(t, "warning: inspection of the guest: expected an answer, observed exit status 127. What rests on it was not checked")
		s.node(1).closed, s.node(1).inside.DIMMsPlugged = nil, 16
		s.resizeBehind(t, 1, "huge")
		s.node(1).inside.OtherKubelets = []string{"k3s-agent.service is active"}
		s.trueup(t, "reconcile prod --yes").want(t, ExitRefused).says(t, "service that runs kubelet: expected kubeadm's kubelet.service alone, observed k3s-agent.service is active")
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
		s.nodes[len(s.nodes)-1].closed = errors.New("exit status 1")
		for _, c := range s.checks(t, "db --offering big --etcd big", ExitOK).Checks {
			seen[c.Name] = true
		}
		for _, c := range s.checks(t, "db --offering tiny --etcd tiny --method cold", ExitRefused).Checks {
			seen[c.Name] = true
		}
	})
	seen["pods-readable"], seen["drain-room"] = true, true // said only where they are not met
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
