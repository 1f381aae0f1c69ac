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

// dial opens a connection to the target and logs in, within ctx. Where the guest is not found, its endpoint is looked up once more: CloudStack numbers
// forwarded ports anew at each change of the cluster's size, and then another machine, or none, answers at the old one.
func (s *SSH) dial(ctx context.Context, target rollout.Target) (*connection, error) {
	endpoint, err := s.resolve(ctx, target, Endpoint{})
	if err != nil {
		return nil, err
	}
	client, err := s.dialAt(ctx, place{target: target, endpoint: endpoint}, s.cfg.AcceptNew)
	if err == nil || !elsewhere(err) {
		return client, err
	}
	moved, lookup := s.resolve(ctx, target, endpoint)
	if lookup != nil || moved == endpoint {
		return nil, err
	}
	return s.dialAt(ctx, place{target: target, endpoint: moved}, s.cfg.AcceptNew)
}

func (s *SSH) resolve(ctx context.Context, target rollout.Target, failed Endpoint) (Endpoint, error) {
	endpoint, err := s.cfg.Resolve(ctx, target, failed)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%v: find its SSH endpoint: %w", place{target: target}, err)
	}
	return endpoint, nil
}

// elsewhere reports whether err may mean that the guest is not at this endpoint any more.
func elsewhere(err error) bool {
	return errors.Is(err, rollout.ErrUnreachable) || errors.As(err, new(*HostKeyError)) || errors.As(err, new(*IdentityError))
}

// dialAt opens a connection to the place and logs in. With accept a guest of which no key is on file is let in once it has proven to be the machine,
// and its key is put on file.
func (s *SSH) dialAt(ctx context.Context, at place, accept bool) (*connection, error) {
	hosts, err := readHostKeys(s.cfg.KnownHosts, at.target.InstanceID)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, at, err)
	}
	hosts.acceptNew = accept
	client, err := s.logInAt(ctx, at, hosts)
	if err != nil || hosts.accepted == nil {
		return client, err
	}
	if _, err := s.prove(ctx, client); err != nil {
		_ = client.Close()
		return nil, err
	}
	if err := hosts.record(hosts.accepted); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, at, err)
	}
	return client, nil
}

// logInAt connects and logs in, and believes what hosts believes.
func (s *SSH) logInAt(ctx context.Context, at place, hosts *hostKeys) (*connection, error) {
	conn, err := s.reach(ctx, at.endpoint.Address)
	if errors.Is(err, rollout.ErrDenied) { // by the jump host
		return nil, fmt.Errorf("%v: %w", at, err)
	}
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

// reach opens a TCP connection, through the jump host if there is one.
func (s *SSH) reach(ctx context.Context, address string) (net.Conn, error) {
	if s.jump != nil {
		return s.jump.dial(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
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
	client, err := handshake(ctx, conn, try.place.endpoint.Address, try.config())
	if err != nil {
		return nil, try.explain(ctx, err)
	}
	return &connection{client, try.place}, nil
}

// handshake makes an SSH client of conn, within ctx, and owns conn from then on.
func handshake(ctx context.Context, conn net.Conn, address string, config *ssh.ClientConfig) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if !stop() && err == nil { // ctx ended in the same moment: conn is closed
		_ = c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
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
