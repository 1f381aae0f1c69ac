package compare

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// relay passes TCP connections on and counts them and their bytes.
type relay struct {
	listener net.Listener
	target   string

	connections, bytes atomic.Int64
	open               sync.WaitGroup
}

// newRelay listens on a free port of loopback. The caller must close it.
func newRelay(ctx context.Context, target string) (*relay, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: target}
	r.open.Go(func() { r.accept(ctx) })
	return r, nil
}

// address is where it listens.
func (r *relay) address() string { return r.listener.Addr().String() }

// port is that of its address.
func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on tcp

func (r *relay) accept(ctx context.Context) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.connections.Add(1)
		r.open.Go(func() { r.pass(ctx, conn) })
	}
}

// pass copies both ways until both sides have ended.
func (r *relay) pass(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, client) })
	both.Go(func() { r.copy(client, server) })
	both.Wait()
}

// copy counts what it copies as it goes, and hands the end of the stream on.
func (r *relay) copy(to, from net.Conn) {
	_, _ = io.Copy(counting{to, &r.bytes}, from)
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}

// close ends it. Connections end with the context.
func (r *relay) close() { _ = r.listener.Close() }

type counting struct {
	io.Writer

	bytes *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
