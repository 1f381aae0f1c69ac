package world

import (
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Clock is the time of a world: of its engine and of all that the engine meets.
type Clock interface {
	rollout.Clock
	// AfterFunc calls f once, d from now, in a goroutine of its own.
	AfterFunc(d time.Duration, f func()) standin.Timer
}

// PlainClock is the clock of the machine. Inside a testing/synctest bubble it is that bubble's virtual time.
type PlainClock struct{ standin.RealClock }

// After implements Clock.
func (PlainClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// FastClock runs faster than the machine's clock, from the same start.
type FastClock struct {
	start  time.Time
	factor time.Duration
}

// NewFastClock returns a clock that starts now and runs factor times as fast.
func NewFastClock(factor int) *FastClock {
	return &FastClock{start: time.Now(), factor: time.Duration(factor)}
}

// Now implements Clock.
func (c *FastClock) Now() time.Time { return c.start.Add(time.Since(c.start) * c.factor) } //nolint:durationcheck // factor is a number

// After implements Clock.
func (c *FastClock) After(d time.Duration) <-chan time.Time { return time.After(d / c.factor) }

// AfterFunc implements Clock.
func (c *FastClock) AfterFunc(d time.Duration, f func()) standin.Timer {
	return time.AfterFunc(d/c.factor, f)
}
