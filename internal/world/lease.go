package world

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// The times of the Lease, as in package kube; a test holds them equal.
const (
	leaseDuration  = 40 * time.Second
	renewInterval  = 10 * time.Second
	effectDeadline = 20 * time.Second
	observeEvery   = 2 * time.Second
)

// lease is the Lease object.
type lease struct {
	holder      string
	transitions int32
	version     int
	since       time.Time
	state       *rollout.LeaseState
	claims      map[string]string // of machines without a Node, by instance id
}

// acquire takes the Lease as package kube does: a holder that shows life holds it, one that shows none for its duration and an
// effect's deadline is taken over.
func (r *Run) acquire(ctx context.Context, s rollout.LeaseState) (rollout.Tenure, error) {
	var first *sighting
	for {
		r.w.mu.Lock()
		t, wait, err := r.tryAcquire(s, &first)
		r.w.mu.Unlock()
		if !wait {
			return t, err
		}
		if err := r.travel(ctx, observeEvery); err != nil {
			return rollout.Tenure{}, err
		}
	}
}

type sighting struct {
	version int
	at      time.Time
}

// tryAcquire is one look at the Lease, and the write that takes it if it may be taken. The lock is held.
func (r *Run) tryAcquire(s rollout.LeaseState, first **sighting) (t rollout.Tenure, wait bool, err error) {
	l, now := &r.w.lease, r.w.clock.Now()
	if r.dead {
		return t, false, errKilled
	}
	if err := r.w.apiUp(); err != nil {
		return t, false, err
	}
	if l.holder != "" {
		switch {
		case *first == nil:
			*first = &sighting{l.version, now}
			return t, true, nil
		case l.version != (*first).version:
			held := &rollout.HeldError{Holder: l.holder, Since: l.since}
			if l.state != nil {
				held.State = *l.state
			}
			return t, false, held
		case now.Sub((*first).at) < leaseDuration+effectDeadline:
			return t, true, nil
		}
		r.w.lost(l.holder)
	}
	if l.state != nil && l.state.Run != s.Continues && l.state.Run != r.ID {
		return t, false, &rollout.OpenError{State: *l.state}
	}
	return r.take(s), false, nil
}

// take writes the Lease.
func (r *Run) take(s rollout.LeaseState) rollout.Tenure {
	l := &r.w.lease
	kept := s
	kept.Goals, kept.Continues = maps.Clone(s.Goals), ""
	l.holder, l.transitions, l.version, l.since, l.state = r.ID, l.transitions+1, l.version+1, r.w.clock.Now(), &kept
	t := rollout.Tenure{Run: r.ID, Transitions: l.transitions}
	r.renewed, r.tenure = r.w.clock.Now(), t
	r.w.tell(r.ID, "takes the Lease")
	r.renewLater(t)
	return t
}

// holds tells whether the Lease shows the tenure.
func (w *World) holds(t rollout.Tenure) bool {
	return w.lease.holder == t.Run && w.lease.transitions == t.Transitions
}

// renewLater renews the Lease again and again, as long as the program lives and it is its own.
func (r *Run) renewLater(t rollout.Tenure) {
	r.w.after(renewInterval, func() {
		if r.dead || r.tenure != t || !r.w.holds(t) {
			return
		}
		if r.w.apiUp() == nil && !r.w.clock.Now().Before(r.stopped) {
			r.renew()
		}
		r.renewLater(t)
	})
}

func (r *Run) renew() {
	r.renewed = r.w.clock.Now()
	r.w.lease.version++
}

// checkLease reads the Lease. One that was not renewed in time is renewed first.
func (r *Run) checkLease(t rollout.Tenure) error {
	if err := r.w.apiUp(); err != nil {
		return err
	}
	if !r.w.holds(t) {
		return fmt.Errorf("%w: held by %q", rollout.ErrLost, r.w.lease.holder)
	}
	if r.w.clock.Now().Sub(r.renewed) > leaseDuration {
		r.renew()
	}
	r.checked = r.w.clock.Now()
	return nil
}

// releaseLease gives the Lease back, with its state if the rollout is finished. One that is somebody else's is left alone.
func (r *Run) releaseLease(t rollout.Tenure, finished bool) error {
	r.tenure = rollout.Tenure{}
	if err := r.w.apiUp(); err != nil {
		return err
	}
	if !r.w.holds(t) {
		return nil
	}
	l := &r.w.lease
	l.holder, l.version = "", l.version+1
	if finished {
		l.state = nil
	}
	r.w.tell(r.ID, "gives the Lease back%s", map[bool]string{false: ", unfinished"}[finished])
	return nil
}

// lost notes that the holder's time is over.
func (w *World) lost(holder string) {
	for _, r := range w.runs {
		if r.ID == holder {
			r.overAt = w.clock.Now()
		}
	}
}
