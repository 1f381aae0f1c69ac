package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Meet implements enroller: a node without a key on file shows one that ends with its name.
func (f fleetGuests) Meet(_ context.Context, t rollout.Target) (guest.Contact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(t.InstanceID)
	c := guest.Contact{Target: t, Endpoint: guest.Endpoint{Address: "192.0.2.1:2222", User: "cloud"}, Known: f.trusted[t.Name] || f.trusted == nil, Guest: m.reading()}
	if !c.Known {
		c.Key, c.Fingerprint, c.Compare = "ssh-ed25519 AAAA"+t.Name, "SHA256:"+t.Name, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
	}
	return c, m.lost
}

// Trust implements enroller.
func (f fleetGuests) Trust(c guest.Contact) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trusted[c.Target.Name] = true
	return nil
}

func TestEnroll(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trusted = map[string]bool{"prod-control-18f3c0d2a1": true}
		s.trueup(t, "ssh enroll prod", answering("no\n")).want(t, ExitUsage).says(t, `nothing was changed: the answer was not "yes"`).prints(t, "unknown")
		p := s.trueup(t, "ssh enroll prod --node "+idOf(2), answering("yes\n"), on(100, 24), with("TRUEUP_KNOWN_HOSTS", "/home/ops/.config/trueup/known_hosts")).want(t, ExitOK)
		golden(t, "enroll.txt", p.out.String())
		golden(t, "enroll.stderr.txt", p.err.String())
		var doc enrollment
		if err := json.Unmarshal([]byte(s.trueup(t, "ssh enroll prod --yes -o json").want(t, ExitOK).out.String()), &doc); err != nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for _, n := range doc.Nodes {
			states[n.Target.Name] = n.State
		}
		want := map[string]string{"prod-control-18f3c0d2a1": stateKnown, "prod-node-18f3c0d7b2": stateKnown, "prod-node-18f3c0dbc3": stateEnrolled}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		s.trueup(t, "ssh enroll prod").want(t, ExitOK) // nothing is left to ask
	})
}

// What can't be met is told, and the others are enrolled all the same.
func TestEnrollWithFailures(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trusted = map[string]bool{}
		s.node(0).lost, s.node(1).lost = errors.New("its host key is another one"), errors.New("nobody answers")
		s.node(2).node.MachineID = "another"
		s.trueup(t, "ssh enroll prod --yes").want(t, ExitUnreachable).says(t, "trueup: its host key is another one", "trueup: nobody answers", "machine-id of the Node: another: NOT THE SAME")
		if len(s.trusted) != 0 {
			t.Errorf("a key was put on file although nobody looked, and the Node says something else: %v", s.trusted)
		}
		s.trueup(t, "ssh enroll prod", answering("yes\n")).want(t, ExitUnreachable)
		if !s.trusted["prod-node-18f3c0dbc3"] || len(s.trusted) != 1 {
			t.Errorf("%v", s.trusted)
		}
		s.trueup(t, "ssh enroll prod --node nosuch").want(t, ExitUsage).says(t, `"nosuch" is no node of prod; there are: prod-control-18f3c0d2a1`).oneError(t)
	})
}

func TestSSHWay(t *testing.T) {
	w := newWired(t)
	for args, says := range map[string]string{
		"--ssh-via tunnel":                    `--ssh-via "tunnel": it is direct, forwarded or jump=USER@HOST[:PORT]`,
		"--ssh-via direct=x":                  `--ssh-via "direct=x"`,
		"--ssh-via jump":                      `--ssh-via "jump"`,
		"--ssh-via jump=bastion":              "expected jump=USER@HOST",
		"--ssh-via jump=@bastion":             "expected jump=USER@HOST",
		"--ssh-via jump=me@bastion:0":         "expected jump=USER@HOST",
		"--ssh-via jump=me@bastion:ssh":       "expected jump=USER@HOST",
		"--ssh-port 70000":                    "--ssh-port 70000 is no port",
		"--ssh-port 2022 --ssh-via forwarded": "--ssh-via forwarded uses none",
		"--ssh-port -1":                       "--ssh-port -1 is no port",
		"--ssh-via jump=me@a:1,jump=me@b:2":   "expected jump=USER@HOST",
	} {
		w.trueup(t, "status prod "+args).want(t, ExitUsage).says(t, says).oneError(t)
	}
	// What it says is used: nobody answers at 10.x; the jump host is asked first, and has no key on file.
	p := w.trueup(t, "verify prod --ssh-via jump=me@127.0.0.1:1").want(t, ExitUnreachable)
	if text := p.out.String() + p.err.String(); !strings.Contains(text, "the jump host 127.0.0.1:1 (user me)") {
		t.Errorf("it does not tell of the jump host:\n%s", text)
	}
}

func TestJumpText(t *testing.T) {
	for text, want := range map[string]guest.Jump{
		"me@bastion":            {User: "me", Address: "bastion:22"},
		"me@bastion:2022":       {User: "me", Address: "bastion:2022"},
		"me@[2001:db8::1]:2022": {User: "me", Address: "[2001:db8::1]:2022"},
		"me@[2001:db8::1]":      {User: "me", Address: "[2001:db8::1]:22"},
		"me@corp@192.0.2.7":     {User: "me@corp", Address: "192.0.2.7:22"},
	} {
		a := newApp(Streams{Env: func(string) (string, bool) { return "/home/me", true }})
		want.KnownHosts = "/home/me/.ssh/known_hosts"
		if got, err := a.jump(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}
