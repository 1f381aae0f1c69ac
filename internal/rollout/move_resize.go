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
		return err
	}
	job, err := w.CloudStack.Resize(ctx, w.target.InstanceID, w.goal.Offering.ID, expires)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		if r, e := w.CloudStack.Instance(ctx, w.target.InstanceID); e == nil && r.Instance.AtOffering(w.goal.Offering) {
			return nil // somebody else did it meanwhile, which is why it was refused
		}
		// Nothing will come of this request: without its intent, the next attempt may ask at once.
		_ = w.amendClaim(context.WithoutCancel(ctx), func(c *Claim) { c.Resize = nil })
		return err
	case err != nil:
		return err
	}
	return w.keepJob(ctx, job)
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
