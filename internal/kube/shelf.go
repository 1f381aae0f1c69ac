package kube

import (
	"context"
	"errors"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// ShelfPrefix is the beginning of the annotations of the Lease that hold the claims of machines without a Node; the instance's id follows.
// An annotation for each: a merge patch changes one and leaves the others, and the rollout's state, alone.
const ShelfPrefix = rollout.Prefix + "/claim-"

var _ rollout.Shelf = (*Client)(nil)

// Claims reads the claims of all machines without a Node, by instance id.
func (c *Client) Claims(ctx context.Context) (map[string]string, error) {
	lease, err := c.getLease(ctx)
	if errors.Is(err, rollout.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return claimsOn(lease), nil
}

// claimsOn are the claims that hang on the Lease, by instance id.
func claimsOn(lease *coordinationv1.Lease) map[string]string {
	var claims map[string]string
	for name, text := range lease.Annotations {
		if id, ok := strings.CutPrefix(name, ShelfPrefix); ok {
			if claims == nil {
				claims = map[string]string{}
			}
			claims[id] = text
		}
	}
	return claims
}

// Shelved implements rollout.Shelf.
func (c *Client) Shelved(ctx context.Context, instanceID string) (string, error) {
	claims, err := c.Claims(ctx)
	return claims[instanceID], err
}

// Shelve implements rollout.Shelf. The Lease must show the tenure in the very version that is patched, so that a write that is held up in the
// network is refused once another run has taken over.
func (c *Client) Shelve(ctx context.Context, tenure rollout.Tenure, instanceID, text string) error {
	value := any(text)
	if text == "" {
		value = nil
	}
	return c.changeOwn(ctx, tenure, leasePatch{annotations: map[string]any{ShelfPrefix + instanceID: value}})
}
