package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Via is a way to the API server.
type Via string

// The ways, in the order in which they are tried where none is chosen.
const (
	ViaDirect  Via = "direct"  // the kubeconfig's own address
	ViaTunnel  Via = "tunnel"  // a TCP connection from a control-plane node, through SSH; the certificate is verified against the kubeconfig all the same
	ViaKubectl Via = "kubectl" // kubectl on a control-plane node, through SSH, as that cluster's administrator
)

// Kubectl hands a request to kubectl on a control-plane node, in the form that request.encode gives it. The reader gives what kubectl prints and ends with a
// *Complaint if kubectl says no, or with another error if nobody knows what became of it.
type Kubectl func(ctx context.Context, request []byte) (io.ReadCloser, error)

// Complaint is what kubectl said when it failed.
type Complaint struct{ Text string }

// Error is kubectl's text.
func (c *Complaint) Error() string { return "kubectl: " + c.Text }

// Ways are ways to the API server besides the kubeconfig's own address. Nil ones are not there.
type Ways struct {
	// Only is the one way to use; empty means those that there are, in order: a later one where the earlier can't be reached, never where it said no.
	Only Via
	// Tunnel opens a TCP connection to the API server from a control-plane node. address is the one in the kubeconfig.
	Tunnel func(ctx context.Context, address string) (net.Conn, error)
	// Kubectl is kubectl on a control-plane node.
	Kubectl Kubectl
	// Tell is told once of each way that is used besides direct, and why; may be nil.
	Tell func(way Via, why error)
}

// directTimeout bounds the first way where there is another: a firewall that drops packets says nothing.
const directTimeout = 3 * time.Second

// ways opens connections by the first way that works, and goes on with it.
type ways struct {
	Ways

	dial func(ctx context.Context, network, address string) (net.Conn, error) // direct

	mu     sync.Mutex
	used   Via
	ticked map[Via]bool // told of
}

// noWayError is a connection that could not be opened by any way: nothing was sent.
type noWayError struct{ err error }

func (e *noWayError) Error() string { return e.err.Error() }
func (e *noWayError) Unwrap() error { return e.err }

// open is the Dial of the HTTP transport. The way that was used last comes first.
func (w *ways) open(ctx context.Context, network, address string) (net.Conn, error) {
	order := []Via{ViaDirect, ViaTunnel}
	if w.last() == ViaTunnel {
		order = []Via{ViaTunnel, ViaDirect}
	}
	var failed error
	for _, way := range order {
		if !w.has(way) {
			continue
		}
		conn, err := w.try(ctx, way, network, address)
		if err == nil {
			w.use(way, failed)
			return conn, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", way, err))
		if ctx.Err() != nil || errors.Is(err, rollout.ErrDenied) {
			break
		}
	}
	return nil, &noWayError{failed}
}

func (w *ways) has(way Via) bool {
	if w.Only != "" && w.Only != way {
		return false
	}
	return way == ViaDirect || way == ViaTunnel && w.Tunnel != nil || way == ViaKubectl && w.Kubectl != nil
}

func (w *ways) try(ctx context.Context, way Via, network, address string) (net.Conn, error) {
	if way == ViaTunnel {
		return w.Tunnel(ctx, address)
	}
	if w.has(ViaTunnel) || w.has(ViaKubectl) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, directTimeout)
		defer cancel()
	}
	return w.dial(ctx, network, address)
}

func (w *ways) last() Via {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// use notes the way, and tells of it the first time.
func (w *ways) use(way Via, why error) {
	w.mu.Lock()
	w.used = way
	told := w.ticked[way] || way == ViaDirect || w.Only != ""
	if w.ticked == nil {
		w.ticked = map[Via]bool{}
	}
	w.ticked[way] = true
	w.mu.Unlock()
	if !told && w.Tell != nil {
		w.Tell(way, why)
	}
}

// fallback sends a request by kubectl where no connection could be opened, so that nothing was sent.
type fallback struct {
	ways    *ways
	wire    http.RoundTripper
	kubectl http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fallback) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.ways.last() == ViaKubectl {
		return f.kubectl.RoundTrip(r)
	}
	response, err := f.wire.RoundTrip(r)
	if err == nil || !errors.As(err, new(*noWayError)) || errors.Is(err, rollout.ErrDenied) || r.Context().Err() != nil {
		return response, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		body, bodyErr := r.GetBody()
		if bodyErr != nil {
			return nil, err
		}
		again.Body = body
	}
	response, kubectlErr := f.kubectl.RoundTrip(again)
	if kubectlErr != nil {
		return nil, errors.Join(err, fmt.Errorf("%s: %w", ViaKubectl, kubectlErr))
	}
	f.ways.use(ViaKubectl, err)
	return response, nil
}

// CloseIdleConnections lets go of the wire's.
func (f fallback) CloseIdleConnections() {
	if wire, ok := f.wire.(interface{ CloseIdleConnections() }); ok {
		wire.CloseIdleConnections()
	}
}
