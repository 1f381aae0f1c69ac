package kube

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// acquisition is one try to take the Lease.
//
// Nothing but time tells a dead holder from a live one, and no clock but one's own can be trusted. So a held Lease is
// watched: if it changes, its holder lives; if it does not for its duration and an effect's deadline more, it is taken over.
type acquisition struct {
	client *Client
	run    string
	// continues is the run of the unfinished rollout that this one goes on with, or gives up.
	continues string
	state     string // the annotation's text
	first     *sighting
	failed    int       // writes that lost a race, or of unknown outcome
	sentAt    time.Time // when the look before a write of unknown outcome began; zero if there is none
}

// sighting is a held Lease as it was first seen, by the observer's own clock.
type sighting struct {
	resourceVersion string
	at              time.Time
}

// take looks and writes until the Lease is ours, somebody alive has it, or ctx ends. The time returned is no later
// than the write that took it.
func (a *acquisition) take(ctx context.Context) (rollout.Tenure, time.Time, error) {
	for {
		lookedAt := a.client.clock.Now()
		lease, err := a.look(ctx)
		if err != nil {
			return rollout.Tenure{}, time.Time{}, err
		}
		if a.arrived(lease) {
			return tenureOf(lease), a.sentAt, nil
		}
		free, err := a.free(lease, lookedAt)
		if err == nil && free {
			err = a.open(lease)
		}
		if err != nil {
			return rollout.Tenure{}, time.Time{}, err
		}
		if free {
			taken, err := a.write(ctx, lease)
			if err == nil {
				return tenureOf(taken), lookedAt, nil
			}
			if a.givesUp(err, lookedAt) {
				return rollout.Tenure{}, time.Time{}, err
			}
		}
		if err := a.client.pause(ctx, observeEvery); err != nil {
			return rollout.Tenure{}, time.Time{}, err
		}
	}
}

// look returns nil where there is no Lease.
func (a *acquisition) look(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := a.client.getLease(ctx)
	if errors.Is(err, rollout.ErrNotFound) {
		return nil, nil
	}
	return lease, err
}

// arrived reports whether the Lease shows that a write whose reply was lost took it. Without such a write, our run id on the
// Lease is somebody else's use of it.
func (a *acquisition) arrived(lease *coordinationv1.Lease) bool {
	return !a.sentAt.IsZero() && lease != nil && tenureOf(lease).Run == a.run
}

// free reports whether the Lease may be taken now, given a look that began at lookedAt. The error is a *rollout.HeldError.
func (a *acquisition) free(lease *coordinationv1.Lease, lookedAt time.Time) (bool, error) {
	switch {
	case lease == nil || tenureOf(lease).Run == "":
		return true, nil
	case a.first == nil:
		// The look has ended by now: to count from here can only wait longer.
		a.first = &sighting{resourceVersion: lease.ResourceVersion, at: a.client.clock.Now()}
		if a.client.waiting != nil {
			a.client.waiting(heldError(lease), graceOf(lease))
		}
		return false, nil
	case lease.ResourceVersion != a.first.resourceVersion:
		return false, heldError(lease)
	}
	return lookedAt.Sub(a.first.at) >= graceOf(lease), nil
}

// open refuses a free Lease that shows an unfinished rollout which this one does not go on with. The error is a *rollout.OpenError. An
// annotation that can't be read is refused as well: to write over it could lose somebody's claims.
func (a *acquisition) open(lease *coordinationv1.Lease) error {
	if lease == nil {
		return nil
	}
	h, err := holding(lease)
	if err != nil {
		return err
	}
	if run := h.State.Run; run != "" && run != a.continues && run != a.run {
		return &rollout.OpenError{State: h.State}
	}
	return nil
}

// graceOf is how long the Lease must have been seen unchanged before it may be taken over.
func graceOf(lease *coordinationv1.Lease) time.Duration {
	duration := LeaseDuration
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		duration = time.Duration(*s) * time.Second
	}
	return duration + EffectDeadline
}

func (a *acquisition) write(ctx context.Context, seen *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := metav1.NewMicroTime(a.client.clock.Now())
	seconds := int32(LeaseDuration / time.Second)
	if seen == nil {
		transitions := int32(1)
		return a.client.createLease(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: LeaseNamespace, Name: LeaseName,
				Annotations: map[string]string{LeaseState: a.state},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &a.run, LeaseDurationSeconds: &seconds,
				AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions,
			},
		})
	}
	// The number grows with every holder, also after a clean release: a tenure's number never comes back.
	return a.client.patchLease(ctx, seen, leasePatch{annotations: map[string]any{LeaseState: a.state}, spec: map[string]any{
		"holderIdentity": a.run, "leaseDurationSeconds": seconds,
		"acquireTime": now, "renewTime": now, "leaseTransitions": tenureOf(seen).Transitions + 1,
	}})
}

// givesUp decides what follows a failed write: a lost race and an unknown outcome are reasons to look again, a few times.
func (a *acquisition) givesUp(err error, lookedAt time.Time) bool {
	a.failed++
	if errors.Is(err, rollout.ErrUnreachable) {
		a.sentAt = lookedAt
	} else if !errors.Is(err, rollout.ErrConflict) {
		return true
	}
	return a.failed >= writeAttempts
}
