package control

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// egress is the API server's way to kubelets. The guests' networks are QEMU's own, in which this machine has no address: what the API server would connect
// to there is reached at a forwarded port here. It is an HTTP CONNECT proxy, as kube-apiserver's EgressSelectorConfiguration takes one.
type egress struct {
	server *http.Server

	mu    sync.Mutex
	ports map[string]func() int // of 127.0.0.1, by the address that kubelet posts
}

const (
	egressSocket = "egress.sock"
	egressConfig = "egress.yaml"
	// egressDial bounds a connection on this machine.
	egressDial = 5 * time.Second
)

// startEgress listens, and writes the API server's configuration of it.
func (p *Plane) startEgress(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", p.file(egressSocket))
	if err != nil {
		return err
	}
	p.egress = &egress{ports: map[string]func() int{}}
	p.egress.server = &http.Server{Handler: p.egress, ReadHeaderTimeout: egressDial}
	go func() { _ = p.egress.server.Serve(listener) }() // ends with Stop
	return os.WriteFile(p.file(egressConfig), []byte(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds: {udsName: "`+p.file(egressSocket)+`"}
`), 0o600)
}

// Reach says at which port of this machine the API server reaches an address in a guest's network.
func (p *Plane) Reach(address string, port func() int) {
	p.egress.mu.Lock()
	defer p.egress.mu.Unlock()
	p.egress.ports[address] = port
}

// ServeHTTP implements http.Handler.
func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	port := e.ports[r.Host]
	e.mu.Unlock()
	hijacker, can := w.(http.Hijacker)
	if r.Method != http.MethodConnect || port == nil || !can {
		http.Error(w, "no such node", http.StatusBadGateway)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), egressDial)
	defer cancel()
	there, err := new(net.Dialer).DialContext(ctx, "tcp", loopback(port()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = there.Close() }()
	here, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = here.Close() }()
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	join(here, there)
}

// join copies both ways until either side ends.
func join(a, b net.Conn) {
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}
