// Package control runs a real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
//
// Invariant: the API server authorises by Node and RBAC with NodeRestriction, so what a client may do here is what it may do in a
// real cluster; and the parts end in the order that leaves nothing behind: the API server before etcd.
package control

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cks-trueup/trueup/lab/process"
)

const (
	// startTries: a free port is found and then taken by the program; in between another program may get it.
	startTries = 3
	// readyTimeout is for etcd and kube-apiserver together: 3 s on a quiet machine, 22 s at a load of 22 on two cores.
	readyTimeout = 3 * time.Minute
	// stopGrace bounds the end of one program; kube-apiserver needs up to a second.
	stopGrace = 20 * time.Second

	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1" // of the API server inside the cluster: the first of serviceRange
)

// Plane is a running control plane.
type Plane struct {
	programs  string // folder with the programs
	dir       string
	starter   *process.Starter
	authority *authority
	port      int
	egress    *egress

	etcd, apiserver, manager, scheduler *process.Process
}

// Start starts a control plane whose files go to dir; programs is the folder with the Kubernetes programs.
func Start(ctx context.Context, starter *process.Starter, programs, dir string) (*Plane, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	p := &Plane{programs: programs, dir: dir, starter: starter, authority: ca}
	if err := errors.Join(p.writeFiles(), p.start(ctx)); err != nil {
		p.Stop(ctx)
		return nil, err
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.startEgress(ctx); err != nil {
		return err
	}
	etcdURL, err := p.startEtcd(ctx)
	if err != nil {
		return err
	}
	if err := p.startAPIServer(ctx, etcdURL); err != nil {
		return err
	}
	return p.startControllers()
}

// URL is the API server's address on this machine.
func (p *Plane) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", p.port) }

// Port is the API server's port on 127.0.0.1.
func (p *Plane) Port() int { return p.port }

// APIServer is the running kube-apiserver.
func (p *Plane) APIServer() *process.Process { return p.apiserver }

// RESTConfig is that of an administrator.
func (p *Plane) RESTConfig() (*rest.Config, error) {
	kubeconfig, err := p.AdminKubeconfig("127.0.0.1")
	if err != nil {
		return nil, err
	}
	return clientcmd.RESTConfigFromKubeConfig(kubeconfig)
}

// writeFiles writes what the programs read from files.
func (p *Plane) writeFiles() error {
	server, err := p.authority.server("kube-apiserver", []string{"127.0.0.1", HostInGuests, serviceIP}, "localhost", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	etcd, err := p.authority.server("etcd", []string{"127.0.0.1"})
	if err != nil {
		return err
	}
	kubelet, err := p.authority.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.crt": p.authority.pem, auditPolicyFile: []byte(auditPolicy)}
	for name, pair := range map[string]pair{"apiserver": server, "etcd": etcd, "kubelet-client": kubelet} {
		files[name+".crt"], files[name+".key"] = pair.cert, pair.key
	}
	if files["sa.key"], files["sa.pub"], err = serviceAccountKey(); err != nil {
		return err
	}
	for name, body := range files {
		if err := os.WriteFile(p.file(name), body, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// serviceAccountKey makes the key that signs service account tokens.
func serviceAccountKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	private, err = marshalKey(key)
	return private, pemBlock("PUBLIC KEY", der), err
}

func (p *Plane) file(name string) string { return filepath.Join(p.dir, name) }

// Stop ends the control plane: whoever uses the API server first, etcd last. An API server that loses its etcd first lingers.
func (p *Plane) Stop(ctx context.Context) {
	for _, program := range []*process.Process{p.scheduler, p.manager, p.apiserver, p.etcd} {
		if program != nil {
			_ = program.Stop(ctx, stopGrace) // a program that had to be killed is gone as well
		}
	}
	if p.egress != nil {
		_ = p.egress.server.Close() // its socket goes with the folder
	}
}

// loopback is a port's address on this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts returns ports of 127.0.0.1 that are free now.
func freePorts(ctx context.Context, count int) ([]int, error) {
	var ports []int
	for range count {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }() // only at the end, so that no port comes twice
		address, err := netip.ParseAddrPort(listener.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, int(address.Port()))
	}
	return ports, nil
}

// waitReady polls ready until it succeeds; a program that ends first is an error at once.
func waitReady(ctx context.Context, program *process.Process, ready func(context.Context) error) error {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-program.Done():
			return program.Err()
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready, see %s: %w", program.Name(), program.Log(), errors.Join(ctx.Err(), err))
		}
	}
}

// client is an administrator's clientset.
func (p *Plane) client() (*kubernetes.Clientset, error) {
	config, err := p.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}
