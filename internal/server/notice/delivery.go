package notice

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
)

// The pace of sending. A receiver that is down is asked again after 5 s, 10 s, 20 s, … up to every 10 minutes, for a day.
const (
	firstPause   = 5 * time.Second
	longestPause = 10 * time.Minute
	mostAge      = 24 * time.Hour
	// longestAsked bounds how long a receiver's Retry-After may hold a notice back.
	longestAsked = time.Hour
	// oneAttempt bounds one attempt at one notice.
	oneAttempt = 30 * time.Second
	// batch is how many letters are taken from the outbox at a time.
	batch = 20
	// outboxPause is the pause after the outbox could not be read or written.
	outboxPause = 30 * time.Second
)

// perSecond and burst bound what one channel sends: Slack takes one message per second and webhook.
const (
	perSecond = 1
	burst     = 5
)

// delivery sends what is for one channel.
type delivery struct {
	*Sender

	channel Channel
	pace    *rate.Limiter
	// sent holds the ids of letters that the receiver has taken and the outbox could not be told of: they are not sent again.
	sent map[string]bool
}

func (d *delivery) run(ctx context.Context) {
	for ctx.Err() == nil {
		d.sleep(ctx, earlier(d.round(ctx, d.Outbox), d.round(ctx, d.spare)))
	}
}

// sleep returns when there is something new, at a time, or when ctx ends.
func (d *delivery) sleep(ctx context.Context, until time.Time) {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-alarm:
	case <-d.wake[d.channel.Name()]:
	}
}

// round sends what is due and returns when the next letter will be; zero if none is known.
func (d *delivery) round(ctx context.Context, from Outbox) time.Time {
	for ctx.Err() == nil {
		due, next, err := from.Due(ctx, d.channel.Name(), time.Now(), batch)
		if err != nil {
			d.complain(ctx, "the outbox can't be read", err)
			return time.Now().Add(outboxPause)
		}
		if len(due) == 0 {
			return next
		}
		for _, l := range due {
			if err := d.attempt(ctx, l, from); err != nil {
				d.complain(ctx, "the outbox can't be written", err)
				return time.Now().Add(outboxPause)
			}
		}
	}
	return time.Time{}
}

// attempt sends one letter and records what came of it. Its error is the outbox's.
func (d *delivery) attempt(ctx context.Context, l Letter, from Outbox) error {
	if d.sent[l.ID] {
		return d.settleSent(ctx, l, from)
	}
	var n Notice
	if err := json.Unmarshal(l.Body, &n); err != nil || n.Version > bodyVersion {
		d.complain(ctx, "a notice of another version is left unsent", err)
		return from.Settle(ctx, l.ID, Dropped)
	}
	if d.pace.Wait(ctx) != nil {
		return nil // we are stopping: the next start sends it
	}
	once, cancel := context.WithTimeout(ctx, oneAttempt)
	defer cancel()
	err := d.channel.Send(once, l.ID, n)
	if err == nil {
		d.Told(d.channel.Name(), true)
		return d.settleSent(ctx, l, from)
	}
	if ctx.Err() != nil {
		return nil // we are stopping: the next start sends it
	}
	d.Told(d.channel.Name(), false)
	if time.Since(l.Created) > mostAge {
		d.complain(ctx, "given up after a day: "+n.Title(), err)
		return from.Settle(ctx, l.ID, Dropped)
	}
	d.complain(ctx, "to be sent again: "+n.Title(), err)
	return from.Postpone(ctx, l.ID, time.Now().Add(pause(l.Attempts, err)))
}

// settleSent records that the receiver has taken the letter, even if the program is asked to stop at this moment.
func (d *delivery) settleSent(ctx context.Context, l Letter, from Outbox) error {
	d.sent[l.ID] = true
	if err := from.Settle(context.WithoutCancel(ctx), l.ID, Sent); err != nil {
		return err
	}
	delete(d.sent, l.ID)
	return nil
}

func (d *delivery) complain(ctx context.Context, what string, err error) {
	d.Log.WarnContext(ctx, "notice not sent", "channel", d.channel.Name(), "what", what, "error", err)
}

// pause is how long to wait after so many failed attempts before this one, shortened by up to a fifth so that channels don't march in step.
func pause(before int, err error) time.Duration {
	d := longestPause
	if before < 7 { // 5 s x 2^7 is past the longest
		d = min(firstPause<<before, longestPause)
	}
	d -= time.Duration(rand.Int64N(int64(d)/5 + 1)) //nolint:gosec // spreads load, guards nothing
	if asked, is := errors.AsType[*Error](err); is && asked.RetryAfter > d {
		d = min(asked.RetryAfter, longestAsked)
	}
	return d
}

// earlier is the earlier of two times of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
