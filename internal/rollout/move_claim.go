package rollout

import (
	"context"
	"errors"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// makeClaim records what was seen and cordons, in one patch that is conditional on the very reading that Next decided on.
func (w *walk) makeClaim(ctx context.Context) error {
	claim := newClaim(w.goal, w.tenure, w.Author, w.seen)
	patch := NodePatch{}
	if claim.Cordoned {
		patch.Unschedulable = new(true)
	}
	if claim.ScaleDown {
		patch.ScaleDownDisabled = new(true)
	}
	return w.writeClaim(ctx, claim, patch)
}

// adoptClaim rewrites the claim of an earlier run under the present tenure, so that every patch of that run loses from now on.
func (w *walk) adoptClaim(ctx context.Context) error {
	return w.writeClaim(ctx, adopted(*w.claim, w.tenure, w.seen), NodePatch{})
}

// writeClaim writes the claim, and what else the patch says, on the Node as it was seen. ErrConflict if it has changed since.
func (w *walk) writeClaim(ctx context.Context, claim *Claim, patch NodePatch) error {
	text, err := claim.Encode()
	if err != nil {
		return err
	}
	patch.Claim = &text
	err = w.patchNode(ctx, patch)
	if err != nil && w.outage() && transient(ctx, err) {
		w.claim = claim // it was announced with the stop that all of it would be done
		return nil
	}
	return err
}

func (w *walk) patchNode(ctx context.Context, patch NodePatch) error {
	if !w.target.Role.HasNode() {
		// The Lease under our tenure is the condition: nobody else writes this claim meanwhile.
		if err := w.Shelf.Shelve(ctx, w.tenure, w.target.InstanceID, *patch.Claim); err != nil {
			return err
		}
		return w.took(capacity.Node{Claim: *patch.Claim})
	}
	patch.Name, patch.UID, patch.ResourceVersion = w.seen.Node.Name, w.seen.Node.UID, w.seen.Node.ResourceVersion
	n, err := w.Nodes.Patch(ctx, patch)
	if err != nil {
		return err
	}
	return w.took(n)
}

// amendClaim changes the claim after an effect, for bookkeeping: a lost race is answered by reading the Node again, as long as
// the claim on it is still ours.
func (w *walk) amendClaim(ctx context.Context, change func(*Claim)) error {
	for range mostConflicts {
		if w.claim == nil || w.claim.Tenure() != w.tenure {
			return ErrLost // the last look at the Node showed that it is not ours any more
		}
		claim := *w.claim
		change(&claim)
		err := w.writeClaim(ctx, &claim, NodePatch{})
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if err := w.readNode(ctx); err != nil {
			return err
		}
	}
	return ErrConflict
}

// noteUnchanged keeps the first of two readings which show that a failed resize has changed nothing.
func (w *walk) noteUnchanged(ctx context.Context) error {
	return w.writeClaim(ctx, unchanged(*w.claim, w.seen), NodePatch{})
}

// phase names, in the claim, where a rollout ended that did not finish the node.
func phase(f *Fault) string {
	if f.Phase != "" {
		return f.Phase
	}
	if f.Move == "" {
		return string(f.Layer)
	}
	return string(f.Move) + "-" + string(f.Layer)
}

// keepFault writes the fault into the claim, so that whoever looks at the Node finds the reason. Best effort: a failure to do so
// must not hide the fault itself.
func (w *walk) keepFault(ctx context.Context, f *Fault) {
	if w.Lock.Check(ctx, w.tenure) != nil {
		return
	}
	kept := *f
	kept.Details = nil // journals are long, and annotations are bounded
	if f.Cause != nil {
		kept.Observed = joinWords(kept.Observed, f.Cause.Error())
	}
	_ = w.amendClaim(ctx, func(c *Claim) { c.Phase, c.Fault = phase(f), &kept })
}

func joinWords(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
