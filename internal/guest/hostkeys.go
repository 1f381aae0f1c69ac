package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// hostKeys is what the known_hosts file says about one virtual machine.
type hostKeys struct {
	path    string
	vmID    string
	known   []ssh.PublicKey
	revoked []ssh.PublicKey // for whatever host: a key that leaked for one must not be believed from another

	acceptNew bool          // believe, for now, a key where none is on file
	accepted  ssh.PublicKey // the key that was believed so, nil if none was
}

// HostKeyError is a guest's host key that is not believed.
type HostKeyError struct {
	Path string          // the known_hosts file
	VMID string          // its host field for this guest
	Seen ssh.PublicKey   // what the guest, or whoever answers in its place, presented
	Want []ssh.PublicKey // what is on file for this VM, of any type; none if it is unknown
	// Revoked means that the file has a @revoked line for this key.
	Revoked bool
}

// Error says what was seen, what is on file, and what to do.
func (e *HostKeyError) Error() string {
	seen := describeKey(e.Seen)
	switch {
	case e.Revoked:
		return fmt.Sprintf("its host key %s is marked @revoked in %s: whoever answers there must not be believed", seen, e.Path)
	case len(e.Want) > 0:
		return fmt.Sprintf("its host key is %s, but %s has %s for this VM: it was installed anew, or something else answers in its place; "+
			"if it was installed anew, compare with `%s` on the VM's console and replace the line of %s",
			seen, e.Path, describeKeys(e.Want), fingerprintCommand(e.Seen), e.VMID)
	}
	return fmt.Sprintf("its host key is unknown: saw %s; let `trueup ssh enroll` show what else this machine says of itself and put the key on file, or compare with `%s` on the VM's console and, "+
		"only if both are the same, add this line to %s: %s %s",
		seen, fingerprintCommand(e.Seen), e.Path, e.VMID, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(e.Seen))))
}

// readHostKeys reads the lines of one VM. A file that is not there is like an empty one. A line that is not understood is an error,
// because it may be the one that revokes a key.
func readHostKeys(path, vmID string) (*hostKeys, error) {
	keys := &hostKeys{path: path, vmID: vmID}
	content, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if errors.Is(err, fs.ErrNotExist) {
		return keys, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read host keys: %w", err)
	}
	for number, line := range bytes.Split(content, []byte("\n")) {
		if err := keys.add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: expected `<vm-id> <type> <key>`: %w", path, number+1, err)
		}
	}
	return keys, nil
}

// add takes a line in. Certificate authorities are not supported: such a line makes no key known.
func (k *hostKeys) add(line []byte) error {
	if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
		return nil
	}
	marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
	if err != nil {
		return err
	}
	switch {
	case marker == "revoked":
		k.revoked = append(k.revoked, key)
	case marker == "" && slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, k.vmID) }):
		k.known = append(k.known, key)
	}
	return nil
}

// check believes a key that is on file for this very VM, and no other.
func (k *hostKeys) check(key ssh.PublicKey) error {
	same := func(other ssh.PublicKey) bool { return bytes.Equal(other.Marshal(), key.Marshal()) }
	revoked := slices.ContainsFunc(k.revoked, same)
	if !revoked && slices.ContainsFunc(k.known, same) {
		return nil
	}
	if k.acceptNew && !revoked && len(k.known) == 0 {
		k.accepted = key
		return nil
	}
	return &HostKeyError{Path: k.path, VMID: k.vmID, Seen: key, Want: k.known, Revoked: revoked}
}

// algorithms asks the guest for a key of a type that is on file: it has several, and would else choose itself.
// For an unknown guest the order is that in which people are best asked to compare.
func (k *hostKeys) algorithms() []string {
	if len(k.known) == 0 {
		return []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	var names []string
	for _, key := range k.known {
		for _, name := range signatureAlgorithms(key.Type()) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// signatureAlgorithms names the ways in which a key of the type signs. RSA keys no longer sign with SHA-1.
func signatureAlgorithms(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

func (k *hostKeys) describe() string { return describeKeys(k.known) }

func describeKeys(keys []ssh.PublicKey) string {
	words := make([]string, 0, len(keys))
	for _, key := range keys {
		words = append(words, describeKey(key))
	}
	return list(words)
}

func describeKey(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// fingerprintCommand is what prints a host key's fingerprint in the guest; the file is named after the key's type.
func fingerprintCommand(key ssh.PublicKey) string {
	name := "ed25519"
	switch key.Type() {
	case ssh.KeyAlgoRSA:
		name = "rsa"
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		name = "ecdsa"
	}
	return "ssh-keygen -lf /etc/ssh/ssh_host_" + name + "_key.pub"
}
