package guest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// endpoint is where the machine answers.
func (m *machine) endpoint() Endpoint {
	return Endpoint{Address: m.listener.Addr().String(), User: "root"}
}

// other is another virtual machine of the cluster, with keys of its own and the same user key.
func (m *machine) other() *machine {
	o := newMachine(m.t)
	o.write("sys/class/dmi/id/product_uuid", "00000000-0000-4000-8000-00000000000f")
	o.write("ssh/authorized", m.read("ssh/authorized"))
	return o
}

// forwardings is a resolver over endpoints that change: first is where it was, then where it is.
func forwardings(first, then Endpoint) (Resolver, *[]Endpoint) {
	var failed []Endpoint
	return func(_ context.Context, _ rollout.Target, at Endpoint) (Endpoint, error) {
		failed = append(failed, at)
		if at == (Endpoint{}) {
			return first, nil
		}
		return then, nil
	}, &failed
}

// A size change gives every machine another port: where a machine is not found, its endpoint is looked up once more.
func TestEndpointThatMoved(t *testing.T) {
	m := newMachine(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	nobody := Endpoint{Address: closed.Addr().String(), User: "root"}
	wrong := m.other().endpoint()
	for name, test := range map[string]struct {
		first, then Endpoint
		denied      bool // the error when it is nowhere
		found       bool
	}{
		"nobody answers at the old one":        {first: nobody, then: m.endpoint(), found: true},
		"another machine answers there":        {first: wrong, then: m.endpoint(), found: true},
		"nobody answers, and it has not moved": {first: nobody, then: nobody},
		"another machine, and it has not":      {first: wrong, then: wrong, denied: true},
		"another machine at the new one too":   {first: nobody, then: wrong, denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := m.config()
			var failed *[]Endpoint
			cfg.Resolve, failed = forwardings(test.first, test.then)
			_, err := open(t, cfg).Guest(t.Context(), target())
			if got := err == nil; got != test.found {
				t.Errorf("err = %v, found %t, want %t", err, got, test.found)
			}
			if !test.found && errors.Is(err, rollout.ErrDenied) != test.denied {
				t.Errorf("err = %v, want denied %t", err, test.denied)
			}
			if len(*failed) != 2 || (*failed)[1] != test.first {
				t.Errorf("asked after %v, want once at first and once after %v", *failed, test.first)
			}
		})
	}
}

// What is no matter of the endpoint is not looked up again.
func TestEndpointThatDidNotMove(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	m.write("ssh/authorized", "")
	var failed *[]Endpoint
	cfg.Resolve, failed = forwardings(m.endpoint(), m.endpoint())
	if _, err := open(t, cfg).Guest(t.Context(), target()); !errors.Is(err, rollout.ErrDenied) || len(*failed) != 1 {
		t.Errorf("err = %v after %d lookups, want ErrDenied after one", err, len(*failed))
	}
}

func TestAcceptNewHostKeys(t *testing.T) {
	m := newMachine(t)
	stranger, _ := newKey(t)
	wrong := m.other()
	revoked := "@revoked " + line("*", m.hostKey)
	for name, test := range map[string]struct {
		at   *machine
		file []string // nil: there is none
		want string   // its content afterwards
		err  string   // empty: let in
	}{
		"no file":                          {at: m, want: line(vmID, m.hostKey) + "\n"},
		"lines of others":                  {at: m, file: []string{"# mine", line("other", stranger)}, want: "# mine\n" + line("other", stranger) + "\n" + line(vmID, m.hostKey) + "\n"},
		"on file":                          {at: m, file: []string{line(vmID, m.hostKey)}, want: line(vmID, m.hostKey) + "\n"},
		"another key on file":              {at: m, file: []string{line(vmID, stranger)}, want: line(vmID, stranger) + "\n", err: "installed anew"},
		"revoked":                          {at: m, file: []string{revoked}, want: revoked + "\n", err: "@revoked"},
		"another machine":                  {at: wrong, want: "", err: "another machine answers there: its DMI product UUID is 00000000-0000-4000-8000-00000000000f, expected the VM's id " + vmID},
		"another machine, lines of others": {at: wrong, file: []string{line("other", stranger)}, want: line("other", stranger) + "\n", err: "another machine"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := m.config()
			cfg.AcceptNew, cfg.Resolve = true, Endpoints{vmID: test.at.endpoint()}.Resolve
			cfg.KnownHosts = filepath.Join(t.TempDir(), "new", "known_hosts")
			if test.file != nil {
				cfg.KnownHosts = trust(t, test.file...)
			}
			_, err := open(t, cfg).Guest(t.Context(), target())
			if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || !errors.Is(err, rollout.ErrDenied)) {
				t.Errorf("err = %v, want %q", err, test.err)
			}
			expectFile(t, cfg.KnownHosts, test.want)
		})
	}
}

func expectFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s has\n%swant\n%s", path, got, want)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
}

// A last line without an end stays whole.
func TestRecordAfterAnUnfinishedLine(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	stranger, _ := newKey(t)
	cfg.AcceptNew, cfg.KnownHosts = true, filepath.Join(t.TempDir(), "known_hosts")
	must(t, os.WriteFile(cfg.KnownHosts, []byte(line("other", stranger)), 0o600))
	m.guest(cfg)
	expectFile(t, cfg.KnownHosts, line("other", stranger)+"\n"+line(vmID, m.hostKey)+"\n")
}

func TestMeet(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	cfg.KnownHosts = filepath.Join(t.TempDir(), "known_hosts")
	s := open(t, cfg)
	c, err := s.Meet(t.Context(), target())
	must(t, err)
	if c.Known || c.Fingerprint != ssh.FingerprintSHA256(m.hostKey.PublicKey()) || c.Guest.ProductUUID != vmID || c.Guest.MachineID != "0123456789abcdef0123456789abcdef" || c.Endpoint != m.endpoint() {
		t.Errorf("%+v", c)
	}
	expectFile(t, cfg.KnownHosts, "") // to meet is not to trust
	if _, err := s.Guest(t.Context(), target()); !errors.As(err, new(*HostKeyError)) {
		t.Errorf("err = %v, want a host key that is not believed", err)
	}
	must(t, s.Trust(c))
	expectFile(t, cfg.KnownHosts, line(vmID, m.hostKey)+"\n")
	must(t, s.Trust(c))
	expectFile(t, cfg.KnownHosts, line(vmID, m.hostKey)+"\n")
	if c, err = s.Meet(t.Context(), target()); err != nil || !c.Known {
		t.Errorf("%+v, %v; want a known one", c, err)
	}
}

// Who was faster with another key is not overruled.
func TestTrustAfterSomebodyElse(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	stranger, _ := newKey(t)
	cfg.KnownHosts = filepath.Join(t.TempDir(), "known_hosts")
	s := open(t, cfg)
	c, err := s.Meet(t.Context(), target())
	must(t, err)
	must(t, os.WriteFile(cfg.KnownHosts, []byte(line(vmID, stranger)+"\n"), 0o600))
	if err := s.Trust(c); !errors.As(err, new(*HostKeyError)) {
		t.Errorf("err = %v, want a host key that is not believed", err)
	}
	expectFile(t, cfg.KnownHosts, line(vmID, stranger)+"\n")
}

// through reaches the machine through the jump host, whose key is on file.
func (m *machine) through(jump *machine) Config {
	cfg := m.config()
	cfg.Jump = Jump{User: "root", Address: jump.endpoint().Address, KnownHosts: trust(m.t, line(hostName(jump), jump.hostKey))}
	return cfg
}

// hostName is how OpenSSH names a host with another port than 22 in known_hosts.
func hostName(m *machine) string {
	host, port, _ := net.SplitHostPort(m.endpoint().Address)
	return "[" + host + "]:" + port
}

func TestJump(t *testing.T) {
	m := newMachine(t)
	jump := m.other()
	cfg := m.through(jump)
	s := open(t, cfg)
	g, err := s.Guest(t.Context(), target())
	must(t, err)
	seen, err := g.Probe(t.Context())
	must(t, err)
	if seen.ProductUUID != vmID || jump.accepted() != 1 {
		t.Errorf("read %s through %d connections to the jump host, want %s through one", seen.ProductUUID, jump.accepted(), vmID)
	}

	jump.breakConnections()
	_, err = g.Probe(t.Context())
	for err != nil && errors.Is(err, rollout.ErrUnreachable) && t.Context().Err() == nil {
		_, err = g.Probe(t.Context()) // what was under way is not repeated by itself
	}
	if err != nil || jump.accepted() != 2 {
		t.Errorf("after a broken connection: %v, %d connections to the jump host; want a second one", err, jump.accepted())
	}
}

func TestJumpThatFails(t *testing.T) {
	m := newMachine(t)
	stranger, _ := newKey(t)
	for name, test := range map[string]struct {
		change func(cfg *Config, jump *machine)
		denied bool
		want   []string
	}{
		"its key is unknown":    {func(cfg *Config, _ *machine) { cfg.Jump.KnownHosts = filepath.Join(t.TempDir(), "none") }, true, []string{"its host key is not in", "log in once with `ssh -p "}},
		"it has another key":    {func(cfg *Config, jump *machine) { cfg.Jump.KnownHosts = trust(t, line(hostName(jump), stranger)) }, true, []string{"another one than in"}},
		"it does not let us in": {func(_ *Config, jump *machine) { jump.write("ssh/authorized", "") }, true, []string{"does not let us in", "tried ssh-ed25519 SHA256:"}},
		"it forbids to go through": {func(_ *Config, jump *machine) {
			jump.write("ssh/config", jump.read("ssh/config")+"\nAllowTcpForwarding no")
		}, false, []string{"open a connection from there to", "administratively prohibited"}},
		"it is not there": {func(_ *Config, jump *machine) { _ = jump.listener.Close() }, false, []string{"refused"}},
		"the node is not there": {func(cfg *Config, _ *machine) {
			cfg.Resolve = Endpoints{vmID: {Address: "127.0.0.1:1", User: "root"}}.Resolve
		}, false, []string{"open a connection from there to 127.0.0.1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			jump := m.other()
			cfg := m.through(jump)
			test.change(&cfg, jump)
			_, err := open(t, cfg).Guest(t.Context(), target())
			if err == nil || errors.Is(err, rollout.ErrDenied) != test.denied || errors.Is(err, rollout.ErrUnreachable) == test.denied {
				t.Fatalf("err = %v, want denied %t", err, test.denied)
			}
			for _, part := range append(test.want, "the jump host "+jump.endpoint().Address, "node demo-node-1") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

// A guest's key is as strict through a jump host.
func TestJumpToAnotherMachine(t *testing.T) {
	m := newMachine(t)
	jump := m.other()
	cfg := m.through(jump)
	cfg.Resolve = Endpoints{vmID: jump.endpoint()}.Resolve
	if _, err := open(t, cfg).Guest(t.Context(), target()); !errors.As(err, new(*HostKeyError)) {
		t.Errorf("err = %v, want a host key that is not believed", err)
	}
}
