package cloudstack

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// The bounds of repeating a read: four attempts, with at most 0.25 + 0.5 + 1 s of waiting between them unless CloudStack asks
// for more. The runner repeats whole observations, so a client that waits longer only hides from it what happens.
const (
	maxAttempts   = 4
	firstWait     = 250 * time.Millisecond
	maxRetryAfter = 30 * time.Second
)

// backoff says whether a read that failed may succeed when sent again, and how long to wait before.
func (c *Client) backoff(attempt int, err error) (time.Duration, bool) {
	if attempt >= maxAttempts || !transient(err) {
		return 0, false
	}
	wait := firstWait << (attempt - 1)
	wait -= c.jitter(wait / 2)
	var answer *APIError
	if errors.As(err, &answer) && answer.RetryAfter > 0 {
		wait = answer.RetryAfter
	}
	return wait, wait <= maxRetryAfter
}

// randomPart is a random duration below most.
func randomPart(most time.Duration) time.Duration { return rand.N(most) } // spreads clients, guards nothing

// transient: no answer at all, a throttle, or a proxy that lost its server. CloudStack's own 530 is not among them: it
// would fail the same way a moment later.
func transient(err error) bool {
	if _, ok := errors.AsType[*NoAnswerError](err); ok {
		return !errors.Is(err, rollout.ErrDenied)
	}
	var answer *APIError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.HTTPStatus {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// retryAfter reads the header in both of its forms: seconds, or a date by the server's own clock.
func retryAfter(resp *http.Response, served time.Time) time.Duration {
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && !served.IsZero() {
		return max(0, at.Sub(served))
	}
	return 0
}
