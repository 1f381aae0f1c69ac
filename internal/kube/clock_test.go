package kube

import (
	"sync"
	"testing"
	"time"
)

// handClock is a clock that a test moves. It serves one goroutine that sleeps at a time, as a Lock has it.
type handClock struct {
	sleepers chan sleeper

	mu  sync.Mutex
	now time.Time
}

type sleeper struct {
	d    time.Duration
	wake chan time.Time
}

func newHandClock() *handClock {
	return &handClock{sleepers: make(chan sleeper, 10), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	s := sleeper{d: d, wake: make(chan time.Time, 1)}
	c.sleepers <- s
	return s.wake
}

// advance moves the clock and wakes nobody, as the suspend of a laptop does.
func (c *handClock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// step waits until somebody sleeps, lets that sleep pass and returns how long it was.
func (c *handClock) step(t *testing.T) time.Duration {
	t.Helper()
	s := receive(t, c.sleepers, "somebody who sleeps")
	s.wake <- c.advance(s.d)
	return s.d
}

// settle waits until somebody sleeps again: what the last step had woken is done.
func (c *handClock) settle(t *testing.T) {
	t.Helper()
	c.sleepers <- receive(t, c.sleepers, "somebody who sleeps")
}

// forget drops the sleepers whose goroutine has gone.
func (c *handClock) forget() {
	for len(c.sleepers) > 0 {
		<-c.sleepers
	}
}
