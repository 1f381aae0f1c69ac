package rollout

import (
	"context"
	"fmt"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// releaseNode gives back what the claim took, and drops the claim, in one patch that is conditional on the reading that was verified.
func (w *walk) releaseNode(ctx context.Context) error {
	uncordon, scaleDown := release(w.claim, w.seen)
	patch := NodePatch{Claim: new("")}
	if uncordon {
		patch.Unschedulable = new(false)
	}
	if scaleDown {
		patch.ScaleDownDisabled = new(false)
	}
	w.node.Warnings = releaseWarnings(w.claim, w.seen, uncordon)
	return w.patchNode(ctx, patch)
}

// releaseWarnings lists what a person should know about a node that is given back.
func releaseWarnings(claim *Claim, seen Observation, uncordon bool) []string {
	var out []string
	n := seen.Node
	if s := capacity.AllocatableWarning(claim.Before.Capacity, claim.Before.Allocatable, n); s != "" {
		out = append(out, s)
	}
	if s := capacity.CgroupWarning(claim.Before.Capacity, seen.Guest, n); s != "" && claim.Cold == nil {
		out = append(out, s)
	}
	if c := capacity.CheckExtended(claim.Before.Allocatable, n); !c.OK {
		out = append(out, fmt.Sprintf("extended resources are not back since %s: %s, before %s; look at their device plugins", claim.interruption(), c.Observed, c.Expected))
	}
	out = append(out, podWarnings(claim, seen)...)
	if claim.Cordoned && !uncordon && n.Unschedulable {
		out = append(out, "the node stays cordoned: somebody else cordoned it meanwhile")
	}
	return out
}
