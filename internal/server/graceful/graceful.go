// Package graceful ends an HTTP server without cutting answers off.
package graceful

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// LastWords is how long answers that are under way have when the server ends.
const LastWords = 5 * time.Second

// Serve answers on the listener until ctx ends, then begins no more and gives what is under way five seconds. It returns nil then. What shall end at
// once is told by the server's RegisterOnShutdown.
func Serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastWords)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // whoever is still there is cut off
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
