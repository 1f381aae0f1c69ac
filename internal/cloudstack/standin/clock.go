package standin

import (
	"sync"
	"time"
)

// Clock is the time of the model: every stamp, every expiry and every step of a job comes from it.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, d from now. It never calls f before it has returned.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is one call planned with AfterFunc.
type Timer interface {
	// Stop cancels the call and reports whether it was in time.
	Stop() bool
}

// RealClock is the clock of the machine. Inside a testing/synctest bubble it is that bubble's virtual time.
type RealClock struct{}

// Now implements Clock.
func (RealClock) Now() time.Time { return time.Now() }

// AfterFunc implements Clock; f runs in a goroutine of its own.
func (RealClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// ManualClock stands still until Advance moves it. Planned calls run inside Advance, one after the other, in the order
// of their time and then of their planning, so that a run is repeatable.
type ManualClock struct {
	mu      sync.Mutex
	now     time.Time
	planned []*manualTimer
	seq     int
}

type manualTimer struct {
	clock *ManualClock
	at    time.Time
	seq   int
	call  func()
}

// NewManualClock returns a clock that shows start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{now: start} }

// Now implements Clock.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements Clock.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	t := &manualTimer{clock: c, at: c.now.Add(max(d, 0)), seq: c.seq, call: f}
	c.planned = append(c.planned, t)
	return t
}

// Advance moves the clock by d and runs what falls due, including calls that are planned on the way.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for t := c.takeDue(end); t != nil; t = c.takeDue(end) {
		c.now = t.at
		c.mu.Unlock()
		t.call()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

// takeDue removes and returns the earliest planned call that is due at end, or nil.
func (c *ManualClock) takeDue(end time.Time) *manualTimer {
	first := -1
	for i, t := range c.planned {
		if !t.at.After(end) && (first < 0 || t.before(c.planned[first])) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	t := c.planned[first]
	c.planned = append(c.planned[:first], c.planned[first+1:]...)
	return t
}

func (t *manualTimer) before(o *manualTimer) bool {
	return t.at.Before(o.at) || t.at.Equal(o.at) && t.seq < o.seq
}

// Stop implements Timer.
func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	for i, p := range t.clock.planned {
		if p == t {
			t.clock.planned = append(t.clock.planned[:i], t.clock.planned[i+1:]...)
			return true
		}
	}
	return false
}
