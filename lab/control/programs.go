package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cks-trueup/trueup/lab/process"
)

// startOnFreePorts starts a program on ports that were free a moment ago, again with others if it ended before it was ready.
func startOnFreePorts(ctx context.Context, count int, start func(ports []int) (*process.Process, error), ready func(context.Context) error) (*process.Process, error) {
	var failures error
	for range startTries {
		ports, err := freePorts(ctx, count)
		if err != nil {
			return nil, err
		}
		program, err := start(ports)
		if err != nil {
			return nil, err
		}
		if err = waitReady(ctx, program, ready); err == nil {
			return program, nil
		}
		failures = errors.Join(failures, err)
		program.Kill()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failures
}

// startEtcd returns the URL of its clients' port.
func (p *Plane) startEtcd(ctx context.Context) (url string, err error) {
	var address string
	start := func(ports []int) (*process.Process, error) {
		address = fmt.Sprintf("127.0.0.1:%d", ports[0])
		url = "https://" + address
		peer := fmt.Sprintf("https://127.0.0.1:%d", ports[1])
		// A first try that found its port taken may have written a member with other URLs.
		if err := os.RemoveAll(p.file("etcd")); err != nil {
			return nil, err
		}
		return p.starter.Start("etcd", []string{
			filepath.Join(p.programs, "etcd"), "--data-dir=" + p.file("etcd"),
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--cert-file=" + p.file("etcd.crt"), "--key-file=" + p.file("etcd.key"), "--trusted-ca-file=" + p.file("ca.crt"), "--client-cert-auth",
			"--peer-cert-file=" + p.file("etcd.crt"), "--peer-key-file=" + p.file("etcd.key"), "--peer-trusted-ca-file=" + p.file("ca.crt"), "--peer-client-cert-auth",
			"--unsafe-no-fsync", // a lab's data need not survive a crash of the machine
		})
	}
	listens := func(ctx context.Context) error {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: p.authority.pool()}}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	p.etcd, err = startOnFreePorts(ctx, 2, start, listens)
	return url, err
}

func (p *Plane) startAPIServer(ctx context.Context, etcdURL string) (err error) {
	start := func(ports []int) (*process.Process, error) {
		p.port = ports[0]
		return p.starter.Start("kube-apiserver", []string{
			filepath.Join(p.programs, "kube-apiserver"),
			"--etcd-servers=" + etcdURL, "--etcd-cafile=" + p.file("ca.crt"), "--etcd-certfile=" + p.file("etcd.crt"), "--etcd-keyfile=" + p.file("etcd.key"),
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.port), "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--tls-cert-file=" + p.file("apiserver.crt"), "--tls-private-key-file=" + p.file("apiserver.key"), "--client-ca-file=" + p.file("ca.crt"),
			"--kubelet-client-certificate=" + p.file("kubelet-client.crt"), "--kubelet-client-key=" + p.file("kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=" + p.file("ca.crt"), "--egress-selector-config-file=" + p.file(egressConfig),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-signing-key-file=" + p.file("sa.key"), "--service-account-key-file=" + p.file("sa.pub"),
			"--service-cluster-ip-range=" + serviceRange,
			"--audit-policy-file=" + p.file(auditPolicyFile), "--audit-log-path=" + p.file(auditLog),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		})
	}
	p.apiserver, err = startOnFreePorts(ctx, 1, start, p.ready)
	return err
}

// ready asks the API server itself.
func (p *Plane) ready(ctx context.Context) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// startControllers starts the two programs that serve nothing and elect nobody: there is one of each.
func (p *Plane) startControllers() (err error) {
	manager, err := p.componentKubeconfig("kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := p.componentKubeconfig("kube-scheduler")
	if err != nil {
		return err
	}
	p.manager, err = p.starter.Start("kube-controller-manager", []string{
		filepath.Join(p.programs, "kube-controller-manager"), "--kubeconfig=" + manager,
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials=true",
		"--service-account-private-key-file=" + p.file("sa.key"), "--root-ca-file=" + p.file("ca.crt"),
	})
	if err != nil {
		return err
	}
	p.scheduler, err = p.starter.Start("kube-scheduler", []string{
		filepath.Join(p.programs, "kube-scheduler"), "--kubeconfig=" + scheduler, "--secure-port=0", "--leader-elect=false",
	})
	return err
}

func (p *Plane) componentKubeconfig(name string) (path string, err error) {
	body, err := p.UserKubeconfig("system:" + name)
	if err != nil {
		return "", err
	}
	path = p.file(name + ".kubeconfig")
	return path, os.WriteFile(path, body, 0o600)
}
