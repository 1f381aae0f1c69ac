package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// identity is what we log in with.
type identity struct {
	keyFile     string
	key         ssh.Signer // nil without a key file
	agentSocket string
}

// loadIdentity reads the key file, if one is named.
func loadIdentity(keyFile, agentSocket string) (*identity, error) {
	id := &identity{keyFile: keyFile, agentSocket: agentSocket}
	if keyFile == "" {
		if agentSocket == "" {
			return nil, errors.New("no SSH key: start an ssh-agent that holds one (SSH_AUTH_SOCK is not set), or name a private key file")
		}
		return id, nil
	}
	key, err := readKey(keyFile)
	id.key = key
	return id, err
}

func readKey(path string) (ssh.Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("SSH key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("SSH key %s: its mode is %04o, so other people may read it: run `chmod 600 %s`", path, info.Mode().Perm(), path)
	}
	content, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("SSH key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(content)
	if errors.As(err, new(*ssh.PassphraseMissingError)) {
		return nil, fmt.Errorf("SSH key %s is protected by a passphrase, which trueup never asks for: load it into an ssh-agent (`ssh-add %s`) and name no key file", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("SSH key %s: %w", path, err)
	}
	return key, nil
}

// keyring is an identity during one log-in. It remembers what it offered.
type keyring struct {
	identity *identity
	conn     net.Conn // to the agent; nil without one
	offered  []string
	err      error // the agent did not list its keys
}

// open connects to the agent, if there is one. An agent that does not answer is an error only where no key file can stand in.
func (id *identity) open(ctx context.Context) (*keyring, error) {
	ring := &keyring{identity: id}
	if id.agentSocket == "" {
		return ring, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", id.agentSocket)
	if err != nil && id.key == nil {
		return nil, fmt.Errorf("ssh-agent: %w", err)
	}
	if err == nil {
		if deadline, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(deadline)
		}
		ring.conn = conn
	}
	return ring, nil
}

func (r *keyring) close() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
}

// signers returns the key file's key and then the agent's.
func (r *keyring) signers() ([]ssh.Signer, error) {
	var signers []ssh.Signer
	if r.identity.key != nil {
		signers = append(signers, r.identity.key)
		r.offered = append(r.offered, fmt.Sprintf("%s of %s", describeKey(r.identity.key.PublicKey()), r.identity.keyFile))
	}
	if r.conn == nil {
		return signers, nil
	}
	held, err := agent.NewClient(r.conn).Signers()
	if err != nil && len(signers) == 0 {
		r.err = fmt.Errorf("ssh-agent at %s: %w", r.identity.agentSocket, err)
		return nil, r.err
	}
	for _, signer := range held {
		r.offered = append(r.offered, fmt.Sprintf("%s of the agent", describeKey(signer.PublicKey())))
	}
	return append(signers, held...), nil
}

// describe names the keys that were offered, by their fingerprints.
func (r *keyring) describe() string {
	if len(r.offered) == 0 {
		return "no key (the agent holds none)"
	}
	return list(r.offered)
}
