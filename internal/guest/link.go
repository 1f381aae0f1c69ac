package guest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// maxSessions is how many commands may run on one connection at once. OpenSSH's MaxSessions is 10 unless configured otherwise,
// and it still counts a session that we have closed until it has worked through what it has received: there may be as many
// of those as there are new ones.
const maxSessions = 5

// link is the connection to one node, opened when needed.
type link struct {
	ssh    *SSH
	target rollout.Target
	only   bool          // the connection that it has is the only one that it may use
	turn   chan struct{} // holds one token while somebody connects
	slots  chan struct{} // holds one token per session

	mu     sync.Mutex
	client *connection // nil while there is none
}

// connection is an open SSH connection and where it leads.
type connection struct {
	*ssh.Client

	place place
}

// place names a node and the way to it, for messages.
type place struct {
	target   rollout.Target
	endpoint Endpoint
	pod      string // namespace and name of the pod that leads there; empty over SSH
}

// String prints the place for people.
func (p place) String() string {
	text := fmt.Sprintf("node %s (VM %s)", p.target.Name, p.target.InstanceID)
	if p.pod != "" {
		text += " through pod " + p.pod
	}
	if p.endpoint.Address != "" {
		text += fmt.Sprintf(" at %s as user %s", p.endpoint.Address, p.endpoint.User)
	}
	return text
}

func newLink(s *SSH, target rollout.Target) *link {
	return &link{ssh: s, target: target, turn: make(chan struct{}, 1), slots: make(chan struct{}, maxSessions)}
}

// connect returns the open connection, or opens one. Of several callers one connects and the others wait for it.
func (l *link) connect(ctx context.Context) (*connection, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %v: waited for a connection: %w", rollout.ErrUnreachable, place{target: l.target}, context.Cause(ctx))
	}
	defer func() { <-l.turn }()

	if client := l.current(); client != nil {
		return client, nil
	}
	if l.only {
		return nil, fmt.Errorf("%w: %v: the connection ended", rollout.ErrUnreachable, place{target: l.target})
	}
	ctx, cancel := context.WithTimeout(ctx, l.ssh.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(l.ssh.ctx, cancel)() //nolint:contextcheck // Close ends it too
	client, err := l.ssh.dial(ctx, l.target)
	if err != nil {
		return nil, err
	}
	return client, l.adopt(client)
}

func (l *link) current() *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// adopt makes client the link's connection and watches over it.
func (l *link) adopt(client *connection) error {
	l.mu.Lock()
	l.client = client
	l.mu.Unlock()
	if !l.ssh.start(func() { l.watch(client) }) {
		l.close()
		return fmt.Errorf("%w: %v: the SSH connections were closed meanwhile", rollout.ErrUnreachable, client.place)
	}
	return nil
}

// watch checks the connection now and then, closes it if the guest does not answer, and forgets it once it has ended.
func (l *link) watch(client *connection) {
	ended := make(chan struct{})
	go func() {
		_ = client.Wait()
		close(ended)
	}()
	ticker := time.NewTicker(l.ssh.cfg.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			l.drop(client)
			return
		case <-ticker.C:
			if !answers(client, l.ssh.cfg.KeepAlive) {
				_ = client.Close()
			}
		}
	}
}

// answers reports whether the other side answers a request within the bound. A refusal is an answer too.
func answers(client *connection, bound time.Duration) bool {
	replied := make(chan error, 1)
	go func() {
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		replied <- err
	}()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case err := <-replied:
		return err == nil
	case <-timer.C:
		return false
	}
}

// drop ends the connection and forgets it, so that the next caller opens another one.
func (l *link) drop(client *connection) {
	l.mu.Lock()
	if l.client == client {
		l.client = nil
	}
	l.mu.Unlock()
	_ = client.Close()
}

func (l *link) close() {
	if client := l.current(); client != nil {
		l.drop(client)
	}
}

// session opens a session, on a new connection if the present one turns out to be broken: opening one has no effect in the guest,
// so it may be repeated. The caller must call release when the session has ended.
func (l *link) session(ctx context.Context) (session *ssh.Session, at place, release func(), err error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, at, nil, fmt.Errorf("%w: %v: waited for one of %d sessions: %w", rollout.ErrUnreachable, place{target: l.target}, maxSessions, context.Cause(ctx))
	}
	for range 2 {
		var client *connection
		if client, err = l.connect(ctx); err != nil {
			break
		}
		at = client.place
		if session, err = openSession(ctx, client); err == nil {
			return session, at, func() { <-l.slots }, nil
		}
		err = fmt.Errorf("%w: %v: open a session: %w", rollout.ErrUnreachable, at, err)
		if ctx.Err() != nil || errors.As(err, new(*ssh.OpenChannelError)) {
			break
		}
		l.drop(client)
	}
	<-l.slots
	return nil, at, nil, err
}

// openSession is NewSession with a context. One that comes too late is closed.
func openSession(ctx context.Context, client *connection) (*ssh.Session, error) {
	type opened struct {
		session *ssh.Session
		err     error
	}
	done := make(chan opened, 1)
	go func() {
		session, err := client.NewSession()
		done <- opened{session, err}
	}()
	select {
	case o := <-done:
		return o.session, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				_ = o.session.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}
