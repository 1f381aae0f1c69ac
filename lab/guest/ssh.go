package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// User is the login that CKS nodes have. It may sudo what trueup's own sudoers file allows, and nothing else.
const User = "cloud"

// admin is whom the lab itself logs in as, with a key of its own that trueup does not have.
const admin = "root"

// sshClient is one kept connection to a guest.
type sshClient struct {
	mu     sync.Mutex
	client *ssh.Client
}

// Run runs a shell command in the guest as root and returns its standard output. The error carries standard error.
// It is for the lab and its tests only, and shares no code with trueup's own SSH port.
func (g *Guest) Run(ctx context.Context, command string) (string, error) {
	client, err := g.dial(ctx)
	if err != nil {
		return "", fmt.Errorf("guest %s: ssh: %w", g.spec.Name, err)
	}
	session, err := client.NewSession()
	if err != nil {
		g.ssh.close()
		return "", fmt.Errorf("guest %s: ssh: %w", g.spec.Name, err)
	}
	defer func() { _ = session.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	var stdout, stderr bytes.Buffer
	session.Stdout, session.Stderr = &stdout, &stderr
	if err := session.Run(command); err != nil {
		return stdout.String(), fmt.Errorf("guest %s: %q: %w: %s", g.spec.Name, command, errors.Join(ctx.Err(), err), &stderr)
	}
	return stdout.String(), nil
}

// dialAttempt bounds one attempt: while a guest boots, QEMU accepts the connection and nobody answers.
const dialAttempt = 5 * time.Second

// hangTimeout is after how long without an answer a booting guest is reset: a boot takes 11 s on a quiet machine and was seen to take more than two
// minutes on a very busy one. Under software emulation a boot hangs now and then (QEMU 7.2; seen twice in a day of many boots): all of its CPUs
// spin, the console stays empty, and it would never end.
const hangTimeout = 150 * time.Second

// WaitSSH waits until the guest's SSH server lets the lab in.
func (g *Guest) WaitSSH(ctx context.Context) error {
	retry, hangs := time.NewTicker(250*time.Millisecond), time.NewTicker(hangTimeout)
	defer retry.Stop()
	defer hangs.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, dialAttempt)
		_, err := g.dial(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-hangs.C:
			if err := g.QMP.Execute("system_reset", nil, nil); err != nil {
				return fmt.Errorf("guest %s: it does not boot, and can't be reset: %w", g.spec.Name, err)
			}
		case <-g.Process.Done():
			return g.Process.Err()
		case <-ctx.Done():
			return fmt.Errorf("guest %s: no SSH on 127.0.0.1:%d: %w; the end of its console:\n%s", g.spec.Name, g.sshPort, errors.Join(ctx.Err(), err), g.LastWords())
		}
	}
}

// Guard resets the guest whenever it has not answered for hangTimeout, until ctx ends: a guest may hang after its first answer, too, while it still
// starts its services (seen once: "rcu_preempt self-detected stall" for minutes, on an idle machine).
func (g *Guest) Guard(ctx context.Context) {
	look := time.NewTicker(guardInterval)
	defer look.Stop()
	for answered := time.Now(); ; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		attempt, cancel := context.WithTimeout(ctx, guardInterval)
		_, err := g.Run(attempt, "true")
		cancel()
		switch {
		case err == nil:
			answered = time.Now()
		case ctx.Err() == nil && time.Since(answered) > hangTimeout:
			_ = g.QMP.Execute("system_reset", nil, nil) // who waits for the guest says what became of it
			answered = time.Now()
			fallthrough
		default:
			g.Disconnect()
		}
	}
}

// guardInterval is how often Guard asks, and how long an answer may take.
const guardInterval = 15 * time.Second

func (g *Guest) dial(ctx context.Context) (*ssh.Client, error) {
	g.ssh.mu.Lock()
	defer g.ssh.mu.Unlock()
	if g.ssh.client != nil {
		return g.ssh.client, nil
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(g.sshPort))
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User:            admin,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(g.admin)},
		HostKeyCallback: ssh.FixedHostKey(g.identity.HostKey),
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	g.ssh.client = ssh.NewClient(c, channels, requests)
	return g.ssh.client, nil
}

// Disconnect ends the kept connection: after a reboot of the guest it is dead, and nothing may tell.
func (g *Guest) Disconnect() { g.ssh.close() }

func (c *sshClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		_ = c.client.Close()
		c.client = nil
	}
}
