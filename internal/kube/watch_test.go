package kube

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestWatchWakesOnChanges(t *testing.T) {
	c := newClient(t, Options{})
	name, other := makeNode(t), makeNode(t)
	woken, err := c.Watch(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, woken, "wake-up for the present state")
	touch(t, c, other)
	for range 3 {
		touch(t, c, name)
		receive(t, woken, "wake-up for a change")
	}
	select {
	case <-woken:
		t.Error("woken once more than there were changes: by another Node's change, or without one")
	default:
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	c := newClient(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	woken, err := c.Watch(ctx, makeNode(t))
	if err != nil {
		t.Fatal(err)
	}
	receive(t, woken, "wake-up for the present state")
	cancel()
	awaitClosed(t, woken)
}

// awaitClosed takes wake-ups until the sender has come to its end.
func awaitClosed(t *testing.T, woken <-chan struct{}) {
	t.Helper()
	deadline := time.After(soon)
	for {
		select {
		case _, open := <-woken:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("the channel is not closed after ctx has ended")
		}
	}
}

func TestWatchNeverBlocksOnASleepingReader(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	woken, err := c.Watch(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		touch(t, c, name)
	}
	cancel()
	awaitClosed(t, woken)
}

func TestWatchIsMadeAnewAfterTheConnectionBroke(t *testing.T) {
	line := newLine()
	c := newClient(t, Options{Dial: line.dial})
	eyes := newClient(t, Options{})
	name := makeNode(t)
	woken, err := c.Watch(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, woken, "wake-up for the present state")
	receive(t, line.dialed, "first connection")

	line.cut()
	receive(t, line.dialed, "second connection")
	receive(t, woken, "wake-up because a change may have been missed")
	// At most two wake-ups come from the making; the later ones are the changes'.
	for range 5 {
		touch(t, eyes, name)
		receive(t, woken, "wake-up for a change after the break")
	}
}

func TestWatchPausesGrow(t *testing.T) {
	pause := watchBackoff()
	var total time.Duration
	const tries = 20
	for range tries {
		d := pause.Step()
		if d < 100*time.Millisecond || d > 6*time.Second {
			t.Errorf("pause %s, want between 100 ms and 5 s with 20 %% jitter", d)
		}
		total += d
	}
	if total < time.Minute {
		t.Errorf("%d tries within %s: a dead server is asked too often", tries, total)
	}
}

// touch changes the Node in a way that only a watch on it can show.
func touch(t *testing.T, c *Client, name string) {
	t.Helper()
	patched(t, c, name, func(p *rollout.NodePatch) { p.Claim = new(p.ResourceVersion) })
}

// line is a network line that can be cut.
type line struct {
	dialed chan struct{}

	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

func newLine() *line { return &line{dialed: make(chan struct{}, 100)} }

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.conns = append(l.conns, conn)
		l.dialed <- struct{}{}
	}
	return conn, err
}

// cut breaks every connection; new ones can be made.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close() // a connection that the other side closed before is cut as well
	}
	l.conns = nil
}

// kill breaks every connection and lets no new one be made until revive.
func (l *line) kill() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.cut()
}

func (l *line) revive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}
