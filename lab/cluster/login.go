package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/lab/guest"
)

// login is the SSH key with which people and trueup enter the guests, what they know of the guests' host keys, and the lab's own key.
type login struct {
	dir    string
	public ssh.PublicKey
	admin  ssh.Signer // is in no file: nobody but this process is root in the guests
}

func newLogin(dir string) (*login, error) {
	public, private, err := guest.NewSSHKey()
	if err != nil {
		return nil, err
	}
	_, own, err := guest.NewSSHKey()
	if err != nil {
		return nil, err
	}
	admin, err := ssh.ParsePrivateKey(own)
	if err != nil {
		return nil, err
	}
	l := &login{dir: dir, public: public, admin: admin}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return l, os.WriteFile(l.keyPath(), private, 0o600)
}

func (l *login) keyPath() string        { return filepath.Join(l.dir, "id_ed25519") }
func (l *login) knownHostsPath() string { return filepath.Join(l.dir, "known_hosts") }

// writeKnownHosts writes one line per guest under its VM id: all guests share one address.
func (l *login) writeKnownHosts(guests []*guest.Guest) error {
	var lines bytes.Buffer
	for _, g := range guests {
		fmt.Fprintf(&lines, "%s %s", g.VMID(), ssh.MarshalAuthorizedKey(g.Identity().HostKey))
	}
	return os.WriteFile(l.knownHostsPath(), lines.Bytes(), 0o600)
}
