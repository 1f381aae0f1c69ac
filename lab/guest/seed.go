package guest

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"text/template"
	"time"

	"golang.org/x/crypto/ssh"
)

// Kubelet is what a guest's kubelet needs to join the lab's cluster.
type Kubelet struct {
	CA              []byte        // PEM
	Kubeconfig      []byte        // of the kubelet
	ServingCert     []byte        // PEM
	ServingKey      []byte        // PEM
	AdminKubeconfig []byte        // control nodes only, else nil
	StatusFrequency time.Duration // how often it posts its status
}

//go:embed kubelet-config.yaml.tmpl
var kubeletConfig string

// kubeletConfigTemplate is parsed once; a mistake in it is found by any test that builds a seed.
var kubeletConfigTemplate = template.Must(template.New("kubelet-config").Parse(kubeletConfig))

// Seed is the tar that the guest's initrd unpacks over the root before systemd starts: who the guest is.
func Seed(spec Spec, identity *Identity, login ssh.PublicKey, kubelet Kubelet) ([]byte, error) {
	var config bytes.Buffer
	if err := kubeletConfigTemplate.Execute(&config, kubelet); err != nil {
		return nil, err
	}
	authorized := ssh.MarshalAuthorizedKey(login)
	hostKey := ssh.MarshalAuthorizedKey(identity.HostKey)
	files := []seedFile{
		{"etc/hostname", 0o644, 0, []byte(spec.Name + "\n")},
		{"etc/hosts", 0o644, 0, fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", spec.Address(), spec.Name)},
		{"etc/machine-id", 0o444, 0, []byte(identity.MachineID + "\n")},
		{"etc/ssh/ssh_host_ed25519_key", 0o600, 0, identity.hostKey},
		{"etc/ssh/ssh_host_ed25519_key.pub", 0o644, 0, hostKey},
		{"etc/systemd/network/10-eth.network", 0o644, 0, network(spec)},
		{"etc/cni/net.d/10-lab.conflist", 0o644, 0, cni(spec)},
		{"etc/default/kubelet", 0o644, 0, fmt.Appendf(nil, "KUBELET_EXTRA_ARGS=--hostname-override=%s --node-ip=%s\n", spec.Name, spec.Address())},
		{"etc/kubernetes/kubelet.conf", 0o600, 0, kubelet.Kubeconfig},
		{"etc/kubernetes/pki/ca.crt", 0o644, 0, kubelet.CA},
		{"var/lib/kubelet/config.yaml", 0o644, 0, config.Bytes()},
		{"var/lib/kubelet/pki/kubelet.crt", 0o644, 0, kubelet.ServingCert},
		{"var/lib/kubelet/pki/kubelet.key", 0o600, 0, kubelet.ServingKey},
		{"home/cloud/.ssh/authorized_keys", 0o600, cloudUser, authorized},
		{"home/cloud/success", 0o644, cloudUser, nil}, // CKS leaves this mark when cloud-init has finished
	}
	if kubelet.AdminKubeconfig != nil {
		files = append(files,
			seedFile{"etc/kubernetes/admin.conf", 0o600, 0, kubelet.AdminKubeconfig},
			seedFile{"root/.kube/config", 0o600, 0, kubelet.AdminKubeconfig})
	}
	return packSeed(files)
}

// cloudUser is the user and group id of `cloud`: the first user that Debian's useradd makes.
const cloudUser = 1000

func network(s Spec) []byte {
	return fmt.Appendf(nil, "[Match]\nName=eth0\n[Network]\nAddress=%s/24\nGateway=10.0.2.2\nDNS=10.0.2.3\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n", s.Address())
}

// cni gives the guest's pods addresses of their own. Pods of different guests can't reach each other: nothing in the lab needs it.
func cni(s Spec) []byte {
	return fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.%d.0/24"}]]}}]}
`, s.Index)
}

type seedFile struct {
	path  string
	mode  int64
	owner int
	body  []byte
}

// seedDirs are the folders that the seed brings along because the image lacks them or has them for another user.
var seedDirs = []seedFile{
	{"etc/kubernetes/pki/", 0o755, 0, nil},
	{"var/lib/kubelet/pki/", 0o700, 0, nil},
	{"home/cloud/.ssh/", 0o700, cloudUser, nil},
	{"root/.kube/", 0o700, 0, nil},
}

func packSeed(files []seedFile) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range slices.Concat(seedDirs, files) {
		// ModTime: a file from 1970 makes systemd believe the clock went backwards.
		header := &tar.Header{Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.body)), ModTime: time.Now()}
		if f.path[len(f.path)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
