package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Description is what another process needs to know of a running lab. Secrets are in files that it names.
type Description struct {
	Dir           string            `json:"dir"`
	Cluster       string            `json:"cluster"`
	CloudStackURL string            `json:"cloudstackURL"`
	APIKeyFile    string            `json:"apiKeyFile"`
	SecretKeyFile string            `json:"secretKeyFile"`
	APIServer     string            `json:"apiServer"`
	Kubeconfig    string            `json:"kubeconfig"`
	Kubectl       string            `json:"kubectl"`
	SSHKey        string            `json:"sshKey"`
	KnownHosts    string            `json:"knownHosts"`
	Nodes         []NodeDescription `json:"nodes"`
}

// NodeDescription is one guest.
type NodeDescription struct {
	Name    string `json:"name"`
	VMID    string `json:"vmID"`
	Role    string `json:"role"` // control or worker
	SSHPort int    `json:"sshPort"`
}

// descriptionName is the file in the lab's folder that appears when the lab is up.
const descriptionName = "lab.json"

// Describe gathers the lab's description.
func (l *Lab) Describe() Description {
	d := Description{
		Dir: l.Options.Dir, Cluster: l.Options.Name,
		CloudStackURL: l.Cloud.URL, APIKeyFile: l.Cloud.APIKeyPath(), SecretKeyFile: l.Cloud.SecretKeyPath(),
		APIServer: l.Plane.URL(), Kubeconfig: l.KubeconfigPath(), Kubectl: filepath.Join(l.Options.Artifacts.Kubernetes, "kubectl"),
		SSHKey: l.SSHKeyPath(), KnownHosts: l.KnownHostsPath(),
	}
	for _, node := range l.Nodes {
		d.Nodes = append(d.Nodes, NodeDescription{Name: node.Name(), VMID: node.VMID(), Role: node.Role(), SSHPort: node.SSHPort()})
	}
	return d
}

// writeDescription makes the description appear whole.
func (l *Lab) writeDescription() error {
	body, err := json.MarshalIndent(l.Describe(), "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(l.Options.Dir, descriptionName)
	if err := os.WriteFile(path+".new", body, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ErrNotUp says that no lab is up in the folder.
var ErrNotUp = errors.New("no lab is up")

// ReadDescription reads the description of the lab that is up in the folder, which another process holds.
func ReadDescription(dir string) (Description, error) {
	held, err := Held(dir)
	if err != nil {
		return Description{}, err
	}
	body, err := os.ReadFile(filepath.Join(dir, descriptionName))
	if !held || errors.Is(err, os.ErrNotExist) {
		return Description{}, fmt.Errorf("%w in %s", ErrNotUp, dir)
	}
	if err != nil {
		return Description{}, err
	}
	var d Description
	return d, json.Unmarshal(body, &d)
}

// WriteExports prints shell lines that point trueup, kubectl and ssh at the lab. The secret stays in its file.
func (d Description) WriteExports(out io.Writer) error {
	_, err := fmt.Fprintf(out, `export CLOUDSTACK_API_URL=%q
export CLOUDSTACK_API_KEY="$(cat %q)"
export CLOUDSTACK_SECRET_KEY="$(cat %q)"
export TRUEUP_SSH_KEY=%q
export TRUEUP_KNOWN_HOSTS=%q
export KUBECONFIG=%q
`, d.CloudStackURL, d.APIKeyFile, d.SecretKeyFile, d.SSHKey, d.KnownHosts, d.Kubeconfig)
	return err
}
