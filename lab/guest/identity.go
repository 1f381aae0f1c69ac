package guest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// Identity is what makes one guest differ from another, besides its VM id and boot id.
type Identity struct {
	MachineID string        // 32 hex digits, /etc/machine-id
	HostKey   ssh.PublicKey // Ed25519
	hostKey   []byte        // OpenSSH private key, PEM
}

// NewIdentity makes a machine-id and an SSH host key.
func NewIdentity() (*Identity, error) {
	public, private, err := NewSSHKey()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	return &Identity{MachineID: hex.EncodeToString(id), HostKey: public, hostKey: private}, nil
}

// NewSSHKey makes an Ed25519 key pair; the private key is in OpenSSH's PEM format.
func NewSSHKey() (ssh.PublicKey, []byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make an SSH key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "trueup lab")
	if err != nil {
		return nil, nil, err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(block), nil
}
