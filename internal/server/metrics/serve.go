package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The bounds of a connection. A CPU profile takes half a minute unless told otherwise, and its answer comes at its end.
const (
	readHeader = 5 * time.Second
	writeWhole = 2 * time.Minute
	idle       = 2 * time.Minute
	lastWords  = 5 * time.Second // for answers that are under way when the server ends
	mostHeader = 16 << 10
)

// Serve answers on the listener until ctx ends, then finishes what is under way within five seconds. It returns nil then.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeader, ReadTimeout: readHeader, WriteTimeout: writeWhole, IdleTimeout: idle,
		MaxHeaderBytes: mostHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // whoever is still there is cut off
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
