package e2e

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// wire is a forwarded port of a node that CloudStack names in place of the real one, until the test ends. It can be cut.
type wire struct {
	to       string
	listener net.Listener

	mu    sync.Mutex
	open  []net.Conn
	count int // connections that were ever made
}

func (f *fixture) wire(t testing.TB, node *cluster.Node) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: fmt.Sprintf("127.0.0.1:%d", node.SSHPort()), listener: listener}
	go w.serve(listener)
	if err := f.Cloud.Model.SetPortForwarding(node.VMID(), listener.Addr().(*net.TCPAddr).Port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Cloud.Model.SetPortForwarding(node.VMID(), node.SSHPort()); err != nil {
			t.Error(err)
		}
		w.end()
	})
	return w
}

// end closes the port and cuts what is open.
func (w *wire) end() (made int) {
	_ = w.listener.Close() // it may be closed already
	return w.cut()
}

// serve ends with the listener.
func (w *wire) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.open, w.count = append(w.open, near, far), w.count+1
		w.mu.Unlock()
		go pour(near, far)
		go pour(far, near)
	}
}

// pour copies until either side ends, and then ends both.
func pour(from, to net.Conn) {
	_, _ = io.Copy(to, from) // a cut is what it is for
	_, _ = from.Close(), to.Close()
}

// cut ends all connections at once and returns how many were ever made. New ones are let through.
func (w *wire) cut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.open {
		_ = conn.Close()
	}
	w.open = nil
	return w.count
}

// made is how many connections were ever made.
func (w *wire) made() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
