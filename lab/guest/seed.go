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

	product "github.com/cks-trueup/trueup/internal/guest"
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

// Keys are who may log in to a guest.
type Keys struct {
	User  ssh.PublicKey // as User: trueup's
	Admin ssh.PublicKey // as root: the lab's own
}

// rootLogin beats the image's sshd configuration: OpenSSH takes the first value that it reads, and reads the files in the order of their names.
const rootLogin = "PermitRootLogin prohibit-password\n"

// Seed is the tar that the guest's initrd unpacks over the root before systemd starts: who the guest is.
func Seed(spec Spec, identity *Identity, keys Keys, kubelet Kubelet) ([]byte, error) {
	var config bytes.Buffer
	if err := kubeletConfigTemplate.Execute(&config, kubelet); err != nil {
		return nil, err
	}
	files, err := everyGuest(spec, identity, keys)
	if err != nil {
		return nil, err
	}
	files = append(files,
		seedFile{"etc/cni/net.d/10-lab.conflist", 0o644, 0, cni(spec)},
		seedFile{"etc/default/kubelet", 0o644, 0, fmt.Appendf(nil, "KUBELET_EXTRA_ARGS=--hostname-override=%s --node-ip=%s\n", spec.Name, spec.Address())},
		seedFile{"etc/kubernetes/kubelet.conf", 0o600, 0, kubelet.Kubeconfig},
		seedFile{"etc/kubernetes/pki/ca.crt", 0o644, 0, kubelet.CA},
		seedFile{"var/lib/kubelet/config.yaml", 0o644, 0, config.Bytes()},
		seedFile{"var/lib/kubelet/pki/kubelet.crt", 0o644, 0, kubelet.ServingCert},
		seedFile{"var/lib/kubelet/pki/kubelet.key", 0o600, 0, kubelet.ServingKey})
	if kubelet.AdminKubeconfig != nil {
		files = append(files,
			seedFile{"etc/kubernetes/admin.conf", 0o600, 0, kubelet.AdminKubeconfig},
			seedFile{"root/.kube/config", 0o600, 0, kubelet.AdminKubeconfig})
	}
	return packSeed(files)
}

// everyGuest is what a guest has whatever it is for.
func everyGuest(spec Spec, identity *Identity, keys Keys) ([]seedFile, error) {
	sudoers, err := product.Sudoers(User, "of this checkout")
	return []seedFile{
		{"etc/hostname", 0o644, 0, []byte(spec.Name + "\n")},
		{"etc/hosts", 0o644, 0, fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", spec.Address(), spec.Name)},
		{"etc/machine-id", 0o444, 0, []byte(identity.MachineID + "\n")},
		{"etc/ssh/ssh_host_ed25519_key", 0o600, 0, identity.hostKey},
		{"etc/ssh/ssh_host_ed25519_key.pub", 0o644, 0, ssh.MarshalAuthorizedKey(identity.HostKey)},
		{"etc/systemd/network/10-eth.network", 0o644, 0, network(spec)},
		{"home/cloud/.ssh/authorized_keys", 0o600, cloudUser, ssh.MarshalAuthorizedKey(keys.User)},
		{"home/cloud/success", 0o644, cloudUser, nil}, // CKS leaves this mark when cloud-init has finished
		{"etc/sudoers.d/cloud", 0o440, 0, []byte(sudoers)},
		{"root/.ssh/authorized_keys", 0o600, 0, ssh.MarshalAuthorizedKey(keys.Admin)},
		{"etc/ssh/sshd_config.d/00-root.conf", 0o644, 0, []byte(rootLogin)},
	}, err
}

// Etcd is what a dedicated etcd machine runs: the programs, which are in no image.
type Etcd struct{ Server, Client []byte }

// EtcdSeed is the seed of a dedicated etcd machine: one member, in /opt/bin and on the ports where CKS has it, without TLS as there.
func EtcdSeed(spec Spec, identity *Identity, keys Keys, programs Etcd) ([]byte, error) {
	files, err := everyGuest(spec, identity, keys)
	if err != nil {
		return nil, err
	}
	return packSeed(append(files,
		seedFile{"opt/bin/etcd", 0o755, 0, programs.Server},
		seedFile{"opt/bin/etcdctl", 0o755, 0, programs.Client},
		seedFile{"etc/systemd/system/etcd.service", 0o644, 0, etcdUnit(spec)}))
}

func etcdUnit(s Spec) []byte {
	return fmt.Appendf(nil, `[Unit]
Description=etcd
After=network-online.target
[Service]
Type=notify
ExecStart=/opt/bin/etcd --name=%[1]s --data-dir=/var/lib/etcd --listen-client-urls=http://%[2]s:2379,http://127.0.0.1:2379 \
  --advertise-client-urls=http://%[2]s:2379 --listen-peer-urls=http://%[2]s:2380 --initial-advertise-peer-urls=http://%[2]s:2380 \
  --initial-cluster=%[1]s=http://%[2]s:2380
Restart=always
RestartSec=5
TimeoutStartSec=300
`, s.Name, s.Address())
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
	{"root/.ssh/", 0o700, 0, nil},
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
