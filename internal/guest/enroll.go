package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// IdentityError is a guest that let us in and is not the virtual machine that was looked for.
type IdentityError struct {
	Place string
	VMID  string // whom we looked for
	Found string // its DMI product UUID
}

// Error says who answered.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s: another machine answers there: its DMI product UUID is %s, expected the VM's id %s: check the port forwarding rules", e.Place, e.Found, e.VMID)
}

// Contact is a first meeting with a guest: the key that it showed, and who it is by its own account over a connection with that key.
type Contact struct {
	Target   rollout.Target
	Endpoint Endpoint
	// Known says that the key is on file already.
	Known bool
	// Key is the guest's public key as known_hosts has it, and Fingerprint its SHA-256 as ssh-keygen prints it.
	Key, Fingerprint string
	// Compare is the command that prints the fingerprint on the machine's console.
	Compare string
	// Guest is what was read over the connection.
	Guest capacity.Guest

	key   ssh.PublicKey
	hosts *hostKeys
}

// Meet logs in to a guest even if no key of it is on file, and reads who it is. It puts nothing on file, and no connection stays. A key that differs
// from the one on file, and a guest that is another machine, is an error.
func (s *SSH) Meet(ctx context.Context, target rollout.Target) (Contact, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout+s.cfg.Timeouts.Probe)
	defer cancel()
	endpoint, err := s.resolve(ctx, target, Endpoint{})
	if err != nil {
		return Contact{}, err
	}
	at := place{target: target, endpoint: endpoint}
	hosts, err := readHostKeys(s.cfg.KnownHosts, target.InstanceID)
	if err != nil {
		return Contact{}, fmt.Errorf("%w: %v: %w", rollout.ErrDenied, at, err)
	}
	hosts.acceptNew = true
	client, err := s.logInAt(ctx, at, hosts)
	if err != nil {
		return Contact{}, err
	}
	defer func() { _ = client.Close() }()
	seen, err := s.prove(ctx, client)
	if err != nil {
		return Contact{}, err
	}
	c := Contact{Target: target, Endpoint: endpoint, Known: hosts.accepted == nil, Guest: seen, key: hosts.accepted, hosts: hosts}
	if c.key != nil {
		c.Key, c.Fingerprint, c.Compare = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(c.key))), ssh.FingerprintSHA256(c.key), fingerprintCommand(c.key)
	}
	return c, nil
}

// Trust puts the key of a contact on file.
func (s *SSH) Trust(c Contact) error {
	if c.key == nil {
		return nil
	}
	return c.hosts.record(c.key)
}

// prove reads who the guest is over a connection that nothing else uses yet.
func (s *SSH) prove(ctx context.Context, client *connection) (capacity.Guest, error) {
	alone := newLink(s, client.place.target)
	alone.client, alone.only = client, true
	seen, err := (&guest{target: alone.target, way: alone, timeouts: s.cfg.Timeouts}).Probe(ctx)
	if err == nil && !strings.EqualFold(seen.ProductUUID, client.place.target.InstanceID) {
		err = fmt.Errorf("%w: %w", rollout.ErrDenied, &IdentityError{Place: client.place.String(), VMID: client.place.target.InstanceID, Found: seen.ProductUUID})
	}
	return seen, err
}

// record puts a key of the machine on file, unless one is there by now. The line is appended in one write under a lock, so that lines of others stay as
// they are and none is half there.
func (k *hostKeys) record(key ssh.PublicKey) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("keep its host key: %w", err)
	}
	file, err := os.OpenFile(k.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep its host key: %w", err)
	}
	defer func() { _ = file.Close() }() // ends the lock too
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("keep its host key: lock %s: %w", k.path, err)
	}
	now, err := readHostKeys(k.path, k.vmID)
	if err != nil {
		return err
	}
	now.acceptNew = true
	if err := now.check(key); err != nil || now.accepted == nil {
		return err // somebody was faster, with this key or another one
	}
	return k.append(file, fmt.Sprintf("%s %s", k.vmID, ssh.MarshalAuthorizedKey(key)))
}

// append adds a line, after the end of the line before.
func (k *hostKeys) append(file *os.File, line string) error {
	content, err := os.ReadFile(k.path)
	if err == nil && len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		line = "\n" + line
	}
	if err == nil {
		_, err = file.WriteString(line)
	}
	if err = errors.Join(err, file.Sync()); err != nil {
		return fmt.Errorf("keep its host key: %w", err)
	}
	return nil
}
