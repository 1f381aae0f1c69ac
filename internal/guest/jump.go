package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Jump is a host that connections to guests go through, as with `ssh -J`.
type Jump struct {
	User    string
	Address string // host:port
	// KnownHosts is a file in OpenSSH's known_hosts format, by the usual names of hosts: usually ~/.ssh/known_hosts.
	KnownHosts string
}

// ParseJump takes USER@HOST[:PORT] apart; without a port it is 22. KnownHosts is left to the caller.
func ParseJump(text string) (j Jump, ok bool) {
	at := strings.LastIndex(text, "@")
	address := text[at+1:]
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), "22" // no port is named
	}
	number, err := strconv.Atoi(port)
	if at <= 0 || host == "" || strings.ContainsAny(text, " /,=") || err != nil || number < 1 || number > 65535 {
		return Jump{}, false
	}
	return Jump{User: text[:at], Address: net.JoinHostPort(host, port)}, true
}

// String prints the jump host for people.
func (j Jump) String() string { return fmt.Sprintf("the jump host %s (user %s)", j.Address, j.User) }

// jumpHost keeps one connection to the jump host, for all guests.
type jumpHost struct {
	ssh *SSH

	turn   sync.Mutex // held while somebody connects
	mu     sync.Mutex
	client *ssh.Client // nil while there is none
}

// dial opens a connection from the jump host to the address. A connection to the jump host that turns out to be broken is opened anew, once.
func (j *jumpHost) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	for range 2 {
		var client *ssh.Client
		kept := j.current() != nil
		if client, err = j.connect(ctx); err != nil {
			return nil, err
		}
		if conn, err = client.DialContext(ctx, "tcp", address); err == nil {
			return conn, nil
		}
		err = fmt.Errorf("%v: open a connection from there to %s: %w", j.ssh.cfg.Jump, address, err)
		if errors.As(err, new(*ssh.OpenChannelError)) {
			return nil, err // it is there, and said no
		}
		j.drop(client)
		if !kept || ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, err
}

func (j *jumpHost) connect(ctx context.Context) (*ssh.Client, error) {
	j.turn.Lock()
	defer j.turn.Unlock()
	if client := j.current(); client != nil {
		return client, nil
	}
	client, err := j.logIn(ctx)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.client = client
	j.mu.Unlock()
	return client, nil
}

// logIn connects to the jump host. Its key must be on file under its own name.
func (j *jumpHost) logIn(ctx context.Context) (*ssh.Client, error) {
	jump := j.ssh.cfg.Jump
	check, algorithms, err := jump.hostKeys()
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, jump, err)
	}
	keys, err := j.ssh.identity.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, jump, err)
	}
	defer keys.close()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", jump.Address)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", jump, err)
	}
	client, err := handshake(ctx, conn, jump.Address, &ssh.ClientConfig{
		User: jump.User, HostKeyCallback: check, HostKeyAlgorithms: algorithms, Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(keys.signers)},
	})
	if err != nil {
		return nil, jump.explain(ctx, keys, err)
	}
	return client, nil
}

// explain says why the log-in failed, and whether another try may succeed.
func (j Jump) explain(ctx context.Context, keys *keyring, err error) error {
	unknown := (*knownhosts.KeyError)(nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%v: no SSH log-in in time: %w", j, context.Cause(ctx))
	case errors.As(err, &unknown) && len(unknown.Want) == 0:
		return fmt.Errorf("%w: %v: its host key is not in %s: log in once with `ssh -p %s %s@%s`, which asks about it: %w", rollout.ErrDenied, j, j.KnownHosts, j.port(), j.User, j.host(), err)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %v: its host key is another one than in %s: it was installed anew, or something else answers in its place: %w", rollout.ErrDenied, j, j.KnownHosts, err)
	case lost(err):
		return fmt.Errorf("%v: the connection ended before the log-in was complete: %w", j, err)
	}
	return fmt.Errorf("%w: %v: it does not let us in; tried %s: %w", rollout.ErrDenied, j, keys.describe(), err)
}

func (j Jump) host() string {
	host, _, _ := net.SplitHostPort(j.Address)
	return host
}

func (j Jump) port() string {
	_, port, _ := net.SplitHostPort(j.Address)
	return port
}

// hostKeys checks the jump host's key, and says which types of keys are on file for it: it has several, and would else choose itself.
func (j Jump) hostKeys() (check ssh.HostKeyCallback, algorithms []string, err error) {
	files := []string{j.KnownHosts}
	if _, err := os.Stat(j.KnownHosts); errors.Is(err, os.ErrNotExist) {
		files = nil
	}
	if check, err = knownhosts.New(files...); err != nil {
		return nil, nil, err
	}
	known := (*knownhosts.KeyError)(nil)
	if errors.As(check(j.Address, new(net.TCPAddr), nowhere{}), &known) {
		for _, k := range known.Want {
			algorithms = append(algorithms, signatureAlgorithms(k.Key.Type())...)
		}
	}
	return check, algorithms, nil
}

// nowhere is a key that is on file nowhere: asking for it tells which ones are.
type nowhere struct{}

func (nowhere) Type() string                        { return "none" }
func (nowhere) Marshal() []byte                     { return []byte("none") }
func (nowhere) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

func (j *jumpHost) current() *ssh.Client {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.client
}

// drop forgets a connection that broke.
func (j *jumpHost) drop(client *ssh.Client) {
	j.mu.Lock()
	if j.client == client {
		j.client = nil
	}
	j.mu.Unlock()
	_ = client.Close()
}

func (j *jumpHost) close() {
	if client := j.current(); client != nil {
		j.drop(client)
	}
}
