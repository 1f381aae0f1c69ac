package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/lab/guest"
)

// login is the SSH key with which people and trueup enter the guests, and what they know of the guests' host keys.
type login struct {
	dir    string
	public ssh.PublicKey
	signer ssh.Signer
}

func newLogin(dir string) (*login, error) {
	public, private, err := guest.NewSSHKey()
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, err
	}
	l := &login{dir: dir, public: public, signer: signer}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return l, os.WriteFile(l.keyPath(), private, 0o600)
}

func (l *login) keyPath() string        { return filepath.Join(l.dir, "id_ed25519") }
func (l *login) knownHostsPath() string { return filepath.Join(l.dir, "known_hosts") }

// writeKnownHosts writes one line per guest under its VM id: all guests share one address.
func (l *login) writeKnownHosts(nodes []*Node) error {
	var lines bytes.Buffer
	for _, node := range nodes {
		fmt.Fprintf(&lines, "%s %s", node.VMID(), ssh.MarshalAuthorizedKey(node.Identity().HostKey))
	}
	return os.WriteFile(l.knownHostsPath(), lines.Bytes(), 0o600)
}
