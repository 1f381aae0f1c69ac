package rollout

import (
	"context"
	"errors"
)

// resize announces the request in the claim, sends it, and keeps the job's id. The signature's expiry is by CloudStack's own clock:
// once that has passed, a request whose reply was lost can't be accepted any more, and only then may it be sent again.
func (w *walk) resize(ctx context.Context) error {
	expires := w.seen.ServerTime.Add(w.Limits.Request)
	if err := w.writeClaim(ctx, resizing(*w.claim, w.seen, expires), NodePatch{}); err != nil {
		return notDone{err}
	}
	job, err := w.CloudStack.Resize(ctx, w.target.InstanceID, w.goal.Offering.ID, expires)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused), errors.Is(err, ErrDenied):
		return w.refused(ctx, err)
	case err != nil:
		return err
	}
	_ = w.keepJob(ctx, job) // the request was accepted; an id that could not be kept is found again by the next look
	return nil
}

// refused handles CloudStack's refusal of a request: either somebody else did it meanwhile, or nothing will come of it.
// Without its intent, the next attempt may ask at once.
func (w *walk) refused(ctx context.Context, refusal error) error {
	reading, err := w.CloudStack.Instance(ctx, w.target.InstanceID)
	if err != nil {
		return notDone{err}
	}
	if reading.Instance.AtOffering(w.goal.Offering) {
		return errMoot
	}
	// Kept in the claim, the refusal tells the next look that nothing will come of the request. If it can't be kept, the fault ends the
	// rollout here, and the next attempt waits until the request has expired.
	if err := w.amendClaim(ctx, func(c *Claim) {
		if c.Resize != nil {
			c.Resize.Refused = refusal.Error()
		}
	}); err != nil {
		return refusal
	}
	return nil
}

// noteJob keeps the id of a job that was found again.
func (w *walk) noteJob(ctx context.Context) error { return w.keepJob(ctx, w.seen.Job.ID) }

func (w *walk) keepJob(ctx context.Context, id string) error {
	return w.amendClaim(ctx, func(c *Claim) {
		if c.Resize != nil {
			c.Resize.JobID = id
		}
	})
}
