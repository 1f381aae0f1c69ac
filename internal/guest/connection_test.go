package guest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestHostKey(t *testing.T) {
	m := newMachine(t)
	other, _ := newKey(t)
	seen, kept := ssh.FingerprintSHA256(m.hostKey.PublicKey()), ssh.FingerprintSHA256(other.PublicKey())
	tests := []struct {
		name  string
		lines []string
		want  []string // parts of the error; none if the key is believed
	}{
		{name: "on file", lines: []string{"# comment", "", line(vmID, m.hostKey)}},
		{name: "on file in upper case, among others", lines: []string{line("other,"+strings.ToUpper(vmID), m.hostKey)}},
		{name: "on file beside an older one", lines: []string{line(vmID, other), line(vmID, m.hostKey)}},
		{name: "unknown", want: []string{seen, "add this line", line(vmID, m.hostKey), "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"}},
		{name: "right key under another VM id", lines: []string{line("00000000-0000-0000-0000-000000000001", m.hostKey)}, want: []string{"unknown", seen}},
		{name: "right key under the address", lines: []string{line("127.0.0.1", m.hostKey), line("["+strings.Replace(m.listener.Addr().String(), ":", "]:", 1), m.hostKey)}, want: []string{"unknown", seen}},
		{name: "right key for every host", lines: []string{line("*", m.hostKey)}, want: []string{"unknown", seen}},
		{name: "right key by an authority", lines: []string{"@cert-authority " + line(vmID, m.hostKey)}, want: []string{"unknown", seen}},
		{name: "mismatch", lines: []string{line(vmID, other)}, want: []string{seen, kept, "installed anew"}},
		{name: "revoked", lines: []string{line(vmID, m.hostKey), "@revoked " + line("*", m.hostKey)}, want: []string{seen, "@revoked"}},
		{name: "another type on file", lines: []string{vmID + " ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="}, want: []string{"no common", "ecdsa-sha2-nistp256 SHA256:"}},
		{name: "garbled", lines: []string{line(vmID, m.hostKey), vmID + " ssh-ed25519 nonsense"}, want: []string{"known_hosts:2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := m.config()
			cfg.KnownHosts = trust(t, test.lines...)
			_, err := open(t, cfg).Guest(t.Context(), target())
			if len(test.want) == 0 {
				must(t, err)
				return
			}
			if !errors.Is(err, rollout.ErrDenied) || errors.Is(err, rollout.ErrUnreachable) {
				t.Fatalf("err = %v, want ErrDenied", err)
			}
			for _, part := range append(test.want, "node demo-node-1", vmID, "user root") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestHostKeyWithoutFile(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	cfg.KnownHosts = filepath.Join(t.TempDir(), "none")
	_, err := open(t, cfg).Guest(t.Context(), target())
	unknown := (*HostKeyError)(nil)
	if !errors.As(err, &unknown) || unknown.VMID != vmID || len(unknown.Want) != 0 || unknown.Seen == nil {
		t.Errorf("err = %v, want an unknown host key", err)
	}
}

// A key that is put on file while trueup runs is believed at the next try.
func TestHostKeyEnrolledLater(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	cfg.KnownHosts = trust(t)
	s := open(t, cfg)
	if _, err := s.Guest(t.Context(), target()); !errors.Is(err, rollout.ErrDenied) {
		t.Fatalf("err = %v, want ErrDenied", err)
	}
	must(t, os.WriteFile(cfg.KnownHosts, []byte(line(vmID, m.hostKey)+"\n"), 0o600))
	_, err := s.Guest(t.Context(), target())
	must(t, err)
}

// serveAgent serves an ssh-agent that holds the keys and returns its socket.
func serveAgent(t *testing.T, keyFiles ...string) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, path := range keyFiles {
		content, err := os.ReadFile(path)
		must(t, err)
		key, err := ssh.ParseRawPrivateKey(content)
		must(t, err)
		must(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	}
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn); _ = conn.Close() }()
		}
	}()
	return socket
}

func keyFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "id")
	must(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestLogIn(t *testing.T) {
	m := newMachine(t)
	stranger, strangerPEM := newKey(t)
	strangerFile := keyFile(t, strangerPEM)
	fingerprint := ssh.FingerprintSHA256(stranger.PublicKey())
	tests := []struct {
		name          string
		file, agent   string
		want          error
		wantInMessage string
	}{
		{name: "key file", file: m.userKey},
		{name: "agent", agent: serveAgent(t, m.userKey)},
		{name: "agent with several keys", agent: serveAgent(t, strangerFile, m.userKey)},
		{name: "the agent has what the file lacks", file: strangerFile, agent: serveAgent(t, m.userKey)},
		{name: "the agent is gone, the file does", file: m.userKey, agent: filepath.Join(t.TempDir(), "gone")},
		{name: "the agent is gone", agent: filepath.Join(t.TempDir(), "gone"), want: rollout.ErrDenied, wantInMessage: "ssh-agent"},
		{name: "the agent is empty", agent: serveAgent(t), want: rollout.ErrDenied, wantInMessage: "the agent holds none"},
		{name: "wrong key", file: strangerFile, want: rollout.ErrDenied, wantInMessage: fingerprint},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := m.config()
			cfg.KeyFile, cfg.AgentSocket = test.file, test.agent
			_, err := open(t, cfg).Guest(t.Context(), target())
			if !errors.Is(err, test.want) {
				t.Fatalf("err = %v, want %v", err, test.want)
			}
			if err != nil && (!strings.Contains(err.Error(), test.wantInMessage) || !strings.Contains(err.Error(), m.listener.Addr().String())) {
				t.Errorf("error %q lacks %q or the address", err, test.wantInMessage)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	silent := listener.Addr().String() // connects, and then nobody speaks
	t.Cleanup(func() { _ = listener.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())

	m := newMachine(t)
	for name, address := range map[string]string{"refused": closed.Addr().String(), "silent": silent} {
		t.Run(name, func(t *testing.T) {
			cfg := m.config()
			cfg.DialTimeout = 50 * time.Millisecond
			cfg.Resolve = Endpoints{vmID: {Address: address, User: "cloud"}}.Resolve
			_, err := open(t, cfg).Guest(t.Context(), target())
			if !errors.Is(err, rollout.ErrUnreachable) || !strings.Contains(err.Error(), address) {
				t.Errorf("err = %v, want ErrUnreachable naming %s", err, address)
			}
		})
	}
}

func TestUnknownEndpoint(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	cfg.Resolve = Endpoints{}.Resolve
	if _, err := open(t, cfg).Guest(t.Context(), target()); !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("err = %v, want ErrNotFound", err)
	}
}

func TestCommandsShareOneConnection(t *testing.T) {
	m := newMachine(t)
	s := open(t, m.config())
	var wait sync.WaitGroup
	for range 6 * maxSessions { // more than fit at once
		wait.Go(func() {
			g, err := s.Guest(t.Context(), target())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := g.Probe(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := m.accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestWarm(t *testing.T) {
	m := newMachine(t)
	s := open(t, m.config())
	s.Warm(target())
	eventually(t, "connected ahead of need", func() bool {
		link, err := s.link(target())
		return err == nil && link.current() != nil
	})
	g, err := s.Guest(t.Context(), target())
	must(t, err)
	_, err = g.Probe(t.Context())
	must(t, err)
	if n := m.accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestConnectsAgainAfterABreak(t *testing.T) {
	m := newMachine(t)
	g := m.guest(m.config())
	for want := 2; want <= 3; want++ {
		m.breakConnections()
		_, err := g.Probe(t.Context())
		must(t, err)
		if n := m.accepted(); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
	}
}

// A guest that no longer answers is noticed by the keepalive, long before the command's own deadline.
func TestKeepAliveFindsADeadConnection(t *testing.T) {
	m := newMachine(t)
	cfg := m.config()
	cfg.KeepAlive = 250 * time.Millisecond
	cfg.Timeouts.Probe = time.Minute
	g := m.guest(cfg)
	first := g.way.(*link).current()
	m.freeze()
	eventually(t, "the dead connection is given up", func() bool { return g.way.(*link).current() != first })
	g.way.(*link).ssh.cfg.KeepAlive = time.Minute // the watch of the next connection must not race a slow machine
	_, err := g.Probe(t.Context())
	must(t, err)
}

func TestClose(t *testing.T) {
	m := newMachine(t)
	m.fifo("state/hold")
	s := open(t, m.config())
	g, err := s.Guest(t.Context(), target())
	must(t, err)
	failed := make(chan error)
	go func() {
		_, err := g.RestartKubelet(t.Context(), firstInvocation)
		failed <- err
	}()
	eventually(t, "the restart is under way", func() bool { return m.read("state/restarts") != "" })
	must(t, s.Close())
	if err := <-failed; !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("the command under way ended with %v, want ErrUnreachable", err)
	}
	if _, err := s.Guest(t.Context(), target()); !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("Guest after Close: %v, want ErrUnreachable", err)
	}
	if _, err := g.Probe(t.Context()); !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("Probe after Close: %v, want ErrUnreachable", err)
	}
	s.Warm(target()) // does nothing

	releaseHold(t, m) // the restart goes on without us: let it end before its files go
	eventually(t, "the restart ends without us", func() bool { return m.read("state/restarted") != "" })
}

func TestCallerGivesUpWhileConnecting(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := m.config()
	cfg.Resolve = func(ctx context.Context, _ rollout.Target, _ Endpoint) (Endpoint, error) {
		cancel()
		<-ctx.Done()
		return Endpoint{}, ctx.Err()
	}
	if _, err := open(t, cfg).Guest(ctx, target()); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want Canceled", err)
	}
}
