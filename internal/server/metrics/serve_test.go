package metrics

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// An answer that is under way when the server is asked to end is finished; a new one is not begun.
func TestServeEndsGracefully(t *testing.T) {
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		<-ctx.Done()
		_, _ = io.WriteString(w, "whole")
	})
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, handler, slog.New(slog.DiscardHandler)) }()
	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); string(body) != "whole" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}

func TestServeSaysWhyItCant(t *testing.T) {
	listener := listen(t)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), listener, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a closed listener was served")
	}
}
