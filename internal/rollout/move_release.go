package rollout

import (
	"context"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// releaseNode gives back what the claim took, and drops the claim, in one patch that is conditional on the reading that was verified.
func (w *walk) releaseNode(ctx context.Context) error {
	uncordon, scaleDown := release(w.claim, w.seen)
	patch := NodePatch{Claim: ptr("")}
	if uncordon {
		patch.Unschedulable = ptr(false)
	}
	if scaleDown {
		patch.ScaleDownDisabled = ptr(false)
	}
	claim := w.claim
	if err := w.patchNode(ctx, patch); err != nil {
		return err
	}
	if s := capacity.AllocatableWarning(claim.Before.Capacity, claim.Before.Allocatable, w.seen.Node); s != "" {
		w.node.Warnings = append(w.node.Warnings, s)
	}
	if claim.Cordoned && !uncordon && w.seen.Node.Unschedulable {
		w.node.Warnings = append(w.node.Warnings, "the node stays cordoned: somebody else cordoned it meanwhile")
	}
	return nil
}
