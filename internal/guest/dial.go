package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// dial opens a connection to the target and logs in, within ctx.
func (s *SSH) dial(ctx context.Context, target rollout.Target) (*connection, error) {
	endpoint, err := s.cfg.Resolve(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("%v: find its SSH endpoint: %w", place{target: target}, err)
	}
	at := place{target, endpoint}
	hosts, err := readHostKeys(s.cfg.KnownHosts, target.InstanceID)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, at, err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrUnreachable, at, err)
	}
	keys, err := s.identity.open(ctx)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, at, err)
	}
	defer keys.close()
	return logIn(ctx, conn, &login{place: at, hosts: hosts, keys: keys})
}

// login is one attempt to log in, and how far it came.
type login struct {
	place   place
	hosts   *hostKeys
	keys    *keyring
	hostErr error // what was wrong with the guest's key
	trusted bool  // the guest's key was accepted, and the guest has proven to own it
}

// logIn performs the handshake on conn and owns conn from then on.
func logIn(ctx context.Context, conn net.Conn, try *login) (*connection, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, try.place.endpoint.Address, try.config())
	if !stop() && err == nil { // ctx ended in the same moment: conn is closed
		_ = c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, try.explain(ctx, err)
	}
	return &connection{ssh.NewClient(c, channels, requests), try.place}, nil
}

func (l *login) config() *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User:              l.place.endpoint.User,
		HostKeyAlgorithms: l.hosts.algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			l.hostErr = l.hosts.check(key)
			l.trusted = l.hostErr == nil
			return l.hostErr
		},
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(l.keys.signers)},
	}
}

// explain says why the log-in failed, and whether another try may succeed.
func (l *login) explain(ctx context.Context, err error) error {
	negotiation := (*ssh.AlgorithmNegotiationError)(nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %v: no SSH log-in in time: %w", rollout.ErrUnreachable, l.place, context.Cause(ctx))
	case l.hostErr != nil:
		return fmt.Errorf("%w: %v: %w", rollout.ErrDenied, l.place, l.hostErr)
	case l.keys.err != nil:
		return fmt.Errorf("%w: %v: %w", rollout.ErrDenied, l.place, l.keys.err)
	case errors.As(err, &negotiation):
		return fmt.Errorf("%w: %v: no common way to speak: %w; keys on file for this VM in %s: %s",
			rollout.ErrDenied, l.place, negotiation, l.hosts.path, l.hosts.describe())
	case !l.trusted || lost(err):
		return fmt.Errorf("%w: %v: the connection ended before the log-in was complete: %w", rollout.ErrUnreachable, l.place, err)
	}
	return fmt.Errorf("%w: %v: the guest does not let us in; tried %s; put a public key of yours into ~%s/.ssh/authorized_keys there, or name another key: %w",
		rollout.ErrDenied, l.place, l.keys.describe(), l.place.endpoint.User, err)
}

// lost reports whether err is the end of a connection, as opposed to a refusal.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error))
}

// list joins words for a message.
func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
