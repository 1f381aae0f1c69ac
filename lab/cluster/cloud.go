package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/guest"
)

// Cloud is the played CloudStack over the lab's guests.
type Cloud struct {
	Model     *standin.Model // to steer it and to see what was asked of it
	URL       string         // of the API
	Account   standin.Account
	ClusterID string
	Offerings map[string]standin.Offering // by name; see offerings

	dir    string
	server *http.Server
	log    *os.File
}

// APIKeyPath is the file with the account's API key.
func (c *Cloud) APIKeyPath() string { return filepath.Join(c.dir, "api-key") }

// SecretKeyPath is the file with the account's secret key; only its owner may read it.
func (c *Cloud) SecretKeyPath() string { return filepath.Join(c.dir, "secret-key") }

// startCloud describes the lab to the stand-in and serves its API on a free port of loopback.
func (l *Lab) startCloud(ctx context.Context) error {
	dir := filepath.Join(l.Options.Dir, "cloudstack")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(l.Options.Dir, "log", "cloudstack.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	c := &Cloud{dir: dir, log: log, Offerings: map[string]standin.Offering{}}
	l.Cloud = c
	c.Model = standin.New(standin.Config{
		Hypervisor: hypervisor{l}, NodesReady: l.nodesReady, Seed: uint64(time.Now().UnixNano()),
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err := c.addAccount(); err != nil {
		return err
	}
	for _, offering := range offerings(l.Options.VCPUs, l.Options.MemoryMiB) {
		c.Offerings[offering.Name] = c.Model.AddOffering(offering)
	}
	spec, err := l.clusterSpec()
	if err != nil {
		return err
	}
	c.ClusterID = c.Model.AddCluster(spec).ID
	return c.serve(ctx)
}

// addAccount makes keys that nobody can guess: the stand-in changes this machine's processes on their word.
func (c *Cloud) addAccount() error {
	var keys [2]string
	for i, path := range []string{c.APIKeyPath(), c.SecretKeyPath()} {
		random := make([]byte, 32)
		if _, err := rand.Read(random); err != nil {
			return err
		}
		keys[i] = base64.RawURLEncoding.EncodeToString(random)
		if err := os.WriteFile(path, []byte(keys[i]+"\n"), 0o600); err != nil {
			return err
		}
	}
	c.Account = c.Model.AddAccount(standin.Account{Name: "operator", APIKey: keys[0], SecretKey: keys[1]})
	return nil
}

// offerings are named by what they are, seen from the size at boot, which is "small".
func offerings(vcpus, mib int) []standin.Offering {
	custom := standin.FixedOffering("custom", 0, 0)
	custom.Customized = true
	return []standin.Offering{
		standin.FixedOffering("small", vcpus, mib),
		standin.FixedOffering("medium", vcpus+1, mib+1024),
		standin.FixedOffering("large", vcpus+2, mib+2048),
		standin.FixedOffering("more-cpu", vcpus+2, mib),
		standin.FixedOffering("more-memory", vcpus, mib+2048),
		standin.FixedOffering("odd-memory", vcpus, mib+2000), // not a multiple of the guests' 128 MiB memory blocks
		standin.FixedOffering("too-many-cpus", maxVCPUs+1, mib),
		standin.FixedOffering("tiny", 1, 1024),
		standin.FixedOffering("etcd", etcdVCPUs, etcdMemoryMiB),
		standin.FixedOffering("etcd-medium", etcdVCPUs+1, etcdMemoryMiB+512),
		custom,
	}
}

func (l *Lab) clusterSpec() (standin.ClusterSpec, error) {
	kubeconfig, err := l.Plane.AdminKubeconfig("127.0.0.1")
	if err != nil {
		return standin.ClusterSpec{}, err
	}
	small := l.Cloud.Offerings["small"].ID
	spec := standin.ClusterSpec{
		Name: l.Options.Name, Owner: standin.Owner{Account: l.Cloud.Account.Name}, OfferingID: small,
		WorkerOfferingID: small, ControlOfferingID: small,
		Shape: standin.Isolated, PublicAddress: "127.0.0.1", APIPort: l.Plane.Port(),
		Kubeconfig: string(kubeconfig), LoginUser: guest.User,
	}
	for _, node := range l.Nodes {
		if node.Control {
			spec.Control = append(spec.Control, described(node.Guest))
		} else {
			spec.Workers = append(spec.Workers, described(node.Guest))
		}
	}
	for _, g := range l.Etcd {
		spec.Etcd, spec.EtcdOfferingID = append(spec.Etcd, described(g)), l.Cloud.Offerings["etcd"].ID
	}
	return spec, nil
}

func described(g *guest.Guest) standin.NodeSpec {
	return standin.NodeSpec{ID: g.VMID(), Name: g.Name(), Address: g.Spec().Address(), SSHPort: g.SSHPort()}
}

func (c *Cloud) serve(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.URL = "http://" + listener.Addr().String() + standin.Path
	c.server = &http.Server{Handler: c.Model.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(listener) }() // ends with Close
	return nil
}

func (c *Cloud) close() {
	if c.server != nil {
		_ = c.server.Close()
	}
	c.Model.Close()
	_ = c.log.Close()
}

// nodesReady answers the stand-in's state scanner.
func (l *Lab) nodesReady(string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	nodes, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	for i := range nodes.Items {
		if !NodeReady(&nodes.Items[i]) {
			return false
		}
	}
	return len(nodes.Items) == len(l.Nodes)
}

// hypervisor lets the stand-in reach the guests' QEMU.
type hypervisor struct{ lab *Lab }

var _ standin.PowerSwitch = hypervisor{}

func (h hypervisor) guest(vmID string) (*guest.Guest, error) {
	all := h.lab.guests()
	i := slices.IndexFunc(all, func(g *guest.Guest) bool { return g.VMID() == vmID })
	if i < 0 {
		return nil, fmt.Errorf("domain %s: no such guest", vmID)
	}
	return all[i], nil
}

// Domain implements standin.Hypervisor.
func (h hypervisor) Domain(ctx context.Context, vmID string) (standin.Domain, error) {
	g, err := h.guest(vmID)
	if err != nil {
		return standin.Domain{}, err
	}
	hardware, err := g.Hardware(ctx)
	return standin.Domain(hardware), err
}

// PlugMemory implements standin.Hypervisor.
func (h hypervisor) PlugMemory(ctx context.Context, vmID string, mib int) error {
	g, err := h.guest(vmID)
	if err != nil {
		return err
	}
	return g.PlugMemory(ctx, mib)
}

// SetVCPUs implements standin.Hypervisor.
func (h hypervisor) SetVCPUs(ctx context.Context, vmID string, count int) error {
	g, err := h.guest(vmID)
	if err != nil {
		return err
	}
	return g.SetVCPUs(ctx, count)
}

// size is what the lab's guests boot with.
func size(boot standin.Boot) guest.Size {
	s := guest.Size{VCPUs: boot.VCPUs, MaxVCPUs: boot.VCPUs, MemoryMiB: boot.MemoryMiB, MaxMemoryMiB: boot.MemoryMiB}
	if boot.Scalable {
		s.MaxVCPUs, s.MaxMemoryMiB, s.DIMMSlots = max(maxVCPUs, boot.VCPUs), max(maxMemoryMiB, boot.MemoryMiB), dimmSlots
	}
	return s
}

// Start implements standin.PowerSwitch. Where the guest could not keep its SSH port, CloudStack's rule follows; a real rule keeps its port.
func (h hypervisor) Start(_ context.Context, vmID string, boot standin.Boot) error {
	g, err := h.guest(vmID)
	if err != nil {
		return err
	}
	port := g.SSHPort()
	if err := g.Restart(h.lab.starter, size(boot)); err != nil || g.SSHPort() == port {
		return err
	}
	return h.lab.Cloud.Model.SetPortForwarding(vmID, g.SSHPort())
}

// Stop implements standin.PowerSwitch: it presses the power button and waits until the guest is off.
func (h hypervisor) Stop(ctx context.Context, vmID string) error {
	g, err := h.guest(vmID)
	if err != nil {
		return err
	}
	g.Stop(ctx)
	return nil
}
