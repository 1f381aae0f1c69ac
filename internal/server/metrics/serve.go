package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/cks-trueup/trueup/internal/server/graceful"
)

// The bounds of a connection. A CPU profile takes half a minute unless told otherwise, and its answer comes at its end.
const (
	readHeader = 5 * time.Second
	writeWhole = 2 * time.Minute
	idle       = 2 * time.Minute
	mostHeader = 16 << 10
)

// Serve answers on the listener until ctx ends, then finishes what is under way within five seconds. It returns nil then.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeader, ReadTimeout: readHeader, WriteTimeout: writeWhole, IdleTimeout: idle,
		MaxHeaderBytes: mostHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	return graceful.Serve(ctx, server, listener)
}
